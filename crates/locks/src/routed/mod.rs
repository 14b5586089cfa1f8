//! Routed locks (RON): the lock travels through the CPUs in TSP order, a round trip that is as short as possible (the
//! solution of a travelling salesman's problem). The position of a CPU on it is its TSP_ID: [`Platform::rank`].

pub mod list;
pub mod plock;
pub mod ron;
pub mod shared;
pub mod ticket;

use lockswap_platform::Platform;

/// The TSP_IDs of all CPUs in TSP order, beginning with `first`, which may be the number of CPUs in place of 0.
pub fn tsp_order<P: Platform>(first: usize) -> impl Iterator<Item = usize> {
    (first..P::ranks() as usize).chain(0..first)
}

/// An array with an element for each CPU, in TSP order: as in the paper, those of neighbours on the route share a cache
/// line. CPUs whose TSP_IDs are equal modulo `N` share an element.
#[repr(C, align(64))]
pub struct PerCpu<T, const N: usize>([T; N]);

impl<T, const N: usize> PerCpu<T, N> {
    /// An array of elements that `new` makes.
    pub fn new(mut new: impl FnMut() -> T) -> Self {
        PerCpu(core::array::from_fn(|_| new()))
    }

    /// The element of the CPU with this TSP_ID.
    #[inline]
    pub fn at(&self, tsp_id: usize) -> &T {
        &self.0[tsp_id % N]
    }
}
