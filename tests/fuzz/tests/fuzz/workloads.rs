//! Parameters of workloads, and CPUs that play slower ones.

use lockswap_fuzz::{reading, text, MIB};
use lockswap_workloads::little::{environment, Little, MOST};
use lockswap_workloads::workload::Workload;

fn setting(input: &[u8]) {
    let text = text(input);
    let (key, value) = text.split_once('=').unwrap_or((&text, ""));
    for name in Workload::names() {
        let mut workload = Workload::named(name).expect("a name");
        let before = workload.clone();
        match reading(input, MIB, || workload.set(key, value)) {
            Ok(()) => {
                assert_eq!(workload.check(), Ok(()));
                let found = serde_json::to_value(workload.config()).expect("JSON")[key].to_string();
                let mut again = before;
                again.set(key, &found).expect("its own value");
                assert_eq!(again, workload, "{key}={found}");
            }
            Err(error) => {
                assert!(!error.what.is_empty() && !error.remedy.is_empty());
                assert_eq!(workload, before);
            }
        }
    }
}

fn little(input: &[u8]) {
    let text = text(input);
    let Ok(little) = reading(input, MIB, || text.parse::<Little>()) else { return };
    assert!(little.factor() > 1.0 && little.factor() <= MOST);
    assert_eq!(little.to_string().parse(), Ok(little.clone()));
    match little.seats_among(&[0, 1, 2, 3, 4, 5, 8]) {
        Ok(seats) => assert!(seats.len() == 7 && !environment(&seats).is_empty()),
        Err(error) => assert!(error.to_string().starts_with("--little ") && !error.remedy.is_empty()),
    }
}

lockswap_fuzz::tests!(setting, 12, super::setting);
lockswap_fuzz::tests!(little, 16, super::little);
