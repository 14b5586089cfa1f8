//! The hardware while the process has a single thread: a read-modify-write is a load and a store.
//!
//! Types have the layout of [`Native`]'s, so that a lock taken here can be released there after a second thread has
//! been started.

use crate::{
    AtomicInt, AtomicPtrCell, Clock, CoreKind, Deadline, Hierarchy, Native, Ns, Ordering, Platform, SharedTable, Wake,
};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU8, AtomicUsize};

/// The hardware, without atomic read-modify-write instructions.
///
/// Only sound while no second thread exists: the thread that creates one synchronises with it by creating it, which is
/// why every access here is `Relaxed`. A signal handler runs between instructions of the same thread; it may use a
/// lock only if it leaves it as it was found, and then the load and store around it stay consistent.
pub struct Single;

macro_rules! single_int {
    ($name:ident, $atomic:ty, $value:ty) => {
        /// An integer of one thread, laid out like the atomic.
        #[repr(transparent)]
        pub struct $name($atomic);

        impl AtomicInt<$value> for $name {
            fn new(value: $value) -> Self {
                Self(<$atomic>::new(value))
            }
            #[inline(always)]
            fn load(&self, _: Ordering) -> $value {
                self.0.load(Ordering::Relaxed)
            }
            #[inline(always)]
            fn store(&self, value: $value, _: Ordering) {
                self.0.store(value, Ordering::Relaxed);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                let old = self.load(order);
                self.store(value, order);
                old
            }
            #[inline(always)]
            fn compare_exchange(&self, current: $value, new: $value, order: Ordering) -> Result<$value, $value> {
                let old = self.load(order);
                if old != current {
                    return Err(old);
                }
                self.store(new, order);
                Ok(old)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.swap(self.load(order).wrapping_add(value), order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.swap(self.load(order).wrapping_sub(value), order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.swap(self.load(order) & value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.swap(self.load(order) | value, order)
            }
        }
    };
}

single_int!(SingleU8, AtomicU8, u8);
single_int!(SingleU32, AtomicU32, u32);
single_int!(SingleUsize, AtomicUsize, usize);

/// A pointer of one thread, laid out like the atomic.
#[repr(transparent)]
pub struct SinglePtr<T>(AtomicPtr<T>);

impl<T> AtomicPtrCell<T> for SinglePtr<T> {
    fn new(value: *mut T) -> Self {
        Self(AtomicPtr::new(value))
    }
    #[inline(always)]
    fn load(&self, _: Ordering) -> *mut T {
        self.0.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn store(&self, value: *mut T, _: Ordering) {
        self.0.store(value, Ordering::Relaxed);
    }
    #[inline(always)]
    fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        let old = self.load(order);
        self.store(value, order);
        old
    }
    #[inline(always)]
    fn compare_exchange(&self, current: *mut T, new: *mut T, order: Ordering) -> Result<*mut T, *mut T> {
        let old = self.load(order);
        if old != current {
            return Err(old);
        }
        self.store(new, order);
        Ok(old)
    }
}

impl Platform for Single {
    type U8 = SingleU8;
    type U32 = SingleU32;
    type Usize = SingleUsize;
    type Ptr<T: 'static> = SinglePtr<T>;
    type Data<T: Send> = <Native as Platform>::Data<T>;

    fn spin_map<R>(f: impl FnMut() -> Option<R>) -> R {
        Native::spin_map(f)
    }
    fn spin_map_until<R>(deadline: Deadline, f: impl FnMut() -> Option<R>) -> Option<R> {
        Native::spin_map_until(deadline, f)
    }
    fn spin_map_bounded<R>(rounds: u32, f: impl FnMut() -> Option<R>) -> Option<R> {
        Native::spin_map_bounded(rounds, f)
    }
    fn relax(n: u32) {
        Native::relax(n);
    }
    fn now(clock: Clock) -> Ns {
        Native::now(clock)
    }
    fn cpu() -> u32 {
        Native::cpu()
    }
    fn node() -> u32 {
        Native::node()
    }
    fn has_one_node() -> bool {
        Native::has_one_node()
    }
    fn llc() -> u32 {
        Native::llc()
    }
    fn hierarchy() -> Hierarchy {
        Native::hierarchy()
    }
    fn kind() -> CoreKind {
        Native::kind()
    }
    fn rank() -> u32 {
        Native::rank()
    }
    fn ranks() -> u32 {
        Native::ranks()
    }
    fn thread() -> usize {
        Native::thread()
    }
    #[inline(always)]
    fn store_unless(flag: &SingleU8, word: &SingleU8, value: u8) -> bool {
        let stores = flag.load(Ordering::Relaxed) == 0;
        if stores {
            word.store(value, Ordering::Release);
        }
        stores
    }
    fn settle() -> bool {
        true // No other thread is in the middle of a store.
    }
    #[inline(always)]
    fn slots(table: SharedTable) -> &'static [SingleUsize] {
        let slots = Native::slots(table);
        // SAFETY: `SingleUsize` is a transparent wrapper of the same atomic.
        unsafe { core::slice::from_raw_parts(slots.as_ptr().cast(), slots.len()) }
    }
    fn reorder_window() -> Ns {
        Native::reorder_window()
    }
    #[inline(always)]
    fn instant() -> Ns {
        Native::instant()
    }
    fn weight() -> u32 {
        Native::weight()
    }
    fn sleep(ns: Ns) {
        Native::sleep(ns);
    }
    fn yield_cpu() {
        Native::yield_cpu();
    }
    fn give_way() -> Ns {
        Native::give_way()
    }
    fn spins_before_park() -> u32 {
        Native::spins_before_park()
    }
    fn rounds(ns: Ns) -> u32 {
        Native::rounds(ns)
    }
    fn setting(number: usize) -> Option<u64> {
        Native::setting(number)
    }
    fn choose(n: u32) -> u32 {
        Native::choose(n)
    }
    fn park(word: &SingleU32, expected: u32, until: Option<Deadline>) -> Wake {
        Native::park(&word.0, expected, until)
    }
    #[inline(always)]
    fn unpark(_: *const SingleU32, _: u32) -> u32 {
        0 // There is no other thread.
    }
}
