//! Auto: a byte that running threads may take, one waiter that competes with them, a queue behind it,
//! and waiters that sleep until they are called.
//!
//!   held: FREE | HELD                     the lock proper: whoever exchanges it holds the lock
//!   queue -----------------------------+
//!   [A candidate]->[B]->[C]            an MCS queue; its head alone competes for `held`, the others spin for a while
//!                    \ sleepers: [S]->[T]->[U]     those that have gone to sleep; the candidate has the list
//!
//! A newcomer takes a free lock at once. Else it joins the queue, whose head is the *candidate*: it looks whether the
//! lock is free, with pauses in between that get longer, so that the holder can have some short sections undisturbed
//! in its cache. When the candidate has the lock, it makes the next waiter that does not sleep the candidate; those
//! that do are set aside. If all sleep, the queue is left empty: whoever finds the lock held meanwhile becomes the
//! candidate and gets the sleepers, and only if nobody does, the holder wakes one as it releases. The one that wakes
//! queues again. So few threads circulate when there are more than the lock, or the CPUs, can serve (Dice: EuroSys
//! 2017), nobody waits for a thread to wake up, and a wake-up takes no time of a critical section. For fairness a new
//! candidate changes places with a sleeper every `TURN` or more seldom ([`Sleepers`] says with which), so that no more
//! threads circulate, unless its own CPU would lie idle for that; one that has waited for `GRACE` pauses no more, and
//! claims the lock as it goes to sleep: then no newcomer may take it.
//!
//! Where threads get the lock quickly after each other, a hand-over may take as long as several sections. So, if that
//! brings more acquisitions (`batches.rs`), the candidate does not compete for up to `BATCH` while others go on like
//! that and none waits for a condition, which the candidate might be about to bring about. Else a newcomer looks at the
//! lock a few times before it queues, if nobody does. Where threads wait for conditions, with one NUMA node, it first
//! leaves the lock to others for a moment, while they get it one after the other, and the candidate's pauses do not get
//! longer; the former only if such waits are rare (`waits.rs`).
//!
//! The holder may need the lock again and again, so that it is free only for moments. Then candidates look in vain. One
//! that others have passed `PASSED` times sleeps for `NAP`, with one NUMA node, and then insists. If `RESIGN` of them in
//! a row have insisted without such a sleep, the next ones *resign*: they sleep for `GRACE`, and then claim the lock,
//! asleep; until one finds it free as it wakes up.
//!
//! Whoever has spun for a while, `SPIN`, would better have slept if another thread wants its CPU, the holder maybe,
//! and would better go on if none does. So it gives way to others first; only if they have made use of the CPU, or
//! after `AGAIN` rounds, it sleeps. Another waiter, which gives way itself, has not.
//!
//! A candidate may lose its CPU for milliseconds, and those behind it with it. So a waiter asks it for a sign before
//! it goes to sleep ([`Seat`]). If there is none, though the lock is free at times, the waiter leaves the queue, and
//! competes for the lock like a newcomer; newcomers then do the same, until the candidate is back. But where threads
//! get the lock quickly after each other, it serves them best if others stay away from it.
//!
//! Where many threads wait and each acquisition is a hand-over, the lock is passed from CPU to CPU along the route, and
//! the candidate gets it once in a round (`route.rs`).
//!
//! In an epoch, a part of the program that has a latency target, a thread on a little core stands back for big ones
//! before it does any of that, for as long as the target allows (LibASL).
//!
//! **A release is one plain store**, although waiters sleep: [`Platform::store_unless`] frees the lock unless `alert`
//! says that somebody must be looked after, and its last access is that store, because the lock's memory may be gone
//! then.
//!
//! | alert   | set by                                    | the holder, before it releases ...                  | cleared by |
//! |---------|-------------------------------------------|-----------------------------------------------------|------------|
//! | CAREFUL | a candidate that is about to sleep, before it calls [`Platform::settle`] | exchanges `held`, which tells whether to wake it | a holder that has the seat, after `CALM` releases that found nobody asleep |
//! | LOOK    | the holder that has left the queue empty  | calls a sleeper, if the queue is still empty        | that release |
//! | ROUTED  | a candidate that has acquired the lock    | hands it on along the route, if anybody waits there | [`super::route`] says when |
//!
//! No wake-up is lost. *The candidate* sees to it that CAREFUL is set, then settles: a release that was under way has
//! stored, and the candidate finds the lock free; every later one exchanges `held`, and finds ASLEEP there, or comes
//! before it is written, and then the candidate cannot write it. CAREFUL is cleared by a thread that has the
//! candidate's place, the *seat*, so that nobody is about to sleep. *Waiters in the queue*: there is a candidate, and
//! it makes the next one the candidate; one that leaves the queue is awake. *Sleepers*: somebody has them, the
//! candidate, a thread that has been called, which queues therefore whatever the candidate does, or the queue word,
//! and then the lock is held with LOOK. While the lock is passed along the route, it stays held, with LOOK if it was;
//! a release that does not pass it on follows in the same round if there are sleepers and no candidate, or if that
//! sleeps. `route.rs` says why nobody who waits there is lost.
//!
//! Fairness: long-term. Space: two words, and two tables of the process. Hand-off: the candidate sees the lock free, or
//! the holder writes into the element of a CPU.
//!
//! Not published. The parts are: test-and-set in front of a queue (fissile locks, Dice, Kogan: NETYS 2020), a head
//! that competes, and waiters of one NUMA node brought together (ShflLock, Kashyap et al.: SOSP 2019), waiters set
//! aside (Malthusian locks, Dice: EuroSys 2017), a route through the CPUs (RON, Lo et al.: OSDI 2023), asymmetric
//! fences (Linux' membarrier and restartable sequences), and little cores that stand back (LibASL, Liu et al.: PPoPP
//! 2022).

