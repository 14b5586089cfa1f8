//! How waiters look at the lock: the candidate, with pauses in between; a waiter behind it, to see whether the
//! candidate does; and one that has left the queue.

use super::bounds::Bounds;
use super::lock::{AutoLock, HELD};
use super::queue::{Node, Turn};
use crate::asymmetric::stand_back::{Busy, StandBack};
use crate::parameters::Setting;
use crate::IsHeld;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ns, Ordering, Platform};

/// The first pause of a candidate. Each is half as long again as the one before.
pub(super) const SHORTEST: u32 = 8;
/// The longest one.
pub(super) const LONGEST: u32 = 1024;
/// The longest one with one NUMA node; fewer than 256 of the shortest sections fit into it.
const LONGEST_OF_ONE_NODE: u32 = 128;
/// A waiter that asks whether the candidate looks at the lock looks at it so often itself meanwhile.
const SIGHTS: u32 = 16;
/// A candidate that lets others go first looks so often meanwhile whether they do, or more often.
const LOOKS_IN_BATCH: Ns = 8;
/// The longest time between two of these looks, ns; fewer than 256 of the shortest sections fit into it.
const LOOK_IN_BATCH: Ns = 1_400;
/// With one NUMA node, where a hand-over costs less, it does so for no longer unless it is told to, ns.
const BATCH_OF_ONE_NODE: Ns = 10_000;
/// A newcomer looks at the lock so often before it queues, if nobody does.
const SOON: u32 = 16;
/// With one NUMA node, where threads wait for conditions, a newcomer lets others go first before that for so many looks
/// at most.
const LOOKS_AMONG_WAITS: u32 = 16;
/// The time between two of these looks, ns.
const LOOK_AMONG_WAITS: Ns = 50;
/// As long as there are so many acquisitions or more from one look to the next one.
const RUN: u8 = 2;
/// A thread that has had the CPU for so long at a time, ns, makes use of it: another waiter gives it back sooner.
const USED: Ns = 50_000;
/// A candidate looks for so many times as long at a time as a waiter in the queue.
const LOOKS: u32 = 10;
/// With few CPUs it does so for fewer times: it keeps one from those that have work to do between critical sections.
const LOOKS_OF_FEW_CPUS: u32 = 5;
/// From so many CPUs on they are not few.
pub(super) const MANY_CPUS: u32 = 8;
/// Of the times that a waiter in the queue may spin once more, a candidate has one of so many.
const AGAIN_OF_QUEUE: u32 = 4;
/// With few CPUs it has fewer: one that looks in vain for so long had better sleep.
const AGAIN_OF_FEW_CPUS: u32 = 8;

/// What a candidate's looks at the lock have ended with.
pub(super) enum Watched {
    /// It has acquired the lock. So many acquisitions there have been meanwhile, with its own; it took so long, ns; and
    /// whether it had to insist.
    Acquired { turns: u32, took: Ns, insisted: bool },
    /// Others have, again and again.
    Passed,
    /// Neither.
    InVain,
}

impl<P: Platform, B: Bounds> AutoLock<P, B> {
    /// So many looks of a waiter take as long as it spins at a time.
    pub(super) fn spins() -> u32 {
        P::rounds(Setting::SpinTime.time::<P>(B::SPIN))
    }

    /// So many looks of a candidate take as long as it looks at a time.
    fn looks() -> u32 {
        let times = if P::ranks() < MANY_CPUS { LOOKS_OF_FEW_CPUS } else { LOOKS };
        times.saturating_mul(Self::spins())
    }

    /// So often a candidate may look once more for as long.
    pub(super) fn again() -> u32 {
        let part = if P::ranks() < MANY_CPUS { AGAIN_OF_FEW_CPUS } else { AGAIN_OF_QUEUE };
        Setting::Again.number::<P>(B::AGAIN).div_ceil(part)
    }

    /// Looks for a moment whether the lock becomes free, if nobody queues. Not where a hand-over costs more than it.
    pub(super) fn acquire_soon(&self) -> bool {
        if self.has_batches() {
            return false;
        }
        if self.is_among_waits() && !self.has_frequent_waits() {
            self.let_some_go_first();
        }
        let outcome = P::spin_map_bounded(SOON, || {
            // Relaxed: a hint.
            if !self.queue.load(Ordering::Relaxed).is_null() {
                return Some(false);
            }
            self.acquire_free().then_some(true)
        });
        let acquired = outcome == Some(true);
        if acquired {
            self.note_pace();
        }
        acquired
    }

