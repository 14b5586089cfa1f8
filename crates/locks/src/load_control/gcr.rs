//! GCR, generic concurrency restriction (Dice, Kogan, Euro-Par 2019): a wrapper around any lock.
//!
//!   active:  [A holder]->[B waits]           at most `ACTIVE` threads use the inner lock (here 2)
//!   passive: [C top]->[D]->[E] <- tail       the others queue; only the top watches for a place among the active
//!
//! A thread that finds too many active ones joins the passive queue. Its top becomes active when nobody is, or when it is
//! promoted, once in `PROMOTE_EVERY` acquisitions. The active ones meet again and again, so that a saturated lock is passed
//! between few threads, which the machine can run at once. Fairness: long-term, if the inner lock's is. Space: three words
//! beside the inner lock. Hand-off: that of the inner lock. Passive waiters spin on their own lines, then park; so does the
//! top, on the lock's.
//!
//! A thread that sees nobody active tries the inner lock without more ado: counting it would take as long as
//! locking. So for a moment there may be one user more than the limit.
//!
//! Deviations: a thread counts as active through an exchange, so that the limit is exact but for promoted threads. The paper's
//! top spins; here it sleeps, and whoever leaves the lock idle wakes it.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::spins;
use crate::queue::mcs::McsSpin;
use crate::waiting::{SpinThenPark, Waiting, WAITING};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// The state: two flags for the top of the passive queue, who clears them, and from [`ONE_ACTIVE`] upwards a count.
///
/// | part       | meaning                                  | set by            |
/// |------------|------------------------------------------|-------------------|
/// | PROMOTED   | the top may become active at once        | a holder          |
/// | ASLEEP     | the top sleeps, or is about to           | the top           |
/// | the count  | threads that use the inner lock          | those threads     |
const PROMOTED: u32 = 1;
const ASLEEP: u32 = 2;
const ONE_ACTIVE: u32 = 4;

fn count(state: u32) -> u32 {
    state / ONE_ACTIVE
}

/// A passive thread.
struct Passive<P: Platform> {
    next: P::Ptr<Passive<P>>,
    /// Granted: this is the top.
    status: P::U32,
}

/// The lock over the inner lock.
#[repr(C)]
pub struct Gcr<P: Platform, L, const ACTIVE: u32, const PROMOTE_EVERY: u32> {
    inner: L,
    tail: P::Ptr<Passive<P>>,
    state: P::U32,
    /// Rises when the top is to wake up, which sleeps on it.
    bell: P::U32,
    /// Acquisitions by active threads, with wrap-around; belongs to the holder.
    acquisitions: P::U32,
    /// 1 if the holder is not counted as active; belongs to the holder.
    uncounted: P::U32,
}

/// Over MCS, whose strict order collapses where not all waiters run. One thread is active: with a second one the inner lock
/// waits for it whenever something else has its CPU. A stress with 2 to 16 threads, on 2 CPUs that others used, too,
/// acquired 9 to 90 times as often as with two active threads, and 40 to 350 times as often as plain MCS.
pub type GcrMcs<P> = Gcr<P, McsSpin<P>, 1, 0x4000>;

impl<P: Platform, L, const ACTIVE: u32, const PROMOTE_EVERY: u32> Gcr<P, L, ACTIVE, PROMOTE_EVERY> {
    /// Becomes active if that needs no waiting: nothing if somebody else has changed the state meanwhile.
    /// Relaxed throughout: who is active is a matter of speed; the inner lock does the rest.
    #[inline]
    fn try_activate(&self) -> Option<bool> {
        let state = self.state.load(Ordering::Relaxed);
        if count(state) >= ACTIVE {
            return Some(false);
        }
        self.state.compare_exchange(state, state + ONE_ACTIVE, Ordering::Relaxed).ok().map(|_| true)
    }

