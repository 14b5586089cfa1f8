//! A server on the lock, and a load generator beside it that is measured.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use rustix::process::{kill_process_group, Pid, Signal};

use crate::model::Exit;
use crate::runner::{exit_of, has_ended, kill_group, reap, run_beside, Interrupt, Limits, Program, Run, GRACE};

/// How often we look whether the server is ready, or has ended.
const LOOK: Duration = Duration::from_millis(2);

/// What shows that the server takes requests.
#[derive(Clone, Debug)]
pub enum Ready {
    /// A process listens on this TCP port.
    Port(u16),
    /// This file is there.
    File(PathBuf),
    /// The server has written a line with this.
    Output(Regex),
}

impl Ready {
    /// Reads `port:N`, `file:F` or `output:REGEX`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("port", port)) => match port.parse() {
                Ok(port) if port != 0 => Ok(Ready::Port(port)),
                _ => Err(format!("'{port}' is not a port: give a number from 1 to 65535, as in port:8080")),
            },
            Some(("file", file)) if !file.is_empty() => Ok(Ready::File(file.into())),
            Some(("output", regex)) => match Regex::new(&format!("(?m:{regex})")) {
                Ok(regex) => Ok(Ready::Output(regex)),
                Err(error) => Err(format!("{error}; see https://docs.rs/regex-lite for the syntax")),
            },
            _ => Err("give port:N, file:FILE or output:REGEX".into()),
        }
    }

    fn is_so(&self, output: &mut [File; 2]) -> bool {
        match self {
            Ready::Port(port) => is_listened_on(*port),
            Ready::File(file) => file.exists(),
            Ready::Output(regex) => {
                output.iter_mut().any(|file| regex.is_match(&String::from_utf8_lossy(&whole(file))))
            }
        }
    }

    /// Why what shows that the server is ready shows nothing, if it was there before.
    fn stale(&self) -> Option<String> {
        match self {
            Ready::Port(port) if is_listened_on(*port) => Some(format!("a process listens on port {port} already")),
            Ready::File(file) if file.exists() => {
                Some(format!("{} is there already: remove it with --prepare", file.display()))
            }
            _ => None,
        }
    }
}

/// Whether some process accepts connections there: as the kernel lists it, since a connection would be a request.
fn is_listened_on(port: u16) -> bool {
    let listens = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(state)) = (fields.next(), fields.nth(1)) else { return false };
        state == "0A" && local.rsplit(':').next().and_then(|p| u16::from_str_radix(p, 16).ok()) == Some(port)
    };
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|file| {
        let table = fs::read_to_string(file).unwrap_or_default();
        table.lines().skip(1).any(listens)
    })
}

fn whole(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read shows nothing.
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    bytes
}

/// Starts `server`, waits until it is ready, runs `load` and stops the server. What counts is the load generator's
/// run, with the CPU time of the server; the second value is why it does not count, if so. `None` after an
/// interruption.
pub fn run_loaded(
    server: &Program,
    load: &Program,
    ready: &Ready,
    limits: Limits<'_>,
    interrupt: Option<&Interrupt>,
) -> Option<(Run, Option<String>)> {
    let begin = Instant::now();
    if let Some(stale) = ready.stale() {
        let error = std::io::Error::other(stale);
        return Some((Run::not_started(&error, begin.elapsed()), None));
    }
    // Files, which never fill up as pipes do while we wait for the load generator.
    let (mut output, mut child) = match start(server, limits) {
        Ok(started) => started,
        Err(error) => return Some((Run::not_started(&error, begin.elapsed()), None)),
    };
    let problem = loop {
        if interrupt.is_some_and(|i| i.signal().is_some()) {
            stop(&mut child);
            return None;
        }
        if has_ended(&child) {
            break Some("the server ended before it was ready".to_owned());
        }
        if ready.is_so(&mut output) {
            break None;
        }
        if begin.elapsed() > limits.timeout {
            break Some(format!("the server was not ready after {} s", limits.timeout.as_secs_f64()));
        }
        std::thread::sleep(LOOK);
    };
    let mut run = match &problem {
        Some(_) => Run::not_started(&std::io::Error::other("no server"), begin.elapsed()),
        None => {
            let limits = Limits { capture_stdout: true, input: None, ..limits };
            match run_beside(load, limits, interrupt, Some(&child)) {
                Some(run) => run,
                None => {
                    stop(&mut child);
                    return None;
                }
            }
        }
    };
    let ended_early = has_ended(&child);
    let (exit, usage) = stop(&mut child);
    run.usage = usage;
    let problem = match (problem, ended_early) {
        (Some(problem), true) => Some(format!("{problem}: {}", exit.words())),
        (Some(problem), false) => Some(problem),
        (None, true) => Some(format!("the server ended during the load: {}", exit.words())),
        (None, false) if run.exit != (Exit::Code { code: 0 }) => Some(format!("load generator: {}", run.exit.words())),
        (None, false) => None,
    };
    let mut servers = output.each_mut().map(whole);
    if limits.show {
        use std::io::Write;
        let _ = std::io::stderr().write_all(&servers.concat());
    }
    if problem.is_some() {
        // What went wrong is most likely in the last words of the server.
        run.stderr.append(&mut servers[0]);
        run.stderr.append(&mut servers[1]);
        run.exit = exit;
    } else {
        run.stderr.append(&mut servers[1]);
    }
    Some((run, problem))
}