use super::bounds::{Bounds, Published, PARAMETERS};
use super::looks::{Watched, MANY_CPUS};
use super::queue::{Node, Turn};
use super::seat::{Hints, Seat};
use super::sleepers::Sleepers;
use crate::asymmetric::stand_back::{stand_back, BusyThenAsleep};
use crate::info::{Asks, ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Parameters, Setting};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, CoreKind, Ns, Ordering, Platform};

/// | held           | lock | candidate                          | who may take it    |
/// |----------------|------|------------------------------------|--------------------|
/// | FREE           | free | none, or awake, or being woken     | everybody          |
/// | HELD           | held | none, or awake, or being woken     | nobody             |
/// | + ASLEEP       | held | sleeps, or is about to             | nobody             |
/// | + CLAIMED      | held | the same, and has waited for long  | nobody             |
/// | CLAIMED        | free | being woken                        | the candidate      |
pub(super) const FREE: u8 = 0;
pub(super) const HELD: u8 = 1;
pub(super) const ASLEEP: u8 = 2;
pub(super) const CLAIMED: u8 = 4;

/// Bits of `alert`, see above.
pub(super) const CAREFUL: u8 = 1;
pub(super) const LOOK: u8 = 2;
pub(super) const ROUTED: u8 = 4;

/// A bit of the queue word: the queue is empty, and this is the first of the sleepers that a candidate has left.
const LEFT: usize = 1;

/// The lock.
#[repr(C)]
pub struct AutoLock<P: Platform, B> {
    pub(super) held: P::U8,
    pub(super) alert: P::U8,
    /// With CAREFUL the careful releases in a row that found nobody asleep; else how often threads wait for conditions
    /// ([`super::waits`]). The holder's, but for the candidate that sets CAREFUL.
    pub(super) calm: P::U8,
    /// Acquisitions, modulo 256. The holder's.
    pub(super) turns: P::U8,
    pub(super) seat: Seat<P>,
    /// The last waiter of the queue, null, or with the bit LEFT the first sleeper.
    pub(super) queue: P::Ptr<Node<P>>,
    bounds: PhantomData<B>,
}

/// The lock as it is used.
pub type Auto<P> = AutoLock<P, Published>;

/// The queue word of an empty queue.
fn left<P: Platform>(first_sleeper: *mut Node<P>) -> *mut Node<P> {
    if first_sleeper.is_null() {
        return null_mut();
    }
    first_sleeper.map_addr(|address| address | LEFT)
}

/// The sleepers of an empty queue; nothing if it is not empty, or if there are none.
pub(super) fn sleepers_left<P: Platform>(queue: *mut Node<P>) -> Option<*mut Node<P>> {
    (queue.addr() & LEFT != 0).then(|| queue.map_addr(|address| address & !LEFT))
}