    #[cold]
    #[inline(never)]
    fn activate_slowly(&self) {
        if P::spin_map(|| self.try_activate()) {
            return;
        }
        let node = Passive::<P> { next: P::Ptr::new(null_mut()), status: P::U32::new(WAITING) };
        let me = (&raw const node).cast_mut();
        // ORDER(enqueue): Release publishes the node to the next one, whose swap acquires it.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if !predecessor.is_null() {
            // ORDER(link): Release pairs with the Acquire in `leave_queue`; publishes this node.
            // SAFETY: the predecessor leaves its stack frame only after it has seen its `next`.
            unsafe { (*predecessor).next.store(me, Ordering::Release) };
            SpinThenPark::wait::<P>(&node.status);
        }
        self.activate_top();
        self.leave_queue(&node);
    }

    /// Whether the top of the passive queue may become active in this state.
    fn has_place(state: u32) -> bool {
        state & PROMOTED != 0 || count(state) == 0
    }

    /// Makes the top of the passive queue, this thread, active.
    fn activate_top(&self) {
        // Relaxed throughout but for the bell: as in `try_activate`.
        let activate = || {
            let state = self.state.load(Ordering::Relaxed);
            let new = (state & !(PROMOTED | ASLEEP)) + ONE_ACTIVE;
            let active = Self::has_place(state) && self.state.compare_exchange(state, new, Ordering::Relaxed).is_ok();
            active.then_some(())
        };
        while P::spin_map_bounded(spins::<P>(), activate).is_none() {
            let bell = self.bell.load(Ordering::Relaxed);
            let state = self.state.load(Ordering::Relaxed);
            // ORDER(bell): Release pairs with the Acquire in `ring`: the bell was read before it rises. Without the pair the
            // load could see the risen bell, and the top would sleep through the wake-up that belongs to it.
            if !Self::has_place(state) && self.state.compare_exchange(state, state | ASLEEP, Ordering::Release).is_ok()
            {
                P::park(&self.bell, bell, None);
            }
        }
    }

    /// Makes the next passive thread the top.
    fn leave_queue(&self, node: &Passive<P>) {
        // ORDER(link): Acquire pairs with the Release in `activate_slowly`.
        let linked = || Some(node.next.load(Ordering::Acquire)).filter(|next| !next.is_null());
        let me = core::ptr::from_ref(node).cast_mut();
        // Relaxed: the queue protects nothing but itself.
        if linked().is_none() && self.tail.compare_exchange(me, null_mut(), Ordering::Relaxed).is_ok() {
            return;
        }
        let next = P::spin_map(linked);
        // SAFETY: the next one waits for the grant.
        SpinThenPark::grant::<P>(unsafe { &(*next).status });
    }

    /// Acquires the lock, without being counted, if nobody is active and the inner lock is free. That keeps no passive thread
    /// out: it becomes active whenever nobody is.
    ///
    /// # Safety
    /// As for `try_lock`.
    #[inline]
    unsafe fn try_uncounted(&self, cx: &L::Ctx) -> bool
    where
        L: TryLock<P>,
    {
        // Relaxed: as in `try_activate`. SAFETY: as for this call.
        let acquired = count(self.state.load(Ordering::Relaxed)) == 0 && unsafe { self.inner.try_lock(cx) };
        if acquired {
            // Relaxed: the field belongs to the holder.
            self.uncounted.store(1, Ordering::Relaxed);
        }
        acquired
    }

    /// # Safety
    /// As for `lock`.
    #[cold]
    #[inline(never)]
    unsafe fn lock_counted(&self, cx: &L::Ctx)
    where
        L: TryLock<P>,
    {
        if self.try_activate() != Some(true) {
            self.activate_slowly();
        }
        // SAFETY: as for this call.
        unsafe { self.inner.lock(cx) };
        // Relaxed: the field belongs to the holder.
        self.uncounted.store(0, Ordering::Relaxed);
    }

    /// Ends this thread's being active. Returns whether it has to wake the top, because nobody else is active.
    #[inline]
    fn deactivate(&self) -> bool {
        // Relaxed: `ring` looks again.
        let before = self.state.fetch_sub(ONE_ACTIVE, Ordering::Relaxed);
        before & ASLEEP != 0 && count(before) == 1 && self.ring()
    }

    /// Promotes the top of the passive queue, and returns whether it has to be woken for that.
    #[cold]
    #[inline(never)]
    fn promote(&self) -> bool {
        // Relaxed: a hint; a promotion that finds no top serves the next one.
        if self.tail.load(Ordering::Relaxed).is_null() {
            return false;
        }
        self.state.fetch_or(PROMOTED, Ordering::Relaxed);
        self.ring()
    }

    /// Keeps the top from going to sleep. Returns whether it sleeps, or is about to: it is woken by [`Self::wake`].
    #[cold]
    #[inline(never)]
    fn ring(&self) -> bool {
        // ORDER(bell): Acquire pairs with the Release in `activate_top`.
        let asleep = self.state.fetch_and(!ASLEEP, Ordering::Acquire) & ASLEEP != 0;
        if asleep {
            // Relaxed: `park` compares it in one step with going to sleep.
            self.bell.fetch_add(1, Ordering::Relaxed);
        }
        asleep
    }

    /// Wakes the top that sleeps on `bell`. Comes after the release: a thread that is woken often takes the waker's CPU, and
    /// would find the lock held.
    #[cold]
    #[inline(never)]
    fn wake(bell: *const P::U32) {
        P::unpark(bell, 1);
    }
}

