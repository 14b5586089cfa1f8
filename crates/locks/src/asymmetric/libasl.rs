//! LibASL's reorderable lock (Liu, Gu, Tang, Li, Zang, Chen, PPoPP 2022, algorithms 1 and 3), over any lock.
//!
//!   big core     ----------------------------> queue of the lock inside
//!   little core  --- stands back for a while --^    until the lock is free or its reorder window has passed
//!
//! A thread on a little core leaves the queue to the big cores for a time that [`Platform::reorder_window`] bounds
//! ([`super::stand_back`]). The window is that of the epoch which the thread is in ([`super::epoch`]), else the
//! longest: 100 ms where nothing else is configured. Fairness: long-term over a fair lock: no window is longer, and
//! then the thread queues like all others. Space, hand-off and context: those of the lock inside, which alone knows of
//! a release.
//!
//! Deviation: between two looks the paper doubles the number of rounds of a loop, this lock the time.

use super::stand_back::{stand_back, Asleep, Busy, StandBack};
use crate::info::{Asks, Fairness, Family, LockInfo, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Values, MAX_WINDOW};
use crate::queue::mcs::McsSpin;
use crate::{flat::futex::Futex, flat::ticket::Ticket, numa::cna::Cna};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use lockswap_platform::{CoreKind, Deadline, Platform};

/// The lock, over the lock inside and the way that threads on little cores stand back. `CHOOSABLE`: users may choose
/// another one with the parameter `fifo`.
#[repr(transparent)]
pub struct Reorderable<L, S, const CHOOSABLE: bool = false> {
    inside: L,
    stand_back: PhantomData<S>,
}

/// Over MCS, as the paper has it.
pub type Asl<P> = Reorderable<McsSpin<P>, Busy, true>;
/// Over the ticket lock.
pub type AslTicket<P> = Reorderable<Ticket<P>, Busy>;
/// Over CNA.
pub type AslCna<P> = Reorderable<Cna<P>, Busy>;
/// For more threads than CPUs: over the futex lock, standing back asleep.
pub type AslBlocking<P> = Reorderable<Futex<P>, Asleep>;

/// The lock inside.
const FIFO: Parameter = Parameter {
    key: "fifo",
    values: Values::Locks(&[
        ("mcs_spin", "asl"),
        ("ticket", "asl-ticket"),
        ("cna", "asl-cna"),
        ("futex", "asl-blocking"),
    ]),
    default: Default::Lock("mcs_spin"),
    summary: "lock below, which serves those who do not stand back",
    source: "Liu et al.: PPoPP 2022, sec. 3.2",
};

impl<L: IsHeld, S: StandBack, const CHOOSABLE: bool> Reorderable<L, S, CHOOSABLE> {
    /// Stands back if that is what threads do on this CPU; not beyond `deadline`.
    #[inline]
    fn let_big_cores_pass<P: Platform>(&self, deadline: Option<Deadline>) {
        if P::kind() == CoreKind::Little {
            stand_back::<P, S>(P::reorder_window(), deadline, || self.inside.is_held());
        }
    }
}

// SAFETY: the lock inside does it all; who asks it when is free.
unsafe impl<P: Platform, L: RawLock<P> + IsHeld, S: StandBack, const CHOOSABLE: bool> RawLock<P>
    for Reorderable<L, S, CHOOSABLE>
{
    const INFO: LockInfo = LockInfo {
        id: "asl",
        family: Family::Asymmetric,
        waiting: L::INFO.waiting,
        fairness: match L::INFO.fairness {
            Fairness::Unfair => Fairness::Unfair,
            Fairness::Fifo | Fairness::Bounded(_) | Fairness::LongTerm => Fairness::LongTerm,
        },
        timed: L::INFO.timed,
        summary: match L::INFO.waiting {
            WaitingPolicy::Spin => "little cores stand back for big ones, for a bounded time, then queue",
            _ => "little cores stand back for big ones, asleep, for a bounded time, then join in",
        },
        paper: "Liu, Gu, Tang, Li, Zang, Chen: PPoPP 2022, alg. 1",
        asks: L::INFO.asks.and(Asks::EPOCH),
        by_priority: L::INFO.by_priority,
        keeps_up: L::INFO.keeps_up,
    };
    const PARAMETERS: Parameters =
        Parameters { own: if CHOOSABLE { &[FIFO, MAX_WINDOW] } else { &[MAX_WINDOW] }, inside: &[L::PARAMETERS] };
    type Ctx = L::Ctx;

    fn new() -> Self {
        Reorderable { inside: L::new(), stand_back: PhantomData }
    }

    fn is_quiet(&self) -> bool {
        self.inside.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, cx: &L::Ctx) {
        self.let_big_cores_pass::<P>(None);
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.lock(cx) };
    }

    #[inline]
    unsafe fn unlock(&self, cx: &L::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.unlock(cx) };
    }

    #[inline]
    unsafe fn unlock_to_wait(&self, cx: &L::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.unlock_to_wait(cx) };
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &L::Ctx) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.has_heir(cx) }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &L::Ctx) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.unlock_alone(cx) }
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &L::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.hand_over(cx) };
    }
}

// SAFETY: as the lock inside.
unsafe impl<P: Platform, L: TryLock<P> + IsHeld, S: StandBack, const CHOOSABLE: bool> TryLock<P>
    for Reorderable<L, S, CHOOSABLE>
{
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &L::Ctx) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.try_lock(cx) }
    }
}

// SAFETY: as the lock inside; nothing is left behind while standing back.
unsafe impl<P: Platform, L: TimedLock<P> + IsHeld, S: StandBack, const CHOOSABLE: bool> TimedLock<P>
    for Reorderable<L, S, CHOOSABLE>
{
    unsafe fn lock_until(&self, cx: &L::Ctx, deadline: Deadline) -> bool {
        self.let_big_cores_pass::<P>(Some(deadline));
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inside.lock_until(cx, deadline) }
    }
}

impl<L: IsHeld, S, const CHOOSABLE: bool> IsHeld for Reorderable<L, S, CHOOSABLE> {
    #[inline]
    fn is_held(&self) -> bool {
        self.inside.is_held()
    }
}
