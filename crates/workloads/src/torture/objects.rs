//! What is tortured: a few objects of each kind that all threads use, with the data that they protect.

use super::calls;
use crate::pthread::{Cond, Kind, Mutex, RwLock, Spin};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Unprotected data: all of it is only read and written, never updated atomically, so that a second thread inside
/// leaves a trace.
#[derive(Default)]
pub(super) struct Guarded {
    /// 1 + the number of the thread inside, 0 if there is none.
    inside: AtomicU32,
    /// Exclusive acquisitions; must come out equal to `expected`.
    count: AtomicU64,
    /// Equal to `count` except while a thread is inside.
    copy: AtomicU64,
    /// Exclusive acquisitions as the threads counted them on their own.
    pub expected: AtomicU64,
}

impl Guarded {
    /// The calling thread has acquired: notes it, or says who is inside already.
    pub fn enter(&self, thread: usize) -> Result<(), String> {
        let found = self.inside.load(Relaxed);
        if found != 0 {
            return Err(format!("thread {} is inside, too", found - 1));
        }
        self.inside.store(thread as u32 + 1, Relaxed);
        let seen = self.count.load(Relaxed);
        if self.copy.load(Relaxed) != seen {
            return Err("the data is that of an unfinished critical section".into());
        }
        self.count.store(seen + 1, Relaxed);
        Ok(())
    }

    /// The calling thread is about to release.
    pub fn leave(&self, thread: usize) -> Result<(), String> {
        self.copy.store(self.count.load(Relaxed), Relaxed);
        let found = self.inside.load(Relaxed);
        self.inside.store(0, Relaxed);
        match found {
            own if own == thread as u32 + 1 => Ok(()),
            0 => Err("another thread was inside meanwhile".into()),
            other => Err(format!("thread {} came inside meanwhile", other - 1)),
        }
    }

    /// The calling thread has acquired shared: what a writer has done so far.
    pub fn read(&self) -> Result<u64, String> {
        let (inside, count, copy) = (self.inside.load(Relaxed), self.count.load(Relaxed), self.copy.load(Relaxed));
        match inside {
            0 if count == copy => Ok(count),
            0 => Err("the data is that of an unfinished critical section".into()),
            writer => Err(format!("thread {} is inside and writes", writer - 1)),
        }
    }

    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// The thread inside, as far as a bystander can tell.
    pub fn holder(&self) -> Option<usize> {
        (self.inside.load(Relaxed) as usize).checked_sub(1)
    }
}

/// A mutex with a condition variable. `tokens` and `waiting` are protected by the mutex.
pub(super) struct MutexObject {
    pub kind: Kind,
    pub mutex: Pin<Box<Mutex>>,
    pub cond: Pin<Box<Cond>>,
    /// Each of them ends one wait; every new one is signalled.
    pub tokens: AtomicU32,
    /// Threads that wait without a limit.
    pub waiting: AtomicU32,
    pub data: Guarded,
}

pub(super) struct RwObject {
    pub lock: Pin<Box<RwLock>>,
    /// Whether a thread may read-lock again what it has read-locked.
    pub readers_first: bool,
    pub data: Guarded,
}

pub(super) struct SpinObject {
    pub lock: Pin<Box<Spin>>,
    pub data: Guarded,
}

/// An object's number: mutexes first, then rwlocks, then spinlocks. Threads that hold several acquire them in this
/// order.
pub(super) type Number = usize;

pub(super) const MUTEXES: usize = 4;
pub(super) const RWLOCKS: usize = 2;
pub(super) const SPINS: usize = 2;
pub(super) const OBJECTS: usize = MUTEXES + RWLOCKS + SPINS;

/// Stands for all the objects that live shortly.
pub(super) const SHORT_LIVED: Number = OBJECTS;

pub(super) struct Objects {
    pub mutexes: [MutexObject; MUTEXES],
    pub rwlocks: [RwObject; RWLOCKS],
    pub spins: [SpinObject; SPINS],
}

impl Objects {
    pub fn new() -> Self {
        let mutex = |kind| MutexObject {
            kind,
            mutex: Mutex::new(kind),
            cond: Cond::new(),
            tokens: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            data: Guarded::default(),
        };
        let rwlock = |lock, readers_first| RwObject { lock, readers_first, data: Guarded::default() };
        let spin = |_| SpinObject { lock: Spin::new(), data: Guarded::default() };
        Self {
            mutexes: [Kind::Normal, Kind::Recursive, Kind::ErrorCheck, Kind::Adaptive].map(mutex),
            rwlocks: [rwlock(RwLock::new(), true), rwlock(RwLock::preferring_writers(), false)],
            spins: [0, 1].map(spin),
        }
    }

    pub fn data(&self, number: Number) -> Option<&Guarded> {
        match number {
            0..MUTEXES => Some(&self.mutexes[number].data),
            MUTEXES.. if number < MUTEXES + RWLOCKS => Some(&self.rwlocks[number - MUTEXES].data),
            _ => self.spins.get(number - MUTEXES - RWLOCKS).map(|spin| &spin.data),
        }
    }

    /// After all threads have ended: every acquisition has left its mark, and the mutexes are free.
    pub fn check(&self) -> Result<(), String> {
        for number in 0..OBJECTS {
            let Some(data) = self.data(number) else { continue };
            let (count, expected) = (data.count(), data.expected.load(Relaxed));
            if count != expected {
                return Err(format!("{} counted {count} acquisitions instead of {expected}", name(number)));
            }
        }
        for (number, object) in self.mutexes.iter().enumerate() {
            let code = calls::destroy(&object.mutex);
            if code != 0 {
                let code = calls::describe(code);
                return Err(format!("pthread_mutex_destroy of {}, which is free, returned {code}", name(number)));
            }
            object.mutex.as_ref().init(object.kind);
        }
        Ok(())
    }

    pub fn acquisitions(&self) -> u64 {
        (0..OBJECTS).filter_map(|number| self.data(number)).map(Guarded::count).sum()
    }
}

/// An object's name in messages.
pub(super) fn name(number: Number) -> &'static str {
    const NAMES: [&str; OBJECTS + 1] = [
        "the normal mutex",
        "the recursive mutex",
        "the errorcheck mutex",
        "the adaptive mutex",
        "the rwlock that prefers readers",
        "the rwlock that prefers writers",
        "the first spinlock",
        "the second spinlock",
        "a short-lived mutex",
    ];
    NAMES[number]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_inside_is_noticed() {
        let data = Guarded::default();
        assert_eq!(data.enter(3), Ok(()));
        assert_eq!(data.holder(), Some(3));
        assert!(data.enter(4).is_err_and(|message| message.contains("thread 3")));
        assert!(data.read().is_err());
        assert_eq!(data.leave(3), Ok(()));
        assert_eq!((data.read(), data.holder()), (Ok(1), None));
        assert_eq!(data.enter(4), Ok(()));
        assert!(data.leave(5).is_err());
    }

    #[test]
    fn every_object_has_data_of_its_own() {
        let objects = Objects::new();
        let all: Vec<_> = (0..OBJECTS).map(|n| std::ptr::from_ref(objects.data(n).expect("an object"))).collect();
        assert!((1..OBJECTS).all(|n| !all[..n].contains(&all[n])));
        assert!(objects.data(SHORT_LIVED).is_none());
        assert_eq!(objects.check(), Ok(()));
        objects.data(2).expect("an object").expected.store(1, Relaxed);
        assert!(objects.check().is_err_and(|message| message.contains("errorcheck")));
    }
}
