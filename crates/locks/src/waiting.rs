//! How a queue lock's waiter waits on its own status word: a type parameter of the lock.

use crate::info::WaitingPolicy;
use crate::parameters::{self, Parameters, Setting};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// Status of a waiter in the queue.
///
/// | value   | meaning                          | written by  |
/// |---------|----------------------------------|-------------|
/// | WAITING | spins                            | the waiter  |
/// | PARKED  | sleeps, or is about to           | the waiter  |
/// | GRANTED | it is this waiter's turn         | its predecessor |
///
/// A nudge turns PARKED back into WAITING.
pub const WAITING: u32 = 0;
/// See [`WAITING`].
pub const PARKED: u32 = 1;
/// See [`WAITING`].
pub const GRANTED: u32 = 2;

/// A way to wait for one's turn.
pub trait Waiting: Send + Sync + 'static {
    /// The name of the policy.
    const POLICY: WaitingPolicy;
    /// What users may choose of it.
    const PARAMETERS: Parameters = Parameters::NONE;
    /// Pause instructions between two looks of a spinning waiter; 0: it looks as often as it can.
    const PAUSES: u32 = 0;
    /// Waits until `status` is [`GRANTED`]. What the granter did before happens-before the return.
    fn wait<P: Platform>(status: &P::U32);
    /// Grants the turn to the waiter on `status`, whose memory may be gone when this returns.
    fn grant<P: Platform>(status: &P::U32);
    /// Tells the waiter on `status` that its turn comes soon. Its memory stays until it has been granted the turn.
    fn nudge<P: Platform>(status: &P::U32);
}

/// Spins (with yields and naps after a bound, as every wait).
pub struct Spin;

impl Waiting for Spin {
    const POLICY: WaitingPolicy = WaitingPolicy::Spin;

    #[inline]
    fn wait<P: Platform>(status: &P::U32) {
        // ORDER(hand-off): Acquire pairs with the Release in `grant`.
        P::spin_map(|| (status.load(Ordering::Acquire) == GRANTED).then_some(()));
    }

    #[inline]
    fn grant<P: Platform>(status: &P::U32) {
        // ORDER(hand-off): Release pairs with the Acquire in `wait`; publishes the critical section.
        // LAST: the waiter may return and reuse its memory after this store.
        status.store(GRANTED, Ordering::Release);
    }

    #[inline]
    fn nudge<P: Platform>(_: &P::U32) {}
}

/// Spins, with `PAUSES` pause instructions between two looks for the first `LOOKS` looks: a granter finds the line of
/// the status undisturbed more often, and the waiter sees the grant later by half a pause on average.
pub struct PausedSpin<const PAUSES: u32, const LOOKS: u32>;

/// As in libslock, whose waiters execute 24 pause instructions between two looks. 42 such looks are the 1,000 pauses
/// that any other wait spins before it leaves the CPU.
pub type LibslockSpin = PausedSpin<24, 42>;

impl<const PAUSES: u32, const LOOKS: u32> Waiting for PausedSpin<PAUSES, LOOKS> {
    const POLICY: WaitingPolicy = WaitingPolicy::Spin;
    const PAUSES: u32 = PAUSES;

    #[inline]
    fn wait<P: Platform>(status: &P::U32) {
        for _ in 0..LOOKS {
            // ORDER(hand-off): Acquire pairs with the Release in `grant`.
            if status.load(Ordering::Acquire) == GRANTED {
                return;
            }
            P::relax(PAUSES);
        }
        Spin::wait::<P>(status);
    }

    #[inline]
    fn grant<P: Platform>(status: &P::U32) {
        // LAST: the waiter may return and reuse its memory after this call.
        Spin::grant::<P>(status);
    }

    #[inline]
    fn nudge<P: Platform>(_: &P::U32) {}
}

/// Spins for as long as a round trip through a sleep takes, or as the user chose ([`parameters::SPIN`]), then sleeps
/// until it is woken.
pub struct SpinThenPark;

impl SpinThenPark {
    /// Waits, and spins as long as `spin` says before it sleeps.
    fn wait_for<P: Platform>(status: &P::U32, spin: Setting) {
        // ORDER(hand-off): Acquire pairs with the Release in `grant`.
        let granted = || (status.load(Ordering::Acquire) == GRANTED).then_some(());
        while P::spin_map_bounded(spin.looks::<P>(), granted).is_none() {
            Self::sleep::<P>(status);
        }
    }

    /// Sleeps until it is nudged or granted.
    pub(crate) fn sleep<P: Platform>(status: &P::U32) {
        // Relaxed: the announcement carries no data; it fails only on a grant, which the next round acquires.
        let _ = status.compare_exchange(WAITING, PARKED, Ordering::Relaxed);
        while status.load(Ordering::Relaxed) == PARKED {
            P::park(status, PARKED, None);
        }
    }
}

impl Waiting for SpinThenPark {
    const POLICY: WaitingPolicy = WaitingPolicy::SpinThenPark;
    const PARAMETERS: Parameters = Parameters { own: &[parameters::SPIN], inside: &[] };

    #[inline]
    fn wait<P: Platform>(status: &P::U32) {
        Self::wait_for::<P>(status, Setting::Spin);
    }

    #[inline]
    fn grant<P: Platform>(status: &P::U32) {
        let address: *const P::U32 = status;
        // ORDER(hand-off): Release pairs with the Acquire in `wait_for`; publishes the critical section.
        // LAST: the waiter may return and reuse its memory after this swap; the wake-up below uses the address only.
        if status.swap(GRANTED, Ordering::Release) == PARKED {
            P::unpark(address, 1);
        }
    }

    #[inline]
    fn nudge<P: Platform>(status: &P::U32) {
        // Relaxed: carries no data.
        if status.try_change(PARKED, WAITING, Ordering::Relaxed) {
            P::unpark(status, 1);
        }
    }
}

/// The same in a lock that is part of a read-write lock: for how long a waiter spins is chosen with that one
/// ([`parameters::RW_SPIN`]), apart from the process' mutexes.
pub struct SpinThenParkInRwLock;

impl Waiting for SpinThenParkInRwLock {
    const POLICY: WaitingPolicy = WaitingPolicy::SpinThenPark;
    const PARAMETERS: Parameters = Parameters { own: &[parameters::RW_SPIN], inside: &[] };

    #[inline]
    fn wait<P: Platform>(status: &P::U32) {
        SpinThenPark::wait_for::<P>(status, Setting::RwSpin);
    }

    #[inline]
    fn grant<P: Platform>(status: &P::U32) {
        // LAST: the waiter may return and reuse its memory after this call.
        SpinThenPark::grant::<P>(status);
    }

    #[inline]
    fn nudge<P: Platform>(status: &P::U32) {
        SpinThenPark::nudge::<P>(status);
    }
}
