//! The lock's way along the route through the CPUs: RON (Lo et al., OSDI 2023, section 7) inside `auto`.
//!
//!   elements:  [0: lock A]->[1: -]->[2: lock A, granted]->[3: lock B]-> ...      one for each CPU, in TSP order
//!
//! Where many threads wait and hardly any gets the lock twice in a row, each acquisition is a hand-over, and each takes
//! the lock's own cache line away from those who come. Then the lock is *routed*: a thread that finds it held puts the
//! lock's address into the element of its CPU and looks at nothing else, and the holder grants the lock to the next
//! such element. So the lock goes from CPU to CPU by the shortest way, and its own line stays where it is. The table
//! belongs to the process. A thread that finds the element of its CPU taken queues.
//!
//! Nobody is lost: the bit ROUTED of the lock is but a hint. Every `SPIN` a waiter looks at the lock itself: it takes
//! the lock if that is free, and leaves its element for the queue if the lock is not routed any more, or after `STAYS`
//! such looks. A grant is an exchange, which fails if the waiter has left. The candidate waits on the route, too, so
//! that the queue gets the lock once in a round. After a round the lock is released openly if that candidate sleeps, if
//! there is none but there are sleepers, and now and then in any case.
//!
//! It begins with a candidate that had nobody before it and leaves some waiters behind, unless threads follow each
//! other quickly, or have lost their CPUs to each other lately: a thread to which the lock is granted must have one. It
//! ends with a round that finds nobody, as soon as a thread is back so soon after it has handed the lock on that it had
//! better kept it, and where a thread polls, to which a lock on its way is never free.

use super::bounds::Bounds;
use super::lock::{sleepers_left, AutoLock, HELD, ROUTED};
use super::queue::Node;
use crate::parameters::Setting;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ns, Ordering, Platform, SharedTable};

/// | element   | meaning                      | next value, and who writes it                            |
/// |-----------|------------------------------|----------------------------------------------------------|
/// | EMPTY     | nobody waits here            | address: a thread that begins to wait                    |
/// | address   | a thread waits for this lock | + GRANTED: the lock's holder; EMPTY: that thread, leaving |
/// | + GRANTED | that thread holds the lock   | EMPTY: that thread                                       |
const EMPTY: usize = 0;
/// Addresses are even.
const GRANTED: usize = 1;

/// No lock is routed for so long after threads have lost their CPUs to each other, ns.
const CROWDED: Ns = 10_000_000;
/// One of so many threads that come queues, if others do.
const WITHOUT: Ns = 48;
/// After one of so many rounds the lock is released openly, though the candidate seems to wait on the route.
const OPENLY: Ns = 16;

/// The first hint of the process: whether any lock is routed.
const ANY: usize = 0;
/// The second one: when threads have lost their CPUs to each other, ns; 0 if never.
const LOST: usize = 1;

