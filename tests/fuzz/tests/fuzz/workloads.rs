//! Parameters of workloads.

use lockswap_fuzz::{reading, text, MIB};
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

lockswap_fuzz::tests!(setting, 12, super::setting);
