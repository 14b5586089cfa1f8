//! The hardware: what ships.

mod crowd;
mod instant;
mod rseq;
pub mod settings;
mod settling;
mod wait;
pub mod window;

use crate::{
    topology, weight_of_nice, AtomicInt, AtomicPtrCell, Clock, CoreKind, DataCell, Deadline, Hierarchy, Ns, Ordering,
    Platform, SharedTable, Wake,
};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU8, AtomicUsize};

/// Linux on x86-64 or aarch64, private to one process.
pub struct Native;

impl Native {
    /// Whether the process may use only one CPU, so that spinning is in vain: looked up once, from the affinity of the
    /// thread that asks first. A program should ask early, before its threads restrict themselves to CPUs of their
    /// own.
    pub fn has_one_cpu() -> bool {
        wait::has_one_cpu()
    }

    /// Says whether waits may call `sched_yield`: true at first, and false from the first call on that fails. Where
    /// they may not, they nap instead, and the locks make no system call but `futex`, and `clock_gettime` where the
    /// kernel offers no way around it. Also looks up what [`Native::has_one_cpu`] says, as long as that is allowed.
    pub fn allow_yields(allowed: bool) {
        wait::allow_yields(allowed);
    }

    /// Whether waits call `sched_yield`.
    pub fn yields_are_allowed() -> bool {
        wait::yields_are_allowed()
    }

    /// Says that the process has real-time threads, whose waits nap sooner; whether that was known. False at first.
    pub fn expect_real_time() -> bool {
        wait::expect_real_time()
    }

    /// Whether [`Native::expect_real_time`] has been called.
    #[inline]
    pub fn has_real_time() -> bool {
        wait::has_real_time()
    }

    /// The real-time priority of the calling thread, 1 to 99; 0 if it has none, if [`Native::expect_real_time`] has
    /// not been called, or if waits may not call `sched_yield`.
    #[inline]
    pub fn real_time_priority() -> u32 {
        wait::real_time_priority()
    }

    /// Says whether [`Platform::weight`] may ask the kernel for the thread's nice value: true at first. Where it may
    /// not, every thread has the weight of an ordinary one.
    pub fn allow_weights(allowed: bool) {
        wait::allow_weights(allowed);
    }

    /// Says whether [`Platform::settle`] may call `membarrier`: false at first. If so, [`Platform::store_unless`]
    /// stores, where the kernel and glibc offer restartable sequences. When it returns after false, no thread makes
    /// the call any more. Where the call takes too long it ends by itself, until this is called again. Not called by
    /// two threads at once with different answers.
    pub fn allow_settling(allowed: bool) {
        if allowed {
            settling::open();
        } else {
            settling::close();
        }
    }

    /// Forgets the threads that wait, of which the child of a fork has none: else its own waiters would nap for as
    /// long as if those were there.
    pub fn enter_child() {
        crowd::forget();
        settling::enter_child();
    }
}

macro_rules! native_int {
    ($atomic:ty, $value:ty) => {
        impl AtomicInt<$value> for $atomic {
            fn new(value: $value) -> Self {
                <$atomic>::new(value)
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                <$atomic>::store(self, value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::swap(self, value, order)
            }
            #[inline(always)]
            fn compare_exchange(&self, current: $value, new: $value, success: Ordering) -> Result<$value, $value> {
                <$atomic>::compare_exchange(self, current, new, success, Ordering::Relaxed)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_sub(self, value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_and(self, value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                <$atomic>::fetch_or(self, value, order)
            }
        }
    };
}

native_int!(AtomicU8, u8);
native_int!(AtomicU32, u32);
native_int!(AtomicUsize, usize);

impl<T> AtomicPtrCell<T> for AtomicPtr<T> {
    fn new(value: *mut T) -> Self {
        AtomicPtr::new(value)
    }
    #[inline(always)]
    fn load(&self, order: Ordering) -> *mut T {
        AtomicPtr::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: *mut T, order: Ordering) {
        AtomicPtr::store(self, value, order);
    }
    #[inline(always)]
    fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        AtomicPtr::swap(self, value, order)
    }
    #[inline(always)]
    fn compare_exchange(&self, current: *mut T, new: *mut T, success: Ordering) -> Result<*mut T, *mut T> {
        AtomicPtr::compare_exchange(self, current, new, success, Ordering::Relaxed)
    }
}

/// Plain memory.
#[repr(transparent)]
pub struct NativeData<T>(UnsafeCell<T>);

// SAFETY: access needs the lock that protects the cell, which the caller of `with` and `with_mut` vouches for.
unsafe impl<T: Send> Sync for NativeData<T> {}

impl<T: Send> DataCell<T> for NativeData<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the caller holds the lock, so nobody writes meanwhile.
        f(unsafe { &*self.0.get() })
    }
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller holds the lock exclusively.
        f(unsafe { &mut *self.0.get() })
    }
}

/// Slots in each shared table.
const SLOTS: usize = 4096;
static WAITERS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static READERS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static ELEMENTS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static HINTS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];

