//! Measuring processes: children of the program that measures, so that each can run on another lock.

use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Subcommand of the workload that `lockswap compare` has built in.
pub const KEY_VALUE: &str = "__kv";

/// Subcommand that makes one measurement: see [`job`](super::job).
pub const MEASURE: &str = "__bench";

/// Subcommand that makes one run of `lockswap sim validate` on hardware.
pub const VALIDATE: &str = "__validate";

/// Subcommand that tells whether the preload library is in its own process.
pub const LOADED: &str = "__loaded";

/// Subcommand that tortures the locks of its own process: see [`torture`](super::torture).
pub const TORTURE: &str = "__torture";

/// Subcommand that tells whether it may yield.
pub const YIELD: &str = "__yield";

/// Subcommand that tells whether it may call `membarrier`.
pub const SETTLE: &str = "__settle";

/// Captures the result that [`KEY_VALUE`] prints.
pub const KEY_VALUE_METRIC: &str = "throughput_ops_per_s=([0-9]+)";
/// Its unit.
pub const KEY_VALUE_UNIT: &str = "ops/s";

/// Far more than a measurement takes beyond its own time: a process still running then hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A change of the environment; `None` removes a variable.
pub type Environment = Vec<(OsString, Option<OsString>)>;

/// The command that starts the subcommand `name` of `program` in this environment.
pub fn command(program: &Path, name: &str, environment: &Environment) -> Command {
    let mut command = Command::new(program);
    command.arg(name);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Runs a measuring process that takes about `time`; what it printed.
fn answer(mut command: Command, time: Duration) -> io::Result<Vec<u8>> {
    command.env("RUST_BACKTRACE", "0"); // the message alone is reported
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let child = command.spawn().map_err(|error| failed("cannot start the measuring process", error))?;
    let limit = PATIENCE + 2 * time;
    let process = rustix::process::Pid::from_child(&child);
    let (done, outcome) = mpsc::channel();
    let waiter = std::thread::spawn(move || done.send(child.wait_with_output()));
    let output = match outcome.recv_timeout(limit) {
        Ok(output) => output.map_err(|error| failed("cannot read the measuring process", error)),
        Err(_) => {
            // Ends the waiter too; an error means that the process ended by itself just now.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            Err(io::Error::other(format!("still running after {} s, stopped", limit.as_secs())))
        }
    };
    // The waiter's send fails only after a time-out, which is reported already.
    let _ = waiter.join();
    let output = output?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let said = |line: &&str| !line.trim().is_empty() && !line.starts_with("note: run with");
        let last = errors.lines().rfind(said).unwrap_or("no message");
        return Err(io::Error::other(format!("{}: {last}", output.status)));
    }
    Ok(output.stdout)
}

/// Runs a measuring process that takes about `time`; the numbers that it printed, as JSON.
///
/// # Errors
/// It cannot be started, fails, takes much longer and is stopped, or prints something else.
pub fn numbers<T: DeserializeOwned>(command: Command, time: Duration) -> io::Result<T> {
    let text = answer(command, time)?;
    let strange = |_| io::Error::other("the measuring process printed something else than its numbers");
    serde_json::from_slice(&text).map_err(strange)
}
