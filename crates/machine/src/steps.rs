//! How much the time between two CPUs grows with what is between them.

use crate::matrix::Matrix;
use crate::places::Steps;
use crate::topology::{Group, Topology};

/// The medians that decide on which level NUMA locks tell near from far. `None` where the machine has no CPUs of one
/// node with different last-level caches, or none of different cores with the same: then there is nothing to decide.
pub fn steps(topology: &Topology, matrix: &Matrix) -> Option<Steps> {
    let (mut same_llc, mut same_node, mut far) = (Vec::new(), Vec::new(), Vec::new());
    for (from, &first) in matrix.cpus().iter().enumerate() {
        for (to, &second) in matrix.cpus().iter().enumerate().take(from) {
            let same = |group| topology.group(group, first) == topology.group(group, second);
            let known = topology.online().contains(first) && topology.online().contains(second);
            if !known || same(Group::Core) && topology.group(Group::Core, first).is_some() {
                continue;
            }
            let times = match (same(Group::Node), same(Group::Llc)) {
                (_, true) => &mut same_llc,
                (true, false) => &mut same_node,
                (false, false) => &mut far,
            };
            times.push((matrix.ns(from, to) + matrix.ns(to, from)) / 2.0);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().filter(|ns| *ns > 0.0)
    };
    Some(Steps { same_llc: median(same_llc)?, same_node: median(same_node)?, far: median(far) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captured::Captured;

    #[test]
    fn medians_by_what_is_between() {
        let files = |text: &str| crate::read(&Captured::parse(text).unwrap(), None);
        let machine = files(
            "devices/system/cpu/online\t0-7\ndevices/system/cpu/cpu[0-7]/cache/index0/level\t3\n\
             devices/system/cpu/cpu[0-1]/cache/index0/shared_cpu_list\t0-1\n\
             devices/system/cpu/cpu[2-3]/cache/index0/shared_cpu_list\t2-3\n\
             devices/system/cpu/cpu[4-7]/cache/index0/shared_cpu_list\t4-7\n\
             devices/system/node/online\t0-1\ndevices/system/node/node0/cpulist\t0-3\ndevices/system/node/node1/cpulist\t4-7",
        );
        let between = |a: usize, b: usize| match (a.min(b), a.max(b)) {
            (a, b) if a == b => 0.0,
            (0, 1) | (2, 3) => 20.0,
            (4.., _) => 30.0,
            (_, ..4) => 90.0,
            _ => 150.0,
        };
        let matrix = Matrix::new((0..8).collect(), between);
        let found = steps(&machine, &matrix).unwrap();
        assert_eq!(found, Steps { same_llc: 30.0, same_node: 90.0, far: Some(150.0) });
        // One cache: nothing to decide.
        let flat = files("devices/system/cpu/online\t0-7");
        assert_eq!(steps(&flat, &matrix), None);
    }
}
