//! Marsaglia's xorshift64 with Vigna's multiplier (xorshift64*): a few instructions, the same sequence for a seed.

/// A pseudo-random sequence.
pub(crate) struct Random(u64);

impl Random {
    /// The sequence number `stream` of those that belong to `seed`.
    pub(crate) fn seeded(seed: u64, stream: u64) -> Self {
        // SplitMix64's finaliser: neighbouring seeds and streams give states that have nothing in common.
        let mut state =
            seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((state ^ (state >> 31)) | 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::seeded(0, 0);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn streams_differ() {
        let first = |seed, stream| Random::seeded(seed, stream).next();
        assert_eq!(first(7, 3), first(7, 3));
        assert!(first(7, 3) != first(7, 4) && first(7, 3) != first(8, 3));
    }
}
