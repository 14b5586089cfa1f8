//! How waiters look at the lock: the candidate, with pauses in between; a waiter behind it, to see whether the
//! candidate does; and one that has left the queue.

use super::lock::{AutoLock, Bounds, HELD};
use super::queue::{Node, Turn};
use crate::asymmetric::stand_back::{Busy, StandBack};
use crate::parameters::{spins, Setting};
use crate::IsHeld;
use lockswap_platform::{AtomicInt, Ns, Ordering, Platform};

/// The first pause of a candidate. Each is half as long again as the one before.
pub(super) const SHORTEST: u32 = 8;
/// The longest one.
pub(super) const LONGEST: u32 = 1024;
/// The longest one with one NUMA node; fewer than 256 of the shortest sections fit into it.
const LONGEST_OF_ONE_NODE: u32 = 128;
/// A waiter that asks whether the candidate looks at the lock looks at it so often itself meanwhile.
const SIGHTS: u32 = 16;
/// A candidate that lets others go first looks for the first time after this part of its batch.
const FIRST_OF_BATCH: Ns = 12;
/// A candidate looks for so many times as long at a time as a waiter in the queue.
pub(super) const LOOKS: u32 = 4;

impl<P: Platform, B: Bounds> AutoLock<P, B> {
    /// Lets the others have the lock for up to a batch, as the candidate, while they get it quickly after each other:
    /// a hand-over would take as long as several of their sections. It looks more and more seldom, since each look
    /// takes the lock's cache line away from them.
    ///
    /// Whether that pays is learnt. It does if they go on to the batch's end; it does not if they stop, for each other
    /// or for this thread, and the lock lies idle until the next look. Nor does it if they wait for other threads: this
    /// one may be who they wait for.
    pub(super) fn let_others_go_first(&self, since: Ns) {
        let batch = Setting::Defer.time::<P>(B::BATCH);
        let tries = if self.seat.is_brisk() { B::TRIES_IF_BRISK } else { B::TRIES };
        // The last digits of the time are as good as chance.
        let tries_now = || since.is_multiple_of(tries) && !self.seat.take_wait();
        if batch == 0 || !self.seat.has_batches() && !tries_now() {
            return;
        }
        // Relaxed: a hint, as in `turns_since`.
        let mut seen = self.turns.load(Ordering::Relaxed);
        let mut pause = batch / FIRST_OF_BATCH;
        loop {
            Busy::pause::<P>(pause);
            self.seat.answer();
            let goes_on = self.turns_since(&mut seen) > 0 && !self.seat.take_wait();
            if !goes_on || P::instant() >= since.saturating_add(batch) {
                return self.seat.note_batches(goes_on);
            }
            pause += pause / 2;
        }
    }

    /// Looks for a while whether the lock is free, and returns whether it has acquired it; from `insists` on without
    /// pauses.
    pub(super) fn watch(&self, insists: Ns) -> bool {
        let longest = Setting::Longest.number::<P>(LONGEST);
        let longest = if P::has_one_node() { longest.min(LONGEST_OF_ONE_NODE) } else { longest };
        let most = LOOKS.saturating_mul(spins::<P>());
        let mut pause = Setting::Shortest.number::<P>(SHORTEST).min(longest);
        let mut spent = 0_u32;
        // Relaxed: a hint, as in `turns_since`.
        let (mut before, mut seen) = (P::instant(), self.turns.load(Ordering::Relaxed));
        let outcome = P::spin_map_bounded(most, || {
            self.seat.answer();
            let now = P::instant();
            let insists = now > insists;
            if self.acquire_as_candidate() {
                return Some(true);
            }
            if spent >= most {
                return Some(false);
            }
            self.seat.note_brisk(self.turns_since(&mut seen), now.saturating_sub(before));
            before = now;
            if !insists {
                P::relax(pause);
                spent = spent.saturating_add(pause);
                pause = (pause + pause.div_ceil(2)).min(longest);
            }
            None
        });
        outcome == Some(true)
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

    /// Leaves the queue if the candidate does not look at the lock although that is free at times; how the wait has
    /// ended, if it has.
    pub(super) fn leave_queue(&self, me: &Node<P>) -> Option<Turn> {
        if self.seat.is_brisk() || !self.seat.ask() {
            return None;
        }
        let pause = spins::<P>().div_ceil(SIGHTS);
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
        match heard {
            Some(end) => end,
            None if free >= B::FREE && me.leave(&self.queue, &self.seat) => Some(Turn::Left),
            None => None,
        }
    }

    /// Looks for a while whether the lock is free, while the candidate does not.
    pub(super) fn barge(&self) -> bool {
        let mut left = LOOKS.saturating_mul(spins::<P>()).div_ceil(SHORTEST);
        let outcome = P::spin_map_bounded(left, || {
            if self.acquire_free() {
                return Some(true);
            }
            left = left.saturating_sub(1);
            if left == 0 {
                return Some(false);
            }
            P::relax(SHORTEST);
            None
        });
        outcome == Some(true)
    }
}