impl Platform for Native {
    type U8 = AtomicU8;
    type U32 = AtomicU32;
    type Usize = AtomicUsize;
    type Ptr<T: 'static> = AtomicPtr<T>;
    type Data<T: Send> = NativeData<T>;

    #[inline]
    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        let mut patience = wait::Patience::new();
        loop {
            if let Some(value) = f() {
                return value;
            }
            patience.pause(None);
        }
    }

    #[inline]
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        let mut patience = wait::Patience::new();
        loop {
            if let Some(value) = f() {
                return Some(value);
            }
            // While the thread spins, a look at the clock takes longer than one at a word.
            if patience.may_skip_clock() {
                patience.pause(None);
                continue;
            }
            let now = wait::now(deadline.clock);
            if now >= deadline.at {
                return None;
            }
            patience.pause(Some(deadline.at - now));
        }
    }

    #[inline]
    fn spin_map_bounded<R>(rounds: u32, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        let rounds = if wait::has_one_cpu() { 1 } else { rounds.max(1) };
        for _ in 0..rounds {
            if let Some(value) = f() {
                return Some(value);
            }
            core::hint::spin_loop();
        }
        None
    }

    #[inline]
    fn relax(n: u32) {
        for _ in 0..n {
            core::hint::spin_loop();
        }
    }

    #[inline]
    fn now(clock: Clock) -> Ns {
        wait::now(clock)
    }

    #[inline(always)]
    fn instant() -> Ns {
        instant::now()
    }

    #[inline]
    fn cpu() -> u32 {
        rseq::cpu()
    }

    #[inline]
    fn node() -> u32 {
        topology::place(rseq::cpu()).group().unwrap_or_else(rseq::node)
    }

    #[inline]
    fn has_one_node() -> bool {
        topology::place(rseq::cpu()).is_in_only_group()
    }

    #[inline]
    fn llc() -> u32 {
        topology::place(rseq::cpu()).llc().unwrap_or_else(rseq::node)
    }

    #[inline]
    fn hierarchy() -> Hierarchy {
        let unknown = || Hierarchy { inner: rseq::node(), outer: None };
        topology::place(rseq::cpu()).hierarchy().unwrap_or_else(unknown)
    }

    #[inline]
    fn kind() -> CoreKind {
        topology::place(rseq::cpu()).kind()
    }

    #[inline]
    fn rank() -> u32 {
        let cpu = Self::cpu();
        topology::rank_of(cpu).unwrap_or_else(|| cpu % Self::ranks())
    }

    #[inline]
    fn ranks() -> u32 {
        let without = || wait::highest_cpu().saturating_add(1).min(topology::MAX_RANKS as u32);
        topology::ranks().unwrap_or_else(without)
    }

    #[inline(always)]
    fn thread() -> usize {
        rseq::thread_pointer()
    }

    #[inline(always)]
    fn store_unless(flag: &AtomicU8, word: &AtomicU8, value: u8) -> bool {
        settling::store_unless(flag, word, value)
    }

    #[inline]
    fn settle() -> bool {
        settling::settle()
    }

    #[inline]
    fn slots(table: SharedTable) -> &'static [AtomicUsize] {
        match table {
            SharedTable::Waiters => &WAITERS,
            SharedTable::Readers => &READERS,
            SharedTable::Elements => &ELEMENTS,
            SharedTable::Hints => &HINTS,
        }
    }

    #[inline]
    fn reorder_window() -> Ns {
        window::of_epoch().unwrap_or_else(window::longest)
    }

    fn epoch_window() -> Ns {
        window::of_epoch().unwrap_or(0)
    }

    fn weight() -> u32 {
        weight_of_nice(wait::nice())
    }

    fn sleep(ns: Ns) {
        wait::nap(ns);
    }

    fn yield_cpu() {
        wait::yield_cpu();
    }

    fn give_way() -> Ns {
        wait::give_way()
    }

    #[inline]
    fn compute(steps: u64) {
        if steps == 0 {
            return;
        }
        // Marsaglia's xorshift64, which no compiler knows a shorter way for.
        let mut state = core::hint::black_box(0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..steps {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
        }
        core::hint::black_box(state);
    }

    #[inline]
    fn spins_before_park() -> u32 {
        settings::spins_before_park()
    }

    #[inline]
    fn rounds(ns: Ns) -> u32 {
        settings::rounds(ns)
    }

    #[inline]
    fn setting(number: usize) -> Option<u64> {
        settings::get(number)
    }

    fn keep_busy(ns: Ns) {
        let began = wait::now(Clock::Monotonic);
        while wait::now(Clock::Monotonic) - began < ns {
            core::hint::spin_loop();
        }
    }

    #[inline]
    fn choose(n: u32) -> u32 {
        // The low bits of a cycle counter, spread over the word (the multiplier is 2^64 divided by the golden ratio).
        let mixed = rseq::cycles().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (((mixed >> 32) * n as u64) >> 32) as u32
    }

    #[inline]
    fn park(word: &AtomicU32, expected: u32, until: Option<Deadline>) -> Wake {
        wait::futex_wait(word, expected, until)
    }

    #[inline]
    fn unpark(word: *const AtomicU32, n: u32) -> u32 {
        wait::futex_wake(word, n)
    }
}