    /// Whether threads wait for conditions, on a machine where that changes how waiters look at the lock: with several
    /// NUMA nodes nobody has measured what is better.
    fn is_among_waits(&self) -> bool {
        P::has_one_node() && self.seat.has_waits()
    }

    /// Lets others have the lock for a moment, while acquisitions follow each other without a hand-over: a thread that
    /// puts items into a queue puts in as many as that holds, where it would have to wait for the lock's line after
    /// each. Not where threads wait after each operation or two, as in a ping-pong: there nobody goes on.
    fn let_some_go_first(&self) {
        // Relaxed: a hint, as in `turns_since`.
        let mut seen = self.turns.load(Ordering::Relaxed);
        P::spin_map_bounded(LOOKS_AMONG_WAITS, || {
            Busy::pause::<P>(LOOK_AMONG_WAITS);
            (self.turns_since(&mut seen) < RUN).then_some(())
        });
    }

    /// Notes how quickly acquisitions follow each other, as a thread that has found the lock held.
    pub(super) fn note_pace(&self) {
        // Relaxed: a hint, as in `turns_since`.
        let turns = self.turns.load(Ordering::Relaxed);
        if self.seat.has_new_parts(turns) {
            let now = P::instant();
            // The last digits of the time are as good as chance.
            self.seat.note_parts(turns, now, now.is_multiple_of(B::TRIES));
        }
    }

    /// Whether candidates let others go first at present.
    pub(super) fn has_batches(&self) -> bool {
        (B::ALWAYS || self.seat.has_batches()) && Self::batch() > 0
    }

    /// How long a candidate lets others go first at most, ns.
    fn batch() -> Ns {
        let longest = if P::has_one_node() { BATCH_OF_ONE_NODE } else { Ns::MAX };
        Setting::Defer.time::<P>(B::BATCH.min(longest))
    }

    /// Lets the others have the lock for up to a batch, as the candidate, while they get it quickly after each other,
    /// if that has made acquisitions more frequent: a hand-over may take as long as several sections. It looks seldom,
    /// since each look takes the lock's cache line away from them, but before the count of acquisitions begins anew.
    ///
    /// It ends batches if others wait for other threads: this one may be who they wait for. And if it finds, in a
    /// trial or like the candidate before it, that nobody has made use of the lock: then that lies idle for nothing.
    pub(super) fn let_others_go_first(&self, since: Ns) {
        if !self.has_batches() {
            return;
        }
        // Relaxed: a hint, as in `turns_since`.
        let (mut seen, mut in_vain) = (self.turns.load(Ordering::Relaxed), true);
        loop {
            let is_idle = self.pause_in_batch(&mut seen);
            self.note_pace();
            let now = P::instant();
            in_vain &= is_idle;
            if self.seat.has_waits() {
                return self.seat.end_batches();
            }
            if is_idle || now >= since.saturating_add(Self::batch()) || !self.has_batches() {
                return self.seat.note_batch(in_vain);
            }
        }
    }

    /// Pauses until the next look in a batch, as the candidate; whether nobody has had the lock meanwhile.
    fn pause_in_batch(&self, seen: &mut u8) -> bool {
        Busy::pause::<P>((Self::batch() / LOOKS_IN_BATCH).min(LOOK_IN_BATCH));
        self.seat.answer();
        self.turns_since(seen) == 0
    }

    /// Sleeps for a while, as a candidate that others pass.
    pub(super) fn nap(&self) {
        P::sleep(Self::nap_time());
        // Relaxed: a hint, as in `turns_since`.
        self.seat.note_nap(self.turns.load(Ordering::Relaxed), P::instant());
    }

    /// Whether somebody waits for the candidate, behind it, or for a condition, which it might be about to bring about.
    fn is_needed(&self, me: &Node<P>) -> bool {
        if self.seat.has_waits() {
            return true;
        }
        let hints = self.seat.stand_up();
        let is_needed = me.has_awake_behind();
        self.seat.sit_down(hints);
        is_needed
    }

    fn nap_time() -> Ns {
        if P::has_one_node() {
            Setting::Nap.time::<P>(B::NAP)
        } else {
            0
        }
    }

