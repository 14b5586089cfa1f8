//! RON, routing on network-on-chip (Lo, Lin, Hsieh, Lin, Fang, Lin, Huang, Lam, Chang, OSDI 2023, algorithm 1).
//!
//!   InUse:      FREE | IN_USE | WAITED | ROUTED
//!   WaitArray:  [0]->[1 waits]->[2 holder]->[3 waits]-> ... ->[N-1]->[0]     one element for each CPU, in TSP order
//!
//! A waiter sets the element of its CPU. The holder looks through WaitArray in TSP order, from the element where it
//! was granted the lock itself, and grants it to the first waiter that it finds; InUse stays as it is. If it finds
//! nobody, its own element last, it sets InUse free. A waiter watches its element and InUse. Space: a word, and one
//! for each CPU; the elements of CPUs that follow each other on the route share a cache line, as in the paper, or have
//! one each (`ron:per-line=1`): then a look at all of them takes longer, and a grant disturbs no other waiter.
//! Fairness: with one thread on each of N CPUs a waiter lets at most N - 1 others pass, each once, wherever holders
//! move meanwhile.
//!
//! Why nobody is lost: a waiter watches its element and InUse, and each release grants the lock to an element at which
//! somebody waits, or sets InUse free. Waiters leave an element only as holders, so that no grant comes too late.
//!
//! Why nobody is passed: no thread finds InUse free while there is a waiter that has seen it in use. For the holder
//! sets InUse to IN_USE before its last look through WaitArray, and to FREE only if it is IN_USE after that look. A
//! waiter sets its element first and looks at InUse then; if it finds IN_USE it makes it WAITED. So a waiter that has
//! looked at InUse before the holder wrote IN_USE had set its element before the last look, which finds it; and one
//! that has looked after that has changed InUse, and the holder looks again. (All four accesses are SeqCst: neither of
//! two threads that each write one word and then read the other's misses the other.) Hence such a waiter is granted
//! the lock in TSP order, and as each release goes on from where the one before has stopped, the lock comes to each
//! other element at most once before.
//!
//! Deviations:
//! - InUse is a flag in the paper, and each release looks through all of WaitArray. Here it also says whether that is
//!   worth while, so that the lock costs two exchanges while nobody waits; and a lock that is free is taken before the
//!   thread sets an element.
//! - The paper's release sets InUse free after one look: who begins to wait behind that look, but before InUse is
//!   free, can be passed by threads that come later, any number of times. Hence the second look.
//! - A thread's TSP_ID is read when it begins to wait, and not once in its life: threads need not stay on their CPUs.
//!   The element stays GRANTED while the thread holds the lock; thus the release finds where the lock is on its way.
//! - The paper's CPUs have one thread each. Here a thread that finds the element of its CPU taken waits for the
//!   element, or for InUse (the rule of section 7), and chance decides.

use super::{per_line, tsp_order, PerCpu, ROOM_FOR_FLAGS};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::Parameters;
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// | InUse  | holder                                   | waiters                                  |
/// |--------|------------------------------------------|------------------------------------------|
/// | FREE   | none                                     | none, or about to see this               |
/// | IN_USE | one that found the lock free             | none that has seen this                  |
/// | WAITED | one that found the lock free             | perhaps                                  |
/// | ROUTED | one that was granted the lock, or is now | perhaps                                  |
const FREE: u32 = 0;
const IN_USE: u32 = 1;
const WAITED: u32 = 2;
const ROUTED: u32 = 3;

/// What of the lock is WaitArray: algorithms 1 and 3 and section 7 differ in its elements. `lock` is the lock's
/// address, and an element has the number `TSP_ID * PER_CPU`, or one of the next ones.
pub trait WaitArray<P: Platform>: Send + Sync + 'static {
    /// The name of the lock with this array.
    const ID: &'static str;
    /// One line that says what the lock does.
    const SUMMARY: &'static str;
    /// Where it comes from.
    const PAPER: &'static str;
    /// What users may choose.
    const PARAMETERS: Parameters = Parameters::NONE;
    /// Elements of one CPU.
    const PER_CPU: usize = 1;

    /// Nobody waits.
    fn new() -> Self;
    /// Makes the calling thread wait at an element of this CPU, and returns its number; nothing if there is no room.
    /// SeqCst.
    fn enter(&self, lock: usize, tsp_id: usize) -> Option<usize>;
    /// Whether the lock has been granted to the calling thread, which then waits no more. Acquire.
    fn take_grant(&self, lock: usize, element: usize) -> bool;
    /// Ends the wait of a thread that found the lock free. Only the holder calls this.
    fn leave(&self, lock: usize, element: usize);
    /// Whether it was here that the holder was granted the lock; that is forgotten now. Only the holder calls this.
    fn forget_holder(&self, lock: usize, element: usize) -> bool;
    /// Whether a thread waits for the lock here. SeqCst.
    fn has_waiter(&self, lock: usize, element: usize) -> bool;
    /// Grants the lock to a thread that waits for it here; after that its memory may be gone. Only the holder calls
    /// this. Release.
    fn grant(&self, lock: usize, element: usize);
}

