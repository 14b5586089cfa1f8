//! The route along the topology.

use lockswap_machine::captured::Captured;
use lockswap_machine::order::Order;

fn order(files: &str, cpus: &[usize]) -> Vec<usize> {
    let topology = lockswap_machine::read(&Captured::parse(files).unwrap(), None);
    let cpus = if cpus.is_empty() { *topology.online() } else { cpus.iter().copied().collect() };
    Order::along(&topology, &cpus).iter().collect()
}

/// Four nodes in a ring 0 - 2 - 1 - 3, two cores with two threads in each, numbered as Linux does on such machines.
const RING: &str = "\
devices/system/cpu/online\t0-15
devices/system/cpu/present\t0-15
devices/system/node/online\t0-3
devices/system/node/node0/cpulist\t0,4,8,12
devices/system/node/node1/cpulist\t1,5,9,13
devices/system/node/node2/cpulist\t2,6,10,14
devices/system/node/node3/cpulist\t3,7,11,15
devices/system/node/node0/distance\t10 31 21 21
devices/system/node/node1/distance\t31 10 21 21
devices/system/node/node2/distance\t21 21 10 31
devices/system/node/node3/distance\t21 21 31 10
devices/system/cpu/cpu[0,8]/topology/core_cpus_list\t0,8
devices/system/cpu/cpu[1,9]/topology/core_cpus_list\t1,9
devices/system/cpu/cpu[2,10]/topology/core_cpus_list\t2,10
devices/system/cpu/cpu[3,11]/topology/core_cpus_list\t3,11
devices/system/cpu/cpu[4,12]/topology/core_cpus_list\t4,12
devices/system/cpu/cpu[5,13]/topology/core_cpus_list\t5,13
devices/system/cpu/cpu[6,14]/topology/core_cpus_list\t6,14
devices/system/cpu/cpu[7,15]/topology/core_cpus_list\t7,15
";

#[test]
fn siblings_follow_each_other_and_nodes_go_round_the_ring() {
    assert_eq!(order(RING, &[]), [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]);
}

#[test]
fn some_cpus_keep_the_order_of_all() {
    assert_eq!(order(RING, &[1, 3, 8, 0, 14]), [0, 8, 14, 1, 3]);
    assert_eq!(order(RING, &[5]), [5]);
}

#[test]
fn a_machine_that_shows_nothing_is_visited_by_number() {
    assert_eq!(order("devices/system/cpu/online\t0-3,6\n", &[]), [0, 1, 2, 3, 6]);
}