/// The server, with its standard output and error.
fn start(server: &Program, limits: Limits<'_>) -> std::io::Result<([File; 2], Child)> {
    let output = [tempfile::tempfile()?, tempfile::tempfile()?];
    let child = server.spawn(|command| {
        let stream = |file: &File| file.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        let stdin = limits.stdin().unwrap_or_else(|_| Stdio::null());
        command.stdin(stdin).stdout(stream(&output[0])).stderr(stream(&output[1])).process_group(0);
    })?;
    Ok((output, child))
}

/// Asks the server to end, and makes it end after [`GRACE`].
fn stop(child: &mut Child) -> (Exit, crate::model::Usage) {
    let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
    let begin = Instant::now();
    while !has_ended(child) && begin.elapsed() < GRACE {
        std::thread::sleep(LOOK);
    }
    kill_group(child);
    let (status, usage) = reap(child);
    (exit_of(status), usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn shell(script: &str) -> Program {
        Program { args: ["/bin/sh", "-c", script].map(OsString::from).to_vec(), envs: Vec::new(), ..Program::default() }
    }

    fn run(server: &str, load: &str, ready: &str) -> (Run, Option<String>) {
        let limits =
            Limits { timeout: Duration::from_secs(5), capture_stdout: true, keep_bytes: 1 << 20, ..Limits::default() };
        run_loaded(&shell(server), &shell(load), &Ready::parse(ready).unwrap(), limits, None).unwrap()
    }

    #[test]
    fn the_load_runs_when_the_server_is_ready() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("up");
        let server = format!("sleep 0.2; : > {0}; exec sleep 100", file.display());
        let (ended, problem) = run(&server, &format!("ls {}", file.display()), &format!("file:{}", file.display()));
        assert_eq!((ended.exit, problem), (Exit::Code { code: 0 }, None));
        let (ended, problem) = run(&server, ":", &format!("file:{}", file.display()));
        assert!(problem.is_none() && matches!(&ended.exit, Exit::NotStarted { error } if error.contains("--prepare")));
        let (ended, problem) = run("sleep 0.2; echo up at last; exec sleep 100", "echo 7 req/s", "output:^up");
        assert_eq!((&ended.stdout[..], problem), (&b"7 req/s\n"[..], None));
        assert!(ended.wall < Duration::from_secs(5));
    }

    #[test]
    fn a_port_is_ready_when_somebody_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listened_on(port));
        let (ended, _) = run("sleep 100", ":", &format!("port:{port}"));
        assert!(matches!(&ended.exit, Exit::NotStarted { error } if error.contains("already")));
        drop(listener);
        // A child that another test has just forked has the socket, too, until it executes its program.
        let is_free = || {
            std::thread::sleep(Duration::from_millis(5));
            !is_listened_on(port)
        };
        assert!((0..1000).any(|_| is_free()));
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let (_, problem) = run("echo broken >&2; exit 3", ":", "output:up");
        assert_eq!(problem.unwrap(), "the server ended before it was ready: exit status 3");
        let (ended, problem) = run("echo up; exec sleep 100", "exit 4", "output:up");
        assert_eq!(problem.unwrap(), "load generator: exit status 4");
        assert_eq!(ended.exit, Exit::Signal { number: 15, name: "SIGTERM".into() });
        let (ended, problem) = run("echo up; sleep 0.3; echo why >&2; kill -SEGV $$", "sleep 100", "output:up");
        assert_eq!(problem.unwrap(), "the server ended during the load: crashed: SIGSEGV");
        assert!(ended.stderr.ends_with(b"why\n"));
    }

    #[test]
    fn what_shows_readiness_is_read() {
        for wrong in ["port:0", "port:99999", "port:x", "file:", "output:(", "8080", ""] {
            assert!(Ready::parse(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Ready::parse("port:8080"), Ok(Ready::Port(8080))));
    }
}