/// The lock, over its WaitArray.
#[repr(C)]
pub struct Routed<P: Platform, W> {
    in_use: P::U32,
    wait_array: W,
}

/// WaitArray has one flag for each CPU and lies in the lock.
pub type Ron<P> = Routed<P, Flags<P, ROOM_FOR_FLAGS>>;

impl<P: Platform, W: WaitArray<P>> Routed<P, W> {
    #[inline]
    fn take_free(&self) -> bool {
        // Relaxed: spares waiters an exchange that would fail and take the line from all others.
        // ORDER(hand-off): Acquire pairs with the Release of the exchanges that set FREE.
        self.in_use.try_change(FREE, IN_USE, Ordering::Acquire)
    }

    /// Takes the lock if it is free, or sees to it that the holder knows of a waiter. Each repetition means that the
    /// lock has changed hands.
    fn take_free_or_tell(&self) -> bool {
        loop {
            // ORDER(last look): SeqCst, as said above.
            match self.in_use.load(Ordering::SeqCst) {
                FREE if self.take_free() => return true,
                // Relaxed: tells nothing but itself; the holder looks through WaitArray after another SeqCst access.
                IN_USE if self.in_use.compare_exchange(IN_USE, WAITED, Ordering::Relaxed).is_ok() => return false,
                WAITED | ROUTED => return false,
                _ => {}
            }
        }
    }

    /// `spin_lock` of the paper, lines 10 to 16.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let (lock, tsp_id) = (P::address(self), P::rank() as usize);
        // Line 10, WaitArray[TSP_ID] = 1. While other threads of this CPU leave no room there, only InUse can help.
        let entered = P::spin_map(|| match self.wait_array.enter(lock, tsp_id) {
            Some(element) => Some(Some(element)),
            None => self.take_free().then_some(None),
        });
        let Some(element) = entered else { return };
        // Lines 11 to 16: granted, or free. This wait is one of its own, because it begins with spinning: the lock may
        // come to this thread while all others wait.
        P::spin_map(|| {
            if self.wait_array.take_grant(lock, element) {
                return Some(());
            }
            self.take_free_or_tell().then(|| self.wait_array.leave(lock, element))
        });
    }

    /// `spin_unlock` of the paper, lines 18 to 22, where somebody may wait.
    #[cold]
    #[inline(never)]
    fn hand_over(&self) {
        let (lock, here) = (P::address(self), P::rank() as usize);
        let elements = |tsp_id: usize| (0..W::PER_CPU).map(move |index| tsp_id * W::PER_CPU + index);
        // Relaxed: written by waiters, whom the looks below find, and by holders.
        let mut in_use = self.in_use.load(Ordering::Relaxed);
        // The lock goes on from where its holder was granted it: nearly always the CPU that the holder is still on.
        let holders = |tsp_id: &usize| elements(*tsp_id).any(|element| self.wait_array.forget_holder(lock, element));
        let at = if in_use == ROUTED { tsp_order::<P>(here).find(holders).unwrap_or(here) } else { here };
        loop {
            // Lines 18 to 21: the next waiter in TSP order.
            let mut elements = tsp_order::<P>(at + 1).flat_map(elements);
            if let Some(next) = elements.find(|element| self.wait_array.has_waiter(lock, *element)) {
                if in_use != ROUTED {
                    // Relaxed: published by the grant. That waiters may write WAITED meanwhile does not matter.
                    self.in_use.store(ROUTED, Ordering::Relaxed);
                }
                return self.wait_array.grant(lock, next);
            }
            // Line 22, InUse = false, if that was the last look.
            // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section,
            // and keeps the look before the end of the lock's memory.
            // LAST: the lock may be destroyed after this exchange.
            if in_use == IN_USE && self.in_use.compare_exchange(IN_USE, FREE, Ordering::Release).is_ok() {
                return;
            }
            // Now comes the last look.
            // ORDER(last look): SeqCst, as said above. A store would do, but in qemu-user on x86-64 SeqCst loads
            // overtake it.
            self.in_use.swap(IN_USE, Ordering::SeqCst);
            in_use = IN_USE;
        }
    }
}

