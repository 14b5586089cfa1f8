//! The reorder window of an epoch (Liu, Gu, Tang, Li, Zang, Chen, PPoPP 2022, algorithm 2): how long the thread that
//! runs it on a little core may stand back for big ones, so that the epoch's latency just meets its target.
//!
//!   window ^      /|     /|     /|
//!          |    /  |   /  |   /  |     missed: the window is halved, the unit is the missing share of what is left
//!          |  /    | /    | /    |     met:    the window grows by the unit
//!          +-------------------------> epochs
//!
//! With the share of misses that the percentile allows (1% at the 99th) as the unit, the window is back where it was
//! after 100 epochs: one epoch in 101 misses. What an epoch is, whose window counts where, and the clock are the
//! caller's business; this file knows numbers only, so that hardware, simulation and tests share it.
//!
//! What the paper leaves open is settled thus:
//! - *First epoch.* The target is not known before the end of the first one, so it runs with no window at all. If it
//!   met its target, the window becomes half of the time that it left over. A thread may also begin with the window
//!   that another one has arrived at ([`Window::resume`]).
//! - *Units that round to zero.* A unit is at least [`LEAST_UNIT`]; a window below 100 ns would never grow otherwise.
//! - *Recovery.* The unit that is left after a row of misses is tiny compared with the window that is right later. So
//!   a window that has grown to more than twice what it was halved to takes half of its own share as its unit: from
//!   there on it grows exponentially, slowly enough to leave the percentile where it is.
//! - *Longest window.* The target itself, and the configured maximum. To stand back for longer than the target in one
//!   acquisition means to miss it. So contention that comes all of a sudden costs one miss of less than twice the
//!   target.
//! - *Targets that cannot be met.* Each miss halves the window, which is zero after a few: the lock below, FIFO,
//!   decides. A target of zero is such a one; the greatest of all, [`Ns::MAX`], gives the maximum.

use lockswap_platform::Ns;

/// The least that a window grows by, ns.
pub const LEAST_UNIT: Ns = 1;

/// The share of an epoch's runs that may miss its target: what is missing from the percentile to 100%.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// 1%: the target is one for the 99th percentile.
    pub const DEFAULT: Share = Share(Self::ONE / 100);
    const ONE: u32 = 1_000_000;

    /// The share that `percentile` (50 to 99.9999) leaves; `None` for others.
    pub fn missing_from(percentile: f64) -> Option<Share> {
        let sensible = (50.0..=99.9999).contains(&percentile);
        // The cast rounds to nearest: the value is positive.
        sensible.then(|| Share(((100.0 - percentile) * f64::from(Self::ONE / 100) + 0.5) as u32))
    }

    /// A number that [`Share::from_bits`] makes the same share of, for an atomic; not 0.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The share that gave `bits`; the default for 0.
    #[inline]
    pub fn from_bits(bits: u32) -> Share {
        if bits == 0 {
            Self::DEFAULT
        } else {
            Share(bits)
        }
    }

    /// This share of `ns`, which is at most an hour.
    #[inline]
    fn of(self, ns: Ns) -> Ns {
        ns * u64::from(self.0) / u64::from(Self::ONE)
    }
}

/// What an epoch's windows are held to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Latency that the epoch should not exceed, ns.
    pub slo: Ns,
    /// How often it may.
    pub misses: Share,
    /// The longest window, ns; at most an hour.
    pub longest: Ns,
}

/// One thread's window for one epoch.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    window: Ns,
    /// 0 before the first update.
    unit: Ns,
}

impl Window {
    /// The window of an epoch that has not run yet. Its bytes are all zero.
    pub const NEW: Window = Window { window: 0, unit: 0 };

    /// A window to go on from, `window` ns long: the thread is new, the epoch is not.
    pub fn resume(window: Ns) -> Window {
        Window { window, unit: LEAST_UNIT }
    }

    /// How long to stand back, ns.
    #[inline]
    pub fn get(&self) -> Ns {
        self.window
    }

    /// Whether an epoch has ended in it.
    pub fn has_run(&self) -> bool {
        self.unit != 0
    }

