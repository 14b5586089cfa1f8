//! Read-write locks.

pub mod bravo;
pub mod cohort_rw;
pub mod phase_fair;
pub mod rw_futex;
pub mod shfllock_rw;

use lockswap_platform::{Deadline, Platform};

/// Waits for `f`, until `deadline` if there is one.
fn wait<P: Platform, R>(deadline: Option<Deadline>, f: impl FnMut() -> Option<R>) -> Option<R> {
    match deadline {
        None => Some(P::spin_map(f)),
        Some(deadline) => P::spin_map_until(deadline, f),
    }
}
