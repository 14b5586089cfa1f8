//! Mutexes that are made, used by two threads, and destroyed by the last one right after its release.
//!
//! The maker leaves the mutex in a mailbox, where another thread finds it. Whoever releases it last destroys it and
//! fills its memory with a pattern. The pattern must still be there a while later: nobody may touch a mutex after its
//! release has let another thread in.

use super::calls;
use super::objects::SHORT_LIVED;
use super::watch::Call;
use super::worker::Worker;
use crate::pthread::{Kind, Mutex};
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::AcqRel, Ordering::Relaxed};

/// A mutex and the number of threads that will still lock it, which it protects.
pub(super) struct Passing {
    mutex: Mutex,
    users: AtomicU32,
}

/// The mutex that waits for its second user.
#[derive(Default)]
pub(super) struct Mailbox(AtomicPtr<Passing>);

impl Mailbox {
    fn swap(&self, new: *mut Passing) -> Option<*mut Passing> {
        // AcqRel: hands over an initialised object.
        let found = self.0.swap(new, AcqRel);
        (!found.is_null()).then_some(found)
    }
}

/// Memory of destroyed mutexes.
#[derive(Default)]
pub(super) struct Graveyard(Vec<*mut Passing>);

// SAFETY: the memory belongs to the graveyard alone.
unsafe impl Send for Graveyard {}

const PATTERN: u8 = 0xA5;

impl Graveyard {
    /// Buries the memory of a destroyed mutex; digs up and checks one that has lain there for a while.
    fn bury(&mut self, dead: *mut Passing) -> Result<(), String> {
        const LENGTH: usize = 8;
        // SAFETY: the mutex is destroyed, nobody else has its address, and the memory is ours.
        unsafe { dead.cast::<u8>().write_bytes(PATTERN, size_of::<Passing>()) };
        self.0.push(dead);
        if self.0.len() <= LENGTH {
            return Ok(());
        }
        Self::check(self.0.remove(0))
    }

    /// Checks all that is left.
    pub fn clear(&mut self) -> Result<(), String> {
        self.0.drain(..).try_for_each(Self::check)
    }

    fn check(dead: *mut Passing) -> Result<(), String> {
        // SAFETY: `bury` wrote every byte.
        let bytes = unsafe { std::slice::from_raw_parts(dead.cast::<u8>(), size_of::<Passing>()) };
        let changed = bytes.iter().position(|byte| *byte != PATTERN);
        // SAFETY: from `Box::into_raw`, as memory that needs no drop.
        drop(unsafe { Box::from_raw(dead.cast::<std::mem::MaybeUninit<Passing>>()) });
        match changed {
            Some(offset) => Err(format!("byte {offset} of a mutex was written to after its destruction")),
            None => Ok(()),
        }
    }
}

impl Worker<'_> {
    /// Makes a mutex, leaves it to another thread, and uses it; a forgotten one is used, too.
    pub(super) fn make_short_lived(&mut self) {
        let made =
            Box::into_raw(Box::new(Passing { mutex: Mutex::statically_initialised(), users: AtomicU32::new(2) }));
        let kinds = [None, Some(Kind::Normal), Some(Kind::Recursive), Some(Kind::ErrorCheck)];
        if let Some(kind) = kinds[self.random.below(4) as usize] {
            // SAFETY: it stays where it is until it is destroyed.
            let mutex = unsafe { Pin::new_unchecked(&(*made).mutex) };
            self.call(Call::Init, SHORT_LIVED, || {
                mutex.init(kind);
                0
            });
        }
        if let Some(forgotten) = self.round.mailbox.swap(made) {
            self.use_short_lived(forgotten);
        }
        self.use_short_lived(made);
    }

    /// Uses the mutex in the mailbox, if there is one.
    pub(super) fn take_short_lived(&mut self) {
        if let Some(found) = self.round.mailbox.swap(std::ptr::null_mut()) {
            self.use_short_lived(found);
        }
    }

    /// One of the two uses that each mutex gets.
    fn use_short_lived(&mut self, object: *mut Passing) {
        // SAFETY: it lives until its last user has released it.
        let Passing { mutex, users } = unsafe { &*object };
        let code = self.call(Call::Lock, SHORT_LIVED, || calls::lock(mutex));
        self.expect(Call::Lock, SHORT_LIVED, code, &[0]);
        let left = users.load(Relaxed).wrapping_sub(1);
        if self.random.below(4) == 0 {
            self.hold();
        }
        users.store(left, Relaxed);
        let code = self.call(Call::Unlock, SHORT_LIVED, || calls::unlock(mutex));
        self.expect(Call::Unlock, SHORT_LIVED, code, &[0]);
        if left == 0 {
            let code = self.call(Call::Destroy, SHORT_LIVED, || calls::destroy(mutex));
            self.expect(Call::Destroy, SHORT_LIVED, code, &[0]);
            let buried = self.graveyard.bury(object);
            self.require(SHORT_LIVED, buried);
        } else if left > 1 {
            self.require(SHORT_LIVED, Err("its two users were inside at once".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_to_a_destroyed_mutex_is_found() {
        let passing =
            || Box::into_raw(Box::new(Passing { mutex: Mutex::statically_initialised(), users: AtomicU32::new(0) }));
        let mut graveyard = Graveyard::default();
        for _ in 0..20 {
            assert_eq!(graveyard.bury(passing()), Ok(()));
        }
        let touched = passing();
        assert_eq!(graveyard.bury(touched), Ok(()));
        // SAFETY: the memory is freed by `clear` only.
        unsafe { touched.cast::<u8>().add(3).write(0) };
        assert!(graveyard.clear().is_err_and(|message| message.contains("byte 3")));
    }
}
