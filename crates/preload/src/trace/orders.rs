//! In which order threads acquire objects: what they want while they hold something else. Orders that contradict each
//! other can end in a deadlock, whether or not they did this time.
//!
//! While a thread has a hold that was picked, each acquisition is looked at, before it begins. The counts of what is
//! sampled do not change by that, and a thread that holds nothing that was picked does nothing for it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Acquisitions that are looked at during one hold: in one that lasts for long, there may be millions.
pub const MOST_LOOKS: u32 = 16;

/// The pairs that were noted last, each at the place that its hash says, so that a pair is noted once and not with
/// each look. Relaxed: two threads may note the same pair, which the reader counts as one.
static NOTED: [AtomicU64; 1 << 12] = [const { AtomicU64::new(0) }; 1 << 12];

/// Whether this pair of addresses was not noted yet, as far as is remembered, in this session.
pub fn is_new(held: usize, wanted: usize, session: u32) -> bool {
    // The same addresses the other way round are another pair.
    let mixed = (held as u64).rotate_left(32) ^ (wanted as u64) ^ (u64::from(session) << 56);
    let pair = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let place = &NOTED[(pair >> 52) as usize % NOTED.len()];
    place.load(Relaxed) != pair && place.swap(pair, Relaxed) != pair
}

/// In the child of a fork, whose orders are its own.
pub fn forget() {
    NOTED.iter().for_each(|pair| pair.store(0, Relaxed));
}
