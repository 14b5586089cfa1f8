//! Sets of cores.

/// Cores that a machine may have.
pub const MAX_CORES: usize = 512;

/// A set of cores.
#[derive(Clone, Copy, Default)]
pub struct CoreSet([u64; MAX_CORES / 64]);

impl CoreSet {
    /// The set of `core` alone.
    pub fn only(core: u32) -> Self {
        let mut set = Self::default();
        set.insert(core);
        set
    }

    pub fn insert(&mut self, core: u32) {
        self.0[core as usize / 64] |= 1 << (core % 64);
    }

    #[inline]
    pub fn contains(&self, core: u32) -> bool {
        self.0[core as usize / 64] & 1 << (core % 64) != 0
    }

    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}