impl<P: Platform, B: Bounds> AutoLock<P, B> {
    #[inline(always)]
    pub(super) fn acquire_free(&self) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release of a release.
        let acquired = self.held.try_change(FREE, HELD, Ordering::Acquire);
        if acquired {
            self.count();
        }
        acquired
    }

    /// Counts an acquisition, as the holder.
    #[inline(always)]
    pub(super) fn count(&self) {
        // Relaxed, both: the holder's; candidates take it as a hint.
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        // Where some lock is routed the caller has not tried: it would take the line away for nothing. To look there
        // would cost all other acquisitions a stack frame.
        if Self::any_is_routed() && !self.is_held() && self.acquire_free() {
            return;
        }
        if self.lets_big_cores_pass() && self.acquire_free() {
            return;
        }
        if self.acquire_on_route() || self.acquire_soon() {
            return;
        }
        let since = P::instant();
        let (mut sleepers, mut was_called) = (Sleepers::NONE, false);
        // Whether it tries to do without the queue, and how often it has.
        let (mut barges, mut barged) = (self.seat.is_left_alone() && !self.seat.is_brisk(), 0);
        loop {
            if barges {
                barged += 1;
                if self.barge() {
                    return;
                }
            }
            let node = Node::<P>::new(since, was_called);
            // ORDER(enqueue): Release publishes the node to its successor, whose swap acquires it.
            // ORDER(seat): Acquire pairs with the Release of who left the queue empty; passes on the sleepers.
            let before = self.queue.swap(node.address(), Ordering::AcqRel);
            let mut turn = Turn::Seat;
            if let Some(first) = sleepers_left(before) {
                // SAFETY: left with the queue, whose head is this thread now.
                sleepers.append(unsafe { Sleepers::beginning_with(first) });
            } else if !before.is_null() {
                // Who has brought sleepers along passes them on, and must become the candidate for that.
                let may_leave = barged < B::BARGES && sleepers.are_none();
                // To ask takes the lock's line away from those who need it, and so becomes rare.
                let mut rounds = 0_u32;
                let unanswered = || {
                    rounds += 1;
                    if may_leave && rounds.is_power_of_two() && Self::asks_now() {
                        self.leave_queue(&node)
                    } else {
                        None
                    }
                };
                let mut again = Setting::Again.number::<P>(B::AGAIN);
                let goes_on = || self.goes_on(&mut again);
                // SAFETY: it waits for its `next` before it leaves the queue.
                let (end, given) = unsafe { node.wait_behind(before, Self::spins(), goes_on, unanswered) };
                sleepers.append(given);
                turn = end;
            }
            while let Turn::Seat = turn {
                let Some((end, given)) = self.compete(&node, core::mem::replace(&mut sleepers, Sleepers::NONE)) else {
                    return;
                };
                sleepers.append(given);
                turn = end;
            }
            barges = matches!(turn, Turn::Left);
            was_called |= matches!(turn, Turn::Called);
        }
    }

    /// Stands back if that is what threads do on this CPU in an epoch, and returns whether it has done so.
    fn lets_big_cores_pass(&self) -> bool {
        if P::kind() == CoreKind::Big {
            return false;
        }
        let window = P::epoch_window();
        if window > 0 {
            stand_back::<P, BusyThenAsleep>(window, None, || self.is_held());
        }
        window > 0
    }

    /// Whether the candidate keeps its place as it calls a sleeper, because that sleeps on another one of few CPUs: if
    /// the caller slept, its own would have nothing to do while the sleeper waits for the other one, often for a time
    /// slice. Not where the lock is brisk: there one CPU is as good as two; nor where threads wait for conditions.
    fn keeps_seat(&self, heir: *mut Node<P>) -> bool {
        let few_cpus = P::ranks() < MANY_CPUS && P::has_one_node();
        // SAFETY: it waits until it is answered.
        let is_elsewhere = || few_cpus && unsafe { &*heir }.place() != P::cpu();
        B::KEEPS_SEAT || is_elsewhere() && !self.seat.is_brisk() && !self.seat.has_waits()
    }

    /// Acquires the lock as the candidate, and lets another waiter take that place; or changes places with a sleeper
    /// whose turn it is, and returns what has become of that.
    fn compete(&self, me: &Node<P>, mut sleepers: Sleepers<P>) -> Option<(Turn, Sleepers<P>)> {
        let since = P::instant();
        let near = Setting::Near.number::<P>(B::NEAR);
        let prefers_neighbours = near > 0 && !P::has_one_node();
        let grace = Setting::Grace.time::<P>(B::GRACE);
        let least = Setting::Promote.time::<P>(B::TURN);
        let place = sleepers.preferred_place();
        let mut heir = if me.stays() { None } else { sleepers.in_turn(since, least, near, place) };
        if let Some(called) = heir.take_if(|heir| self.keeps_seat(*heir)) {
            sleepers.call_alone(called, since).wake();
        }
        if heir.is_some() || prefers_neighbours {
            let hints = self.seat.stand_up();
            if let Some(heir) = heir {
                me.change_places(heir, sleepers, &self.queue, &self.seat, hints).wake();
                return Some(me.wait_aside());
            }
            me.prefer_neighbour(near, since.saturating_sub(grace));
            self.seat.sit_down(hints);
        }
        self.let_others_go_first(since);
        let resigns = sleepers.insisted >= Setting::Resign.number::<P>(B::RESIGN);
        let in_vain = !resigns || self.resign(grace);
        let mut again = Self::again();
        let (mut insists, mut has_napped) = (since.saturating_add(grace), false);
        let (turns, took, insisted) = loop {
            match self.watch(me, insists) {
                Watched::Acquired { turns, took, insisted } => break (turns, took, insisted),
                Watched::Passed => {
                    self.nap();
                    (insists, has_napped) = (0, true);
                }
                Watched::InVain if !has_napped && self.goes_on(&mut again) => {}
                Watched::InVain => self.sleep(P::instant().saturating_sub(since) >= grace),
            }
        };
        sleepers.note_candidate(insisted && in_vain && !has_napped);
        self.note_pace();
        let hints = self.seat.stand_up().after(turns, took);
        self.calm_down();
        self.begin_route(me, turns);
        self.leave_seat(me, sleepers, hints);
        None
    }

    /// Makes another waiter the candidate, or leaves the queue empty. The caller holds the lock.
    pub(super) fn leave_seat(&self, me: &Node<P>, sleepers: Sleepers<P>, hints: Hints) {
        let heir = me.pass_on(&self.queue, sleepers, |first| {
            if !first.is_null() {
                // Relaxed, like the looks of the holder at its own bit.
                self.alert.fetch_or(LOOK, Ordering::Relaxed);
            }
            left(first)
        });
        self.seat.leave(hints, !heir.is_somebody());
        heir.wake();
    }

    /// Leaves the lock alone for `grace`, as the candidate, and then claims it, unless it is free. Whether it was not.
    fn resign(&self, grace: Ns) -> bool {
        P::sleep(grace);
        let is_held = self.is_held();
        if is_held {
            self.sleep(true);
        }
        is_held
    }

    /// Sleeps until the lock is released, and claims it or not.
    fn sleep(&self, claims: bool) {
        // Relaxed: a thread that had this place before, and cleared the bit, passed it on with the seat.
        if !self.is_careful() {
            self.calm.store(0, Ordering::Relaxed);
            self.alert.fetch_or(CAREFUL, Ordering::Relaxed);
            // From here on no release overwrites what this thread writes into `held`.
            P::settle();
        }
        let asleep = if claims { HELD | ASLEEP | CLAIMED } else { HELD | ASLEEP };
        self.seat.lie_down();
        // ORDER(asleep): Release pairs with the Acquire in `release_carefully`: its call comes after our lying down.
        if self.held.compare_exchange(HELD, asleep, Ordering::Release).is_err() {
            return self.seat.get_up();
        }
        // Relaxed: `watch` acquires.
        self.seat.sleep();
    }
}

