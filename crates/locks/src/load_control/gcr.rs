//! GCR, generic concurrency restriction (Dice, Kogan, Euro-Par 2019): a wrapper around any lock.
//!
//!   active:  [A holder]->[B waits]           at most `active` threads use the inner lock (here 2)
//!   passive: [C top]->[D]->[E] <- tail       the others queue; only the top watches for a place among the active
//!
//! A thread that finds too many active ones joins the passive queue. The top of that queue becomes active when nobody
//! is, or when a holder approves it, once in `promote` acquisitions. So the same few threads meet at the inner lock
//! again and again, and the machine can run all of them at once.
//!
//! Fairness: long-term, if the inner lock's is. Space: three words beside the inner lock. Hand-off: that of the inner
//! lock. Passive waiters spin on their own lines, then park; so does the top, on the lock's.
//!
//! Deviations: a thread is counted as active by an exchange, so that no more than `active` are, but for approved ones
//! (the paper adds first and looks then). A thread that sees nobody active tries the inner lock without being counted,
//! because counting would take as long as locking: for a moment there may be one user more. The paper's top spins;
//! here it sleeps after a while, and whoever leaves the lock idle, or approves it, wakes it.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values, SPIN};
use crate::queue::mcs::McsSpin;
use crate::waiting::{SpinThenPark, Waiting, WAITING};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// The state: two flags and, from [`ONE_ACTIVE`] upwards, the paper's `numActive`.
///
/// | part         | meaning                                  | set by                   | cleared by                 |
/// |--------------|------------------------------------------|--------------------------|----------------------------|
/// | TOP_APPROVED | the top may become active at once        | a holder, now and then   | the top, as it does        |
/// | ASLEEP       | the top sleeps on `bell`, or is about to | the top                  | who wakes it, or the top   |
/// | numActive    | counted users of the inner lock          | each before it uses that | each, while it holds that  |
const TOP_APPROVED: u32 = 1;
/// See [`TOP_APPROVED`].
const ASLEEP: u32 = 2;
/// See [`TOP_APPROVED`].
const ONE_ACTIVE: u32 = 4;

/// The looks of the top before it sleeps. The measured round trip through a sleep, 1,250 looks here, is too long: 16
/// threads on 2 CPUs took 6 % longer (`lockswap bench oversub --lock gcr:spin=1250,gcr:spin=500`).
const SPINS: u32 = 500;

/// How many threads are counted as active.
fn num_active(state: u32) -> u32 {
    state / ONE_ACTIVE
}

/// Whether the top of the passive queue may become active.
fn has_place_for_top(state: u32) -> bool {
    state & TOP_APPROVED != 0 || num_active(state) == 0
}

/// A passive thread in its queue.
struct Passive<P: Platform> {
    next: P::Ptr<Passive<P>>,
    /// Granted by the thread before it: this one is the top.
    status: P::U32,
}

/// The lock over the inner lock: `ACTIVE` threads use that, and the top is approved once in `PROMOTE_EVERY`
/// acquisitions.
#[repr(C)]
pub struct Gcr<P: Platform, L, const ACTIVE: u32, const PROMOTE_EVERY: u32> {
    inner: L,
    /// The end of the passive queue.
    tail: P::Ptr<Passive<P>>,
    /// See [`TOP_APPROVED`].
    state: P::U32,
    /// What the top sleeps on. Written by who has cleared ASLEEP.
    bell: P::U32,
    /// Acquisitions by counted threads, with wrap-around. Belongs to the holder.
    num_acqs: P::U32,
    /// 1 if the holder is not counted as active. Belongs to the holder.
    uncounted: P::U32,
}

