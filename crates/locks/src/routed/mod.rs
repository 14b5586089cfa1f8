//! Routed locks (RON): the lock travels through the CPUs in TSP order, a round trip that is as short as possible (the
//! solution of a travelling salesman's problem). The position of a CPU on it is its TSP_ID: [`Platform::rank`].

pub mod list;
pub mod plock;
pub mod ron;
pub mod shared;
pub mod ticket;

use crate::parameters::{Default, Parameter, Setting, Values};
use lockswap_platform::{Platform, MAX_RANKS};

/// The TSP_IDs of all CPUs in TSP order, beginning with `first`, which may be the number of CPUs in place of 0.
pub fn tsp_order<P: Platform>(first: usize) -> impl Iterator<Item = usize> {
    (first..P::ranks() as usize).chain(0..first)
}

/// How many elements of this type fit into a cache line.
const fn fitting<T>() -> usize {
    match 64 / size_of::<T>() {
        0 => 1,
        some => some,
    }
}

/// How many CPUs that are neighbours on the route have elements of type `T` in one cache line. The paper puts them
/// together "to increase the cache efficiency" of the release; apart, a grant does not take the line from other
/// waiters.
pub const fn per_line<T>() -> Parameter {
    let most = fitting::<T>() as u32;
    Parameter {
        key: "per-line",
        values: Values::Number(Setting::PerLine, 1, most, "elements"),
        default: Default::Number(most),
        summary: "neighbours on the route whose elements share a cache line, rounded down to a power of two",
        source: "Lo et al.: OSDI 2023, sec. 4.2",
    }
}

/// Room for the elements of all CPUs, also if each has a cache line of its own: lines that nobody uses take addresses
/// only.
pub const ROOM_FOR_FLAGS: usize = MAX_RANKS * 16;
/// The same for elements of two words.
pub const ROOM_FOR_PAIRS: usize = MAX_RANKS * 8;

/// An array with an element for each CPU. CPUs whose TSP_IDs are equal modulo `N` share one.
#[repr(C, align(64))]
pub struct PerCpu<T, const N: usize>([T; N]);

impl<T, const N: usize> PerCpu<T, N> {
    /// An array of elements that `new` makes.
    pub fn new(mut new: impl FnMut() -> T) -> Self {
        PerCpu(core::array::from_fn(|_| new()))
    }

    /// The element of the CPU with this TSP_ID.
    #[inline]
    pub fn at<P: Platform>(&self, tsp_id: usize) -> &T {
        let near = Setting::PerLine.number::<P>(fitting::<T>() as u32);
        &self.0[place(tsp_id % N, N, fitting::<T>(), near.ilog2())]
    }
}

/// Where the element with this number lies among `n`, of which `fitting` share a line, if only 2^`near` of those that
/// follow each other may; if there are more of them than that leaves room for, each line also has some from elsewhere.
#[inline]
const fn place(number: usize, n: usize, fitting: usize, near: u32) -> usize {
    let lines = n / fitting;
    if lines == 0 {
        return number;
    }
    let (group, within) = (number >> near, number & ((1 << near) - 1));
    group % lines * fitting + ((group / lines) << near) + within
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::place;
    use std::collections::BTreeSet;

    #[test]
    fn every_element_has_a_place_and_as_many_neighbours_as_wanted() {
        for (n, fitting, near) in
            [(4096, 16, 4), (4096, 16, 0), (256, 16, 4), (256, 16, 2), (2048, 8, 3), (2048, 8, 1), (4, 16, 0)]
        {
            let places: std::vec::Vec<usize> = (0..n).map(|number| place(number, n, fitting, near)).collect();
            assert_eq!(places.iter().copied().collect::<BTreeSet<_>>(), (0..n).collect());
            let shares = |pair: &&[usize]| pair[0] / fitting == pair[1] / fitting;
            let together = places.windows(2).filter(shares).count();
            // A group ends after each 2^near elements, but the last one.
            let expected = if n < fitting { n - 1 } else { n - (n >> near) };
            assert_eq!(together, expected, "{n} {fitting} {near}");
        }
    }
}
