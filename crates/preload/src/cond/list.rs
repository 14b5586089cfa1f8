//! The list of a condition variable's waiters: by real-time priority, and in the order of their arrival.

use super::waiter::{Waiter, ASLEEP, LEAVING, SIGNALLED};
use super::Cond;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use lockswap_locks::RawLock;
use lockswap_platform::{Native, Platform};

impl Cond {
    pub fn with_list<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the lock needs no context. LAST: the condition variable may be destroyed after the unlock.
        unsafe {
            self.list_lock.lock(&());
            let result = f();
            self.list_lock.unlock(&());
            result
        }
    }

    /// Relaxed: written under the list's lock, and before the waiter gives up its mutex; who signals after it changed
    /// the condition under that mutex sees it.
    pub fn first(&self) -> *mut Waiter {
        self.first.load(Ordering::Relaxed)
    }

    /// Puts a waiter behind all others of its priority or a higher one.
    pub fn insert(&self, waiter: &Waiter) {
        let me = core::ptr::from_ref(waiter).cast_mut();
        self.with_list(|| {
            let (mut previous, mut next) = (self.last.get(), null_mut::<Waiter>());
            // SAFETY: waiters in the list stay until they are taken out of it.
            while let Some(other) = unsafe { previous.as_ref() }.filter(|other| other.priority < waiter.priority) {
                (previous, next) = (other.previous.get(), previous);
            }
            self.join(previous, me);
            self.join(me, next);
        });
    }

    /// Makes two waiters neighbours, one of which may be missing; the list's lock is held.
    fn join(&self, previous: *mut Waiter, next: *mut Waiter) {
        // SAFETY: waiters in the list stay until they are taken out of it.
        unsafe {
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.first.store(next, Ordering::Relaxed),
            }
            match next.as_ref() {
                Some(next) => next.previous.set(previous),
                None => self.last.set(previous),
            }
        }
    }

    /// Wakes waiters in the order of the list: one if `how` is SIGNALLED, all if it is BROADCAST.
    #[inline(always)]
    pub fn wake(&self, how: u32) {
        if !self.first().is_null() {
            self.wake_waiters(how);
        }
    }

    #[inline(never)]
    fn wake_waiters(&self, how: u32) {
        let asleep = Cell::new(null_mut::<Waiter>());
        self.with_list(|| {
            let mut to_last_asleep: *const Cell<*mut Waiter> = &asleep;
            let mut candidate = self.first();
            // SAFETY: waiters in the list stay until they are taken out of it.
            while let Some(waiter) = unsafe { candidate.as_ref() } {
                let (me, previous, next) = (candidate, waiter.previous.get(), waiter.next.get());
                candidate = next;
                let Some(state) = waiter.try_wake(how) else { continue };
                self.join(previous, next);
                if state == ASLEEP {
                    // SAFETY: a sleeper stays until its semaphore is posted, below.
                    unsafe {
                        (*me).next.set(null_mut());
                        (*to_last_asleep).set(me);
                        to_last_asleep = &(*me).next;
                    }
                }
                if how == SIGNALLED {
                    break;
                }
            }
        });
        let mut sleeper = asleep.get();
        let now = if sleeper.is_null() { 0 } else { Native::instant() };
        while !sleeper.is_null() {
            // SAFETY: as above. LAST: the sleeper may return after the post.
            unsafe {
                let next = (*sleeper).next.get();
                (*sleeper).post(now);
                sleeper = next;
            }
        }
    }

    /// Takes a waiter in state `from` that gives up out of the list. Returns how it was woken instead, if it was.
    pub fn leave(&self, waiter: &Waiter, from: u32) -> Option<u32> {
        match waiter.advance(from, LEAVING) {
            Ok(()) => {
                self.with_list(|| self.join(waiter.previous.get(), waiter.next.get()));
                None
            }
            Err(how) => {
                if from == ASLEEP {
                    waiter.await_post();
                }
                Some(how)
            }
        }
    }

    /// Like [`Cond::leave`]; a wake-up that was meant for one waiter goes to another one.
    pub fn abandon(&self, waiter: &Waiter, from: u32) {
        if self.leave(waiter, from) == Some(SIGNALLED) {
            self.wake(SIGNALLED);
        }
    }
}
