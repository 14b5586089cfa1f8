//! Locks that are called directly have the parameters that stand behind their names. The values are the process's: one
//! test.

use lockswap_locks::parameters::{Setting, SPINS_BEFORE_PARK};
use lockswap_locks::registry::Role;
use lockswap_platform::{Native, Platform};
use lockswap_workloads::direct::choose;

#[test]
fn the_process_gets_the_parameters_of_a_lock_that_is_called_directly() {
    let threshold = || Setting::Threshold.number::<Native>(7);
    assert_eq!((choose(Role::Mutex, "cna"), threshold()), (Some("cna"), 7));
    assert_eq!((choose(Role::Mutex, "CNA:threshold=255"), threshold()), (Some("cna"), 255));
    assert_eq!(choose(Role::Mutex, "asl:max-window=3ms"), Some("asl"));
    assert_eq!(Native::reorder_window(), 3_000_000);
    assert_eq!((choose(Role::Mutex, "cna:threshold=0"), threshold()), (None, 255));
    assert_eq!((choose(Role::Mutex, "mcs_stp"), Native::spins_before_park()), (Some("mcs_stp"), 500));
    std::env::set_var(SPINS_BEFORE_PARK, "1234");
    assert_eq!((choose(Role::Mutex, "mcs_stp"), Native::spins_before_park()), (Some("mcs_stp"), 1234));
}
