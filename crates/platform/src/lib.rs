//! The machine a lock runs on.
//!
//! A lock is written once against [`Platform`] and runs on each implementation of it: [`Native`] is the hardware,
//! [`Single`] is the hardware while the process has one thread (no atomic read-modify-write instruction is needed
//! then). The rules for a lock: every shared word is one of the associated types, every wait goes through
//! [`Platform::spin_map`] or [`Platform::park`], and nothing else is asked of the world.
#![no_std]

#[cfg(test)]
extern crate std;

mod native;
pub mod patience;
mod single;
mod time;
mod topology;
mod weight;

pub use core::sync::atomic::Ordering;
pub use native::{settings, window, Native};
pub use single::Single;
pub use time::{parse_duration, parse_duration_up_to, Clock, Deadline, Ns, LONGEST_DURATION};
pub use topology::{
    group_number, rank_of, set_big, set_override, set_place, set_route, use_places, CpuList, Hierarchy, Place, Places,
    TopologyOverride, FEWEST_ENTRIES, MAX_CPUS, MAX_RANKS,
};
pub use weight::weight_of_nice;

/// An atomic integer of type `V`.
pub trait AtomicInt<V>: Send + Sync {
    /// An integer holding `value`.
    fn new(value: V) -> Self;
    /// Reads the value.
    fn load(&self, order: Ordering) -> V;
    /// Writes the value.
    fn store(&self, value: V, order: Ordering);
    /// Writes the value and returns the one before.
    fn swap(&self, value: V, order: Ordering) -> V;
    /// Writes `new` if the value is `current`. Returns the value found: `Ok` if it was `current`. A failure reads with
    /// `Relaxed` order.
    fn compare_exchange(&self, current: V, new: V, success: Ordering) -> Result<V, V>;
    /// As [`AtomicInt::compare_exchange`], and returns whether the value was `current`. It looks first, because an
    /// exchange takes the cache line from everybody else even if it fails. The look is `Relaxed`: it decides whether
    /// the exchange is worth its price, no more.
    #[inline(always)]
    #[track_caller]
    fn try_change(&self, current: V, new: V, success: Ordering) -> bool
    where
        V: Copy + PartialEq,
    {
        self.load(Ordering::Relaxed) == current && self.compare_exchange(current, new, success).is_ok()
    }
    /// Adds with wrap-around and returns the value before.
    fn fetch_add(&self, value: V, order: Ordering) -> V;
    /// Subtracts with wrap-around and returns the value before.
    fn fetch_sub(&self, value: V, order: Ordering) -> V;
    /// Clears the bits that are not in `value` and returns the value before.
    fn fetch_and(&self, value: V, order: Ordering) -> V;
    /// Sets the bits that are in `value` and returns the value before.
    fn fetch_or(&self, value: V, order: Ordering) -> V;
}

/// An atomic pointer to a `T`.
pub trait AtomicPtrCell<T>: Send + Sync {
    /// A pointer holding `value`.
    fn new(value: *mut T) -> Self;
    /// Reads the pointer.
    fn load(&self, order: Ordering) -> *mut T;
    /// Writes the pointer.
    fn store(&self, value: *mut T, order: Ordering);
    /// Writes the pointer and returns the one before.
    fn swap(&self, value: *mut T, order: Ordering) -> *mut T;
    /// Writes `new` if the pointer is `current`. Returns the pointer found: `Ok` if it was `current`. A failure reads
    /// with `Relaxed` order.
    fn compare_exchange(&self, current: *mut T, new: *mut T, success: Ordering) -> Result<*mut T, *mut T>;
    /// As [`AtomicInt::try_change`].
    #[inline(always)]
    #[track_caller]
    fn try_change(&self, current: *mut T, new: *mut T, success: Ordering) -> bool {
        self.load(Ordering::Relaxed) == current && self.compare_exchange(current, new, success).is_ok()
    }
}

/// Plain memory that a lock protects: a platform that can see races checks every access.
pub trait DataCell<T>: Send + Sync {
    /// A cell holding `value`.
    fn new(value: T) -> Self;
    /// Runs `f` on the value.
    ///
    /// # Safety
    /// The caller holds the lock that protects the cell, in any mode.
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R;
    /// Runs `f` on the value.
    ///
    /// # Safety
    /// The caller holds the lock that protects the cell, exclusively.
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
}

/// Why [`Platform::park`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Woken, interrupted, or the word had another value: look at the word again.
    Retry,
    /// The deadline has passed.
    TimedOut,
}

/// What a CPU is good for, on machines whose CPUs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreKind {
    /// One of the fastest; every CPU of a machine whose CPUs are alike.
    Big,
    /// Any slower one.
    Little,
}