    /// Looks for a while whether the lock is free, as the candidate; from `insists` on without pauses. Before that it
    /// stops where others pass it again and again, and nobody needs it.
    pub(super) fn watch(&self, me: &Node<P>, insists: Ns) -> Watched {
        let naps = Self::nap_time() > 0;
        let longest = Setting::Longest.number::<P>(LONGEST);
        let longest = if P::has_one_node() { longest.min(LONGEST_OF_ONE_NODE) } else { longest };
        let most = Self::looks();
        let mut pause = Setting::Shortest.number::<P>(SHORTEST).min(longest);
        // Others may wait for what this one is to bring about.
        let longest = if self.is_among_waits() { pause } else { longest };
        let mut spent = 0_u32;
        // Relaxed: a hint, as in `turns_since`.
        let (mut before, mut seen) = (P::instant(), self.turns.load(Ordering::Relaxed));
        let (began, mut turns) = (before, 0_u32);
        if self.wait_on_route(Self::acquire_as_candidate) {
            return Watched::Acquired { turns: 1, took: P::instant().saturating_sub(began), insisted: false };
        }
        let outcome = P::spin_map_bounded(most, || {
            self.seat.answer();
            let now = P::instant();
            let insists = now > insists;
            let acquired = self.acquire_as_candidate();
            let new = self.turns_since(&mut seen);
            turns += u32::from(new);
            if acquired {
                return Some(Watched::Acquired { turns, took: now.saturating_sub(began), insisted: insists });
            }
            if naps && !insists && turns >= B::PASSED && !self.is_needed(me) {
                return Some(Watched::Passed);
            }
            if spent >= most {
                return Some(Watched::InVain);
            }
            self.seat.note_brisk(new, now.saturating_sub(before));
            before = now;
            if !insists {
                P::relax(pause);
                spent = spent.saturating_add(pause);
                pause = (pause + pause.div_ceil(2)).min(longest);
            }
            None
        });
        outcome.unwrap_or(Watched::InVain)
    }

    fn acquire_as_candidate(&self) -> bool {
        // Relaxed: the exchange decides.
        let held = self.held.load(Ordering::Relaxed);
        // ORDER(hand-off): as in `acquire_free`. CLAIMED is this candidate's.
        let acquired = held & HELD == 0 && self.held.compare_exchange(held, HELD, Ordering::Acquire).is_ok();
        if acquired {
            self.count();
        }
        acquired
    }

    /// How many acquisitions there have been since the last look.
    fn turns_since(&self, seen: &mut u8) -> u8 {
        // Relaxed: a hint.
        let turns = self.turns.load(Ordering::Relaxed);
        turns.wrapping_sub(core::mem::replace(seen, turns))
    }

    /// Gives way to other threads on this CPU, and returns whether the waiter goes on spinning then: if nobody has
    /// made use of the CPU, so that nobody would be served by its sleep. Else two waiters that share a CPU give way to
    /// each other and then sleep both. Where the lock is brisk it makes room for whoever it is.
    pub(super) fn goes_on(&self, again: &mut u32) -> bool {
        if *again == 0 {
            return false;
        }
        *again -= 1;
        let others = P::give_way();
        if others >= USED {
            Self::note_crowd();
        }
        others == 0 || others < USED && !self.seat.is_brisk()
    }

    /// Whether a waiter asks the candidate for a sign this time. With several NUMA nodes many may wait, and a line that
    /// comes from another node is on its way for long; one of many is enough there.
    pub(super) fn asks_now() -> bool {
        // The last digits of the time are as good as chance.
        P::has_one_node() || P::instant().is_multiple_of(B::ASKS)
    }

    /// Leaves the queue if the candidate does not look at the lock although that is free at times; how the wait has
    /// ended, if it has. Where the lock is brisk, only if nobody makes use of it, and the candidate may be asleep.
    pub(super) fn leave_queue(&self, me: &Node<P>) -> Option<Turn> {
        let is_brisk = self.seat.is_brisk();
        if is_brisk && Self::nap_time() == 0 || !self.seat.ask() {
            return None;
        }
        // Relaxed: a hint, as in `turns_since`.
        let mut seen = self.turns.load(Ordering::Relaxed);
        let pause = Self::spins().div_ceil(SIGHTS);
        let mut free = 0;
        let heard = P::spin_map_bounded(SIGHTS, || {
            if let Some(turn) = me.answered() {
                return Some(Some(turn));
            }
            if !self.seat.is_unanswered() {
                return Some(None);
            }
            free += u32::from(!self.is_held());
            P::relax(pause);
            None
        });
        let is_idle = !is_brisk || self.turns_since(&mut seen) == 0;
        match heard {
            Some(end) => end,
            None if free >= B::FREE && is_idle && me.leave(&self.queue, &self.seat) => Some(Turn::Left),
            None => None,
        }
    }

    /// Looks whether the lock is free, without pauses, for as long as a waiter spins at a time: the candidate has no
    /// CPU, so that hardly anybody else is there to take it.
    pub(super) fn barge(&self) -> bool {
        P::spin_map_bounded(Self::spins(), || self.acquire_free().then_some(())).is_some()
    }
}
