//! Servers: started without lockswap or on a lock, and never left behind.

use crate::process::{kill_group, stop, wait_until};
use crate::{start, Variant};
use rustix::process::{kill_process, Pid, Signal};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a server may take to begin, to end, and to answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server. Its process group is killed when this is dropped.
pub struct Server {
    child: Child,
    log: PathBuf,
    proof: Option<(Variant, PathBuf)>,
}

impl Server {
    /// Starts a program that stays in the foreground, in `directory`, which gets its output, too.
    pub fn start(variant: Option<&Variant>, program: &Path, arguments: &[String], directory: &Path) -> Self {
        let log = directory.join("output");
        let statistics = directory.join("stats.json");
        // What an earlier start left must prove nothing.
        let _ = fs::remove_file(&statistics);
        let mut command = match variant {
            None => Command::new(program),
            Some(variant) => {
                let file = statistics.to_str().expect("temporary directories have plain names");
                variant.command(&["--stats-json", file], program, arguments)
            }
        };
        if variant.is_none() {
            command.args(arguments);
        }
        let output = File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        command.stderr(output.try_clone().expect("a second handle of the file")).stdout(output).stdin(Stdio::null());
        let child = start(command.current_dir(directory).env("TMPDIR", directory));
        Server { child, log, proof: variant.map(|variant| (variant.clone(), statistics)) }
    }

    /// Adds what the server said to a complaint.
    pub fn explain(&self, complaint: impl std::fmt::Display) -> String {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        format!("{complaint}; the server said\n{}", lines[lines.len().saturating_sub(25)..].join("\n"))
    }

    /// Asks until there is an answer.
    pub fn wait_for<T>(&mut self, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, String> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask() {
                return Ok(answer);
            }
            if let Some(status) = self.child.try_wait().expect("wait for the server") {
                return Err(self.explain(format!("no {what}: the server ended with {status}")));
            }
            if Instant::now() > give_up {
                return Err(self.explain(format!("no {what} for {} s", PATIENCE.as_secs())));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the process that was started: to `lockswap run`, which passes it on, if there is one.
    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(process, signal).expect("signal the server");
    }

    fn proven(&self) -> Result<(), String> {
        let Some((variant, statistics)) = &self.proof else { return Ok(()) };
        variant.proven_by(statistics).map_err(|error| self.explain(error))
    }

    /// Asks the server to end, which it must do with status 0, and proves the lock.
    pub fn stop(mut self) -> Result<(), String> {
        match stop(&mut self.child, PATIENCE) {
            Some(status) if status.success() => self.proven(),
            Some(status) => Err(self.explain(format!("asked to end it ended with {status}"))),
            None => Err(self.explain(format!("asked to end it did not for {} s", PATIENCE.as_secs()))),
        }
    }

    /// Kills the server's own process, whose number stands in `pid_file`, and proves the lock.
    pub fn kill(mut self, pid_file: &Path) -> Result<(), String> {
        let text = fs::read_to_string(pid_file).map_err(|error| format!("{}: {error}", pid_file.display()))?;
        let process = text.trim().parse().ok().and_then(Pid::from_raw);
        let process = process.ok_or_else(|| format!("{} holds {text:?}", pid_file.display()))?;
        kill_process(process, Signal::KILL).map_err(|error| self.explain(format!("kill: {error}")))?;
        // `lockswap run` ends as its program does.
        match wait_until(&mut self.child, Instant::now() + PATIENCE) {
            Some(status) if status.signal() == Some(Signal::KILL.as_raw()) => self.proven(),
            other => Err(self.explain(format!("killed, the server ended with {other:?}"))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill_group(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }
}