/// Over MCS, whose strict order collapses where not all waiters run. One thread is active: with a second one the inner
/// lock waits for it whenever something else has its CPU. A stress with 2 to 16 threads, on 2 CPUs that others used,
/// too, acquired 9 to 90 times as often as with two active threads, and 40 to 350 times as often as plain MCS.
pub type GcrMcs<P> = Gcr<P, McsSpin<P>, 1, 0x4000>;

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
    const PARAMETERS: Parameters = Parameters {
        own: &[
            Parameter {
                key: "active",
                values: Values::Number(Setting::Active, 1, 1_000_000, "threads"),
                default: Default::Number(ACTIVE),
                summary: "threads that may use the inner lock at the same time",
                source: "ours, measured: see gcr.rs; Dice, Kogan leave it to the user: Euro-Par 2019, sec. 4",
            },
            Parameter {
                key: "promote",
                values: Values::Number(Setting::Promote, 1, 1_000_000_000, "acquisitions"),
                default: Default::Number(PROMOTE_EVERY),
                summary: "acquisitions until a passive thread becomes active although others are",
                source: "Dice, Kogan: Euro-Par 2019, THRESHOLD",
            },
            Parameter {
                default: Default::Number(SPINS),
                source: "ours, measured: with more threads than CPUs a longer wait takes CPU time from active threads",
                ..SPIN
            },
        ],
        inside: &[L::PARAMETERS],
    };
    type Ctx = L::Ctx;

    fn new() -> Self {
        Gcr {
            inner: L::new(),
            tail: P::Ptr::new(null_mut()),
            state: P::U32::new(0),
            bell: P::U32::new(0),
            num_acqs: P::U32::new(0),
            uncounted: P::U32::new(0),
        }
    }

    fn is_quiet(&self) -> bool {
        self.inner.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, cx: &L::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            if !self.try_lock(cx) {
                self.lock_counted(cx);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &L::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        self.leave(|| unsafe { self.inner.unlock(cx) });
    }

    #[inline]
    unsafe fn unlock_to_wait(&self, cx: &L::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        self.leave(|| unsafe { self.inner.unlock_to_wait(cx) });
    }
}

impl<P: Platform, L: TryLock<P>, const ACTIVE: u32, const PROMOTE_EVERY: u32> Gcr<P, L, ACTIVE, PROMOTE_EVERY> {
    /// Releases the lock, of which `unlock` releases the inner one.
    #[inline]
    fn leave(&self, unlock: impl FnOnce()) {
        // Relaxed, here and for `num_acqs`: the fields belong to the holder.
        if self.uncounted.load(Ordering::Relaxed) == 1 {
            // LAST: the lock may be destroyed after this.
            return unlock();
        }
        // Once in a while a passive thread becomes active although others are: nobody stays passive for ever.
        let num_acqs = self.num_acqs.load(Ordering::Relaxed).wrapping_add(1);
        self.num_acqs.store(num_acqs, Ordering::Relaxed);
        let approves = num_acqs.is_multiple_of(Setting::Promote.number::<P>(PROMOTE_EVERY));
        let approved = approves && self.approve_top();
        // The holder is active no more, and the last one tells the top, which may go on where nobody is active.
        // Relaxed: `ring` looks again.
        let before = self.state.fetch_sub(ONE_ACTIVE, Ordering::Relaxed);
        let leaves_none = before & ASLEEP != 0 && num_active(before) == 1 && self.ring();
        let bell: *const P::U32 = &self.bell;
        // LAST: the lock may be destroyed after this; the wake-up uses the address only.
        unlock();
        // After the release: a thread that is woken often takes the waker's CPU, and would find the lock held.
        if approved || leaves_none {
            P::unpark(bell, 1);
        }
    }