// SAFETY: the inner lock excludes; this one only says when to ask it.
unsafe impl<P: Platform, L: TryLock<P>, const ACTIVE: u32, const PROMOTE_EVERY: u32> RawLock<P>
    for Gcr<P, L, ACTIVE, PROMOTE_EVERY>
{
    const INFO: LockInfo = LockInfo {
        id: "gcr",
        family: Family::LoadControl,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: match L::INFO.fairness {
            Fairness::Unfair => Fairness::Unfair,
            _ => Fairness::LongTerm,
        },
        timed: Timed::Poll,
        summary: "a wrapper around MCS that lets one thread in; the others sleep and are let in by turns",
        paper: "Dice, Kogan: Euro-Par 2019, GCR",
        asks: L::INFO.asks,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    type Ctx = L::Ctx;

    fn new() -> Self {
        Gcr {
            inner: L::new(),
            tail: P::Ptr::new(null_mut()),
            state: P::U32::new(0),
            bell: P::U32::new(0),
            acquisitions: P::U32::new(0),
            uncounted: P::U32::new(0),
        }
    }

    fn is_quiet(&self) -> bool {
        self.inner.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, cx: &L::Ctx) {
        // SAFETY: as for this call.
        unsafe {
            if !self.try_uncounted(cx) {
                self.lock_counted(cx);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &L::Ctx) {
        // Relaxed here and for `acquisitions`: the fields belong to the holder.
        if self.uncounted.load(Ordering::Relaxed) == 1 {
            // LAST: the lock may be destroyed after this.
            // SAFETY: as for this call.
            return unsafe { self.inner.unlock(cx) };
        }
        let acquisitions = self.acquisitions.load(Ordering::Relaxed).wrapping_add(1);
        self.acquisitions.store(acquisitions, Ordering::Relaxed);
        let promoted = acquisitions.is_multiple_of(PROMOTE_EVERY) && self.promote();
        let must_wake = self.deactivate() || promoted;
        let bell: *const P::U32 = &self.bell;
        // LAST: the lock may be destroyed after this; the wake-up uses the address only.
        // SAFETY: as for this call.
        unsafe { self.inner.unlock(cx) };
        if must_wake {
            Self::wake(bell);
        }
    }
}

// SAFETY: acquires through the inner lock. Where nobody holds, acquires or releases the lock, nobody is active.
unsafe impl<P: Platform, L: TryLock<P>, const ACTIVE: u32, const PROMOTE_EVERY: u32> TryLock<P>
    for Gcr<P, L, ACTIVE, PROMOTE_EVERY>
{
    #[inline]
    unsafe fn try_lock(&self, cx: &L::Ctx) -> bool {
        // SAFETY: as for this call.
        unsafe { self.try_uncounted(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, L: TryLock<P>, const ACTIVE: u32, const PROMOTE_EVERY: u32> TimedLock<P>
    for Gcr<P, L, ACTIVE, PROMOTE_EVERY>
{
}

impl<P: Platform, L: IsHeld, const ACTIVE: u32, const PROMOTE_EVERY: u32> IsHeld for Gcr<P, L, ACTIVE, PROMOTE_EVERY> {
    #[inline]
    fn is_held(&self) -> bool {
        self.inner.is_held()
    }
}
