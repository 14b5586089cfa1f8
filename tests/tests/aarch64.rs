//! The same source on aarch64: cross-built with Debian's compiler, run in qemu-user (see `scripts/aarch64`).

use lockswap_e2e::run_with_timeout;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// About three times what the script takes on two busy CPUs.
const LIMIT: Duration = Duration::from_secs(15 * 60);

#[test]
#[cfg(target_arch = "x86_64")]
fn conformance_and_c_driver_pass_in_qemu() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/aarch64");
    let outcome = run_with_timeout(&mut Command::new(script), LIMIT);
    println!("{}", outcome.stdout);
    assert!(outcome.success(), "scripts/aarch64: {}\n{}\n{}", outcome.ending(), outcome.stdout, outcome.stderr);
}
