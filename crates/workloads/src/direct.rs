//! Locks of the catalogue that are called directly, as in a program that was changed by hand, on any platform.

use crate::{Mutex, ReadWrite};
use lockswap_locks::named;
use lockswap_locks::parameters::{self, Setting, SPINS_BEFORE_PARK};
use lockswap_locks::registry::Role;
use lockswap_locks::{Context, Preference, RawLock, RawRwLock};
use lockswap_platform::{settings, window, Platform};
use std::marker::PhantomData;
use std::ops::Deref;

/// Gives this process's locks the parameters that `text` names behind a lock of the catalogue, and what the
/// environment says of the time before a sleep, as the preload library would; says which lock it is, `None` if there
/// is none of that name. Threads that use locks must not be there yet.
pub fn choose(role: Role, text: &str) -> Option<&'static str> {
    let named = named::read(role, text).ok()?;
    named.settings().for_each(|(number, value)| settings::set(number, value));
    let spins = std::env::var(SPINS_BEFORE_PARK).ok();
    if let Some(looks) = spins.as_deref().and_then(parameters::read_spins_before_park) {
        settings::set_spins_before_park(looks);
    }
    if let Some(longest) = named.value(Setting::MaxWindow) {
        window::set_longest(longest);
    }
    Some(named.entry.info.id)
}

/// A lock of the catalogue, without a pthread object around it.
pub struct Direct<P, L>(L, PhantomData<P>);

impl<P: Platform, L: RawLock<P>> Direct<P, L> {
    /// A free lock.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(L::new(), PhantomData)
    }
}

/// A value that shares no cache line, also where lines have 128 bytes: with less alignment, two values would share one
/// or not as the allocator places them.
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The contexts of one thread, which holds at most one lock at a time through them.
pub struct Contexts<C: Context> {
    current: Box<Apart<C>>,
    /// Contexts of earlier acquisitions that another thread still looked at.
    others: Vec<Box<Apart<C>>>,
}

impl<C: Context> Contexts<C> {
    fn new() -> Self {
        Self { current: Box::new(Apart(C::new())), others: Vec::new() }
    }

    #[inline]
    fn take(&mut self) -> &C {
        if !self.current.is_reusable() {
            self.replace();
        }
        &self.current
    }

    #[cold]
    #[inline(never)]
    fn replace(&mut self) {
        let found = self.others.iter_mut().find(|context| context.is_reusable());
        match found {
            Some(reusable) => std::mem::swap(reusable, &mut self.current),
            None => self.others.push(std::mem::replace(&mut self.current, Box::new(Apart(C::new())))),
        }
    }
}

impl<C: Context> Drop for Contexts<C> {
    fn drop(&mut self) {
        // The next owner may still look at one that is not reusable.
        let last = std::mem::replace(&mut self.current, Box::new(Apart(C::new())));
        for context in self.others.drain(..).chain([last]).filter(|context| !context.is_reusable()) {
            Box::leak(context);
        }
    }
}

impl<P: Platform, L: RawLock<P>> Mutex for Direct<P, L> {
    type Thread = Contexts<L::Ctx>;

    fn thread(&self) -> Contexts<L::Ctx> {
        Contexts::new()
    }

    #[inline]
    fn lock(&self, me: &mut Contexts<L::Ctx>) {
        // SAFETY: the context is reusable and serves no other acquisition, since `me` holds one lock at a time; it
        // stays where it is, and is leaked if it must outlive the thread.
        unsafe { self.0.lock(me.take()) }
    }

    #[inline]
    fn unlock(&self, me: &mut Contexts<L::Ctx>) {
        // SAFETY: the calling thread has acquired with this context and not taken another since.
        unsafe { self.0.unlock(&me.current) }
    }
}

/// A read-write lock of the catalogue, preferring readers as a default pthread one does.
pub struct DirectRw<P, L>(L, PhantomData<P>);

impl<P: Platform, L: RawRwLock<P>> DirectRw<P, L> {
    /// A free lock.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(L::new(), PhantomData)
    }
}

impl<P: Platform, L: RawRwLock<P>> ReadWrite for DirectRw<P, L> {
    #[inline]
    fn read(&self) {
        self.0.read(Preference::Readers, None);
    }

    #[inline]
    fn unlock_read(&self) {
        // SAFETY: the calling thread shares the lock.
        unsafe { self.0.unlock_read(Preference::Readers) }
    }

    #[inline]
    fn write(&self) {
        self.0.write(None);
    }

    #[inline]
    fn unlock_write(&self) {
        // SAFETY: the calling thread holds the lock.
        unsafe { self.0.unlock_write(Preference::Readers) }
    }
}