// SAFETY: only an exchange that finds a byte without HELD acquires; only the holder removes HELD.
unsafe impl<P: Platform, B: Bounds> RawLock<P> for AutoLock<P, B> {
    const INFO: LockInfo = LockInfo {
        id: "auto",
        family: Family::Auto,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "few threads compete, the others sleep until they are called; a release is a plain store",
        paper: "none: ours",
        asks: Asks::LOCALITY.and(Asks::KNOWN_ROUTE).and(Asks::EPOCH_ONLY),
        by_priority: ByPriority::Barging,
        keeps_up: true,
    };
    const PARAMETERS: Parameters = Parameters { own: &PARAMETERS, inside: &[] };
    type Ctx = ();

    fn new() -> Self {
        AutoLock {
            held: P::U8::new(FREE),
            alert: P::U8::new(if B::ROUTED { ROUTED } else { 0 }),
            calm: P::U8::new(0),
            turns: P::U8::new(0),
            seat: Seat::new(),
            queue: P::Ptr::new(null_mut()),
            bounds: PhantomData,
        }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): as in `acquire_free`.
        if !Self::any_is_routed() && self.held.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok() {
            self.count();
        } else {
            self.lock_contended();
        }
    }

    #[inline(always)]
    unsafe fn unlock_alone(&self, (): &()) -> bool {
        // LAST: the lock may be destroyed after either.
        self.store_alone() || self.exchange_alone()
    }

    #[inline]
    unsafe fn hand_over(&self, (): &()) {
        self.unlock_contended();
    }

    #[inline]
    unsafe fn unlock_to_wait(&self, (): &()) {
        self.note_wait();
        // SAFETY: the caller's contract is that of `unlock`.
        unsafe { self.unlock(&()) };
    }
}

// SAFETY: acquires only from FREE. A claimed lock is one that the candidate is acquiring.
unsafe impl<P: Platform, B: Bounds> TryLock<P> for AutoLock<P, B> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        let acquired = self.acquire_free();
        if !acquired {
            self.end_route();
        }
        acquired
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, B: Bounds> TimedLock<P> for AutoLock<P, B> {}

impl<P: Platform, B: Bounds> IsHeld for AutoLock<P, B> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.held.load(Ordering::Relaxed) != FREE
    }
}
