//! Sets of cores.

/// Cores that a machine may have.
pub const MAX_CORES: usize = 512;

/// A set of cores.
#[derive(Clone, Copy, Default)]
pub struct CoreSet {
    cores: [u64; MAX_CORES / 64],
    len: u32,
}

impl CoreSet {
    /// Leaves `core` alone in the set.
    pub fn keep_only(&mut self, core: u32) {
        self.cores.fill(0);
        self.cores[core as usize / 64] = 1 << (core % 64);
        self.len = 1;
    }

    pub fn insert(&mut self, core: u32) {
        self.len += u32::from(!self.contains(core));
        self.cores[core as usize / 64] |= 1 << (core % 64);
    }

    #[inline]
    pub fn contains(&self, core: u32) -> bool {
        self.cores[core as usize / 64] & 1 << (core % 64) != 0
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }
}
