//! Programs that always end.

use rustix::process::{kill_process_group, Pid, Signal};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended and what it said.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// None: it was killed because its time was up.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Wall time.
    pub took: Duration,
}

impl Outcome {
    /// Whether it ended by itself with status 0.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words.
    pub fn ending(&self) -> String {
        match self.status {
            None => format!("hung, killed after {:.1} s", self.took.as_secs_f64()),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with status {code}"),
                (None, signal) => format!("died of signal {}", signal.unwrap_or(0)),
            },
        }
    }

    /// The last lines of both streams.
    pub fn tail(&self) -> String {
        let last = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(15)..].join("\n")
        };
        format!("{}\n{}", last(&self.stdout), last(&self.stderr)).trim().to_string()
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A stream that breaks off still shows what came before.
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
}

pub(crate) fn kill_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group may be gone already.
        let _ = kill_process_group(group, signal);
    }
}

pub(crate) fn wait_until(child: &mut Child, end: Instant) -> Option<ExitStatus> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait().expect("wait for the program") {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Starts the program in a process group of its own, without input.
pub fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).process_group(0);
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Asks a started program to end; kills its group when it does not.
pub fn stop(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    if let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(process, Signal::TERM);
    }
    let status = wait_until(child, Instant::now() + patience);
    kill_group(child, Signal::KILL);
    if status.is_none() {
        let _ = child.wait();
    }
    status
}

/// Runs the program to its end, or kills it and all of its children when `limit` has passed.
pub fn run_with_timeout(command: &mut Command, limit: Duration) -> Outcome {
    let begin = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command);
    let stdout = collect(child.stdout.take().expect("piped"));
    let stderr = collect(child.stderr.take().expect("piped"));
    let status = wait_until(&mut child, begin + limit);
    // Also what a finished program left behind: it would keep the pipes open.
    kill_group(&child, Signal::KILL);
    if status.is_none() {
        let _ = child.wait();
    }
    let took = begin.elapsed();
    let text = |receive: mpsc::Receiver<String>| receive.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
    Outcome { status, stdout: text(stdout), stderr: text(stderr), took }
}