/// A table that all locks of the process share; which lock uses it decides what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedTable {
    /// Where waiters of mutexes wait.
    Waiters,
    /// Where readers of read-write locks leave their mark.
    Readers,
    /// Where waiters of mutexes wait that are passed on along the route at times.
    Elements,
    /// Hints about that: slots that get into each other's way do no harm.
    Hints,
}

/// Values of parameters that a process can have, see [`Platform::setting`].
pub const SETTINGS: usize = 64;

/// One machine that locks run on.
pub trait Platform: Sized + Send + Sync + 'static {
    /// An atomic byte.
    type U8: AtomicInt<u8>;
    /// An atomic 32-bit word; the only type that can be parked on.
    type U32: AtomicInt<u32>;
    /// An atomic word.
    type Usize: AtomicInt<usize>;
    /// An atomic pointer.
    type Ptr<T: 'static>: AtomicPtrCell<T>;
    /// Memory that a lock protects.
    type Data<T: Send>: DataCell<T>;

    /// Waits until `f` returns a value. What `f` returns may depend only on the atomics that it loads.
    fn spin_map<R>(f: impl FnMut() -> Option<R>) -> R;
    /// Like [`Platform::spin_map`], but gives up at `deadline`, never before it.
    fn spin_map_until<R>(deadline: Deadline, f: impl FnMut() -> Option<R>) -> Option<R>;
    /// Like [`Platform::spin_map`], but gives up after `rounds` calls of `f` without ever leaving the CPU, but not
    /// before the first one; after that one where the process has a single CPU, because nobody can change the answer
    /// meanwhile.
    fn spin_map_bounded<R>(rounds: u32, f: impl FnMut() -> Option<R>) -> Option<R>;
    /// Like [`Platform::spin_map_bounded`], but asks `seldom` after the rounds, which may say more at a higher price,
    /// and gives up after having done so `times` times. A platform that searches for errors asks both each time, and
    /// does not give up: waits that end by themselves would hide what happens in those that do not.
    fn spin_map_in_rounds<R>(
        rounds: u32,
        times: u32,
        mut often: impl FnMut() -> Option<R>,
        mut seldom: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        (0..times).find_map(|_| Self::spin_map_bounded(rounds, &mut often).or_else(&mut seldom))
    }
    /// Does nothing for about `n` iterations of the machine's pause instruction: the only legal back-off.
    fn relax(n: u32);
    /// The time on `clock`, ns.
    fn now(clock: Clock) -> Ns;
    /// The time on [`Clock::Monotonic`] for a measurement, ns. A simulated machine gives it for nothing, so that
    /// measuring disturbs nothing there.
    fn measured_now() -> Ns {
        Self::now(Clock::Monotonic)
    }
    /// The time on a clock for what happens within seconds, ns: one that is cheap to read. It may run faster or slower
    /// than [`Clock::Monotonic`] by a ten-thousandth, and two CPUs may see it a few ns apart.
    fn instant() -> Ns {
        Self::now(Clock::Monotonic)
    }
    /// The CPU this thread runs on; it may have moved on return.
    fn cpu() -> u32;
    /// The locality group of the CPU this thread runs on, which may have moved on return: its NUMA node, or what else
    /// is nearest to that in the costs of a hand-off. On hardware that is `LOCKSWAP_LEVEL`.
    ///
    /// A lock that keeps an entry for each group takes the number modulo its entries, which are a power of two and at
    /// least [`FEWEST_ENTRIES`]: groups that share an entry are neighbours then (see [`group_number`]).
    fn node() -> u32;
    /// Whether all CPUs that the process can use are known to be in one locality group at present.
    fn has_one_node() -> bool {
        false
    }
    /// The last-level-cache group of the CPU this thread runs on, numbered in the same way over the whole machine; the
    /// node where the groups are not known.
    fn llc() -> u32;
    /// Where the CPU this thread runs on is among groups that lie in larger ones, for locks with a level for each.
    /// Both are numbered like [`Platform::node`].
    fn hierarchy() -> Hierarchy {
        Hierarchy { inner: Self::node(), outer: None }
    }
    /// The kind of the CPU this thread runs on.
    fn kind() -> CoreKind;
    /// The position of the CPU this thread runs on along the route through all CPUs, less than [`Platform::ranks`].
    /// Two CPUs may share one where there are more than [`MAX_RANKS`].
    fn rank() -> u32;
    /// The number of positions on the route, at least 1 and at most [`MAX_RANKS`]; constant once threads use locks.
    fn ranks() -> u32;
    /// A number that no other living thread has; not 0.
    fn thread() -> usize;
    /// The address of `place`, as a number to hash, or to leave in a shared table. Where executions are enumerated,
    /// the same one in each of them.
    #[inline(always)]
    fn address<T>(place: &T) -> usize {
        core::ptr::from_ref(place).addr()
    }
    /// Stores `value` in `word`, with Release order, if a look at `flag`, which is Relaxed and comes before, finds 0.
    /// Returns whether it has stored; it may also refuse for no reason. To [`Platform::settle`] look and store are one
    /// moment. The store is the last access: the memory of both may end as soon as another thread sees it.
    ///
    /// With a plain store as cheap as this a lock can be released although waiters sleep: a thread that is about to
    /// sleep sets the flag, calls [`Platform::settle`], and looks at the word again. Either it finds the word free, or
    /// the releaser finds the flag set.
    #[inline(always)]
    fn store_unless(flag: &Self::U8, word: &Self::U8, value: u8) -> bool {
        let _ = (flag, word, value);
        false
    }
    /// When it has returned true, each call of [`Platform::store_unless`] that any thread of the process has begun
    /// before has stored, and this thread sees that store and what came before it, or stores nothing; and each one
    /// that begins later finds in its flag what this thread has written before this call, or something later. It takes
    /// a system call that interrupts all CPUs which run threads of the process. (Asymmetric fences, C++ paper P1202;
    /// tcmalloc's `FenceAllCpus`.)
    ///
    /// False: the platform does not offer it, or no longer. Then no call of [`Platform::store_unless`] in any thread
    /// stores any more, and this thread sees the stores of earlier ones. It does not order what this thread does.
    fn settle() -> bool {
        false
    }
    /// The process's one table of the sort: all zero at first, a power of two long.
    fn slots(table: SharedTable) -> &'static [Self::Usize];
    /// How long a thread on a little CPU stands back for others, at most: the reorder window of LibASL, ns.
    fn reorder_window() -> Ns;
    /// The same for a lock whose threads stand back in epochs only: the window of the epoch that the thread is in, ns;
    /// 0 outside any, and where nobody keeps track of epochs.
    fn epoch_window() -> Ns {
        0
    }
    /// How much of a shared resource this thread is to have, in proportion to other threads: the scheduler's weight of
    /// its nice value, see [`weight_of_nice`]. It may take a system call.
    fn weight() -> u32 {
        weight_of_nice(0)
    }
    /// Leaves the CPU for about `ns` ns.
    fn sleep(ns: Ns);
    /// Lets another thread run on this CPU, if one is ready to.
    fn yield_cpu() {}
    /// Lets other threads run on this CPU, if there are any that are ready to, and returns how long they did, ns: 0 if
    /// there were none. [`Ns::MAX`] where that is not known, at once then: where the process must not ask, or the
    /// platform does not.
    fn give_way() -> Ns {
        Ns::MAX
    }
    /// Computes `steps` steps, each of six instructions of one cycle that wait for each other, on no memory: the work
    /// of a program. It takes no time where executions are explored.
    #[inline]
    fn compute(steps: u64) {
        let _ = steps;
    }
    /// Increments a word of each of `items`, which a lock protects, one after the other and again from the first,
    /// `times` in all. To a simulated machine that is one operation.
    #[inline]
    fn increment_each<T>(items: &[T], times: u64, word: impl Fn(&T) -> &Self::Usize) {
        for item in items.iter().cycle().take(times as usize) {
            let word = word(item);
            // Relaxed: only the holder of the lock gets here.
            word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
    /// Rounds of [`Platform::spin_map_bounded`] that last as long as a round trip through a sleep: from the last look
    /// of a thread that goes to sleep, over its wake-up, to its next look.
    fn spins_before_park() -> u32 {
        500
    }
    /// Rounds of [`Platform::spin_map_bounded`] that last `ns` ns, at least one. A pause takes 8 to 43 ns, from one
    /// processor to another.
    fn rounds(ns: Ns) -> u32 {
        (ns / 20).clamp(1, u32::MAX.into()) as u32
    }
    /// The value that the user has chosen for the parameter of locks with this number, less than [`SETTINGS`]; nothing
    /// if none was. Constant once threads use locks.
    fn setting(number: usize) -> Option<u64> {
        let _ = number;
        None
    }
    /// Keeps the CPU for `ns` ns, not less, as a program does that is busy with something else.
    fn keep_busy(ns: Ns) {
        let end = Deadline { clock: Clock::Monotonic, at: Self::now(Clock::Monotonic).saturating_add(ns) };
        Self::spin_map_until(end, || None::<()>);
    }
    /// A number in `0..n`: random on hardware, a branch where all choices are explored. `n` is not 0.
    fn choose(n: u32) -> u32;
    /// Sleeps while `word` holds `expected`, until woken by [`Platform::unpark`] on the same word.
    fn park(word: &Self::U32, expected: u32, until: Option<Deadline>) -> Wake;
    /// Wakes up to `n` threads parked on `word` and returns how many. Only its address is used: the word may already
    /// belong to somebody else, who then sees a [`Wake::Retry`] for no reason.
    fn unpark(word: *const Self::U32, n: u32) -> u32;
}
