//! How much of a shared resource a thread is to have, as Linux' scheduler has it.

/// The weight of a thread with this nice value: 1024 for 0, and a factor of 1.25 from one value to the next, so that
/// of two threads that compete the one that is nicer by 1 gets about a tenth less. Values beyond -20 and 19 count as
/// those.
pub fn weight_of_nice(nice: i32) -> u32 {
    const FRACTION_BITS: u32 = 32;
    let step = |weight: u64, _| if nice > 0 { weight * 4 / 5 } else { weight * 5 / 4 };
    let weight = (0..nice.clamp(-20, 19).unsigned_abs()).fold(1024 << FRACTION_BITS, step);
    ((weight + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::weight_of_nice;

    /// Linux' table differs by a few thousandths, because it is rounded from value to value.
    #[test]
    fn weights_are_those_of_the_scheduler() {
        for (nice, linux) in [(-20, 88761), (-10, 9548), (-1, 1277), (0, 1024), (1, 820), (5, 335), (10, 110), (19, 15)]
        {
            let weight = weight_of_nice(nice);
            assert!(weight.abs_diff(linux) * 100 <= linux, "nice {nice}: {weight}, in Linux {linux}");
        }
        assert_eq!((weight_of_nice(-21), weight_of_nice(20)), (weight_of_nice(-20), weight_of_nice(19)));
    }
}