// SAFETY: the holder grants the lock to one waiter, or sets InUse free for one exchange to find; an element is granted
// the lock only while a thread waits there, which cannot acquire otherwise meanwhile, because InUse is not FREE.
unsafe impl<P: Platform, W: WaitArray<P>> RawLock<P> for Routed<P, W> {
    const INFO: LockInfo = LockInfo {
        id: W::ID,
        family: Family::Routed,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: W::SUMMARY,
        paper: W::PAPER,
        asks: Asks::ROUTE,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = W::PARAMETERS;
    type Ctx = ();

    fn new() -> Self {
        Routed { in_use: P::U32::new(FREE), wait_array: W::new() }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.take_free() {
            self.wait();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: spares holders an exchange that would fail.
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        if self.in_use.load(Ordering::Relaxed) != IN_USE
            || self.in_use.compare_exchange(IN_USE, FREE, Ordering::Release).is_err()
        {
            self.hand_over();
        }
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform, W: WaitArray<P>> TryLock<P> for Routed<P, W> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.take_free()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, W: WaitArray<P>> TimedLock<P> for Routed<P, W> {}

impl<P: Platform, W> IsHeld for Routed<P, W> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.in_use.load(Ordering::Relaxed) != FREE
    }
}

/// | element | meaning                   | next value, and who writes it                                 |
/// |---------|---------------------------|---------------------------------------------------------------|
/// | EMPTY   | nobody waits here         | WAITING: a thread that begins to wait                         |
/// | WAITING | one thread waits here     | GRANTED: the holder; EMPTY: the waiter, having found FREE     |
/// | GRANTED | that thread is the holder | EMPTY: whoever releases the lock                              |
const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const GRANTED: u32 = 2;

/// The WaitArray of algorithm 1.
#[repr(C)]
pub struct Flags<P: Platform, const N: usize>(PerCpu<P::U32, N>);

impl<P: Platform, const N: usize> WaitArray<P> for Flags<P, N> {
    const ID: &'static str = "ron";
    const SUMMARY: &'static str = "the lock travels along a route through the CPUs, one waiter per CPU";
    const PAPER: &'static str = "Lo et al.: OSDI 2023, alg. 1";
    const PARAMETERS: Parameters = Parameters { own: &[per_line::<u32>()], inside: &[] };

    fn new() -> Self {
        Flags(PerCpu::new(|| P::U32::new(EMPTY)))
    }

    fn enter(&self, _: usize, tsp_id: usize) -> Option<usize> {
        let flag = self.0.at::<P>(tsp_id);
        // ORDER(last look): SeqCst, as said at the top of this file.
        let entered = flag.try_change(EMPTY, WAITING, Ordering::SeqCst);
        entered.then_some(tsp_id)
    }

    fn take_grant(&self, _: usize, element: usize) -> bool {
        // ORDER(grant): Acquire pairs with the Release in `grant`.
        self.0.at::<P>(element).load(Ordering::Acquire) == GRANTED
    }

    fn leave(&self, _: usize, element: usize) {
        // Relaxed: an empty element carries no data, and the next holder has synchronised with this one, so that it
        // does not take what was there before for a waiter.
        self.0.at::<P>(element).store(EMPTY, Ordering::Relaxed);
    }

    fn forget_holder(&self, lock: usize, element: usize) -> bool {
        // Relaxed: written by a holder.
        let is_here = self.0.at::<P>(element).load(Ordering::Relaxed) == GRANTED;
        if is_here {
            self.leave(lock, element);
        }
        is_here
    }

    fn has_waiter(&self, _: usize, element: usize) -> bool {
        // ORDER(last look): SeqCst, as said at the top of this file.
        self.0.at::<P>(element).load(Ordering::SeqCst) == WAITING
    }

    fn grant(&self, _: usize, element: usize) {
        // ORDER(grant): Release pairs with the Acquire in `take_grant`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.0.at::<P>(element).store(GRANTED, Ordering::Release);
    }
}
