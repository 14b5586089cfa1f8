//! `lockswap bench trace`: what it costs a program to be traced.

use super::{locks, single, Common};
use crate::selection::INTERPOSED;
use lockswap_experiment::hardware::single::{changed, Part};
use lockswap_locks::registry::Role;
use lockswap_trace::{Session, Settings, SharedFile};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Measures each lock as it is, and while it is traced. As in `lockswap trace`, this process reads, unwinds and sums
/// up meanwhile.
pub fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let locks = locks(Role::Mutex, &common.lock, &[INTERPOSED], &["auto", "futex", "mcs_stp", "cna", "shfllock-b"])?;
    let shared = SharedFile::create(Settings::default())?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = Session::new(&shared, false);
            // Relaxed: it carries nothing but itself.
            while !is_done.load(Ordering::Relaxed) {
                session.read(std::process::id(), false);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let result = single::measure(common, Part::Trace, changed(&locks, "traced", |_| shared.variable()));
        is_done.store(true, Ordering::Relaxed);
        result
    })
}
