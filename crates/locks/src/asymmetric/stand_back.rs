//! How a thread on a little core stands back for big ones (Liu, Gu, Tang, Li, Zang, Chen, PPoPP 2022, algorithm 1): it
//! looks whether the lock is free after pauses that double, until a window has passed.

use lockswap_platform::{Clock, Deadline, Ns, Platform};

/// How a thread lets time pass between two looks at the lock.
pub trait StandBack: Send + Sync + 'static {
    /// The first pause, ns.
    const FIRST_PAUSE: Ns;
    /// Lets `ns` ns pass.
    fn pause<P: Platform>(ns: Ns);
}

/// Spins (with yields and naps after a bound, as every wait).
pub struct Busy;

impl StandBack for Busy {
    /// About one round of the paper's loop, which reads the clock once.
    const FIRST_PAUSE: Ns = 50;

    fn pause<P: Platform>(ns: Ns) {
        P::spin_map_until(from_now::<P>(ns), || None::<()>);
    }
}

/// Sleeps (paper, footnote 3 and bench 6).
pub struct Asleep;

impl StandBack for Asleep {
    /// The least time that Linux lets an ordinary thread sleep.
    const FIRST_PAUSE: Ns = 50_000;

    fn pause<P: Platform>(ns: Ns) {
        P::sleep(ns);
    }
}

/// Spins for as long as a sleep would take longer, then sleeps.
pub struct BusyThenAsleep;

impl StandBack for BusyThenAsleep {
    const FIRST_PAUSE: Ns = Busy::FIRST_PAUSE;

    fn pause<P: Platform>(ns: Ns) {
        if ns < Asleep::FIRST_PAUSE {
            Busy::pause::<P>(ns);
        } else {
            Asleep::pause::<P>(ns);
        }
    }
}

fn from_now<P: Platform>(ns: Ns) -> Deadline {
    Deadline { clock: Clock::Monotonic, at: P::now(Clock::Monotonic) + ns }
}

/// Stands back until the lock is free, but for no longer than `window` ns, nor beyond `deadline`.
#[cold]
#[inline(never)]
pub fn stand_back<P: Platform, S: StandBack>(window: Ns, deadline: Option<Deadline>, is_held: impl Fn() -> bool) {
    if !is_held() {
        return;
    }
    let end = from_now::<P>(window);
    let mut pause = S::FIRST_PAUSE;
    loop {
        let left = [Some(end), deadline].into_iter().flatten().map(|end| end.at.saturating_sub(P::now(end.clock)));
        match left.min() {
            None | Some(0) => return,
            Some(left) => S::pause::<P>(left.min(pause)),
        }
        if !is_held() {
            return;
        }
        pause *= 2;
    }
}
