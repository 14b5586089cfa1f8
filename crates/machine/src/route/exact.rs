//! The shortest tour, by dynamic programming: time and memory double with each CPU.

use super::Cost;

/// The shortest tour: for each set of CPUs and each of its members, the shortest path from CPU 0 through the set that
/// ends there (Held and Karp, 1962).
pub fn exact(cost: &Cost) -> Vec<usize> {
    let others = cost.side.saturating_sub(1);
    if others == 0 {
        return (0..cost.side).collect();
    }
    // Length of the path, and the CPU before its end; CPU i + 1 is bit i.
    let mut best = vec![(i64::MAX, 0); others << others];
    for last in 0..others {
        best[(1 << last) * others + last] = (cost.of(0, last + 1), last);
    }
    for set in 1usize..1 << others {
        for last in (0..others).filter(|last| set & 1 << last != 0) {
            let (length, _) = best[set * others + last];
            for next in (0..others).filter(|next| set & 1 << next == 0) {
                let longer = length + cost.of(last + 1, next + 1);
                let path = &mut best[(set | 1 << next) * others + next];
                if longer < path.0 {
                    *path = (longer, last);
                }
            }
        }
    }
    let mut set = (1 << others) - 1;
    let closed = |last: &usize| best[set * others + last].0 + cost.of(last + 1, 0);
    let mut last = (0..others).min_by_key(closed).unwrap_or(0);
    let mut tour = Vec::new();
    while set != 0 {
        tour.push(last + 1);
        let before = best[set * others + last].1;
        set &= !(1 << last);
        last = before;
    }
    tour.push(0);
    tour.reverse();
    tour
}
