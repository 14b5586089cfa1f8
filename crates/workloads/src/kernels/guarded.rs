//! Data that a mutex guards.

use crate::pthread::{Cond, Mutex as PthreadMutex};
use crate::Mutex;
use std::ops::Deref;
use std::pin::Pin;

/// What the thread that locks brings along.
pub type Own<H> = <<H as Deref>::Target as Mutex>::Thread;

/// A mutex with what it guards. The data lies in a mutex of std as well, for which nobody ever waits: if the lock that
/// is measured does not exclude, that one is found taken.
#[repr(align(128))]
pub struct Guarded<H, T> {
    lock: H,
    data: std::sync::Mutex<T>,
}

impl<H: Deref<Target: Mutex>, T> Guarded<H, T> {
    /// The data behind the lock, which nobody else has.
    pub fn new(lock: H, data: T) -> Self {
        Self { lock, data: std::sync::Mutex::new(data) }
    }

    /// What a thread needs for locks of this type.
    pub fn own(&self) -> Own<H> {
        self.lock.thread()
    }

    /// Does something with the data while the lock is held.
    pub fn with<R>(&self, own: &mut Own<H>, what: impl FnOnce(&mut T) -> R) -> R {
        self.lock.lock(own);
        let result = what(&mut self.data.try_lock().expect("the lock excludes all others"));
        self.lock.unlock(own);
        result
    }

    /// The data at the end.
    pub fn into_data(self) -> T {
        self.data.into_inner().expect("no thread panicked")
    }
}

impl<T> Guarded<Pin<Box<PthreadMutex>>, T> {
    /// Waits until `what` finds what it wants in the data; `changed` is signalled when that may be so.
    pub fn wait_for<R>(&self, changed: &Cond, mut what: impl FnMut(&mut T) -> Option<R>) -> R {
        self.lock.lock();
        let result = loop {
            let found = what(&mut self.data.try_lock().expect("the lock excludes all others"));
            match found {
                Some(result) => break result,
                None => changed.wait(&self.lock),
            }
        };
        self.lock.unlock();
        result
    }
}
