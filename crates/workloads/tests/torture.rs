//! The torture of glibc's own locks: that it ends well shows that the test itself is sound.

use lockswap_workloads::torture::{run, Config, Focus, Report};
use std::time::Duration;

#[test]
fn glibc_passes_with_every_focus() {
    for focus in [Focus::Mutex, Focus::RwLock, Focus::Spin] {
        let short = Config::new(1, Duration::from_millis(200));
        let config = Config { focus, threads: vec![2, 9], ends_inside: false, ..short };
        let mut found = Report::default();
        run(&config, |report| found = report.clone());
        assert!(found.operations > 100 && found.acquisitions > 100, "{focus:?}: {found:?}");
    }
}
