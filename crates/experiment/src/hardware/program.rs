//! Real programs as measurements of a series: one run of a program, or of a server under its load generator.
//!
//! The measuring process is on the lock already, so the program that it starts is, too. What makes the load is not.

use lockswap_platform::Ns;
use lockswap_study::metric::Metric;
use lockswap_study::model::Exit;
use lockswap_study::runner::{run_once, Interrupt, Limits, Program as Command, Run};
use lockswap_study::service::{run_loaded, Ready};
use lockswap_workloads::report::Report;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// A program to run once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its threads, as the command line says them.
    pub threads: usize,
    /// The program and its arguments; a server if there is a load.
    pub command: Vec<String>,
    /// What is measured instead, if the program is a server.
    pub load: Option<Load>,
    /// A regular expression for the number that counts, of which more is better; without one the wall time counts.
    pub metric: Option<String>,
    /// How long it takes, about.
    pub takes: Ns,
}

/// The load of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The load generator and its arguments.
    pub command: Vec<String>,
    /// What shows that the server is ready: `port:N`, `file:F` or `output:REGEX`.
    pub ready: String,
}

/// Variables that put a process on a lock.
const OURS: [&str; 5] = ["LD_PRELOAD", "LOCKSWAP_LOCK", "LOCKSWAP_RWLOCK", "LOCKSWAP_SPIN", "LOCKSWAP_TOPOLOGY"];

/// Bytes of what a program writes that are looked at.
const KEPT: usize = 1 << 20;

/// A run that takes so much longer than it should hangs; less than the measuring process itself is given.
const PATIENCE: Duration = Duration::from_secs(20);

impl Program {
    /// Runs it; an operation is a run, or whatever the metric counts.
    ///
    /// # Errors
    /// It cannot be started, fails, hangs or does not print its number.
    pub fn run(&self) -> io::Result<Report> {
        let command = |args: &[String], envs| {
            let args = args.iter().map(OsString::from).collect();
            Command { args, envs, ..Command::default() }
        };
        let timeout = PATIENCE + Duration::from_nanos(2 * self.takes);
        let limits = Limits { timeout, capture_stdout: true, keep_bytes: KEPT, ..Limits::default() };
        let interrupt = Interrupt::on(&[Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw))?;
        let own = command(&self.command, Vec::new());
        let ended = match &self.load {
            None => run_once(&own, limits, Some(&interrupt)).map(|run| (run, None)),
            Some(load) => {
                let plain = OURS.map(|name| (OsString::from(name), None)).to_vec();
                let ready = Ready::parse(&load.ready).map_err(io::Error::other)?;
                run_loaded(&own, &command(&load.command, plain), &ready, limits, Some(&interrupt))
            }
        };
        let (run, problem) = ended.ok_or_else(|| io::Error::other("interrupted"))?;
        match problem {
            Some(problem) => Err(io::Error::other(format!("{problem}{}", last_words(&run)))),
            None if run.exit != (Exit::Code { code: 0 }) => {
                Err(io::Error::other(format!("{}: {}{}", self.command[0], run.exit.words(), last_words(&run))))
            }
            None => self.report(&run),
        }
    }

    fn report(&self, run: &Run) -> io::Result<Report> {
        let seconds = run.wall.as_secs_f64();
        let throughput = match &self.metric {
            None => 1.0 / seconds,
            Some(expression) => {
                let metric = Metric::new(expression).map_err(io::Error::other)?;
                let found = metric.find(&String::from_utf8_lossy(&run.stdout));
                found.ok_or_else(|| io::Error::other(format!("{} did not print {expression}", self.command[0])))?
            }
        };
        Ok(Report {
            threads: self.threads,
            duration_ns: run.wall.as_nanos() as Ns,
            ops: (throughput * seconds).round() as u64,
            throughput,
            // Nobody knows what each of its threads did.
            fairness_factor: 0.5,
            jain: 1.0,
            cpu_ns: Some((run.usage.cpu_s() * 1e9) as Ns),
            ..Report::default()
        })
    }
}

/// The last line that a program wrote to standard error, for a message.
fn last_words(run: &Run) -> String {
    let text = String::from_utf8_lossy(&run.stderr);
    text.lines().rfind(|line| !line.trim().is_empty()).map_or(String::new(), |line| format!(": {}", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, metric: Option<&str>) -> Program {
        let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        Program { threads: 1, command, load: None, metric: metric.map(str::to_owned), takes: 0 }
    }

    #[test]
    fn a_program_gives_its_number_or_its_wall_time() {
        let report = shell("echo speed=250.5", Some("speed=([0-9.]+)")).run().expect("a run");
        assert_eq!((report.throughput, report.fairness_factor), (250.5, 0.5));
        let report = shell("sleep 0.1", None).run().expect("a run");
        assert!(report.throughput < 10.0 && report.cpu_ns.is_some(), "{report:?}");
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let said = |program: Program| program.run().expect_err("no run").to_string();
        let failed = said(shell("echo broken >&2; exit 3", None));
        assert!(failed.contains("/bin/sh") && failed.ends_with("broken"), "{failed}");
        assert!(said(shell("true", Some("speed=([0-9.]+)"))).contains("did not print speed="));
    }

    /// The server runs in this environment, its load generator without the library.
    #[test]
    fn a_load_is_measured_and_not_on_the_lock() {
        let ready = std::env::temp_dir().join(format!("lockswap-program-{}", std::process::id()));
        let file = ready.display();
        let script = format!("trap 'rm -f {file}; exit 0' TERM; touch {file}; while :; do sleep 0.01; done");
        let load = ["/bin/sh", "-c", "echo preload=[$LD_PRELOAD] rate=7"].map(str::to_owned).to_vec();
        let load = Some(Load { command: load, ready: format!("file:{file}") });
        let report = Program { load, ..shell(&script, Some(r"preload=\[\] rate=(\d+)")) }.run().expect("a run");
        assert_eq!(report.throughput, 7.0);
    }
}
