//! The words of loom's machine, and the memory that locks protect.

use super::awaits;
use super::memory::Token;
use super::newest::{note_exchange, note_read, note_store, note_write, reads_in_sequence};
use crate::mutation;
use lockswap_platform::{AtomicInt, AtomicPtrCell, DataCell, Ordering};
use std::panic::Location;

macro_rules! int {
    ($name:ident, $atomic:ident, $value:ty) => {
        /// A word of loom's.
        pub struct $name(pub(super) loom::sync::atomic::$atomic, pub(super) Token);

        impl AtomicInt<$value> for $name {
            #[track_caller]
            fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$atomic::new(value), Token::new())
            }
            #[track_caller]
            fn load(&self, order: Ordering) -> $value {
                self.1.access();
                let order = mutation::order(Location::caller(), order);
                if reads_in_sequence(self, order) {
                    awaits::distrust();
                    return self.0.fetch_add(0, Ordering::Acquire);
                }
                let value = self.0.load(order);
                note_read(self, value as usize);
                value
            }
            #[track_caller]
            fn store(&self, value: $value, order: Ordering) {
                self.1.access();
                let order = mutation::order(Location::caller(), order);
                self.0.store(value, order);
                note_write(self, order);
                note_store(self);
            }
            #[track_caller]
            fn compare_exchange(&self, current: $value, new: $value, order: Ordering) -> Result<$value, $value> {
                self.1.access();
                let order = mutation::order(Location::caller(), order);
                let result = self.0.compare_exchange(current, new, order, Ordering::Relaxed);
                match result {
                    Ok(_) => {
                        note_write(self, order);
                        note_exchange(self, new as usize);
                        if new != current {
                            awaits::note_change();
                        }
                    }
                    Err(found) => note_read(self, found as usize),
                }
                result
            }
            #[track_caller]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.replace(Location::caller(), order, !value, |_| value, |word, order| word.swap(value, order))
            }
            #[track_caller]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                let new = |old: $value| old.wrapping_add(value);
                self.update(Location::caller(), order, new, |word, order| word.fetch_add(value, order))
            }
            #[track_caller]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                let new = |old: $value| old.wrapping_sub(value);
                self.update(Location::caller(), order, new, |word, order| word.fetch_sub(value, order))
            }
            #[track_caller]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                let (all, new) = (<$value>::MAX, |old: $value| old & value);
                self.replace(Location::caller(), order, all, new, |word, order| word.fetch_and(value, order))
            }
            #[track_caller]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.replace(Location::caller(), order, 0, |old| old | value, |word, order| word.fetch_or(value, order))
            }
        }

        impl $name {
            /// A read-modify-write at `location`, where the source says `order`; `new` is the value that it writes.
            fn update(
                &self,
                location: &'static Location<'static>,
                order: Ordering,
                new: impl FnOnce($value) -> $value,
                update: impl FnOnce(&loom::sync::atomic::$atomic, Ordering) -> $value,
            ) -> $value {
                self.1.access();
                let order = mutation::order(location, order);
                let old = update(&self.0, order);
                note_write(self, order);
                let new = new(old);
                note_exchange(self, new as usize);
                if new != old {
                    awaits::note_change();
                }
                old
            }

            /// As [`Self::update`], where `new` may be what was there; `guess` is a value for which it is not. Then
            /// nothing is written, unless the exchange releases: loom would not know which comes last, this exchange
            /// or another thread's store, and a waiter that swaps could find its own value for ever.
            fn replace(
                &self,
                location: &'static Location<'static>,
                order: Ordering,
                guess: $value,
                new: impl Fn($value) -> $value,
                update: impl FnOnce(&loom::sync::atomic::$atomic, Ordering) -> $value,
            ) -> $value {
                if !matches!(order, Ordering::Relaxed | Ordering::Acquire) {
                    return self.update(location, order, new, update);
                }
                self.1.access();
                let order = mutation::order(location, order);
                let mut expected = guess;
                loop {
                    match self.0.compare_exchange(expected, new(expected), order, order) {
                        Ok(old) => {
                            note_exchange(self, new(old) as usize);
                            awaits::note_change();
                            return old;
                        }
                        Err(found) if new(found) == found => {
                            note_read(self, found as usize);
                            return found;
                        }
                        Err(found) => expected = found,
                    }
                }
            }
        }
    };
}

int!(WeakU8, AtomicU8, u8);
int!(WeakU32, AtomicU32, u32);
int!(WeakUsize, AtomicUsize, usize);

/// A pointer of loom's. SeqCst is AcqRel here: no lock needs more of a pointer.
pub struct WeakPtr<T>(loom::sync::atomic::AtomicPtr<T>, Token);

// SAFETY: an atomic pointer is a number; whoever follows it says why that is right.
unsafe impl<T> Send for WeakPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for WeakPtr<T> {}

impl<T> AtomicPtrCell<T> for WeakPtr<T> {
    #[track_caller]
    fn new(value: *mut T) -> Self {
        Self(loom::sync::atomic::AtomicPtr::new(value), Token::new())
    }
    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T {
        self.1.access();
        let value = self.0.load(mutation::order(Location::caller(), order));
        note_read(self, value.addr());
        value
    }
    #[track_caller]
    fn store(&self, value: *mut T, order: Ordering) {
        self.1.access();
        self.0.store(value, mutation::order(Location::caller(), order));
        note_store(self);
    }
    #[track_caller]
    fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        self.1.access();
        let old = self.0.swap(value, mutation::order(Location::caller(), order));
        note_exchange(self, value.addr());
        if old != value {
            awaits::note_change();
        }
        old
    }
    #[track_caller]
    fn compare_exchange(&self, current: *mut T, new: *mut T, order: Ordering) -> Result<*mut T, *mut T> {
        self.1.access();
        let order = mutation::order(Location::caller(), order);
        let result = self.0.compare_exchange(current, new, order, Ordering::Relaxed);
        match result {
            Ok(_) => {
                note_exchange(self, new.addr());
                if new != current {
                    awaits::note_change();
                }
            }
            Err(found) => note_read(self, found.addr()),
        }
        result
    }
}

/// Memory that a lock protects; loom reports accesses that are not ordered.
pub struct Raced<T>(loom::cell::UnsafeCell<T>);

// SAFETY: loom checks every access.
unsafe impl<T: Send> Sync for Raced<T> {}

impl<T: Send> DataCell<T> for Raced<T> {
    #[track_caller]
    fn new(value: T) -> Self {
        Raced(loom::cell::UnsafeCell::new(value))
    }
    #[track_caller]
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the caller holds the lock; loom checks that this keeps writers out.
        self.0.with(|value| f(unsafe { &*value }))
    }
    #[track_caller]
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: as above, everybody.
        self.0.with_mut(|value| f(unsafe { &mut *value }))
    }
}