    /// Takes note of an epoch that ended on a little core after `latency` ns; whether it missed its target.
    #[inline]
    pub fn update(&mut self, latency: Ns, target: Target) -> bool {
        let missed = latency > target.slo;
        if missed {
            self.window /= 2;
            self.unit = target.misses.of(self.window).max(LEAST_UNIT);
        } else if self.unit == 0 {
            self.window = ((target.slo - latency) / 2).min(target.longest);
            self.unit = target.misses.of(self.window).max(LEAST_UNIT);
        } else {
            self.unit = self.unit.max(target.misses.of(self.window) / 2);
            self.window += self.unit;
        }
        self.window = self.window.min(target.slo).min(target.longest);
        missed
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use lockswap_platform::window::LONGEST;
    use std::vec::Vec;

    const P99: Target = Target { slo: 50_000, misses: Share::DEFAULT, longest: LONGEST };

    /// Random numbers enough to be noise (Marsaglia's xorshift).
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) % n
        }
    }

    /// Runs epochs whose latency `model` tells from the window; the latencies after a time to settle.
    fn closed_loop(target: Target, epochs: usize, mut model: impl FnMut(Ns, usize) -> Ns) -> Vec<Ns> {
        let mut window = Window::NEW;
        let mut latencies = Vec::new();
        for epoch in 0..epochs {
            let latency = model(window.get(), epoch);
            window.update(latency, target);
            if epoch >= epochs / 5 {
                latencies.push(latency);
            }
        }
        latencies.sort_unstable();
        latencies
    }

    fn percentile(sorted: &[Ns], share: f64) -> Ns {
        sorted[((sorted.len() as f64 * share) as usize).min(sorted.len() - 1)]
    }

    #[test]
    fn the_p99_comes_to_lie_at_the_target_whatever_the_target() {
        for slo in [20_000, 50_000, 200_000, 1_000_000, 10_000_000] {
            let mut noise = Noise(7);
            // Always contended: the thread stands back for its whole window, then queues for 5 to 10 us.
            let latencies =
                closed_loop(Target { slo, ..P99 }, 100_000, |window, _| window + 5_000 + noise.below(5_000));
            let p99 = percentile(&latencies, 0.99) as f64 / slo as f64;
            assert!((0.9..=1.0).contains(&p99), "SLO {slo}: P99 is {p99} of it");
        }
    }

    #[test]
    fn the_p99_holds_where_only_some_epochs_stand_back() {
        for contended in [3, 10, 30, 100] {
            let mut noise = Noise(9);
            let model = |window: Ns, _| match noise.below(100) < contended {
                true => noise.below(2 * window + 1) + 5_000,
                false => 5_000,
            };
            let latencies = closed_loop(P99, 400_000, model);
            let p99 = percentile(&latencies, 0.99);
            assert!(p99 <= P99.slo, "{contended}% contended: P99 is {p99}");
            let misses = latencies.iter().filter(|latency| **latency > P99.slo).count() as f64;
            let share = misses / latencies.len() as f64;
            assert!((0.005..=0.0105).contains(&share), "{contended}% contended: {share} missed");
        }
    }

    #[test]
    fn other_percentiles_hold_too() {
        // A period is one epoch longer than the share says (paper, footnote 4), which shows at low percentiles.
        for (p, least) in [(50.0, 0.8), (90.0, 0.9), (99.9, 0.9)] {
            let mut noise = Noise(11);
            let target = Target { misses: Share::missing_from(p).unwrap(), ..P99 };
            let latencies = closed_loop(target, 400_000, |window, _| window + 5_000 + noise.below(1_000));
            let at = percentile(&latencies, p / 100.0) as f64 / P99.slo as f64;
            assert!((least..=1.0).contains(&at), "P{p} is {at} of the SLO");
        }
    }

    #[test]
    fn a_window_follows_epochs_that_change_their_length() {
        // Bench 2 of the paper: long epochs for a while, then short ones again.
        let mut window = Window::NEW;
        let run = |window: &mut Window, own: Ns, epochs: usize| {
            (0..epochs).filter(|_| window.update(own + window.get(), P99)).count()
        };
        run(&mut window, 1_000, 1_000);
        let before = window.get();
        assert!(before > 20_000, "{before}");
        let misses = run(&mut window, 45_000, 10_000);
        assert!((80..=130).contains(&misses), "{misses} of 10,000 missed");
        assert_eq!(run(&mut window, 60_000, 100), 100, "impossible now");
        assert_eq!(window.get(), 0, "FIFO");
        let misses = run(&mut window, 1_000, 2_000);
        assert!(window.get() > 20_000 && misses < 10, "recovered to {} with {misses} misses", window.get());
    }

    #[test]
    fn the_first_epoch_queues_and_leaves_half_of_what_is_left() {
        let mut window = Window::NEW;
        assert_eq!(window.get(), 0);
        assert!(!window.update(10_000, P99));
        assert_eq!(window.get(), 20_000);
        assert!(!window.update(30_000, P99));
        assert_eq!(window.get(), 20_200, "the unit is 1% of the window");
        assert!(window.update(50_001, P99));
        assert_eq!(window.get(), 10_100, "halved");
        assert!(!window.update(50_000, P99), "exactly the SLO is met");
        assert_eq!(window.get(), 10_201);
        let mut late = Window::NEW;
        assert!(late.update(50_001, P99));
        assert_eq!(late.get(), 0);
    }

    #[test]
    fn small_windows_grow_although_their_unit_rounds_to_zero() {
        let mut window = Window::resume(80);
        window.update(100_000, P99);
        assert_eq!(window.get(), 40);
        (0..10).for_each(|_| assert!(!window.update(100, P99)));
        assert_eq!(window.get(), 50);
    }

    #[test]
    fn no_window_is_longer_than_the_target_or_the_maximum() {
        let mut window = Window::NEW;
        let largest = Target { slo: Ns::MAX, ..P99 };
        for _ in 0..1_000 {
            window.update(1_000, largest);
            assert!(window.get() <= LONGEST);
        }
        assert_eq!(window.get(), LONGEST);
        window.update(10, Target { slo: 2_000, ..P99 });
        assert_eq!(window.get(), 2_000, "a lower target counts at once");
        window.update(1, Target { slo: 0, ..P99 });
        assert_eq!(window.get(), 0);
        let mut short = Window::NEW;
        short.update(0, Target { slo: 1_000, misses: Share::DEFAULT, longest: 300 });
        assert_eq!(short.get(), 300);
    }

    #[test]
    fn shares_are_what_percentiles_leave() {
        assert_eq!(Share::missing_from(99.0), Some(Share::DEFAULT));
        assert_eq!(Share::missing_from(99.9).unwrap().of(1_000_000), 1_000);
        for nonsense in [0.0, 49.9, 100.0, f64::NAN, -1.0, f64::INFINITY] {
            assert_eq!(Share::missing_from(nonsense), None, "{nonsense}");
        }
        assert_eq!(Share::from_bits(Share::missing_from(90.0).unwrap().to_bits()), Share::missing_from(90.0).unwrap());
        assert_eq!(Share::from_bits(0), Share::DEFAULT);
    }
}