    /// Acquires the lock as a counted thread: becomes active first, if need be through the passive queue.
    ///
    /// # Safety
    /// As for `lock`.
    #[cold]
    #[inline(never)]
    unsafe fn lock_counted(&self, cx: &L::Ctx) {
        let most = Setting::Active.number::<P>(ACTIVE);
        // Relaxed: who is active is a matter of speed; the inner lock excludes.
        let is_active = P::spin_map(|| {
            let state = self.state.load(Ordering::Relaxed);
            if num_active(state) >= most {
                return Some(false);
            }
            self.state.compare_exchange(state, state + ONE_ACTIVE, Ordering::Relaxed).ok().map(|_| true)
        });
        if !is_active {
            self.wait_passively();
        }
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inner.lock(cx) };
        // Relaxed: the field belongs to the holder, this thread.
        self.uncounted.store(0, Ordering::Relaxed);
    }

    /// Queues as a passive thread until this one is the top, and then until the top may become active.
    #[cold]
    #[inline(never)]
    fn wait_passively(&self) {
        let node = Passive::<P> { next: P::Ptr::new(null_mut()), status: P::U32::new(WAITING) };
        let me = (&raw const node).cast_mut();
        // ORDER(enqueue): Release publishes the node to the next one, whose swap acquires it.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if !predecessor.is_null() {
            // ORDER(link): Release pairs with the Acquire in `make_next_top`; publishes this node.
            // SAFETY: the predecessor leaves its stack frame only after it has seen its `next`.
            unsafe { (*predecessor).next.store(me, Ordering::Release) };
            SpinThenPark::wait::<P>(&node.status);
        }
        while P::spin_map_bounded(Setting::Spin.number::<P>(SPINS), || self.activate_top()).is_none() {
            self.sleep_as_top();
        }
        self.make_next_top(&node);
    }

    /// Counts the top of the passive queue, this thread, as active, if it may be: nothing otherwise.
    fn activate_top(&self) -> Option<()> {
        // Relaxed: who is active is a matter of speed; the inner lock excludes.
        let state = self.state.load(Ordering::Relaxed);
        let active = (state & !(TOP_APPROVED | ASLEEP)) + ONE_ACTIVE;
        let is_active =
            has_place_for_top(state) && self.state.compare_exchange(state, active, Ordering::Relaxed).is_ok();
        is_active.then_some(())
    }

    /// Sleeps as the top of the passive queue, unless there is a place for it.
    fn sleep_as_top(&self) {
        // Relaxed, both: the exchange below keeps the look at the bell before itself, and decides about the state.
        let bell = self.bell.load(Ordering::Relaxed);
        let state = self.state.load(Ordering::Relaxed);
        // ORDER(bell): Release pairs with the Acquire in `ring`: the bell was read before it rises. Without the pair
        // the load could see the risen bell, and the top would sleep through the wake-up that belongs to it.
        if !has_place_for_top(state) && self.state.compare_exchange(state, state | ASLEEP, Ordering::Release).is_ok() {
            P::park(&self.bell, bell, None);
        }
    }

    /// Takes the top of the passive queue, this thread, out of the queue, and makes the next one the top.
    fn make_next_top(&self, top: &Passive<P>) {
        // ORDER(link): Acquire pairs with the Release in `wait_passively`.
        let next = || Some(top.next.load(Ordering::Acquire)).filter(|next| !next.is_null());
        let me = core::ptr::from_ref(top).cast_mut();
        // Relaxed: the queue protects nothing but itself.
        if next().is_none() && self.tail.compare_exchange(me, null_mut(), Ordering::Relaxed).is_ok() {
            return;
        }
        let next = P::spin_map(next);
        // SAFETY: the next one waits for the grant.
        SpinThenPark::grant::<P>(unsafe { &(*next).status });
    }

    /// Lets the top of the passive queue become active, and returns whether it has to be woken for that.
    #[cold]
    #[inline(never)]
    fn approve_top(&self) -> bool {
        // Relaxed: a hint; an approval that finds no top serves the next one.
        if self.tail.load(Ordering::Relaxed).is_null() {
            return false;
        }
        self.state.fetch_or(TOP_APPROVED, Ordering::Relaxed);
        self.ring()
    }

    /// Keeps the top from going to sleep. Returns whether it sleeps already, or is about to and has read the bell:
    /// then the caller has to wake it.
    #[cold]
    #[inline(never)]
    fn ring(&self) -> bool {
        // ORDER(bell): Acquire pairs with the Release in `sleep_as_top`.
        let asleep = self.state.fetch_and(!ASLEEP, Ordering::Acquire) & ASLEEP != 0;
        if asleep {
            // Relaxed: `park` compares it in one step with going to sleep.
            self.bell.fetch_add(1, Ordering::Relaxed);
        }
        asleep
    }
}

// SAFETY: acquires through the inner lock. Where nobody holds, acquires or releases the lock, nobody is active.
unsafe impl<P: Platform, L: TryLock<P>, const ACTIVE: u32, const PROMOTE_EVERY: u32> TryLock<P>
    for Gcr<P, L, ACTIVE, PROMOTE_EVERY>
{
    /// Without being counted, if nobody is active. That keeps no passive thread out: its top becomes active whenever
    /// nobody is.
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &L::Ctx) -> bool {
        // Relaxed: who is active is a matter of speed; the inner lock excludes.
        // SAFETY: the caller keeps the contract of the call.
        let acquired = num_active(self.state.load(Ordering::Relaxed)) == 0 && unsafe { self.inner.try_lock(cx) };
        if acquired {
            // Relaxed: the field belongs to the holder.
            self.uncounted.store(1, Ordering::Relaxed);
        }
        acquired
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
