//! Which events of a thread are noted.

use core::cell::Cell;
use lockswap_platform::{Native, Ns, Platform};

/// Picks one of so many events of a sort, more seldom the faster they come. Each event is picked with the same
/// probability, whatever was picked before it: the distances between picked ones have a geometric distribution. So
/// weights are the inverse of probabilities also in a thread that has few events, and a program that does things in
/// turns is not always caught at the same one.
///
/// All zero at its start, when it picks the first event.
pub struct Sampler {
    /// Events until one is picked, that one included.
    left: Cell<u32>,
    /// Of the random numbers; 0 before the first.
    state: Cell<u64>,
    /// Their mean, of the draw that `left` comes from; 0 stands for 1.
    mean: Cell<u32>,
    /// When it picked one last.
    last: Cell<Ns>,
    /// While each event is looked at: the value that `left` had before, counted on; else 0.
    suspended: Cell<u32>,
    /// How many more are looked at.
    looks: Cell<u32>,
}

/// One of so many is picked at the very least.
const MOST: u32 = 1 << 20;

impl Sampler {
    /// Counts an event and says whether it is picked. If so, [`Sampler::draw`] follows; else the next one is picked,
    /// too.
    #[inline(always)]
    pub fn picks(&self) -> bool {
        let left = self.left.get();
        if left > 1 {
            self.left.set(left - 1);
        }
        left <= 1
    }

    /// Lets the next events through one by one, at most so many, until [`Sampler::resume`]: [`Sampler::picks`] says so
    /// of each, and [`Sampler::is_look`] that it is not picked.
    pub fn suspend(&self, looks: u32) {
        if self.suspended.get() == 0 && self.left.get() > 1 {
            self.suspended.set(self.left.replace(1));
            self.looks.set(looks);
        }
    }

    /// Goes on counting where [`Sampler::suspend`] found it.
    pub fn resume(&self) {
        if self.suspended.get() != 0 {
            self.left.set(self.suspended.replace(0));
        }
    }

    /// Whether an event for which [`Sampler::picks`] said yes is only to be looked at; counts it if so.
    pub fn is_look(&self) -> bool {
        let left = self.suspended.get();
        if left <= 1 {
            self.suspended.set(0);
            return false;
        }
        self.suspended.set(left - 1);
        match self.looks.get() {
            0 | 1 => self.resume(),
            looks => self.looks.set(looks - 1),
        }
        true
    }

    /// Picks nothing for a long time.
    pub fn rest(&self) {
        self.suspended.set(0);
        self.left.set(u32::MAX);
    }

    /// How many events the one that was picked stands for.
    pub fn weight(&self) -> u32 {
        self.mean.get().max(1)
    }

    /// Draws how many events pass from `now` on until one is picked, so that it takes about `spacing`, ns.
    pub fn draw(&self, now: Ns, spacing: Ns) {
        let took = now.saturating_sub(self.last.replace(now));
        let mean = self.weight();
        let mean = match () {
            () if spacing == 0 => 1,
            () if took < spacing / 2 => (2 * mean).min(MOST),
            () if took > spacing * 2 => (mean / 2).max(1),
            () => mean,
        };
        self.mean.set(mean);
        self.left.set(self.distance(mean));
    }

    /// How many events it takes until one is picked, that one included, if each is with probability 1/mean.
    fn distance(&self, mean: u32) -> u32 {
        if mean == 1 {
            return 1;
        }
        let seed = match self.state.get() {
            0 => Native::instant().rotate_left(32) ^ core::ptr::from_ref(self).addr() as u64,
            state => state,
        };
        let mut random = fastrand::Rng::with_seed(seed);
        // By inversion (Devroye, "Non-Uniform Random Variate Generation", 1986, section X.2); `f64` is below 1.
        let passed = libm::log(1.0 - random.f64()) / libm::log1p(-1.0 / f64::from(mean));
        self.state.set(random.get_seed());
        // The conversion stops at the largest number.
        (passed as u32).saturating_add(1)
    }
}
