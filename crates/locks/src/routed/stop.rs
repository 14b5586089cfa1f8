//! The stops along the route.

use lockswap_platform::Platform;

/// What waiters at one stop watch, on a cache line of its own: they are on the same CPU.
#[repr(C, align(64))]
pub struct Stop<T>(pub T);

/// The ranks of all CPUs in the order of the route, from the one behind `here` to `here` itself.
pub fn route_from<P: Platform>(here: usize) -> impl Iterator<Item = usize> {
    (here + 1..P::ranks() as usize).chain(0..=here)
}

/// The ranks of all CPUs, beginning with `here`.
pub fn route_to<P: Platform>(here: usize) -> impl Iterator<Item = usize> {
    (here..P::ranks() as usize).chain(0..here)
}