impl<P: Platform, B: Bounds> AutoLock<P, B> {
    fn element(rank: usize) -> &'static P::Usize {
        let elements = P::slots(SharedTable::Elements);
        &elements[(rank * B::STRIDE) & (elements.len() - 1)]
    }

    /// What hints say protects nothing: all accesses to them are Relaxed. The first line of their table is that of the
    /// process, the others are those of CPUs.
    fn hint(line: usize, word: usize) -> &'static P::Usize {
        let hints = P::slots(SharedTable::Hints);
        &hints[(line * B::STRIDE + word) & (hints.len() - 1)]
    }

    /// When a holder on this CPU has handed a lock on, ns, and which.
    fn handed_on(rank: usize) -> [&'static P::Usize; 2] {
        let lines = P::slots(SharedTable::Hints).len() / B::STRIDE;
        let line = 1 + rank % (lines - 1);
        [Self::hint(line, 0), Self::hint(line, 1)]
    }

    /// Whether a lock of the process is routed, so that a thread had better look at the lock before it tries to
    /// acquire it: an exchange would take the line away from the others for nothing.
    #[inline(always)]
    pub(super) fn any_is_routed() -> bool {
        Self::hint(0, ANY).load(Ordering::Relaxed) != 0
    }

    /// Notes that another thread wants the CPU of this one.
    pub(super) fn note_crowd() {
        let now = P::instant();
        if now.saturating_sub(Self::hint(0, LOST).load(Ordering::Relaxed) as Ns) > CROWDED / 4 {
            Self::hint(0, LOST).store(now as usize, Ordering::Relaxed);
        }
    }

    pub(super) fn is_routed(&self) -> bool {
        // Relaxed: a hint.
        self.alert.load(Ordering::Relaxed) & ROUTED != 0
    }

    /// Begins with it if that promises to pay, as a candidate that has acquired the lock, the last of `turns` threads
    /// since it began to look.
    pub(super) fn begin_route(&self, me: &Node<P>, turns: u32) {
        let least = Setting::Route.number::<P>(B::ROUTE);
        let may = least > 0 && P::ranks() >= least && !self.is_routed() && P::epoch_window() == 0;
        let pays = || turns == 1 && !self.seat.is_brisk() && !self.has_batches() && me.has_behind(B::BEHIND);
        if !may || !pays() {
            return;
        }
        let lost = Self::hint(0, LOST).load(Ordering::Relaxed) as Ns;
        if lost == 0 || P::instant().saturating_sub(lost) > CROWDED {
            self.alert.fetch_or(ROUTED, Ordering::Relaxed);
            Self::hint(0, ANY).store(1, Ordering::Relaxed);
        }
    }

    /// Ends it, if it is on; anybody may. Relaxed, here and where it begins: a hint.
    pub(super) fn end_route(&self) {
        if !self.is_routed() {
            return;
        }
        self.alert.fetch_and(!ROUTED, Ordering::Relaxed);
        Self::hint(0, ANY).store(0, Ordering::Relaxed);
    }

    /// Waits for the lock at the element of this CPU, if it is routed; whether the thread has acquired it. Now and then
    /// it does without, so that those in the queue, and those that sleep, come to the route in its place.
    pub(super) fn acquire_on_route(&self) -> bool {
        if !self.is_routed() {
            return false;
        }
        let (here, now) = (P::rank() as usize, P::instant());
        let [since, lock] = Self::handed_on(here).map(|hint| hint.load(Ordering::Relaxed));
        if lock == P::address(self) && now < since as Ns + B::BACK {
            self.end_route();
            return false;
        }
        // The last digits of the time are as good as chance. Relaxed: a hint.
        let does_without = now.is_multiple_of(WITHOUT) && !self.queue.load(Ordering::Relaxed).is_null();
        !does_without && self.wait_on_route(Self::acquire_free)
    }

    /// The same, also for the candidate, which has its own way to acquire a lock that is free.
    pub(super) fn wait_on_route(&self, acquires: impl Fn(&Self) -> bool) -> bool {
        if !self.is_routed() {
            return false;
        }
        let (element, lock) = (Self::element(P::rank() as usize), P::address(self));
        // Relaxed, here and below: that a thread waits, or does no longer, publishes nothing.
        if !element.try_change(EMPTY, lock, Ordering::Relaxed) {
            return false;
        }
        // Relaxed: acquired below.
        let is_granted = || (element.load(Ordering::Relaxed) != lock).then_some(false);
        let acquires_itself = || acquires(self).then_some(true).or_else(|| (!self.is_routed()).then_some(false));
        let acquired = P::spin_map_in_rounds(Self::spins(), B::STAYS, is_granted, acquires_itself);
        if element.compare_exchange(lock, EMPTY, Ordering::Relaxed).is_ok() {
            return acquired == Some(true);
        }
        // It has been granted, maybe at the last moment.
        // ORDER(route): Acquire pairs with the Release in `hand_on`.
        element.load(Ordering::Acquire);
        element.store(EMPTY, Ordering::Relaxed);
        true
    }

    /// Whether, as far as the holder can see, nobody needs the lock to be released who does not wait on the route.
    fn goes_on_without_release(&self) -> bool {
        // Relaxed, both: hints. The last digits of the time are as good as chance.
        let queue = self.queue.load(Ordering::Relaxed);
        let candidate_may_wait_here = sleepers_left(queue).is_none() && self.held.load(Ordering::Relaxed) == HELD;
        queue.is_null() || candidate_may_wait_here && !P::instant().is_multiple_of(OPENLY)
    }

    /// Hands the lock on along the route, as its holder; whether there was somebody.
    /// LAST: if so, the lock may be destroyed.
    pub(super) fn hand_on(&self) -> bool {
        let (lock, here, ranks) = (P::address(self), P::rank() as usize, P::ranks() as usize);
        let [since, which] = Self::handed_on(here);
        since.store(P::instant() as usize, Ordering::Relaxed);
        which.store(lock, Ordering::Relaxed);
        // Relaxed: the exchange decides.
        let waits = |rank: &usize| Self::element(*rank).load(Ordering::Relaxed) == lock;
        // ORDER(route): Release pairs with the Acquire in `wait_on_route`; publishes the critical section.
        let grant = |rank| Self::element(rank).compare_exchange(lock, lock | GRANTED, Ordering::Release).is_ok();
        if (here + 1..ranks).filter(waits).any(grant) {
            return true;
        }
        let Some(first) = (0..=here).find(waits) else {
            self.end_route();
            return false;
        };
        // A round is over.
        self.goes_on_without_release() && (first..=here).filter(waits).any(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto::bounds::Published;
    use core::ptr;
    use lockswap_platform::Native;

    /// Else each hand-over on such a CPU would say that a lock is routed, or that a thread has lost its CPU.
    #[test]
    fn hints_of_cpus_are_not_those_of_the_process() {
        type Lock = AutoLock<Native, Published>;
        let of_process = [ANY, LOST].map(|word| ptr::from_ref(Lock::hint(0, word)));
        for rank in 0..1024 {
            let of_cpu = Lock::handed_on(rank).map(ptr::from_ref);
            assert!(!of_cpu.iter().any(|hint| of_process.contains(hint)), "CPU {rank}");
        }
    }
}
