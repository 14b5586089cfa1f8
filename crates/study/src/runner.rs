//! Runs one program once.
//!
//! One thread waits for everything at once (end of the program, its output, the time limit, an interruption), so no
//! full pipe can stop the program and nothing else of ours runs beside it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process_group, pidfd_open, waitid, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use crate::model::{signal_name, Exit, Usage};
use crate::tail::{Stream, Tail};
use crate::window::{Counters, Look, Watch, Window};

/// How long a program has to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// A program with its arguments and what its environment has that ours has not.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program, searched in PATH when it has no slash, and its arguments.
    pub args: Vec<OsString>,
    /// Variables to set, or to remove where there is no value.
    pub envs: Vec<(OsString, Option<OsString>)>,
    /// The folder that it runs in; ours if there is none.
    pub folder: Option<PathBuf>,
}

impl Program {
    /// The command that starts the program; its standard streams are ours.
    pub fn command(&self) -> Command {
        self.command_from(OsStr::new(""), &self.args)
    }

    fn command_from(&self, fallback: &OsStr, args: &[OsString]) -> Command {
        let mut command = Command::new(args.first().map_or(fallback, OsString::as_os_str));
        command.args(args.iter().skip(1));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        for (name, value) in &self.envs {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Starts the program after `prepare` has set up the command. A script without a `#!` line runs in `/bin/sh`, as
    /// with `execvp`.
    pub fn spawn(&self, prepare: impl Fn(&mut Command)) -> io::Result<Child> {
        let mut command = self.command();
        prepare(&mut command);
        command.spawn().or_else(|error| {
            let no_exec_format = rustix::io::Errno::NOEXEC.raw_os_error();
            let found = self.args.first().and_then(|program| find_in_path(program));
            match (error.raw_os_error(), found) {
                (Some(code), Some(script)) if code == no_exec_format => {
                    let mut args = vec!["/bin/sh".into(), script.into_os_string()];
                    args.extend(self.args.iter().skip(1).cloned());
                    let mut command = self.command_from(OsStr::new("/bin/sh"), &args);
                    prepare(&mut command);
                    command.spawn()
                }
                _ => Err(error),
            }
        })
    }
}

/// The file that `program` names: itself when it has a slash, else the first executable of that name in PATH.
pub fn find_in_path(program: &OsStr) -> Option<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let executable =
        |file: &std::path::PathBuf| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(executable)
}

/// Whether this process was started with the signal ignored, as under `nohup`; it must stay so for its children.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).is_some_and(|m| m >> (signal - 1) & 1 == 1)
}

/// Signals that end a measurement early: caught, noted, and visible to a waiting [`run_once`].
#[derive(Debug)]
pub struct Interrupt {
    wake: UnixStream,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches `signals` from now on, except those that are ignored.
    pub fn on(signals: &[i32]) -> io::Result<Self> {
        let (wake, sender) = UnixStream::pair()?;
        let signal = Arc::new(AtomicUsize::new(0));
        for &number in signals.iter().filter(|s| !is_ignored(**s)) {
            signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
            signal_hook::low_level::pipe::register(number, sender.try_clone()?)?;
        }
        Ok(Self { wake, signal })
    }

    /// The last of the signals that came, if any.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst) as i32).filter(|s| *s != 0)
    }
}

/// How to run a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// Longest time that a run may take.
    pub timeout: Duration,
    /// Whether standard output is wanted; otherwise it goes to `/dev/null`.
    pub capture_stdout: bool,
    /// Bytes kept of each captured stream; of a longer one the end is kept.
    pub keep_bytes: usize,
    /// What the program reads from standard input; nothing without it.
    pub input: Option<&'a Path>,
    /// Whether what the program writes is written to our own streams, too.
    pub show: bool,
    /// The part of the run that counts, with which it ends; the whole run without one.
    pub window: Option<&'a Window>,
}

impl Limits<'_> {
    /// What the program reads.
    pub fn stdin(&self) -> io::Result<Stdio> {
        self.input.map_or_else(|| Ok(Stdio::null()), |path| File::open(path).map(Stdio::from))
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub exit: Exit,
    /// From before the start to the end.
    pub wall: Duration,
    /// What it and the processes that it waited for used of the CPUs.
    pub usage: Usage,
    /// The end of what it wrote to standard output.
    pub stdout: Vec<u8>,
    /// The end of what it wrote to standard error.
    pub stderr: Vec<u8>,
    /// What was counted in the window, or why nothing was; nothing without a window.
    pub counters: Option<Result<Counters, String>>,
}

impl Run {
    /// A run that did not begin.
    pub fn not_started(error: &io::Error, wall: Duration) -> Self {
        let exit = Exit::NotStarted { error: error.to_string() };
        Self { exit, wall, usage: Usage::default(), stdout: Vec::new(), stderr: Vec::new(), counters: None }
    }
}

/// Runs `program` in a process group of its own and kills what is left of the group when the program ends, its time is
/// up or an interruption comes. `None` after an interruption.
pub fn run_once(program: &Program, limits: Limits<'_>, interrupt: Option<&Interrupt>) -> Option<Run> {
    run_beside(program, limits, interrupt, None)
}

/// The same; the run also ends, as one that timed out, when `companion` does.
pub fn run_beside(
    program: &Program,
    limits: Limits<'_>,
    interrupt: Option<&Interrupt>,
    companion: Option<&Child>,
) -> Option<Run> {
    if interrupt.is_some_and(|i| i.signal().is_some()) {
        return None;
    }
    let begin = Instant::now();
    let stdin = match limits.stdin() {
        Ok(stdin) => std::cell::Cell::new(Some(stdin)),
        Err(error) => return Some(Run::not_started(&error, begin.elapsed())),
    };
    let spawned = program.spawn(|command| {
        let stdout = if limits.capture_stdout || limits.show { Stdio::piped() } else { Stdio::null() };
        let stdin = stdin.take().or_else(|| limits.stdin().ok()).unwrap_or_else(Stdio::null);
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).process_group(0);
    });
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Some(Run::not_started(&error, begin.elapsed())),
    };
    let show = |stream: Stream| limits.show.then_some(stream);
    let mut stdout = Tail::new(child.stdout.take().map(OwnedFd::from), limits.keep_bytes, show(Stream::Stdout));
    let mut stderr = Tail::new(child.stderr.take().map(OwnedFd::from), limits.keep_bytes, show(Stream::Stderr));
    let mut watch = limits.window.map(Watch::new);
    let mut wait =
        |timeout, watch| wait(&child, begin, timeout, [&mut stdout, &mut stderr], interrupt, companion, watch);
    let end = wait(limits.timeout, watch.as_mut());
    let wall = begin.elapsed();
    if matches!(end, End::Counted(_)) {
        // Whether anybody is left to be asked does not matter.
        let _ = kill_process_group(Pid::from_child(&child), Signal::TERM);
        wait(wall + GRACE, None);
    }
    kill_group(&child);
    // The group is dead or this was its leader's own end: what the pipes hold now is all there will be.
    stdout.drain();
    stderr.drain();
    let (status, usage) = reap(&mut child);
    let early = || limits.window.map(|_| Err("it ended before the window did".to_owned()));
    let (exit, counters) = match end {
        End::Exited => (exit_of(status), early()),
        // It ended because we wanted it to.
        End::Counted(counters) => (Exit::Code { code: 0 }, Some(counters)),
        End::TimedOut => (Exit::TimedOut { after_s: limits.timeout.as_secs_f64() }, None),
        End::Interrupted => return None,
    };
    Some(Run { exit, wall, usage, stdout: stdout.kept(), stderr: stderr.kept(), counters })
}

/// Waits for the child, and tells what it used of the CPUs: what our children have used grows by that when it is
/// waited for.
pub fn reap(child: &mut Child) -> (io::Result<ExitStatus>, Usage) {
    let before = children();
    let status = child.wait();
    let after = children();
    let usage = Usage {
        user_s: (after.user_s - before.user_s).max(0.0),
        system_s: (after.system_s - before.system_s).max(0.0),
        voluntary_switches: after.voluntary_switches.saturating_sub(before.voluntary_switches),
        involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
    };
    (status, usage)
}

/// What all children that we have waited for have used; other threads must not wait for theirs meanwhile.
fn children() -> Usage {
    use nix::sys::resource::{getrusage, UsageWho};
    let Ok(used) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Usage::default() };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Usage {
        user_s: seconds(used.user_time()),
        system_s: seconds(used.system_time()),
        voluntary_switches: used.voluntary_context_switches().try_into().unwrap_or_default(),
        involuntary_switches: used.involuntary_context_switches().try_into().unwrap_or_default(),
    }
}

enum End {
    Exited,
    /// The window is over.
    Counted(Result<Counters, String>),
    TimedOut,
    Interrupted,
}

/// Waits until the program is a zombie: it is not reaped, so that its process group cannot become another's.
fn wait(
    child: &Child,
    begin: Instant,
    timeout: Duration,
    mut streams: [&mut Tail; 2],
    interrupt: Option<&Interrupt>,
    companion: Option<&Child>,
    mut watch: Option<&mut Watch<'_>>,
) -> End {
    let pidfd_of = |child| pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok();
    let (pidfd, companions) = (pidfd_of(child), companion.and_then(pidfd_of));
    loop {
        if has_ended(child) {
            return End::Exited;
        }
        if companion.is_some_and(has_ended) {
            return End::TimedOut;
        }
        if interrupt.is_some_and(|i| i.signal().is_some()) {
            return End::Interrupted;
        }
        let counting = match watch.as_mut().map(|watch| watch.look(begin, interrupt)) {
            Some(Look::Over(counters)) => return End::Counted(counters),
            Some(Look::Later(nap)) => nap,
            None => Duration::MAX,
        };
        let left = timeout.saturating_sub(begin.elapsed()).min(counting);
        if timeout <= begin.elapsed() {
            return End::TimedOut;
        }
        // Kernels before 5.3 have no pidfd: look every millisecond.
        let nap = if pidfd.is_some() { left } else { left.min(Duration::from_millis(1)) };
        let sources = streams.iter().filter_map(|s| s.source.as_ref().map(AsFd::as_fd));
        let own = [pidfd.as_ref(), companions.as_ref()].map(|fd| fd.map(AsFd::as_fd));
        let own = own.into_iter().chain([interrupt.map(|i| i.wake.as_fd())]);
        let watched = own.flatten().chain(sources);
        let mut fds: Vec<PollFd<'_>> = watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
        let ready = poll(&mut fds, Some(&nap));
        if ready.is_ok_and(|n| n > 0) {
            for stream in &mut streams {
                stream.read_once();
            }
        }
    }
}

/// Whether the child is a zombie. It stays one.
pub fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(waitid(WaitId::Pid(Pid::from_child(child)), options), Ok(None))
}

/// Kills the child's process group.
pub fn kill_group(child: &Child) {
    // Both may fail for one reason only: nothing is left to kill.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = rustix::process::kill_process(Pid::from_child(child), Signal::KILL);
}

/// How a child ended that was waited for.
pub fn exit_of(status: io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code { code },
            (None, number) => {
                let number = number.unwrap_or_default();
                Exit::Signal { number, name: signal_name(number) }
            }
        },
        Err(error) => Exit::NotStarted { error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program { args: ["/bin/sh", "-c", script].map(OsString::from).to_vec(), envs: Vec::new(), ..Program::default() }
    }

    fn limits(timeout: Duration) -> Limits<'static> {
        Limits { timeout, capture_stdout: true, keep_bytes: 1 << 20, ..Limits::default() }
    }

    fn run(script: &str) -> Run {
        run_once(&shell(script), limits(Duration::from_secs(20)), None).unwrap()
    }

    fn alive(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z")
    }

    #[test]
    fn statuses_signals_and_output() {
        let ended = run("echo out; echo err >&2; exit 7");
        assert_eq!(ended.exit, Exit::Code { code: 7 });
        assert_eq!((&*ended.stdout, &*ended.stderr), (&b"out\n"[..], &b"err\n"[..]));
        let killed = run("kill -SEGV $$");
        assert_eq!(killed.exit, Exit::Signal { number: 11, name: "SIGSEGV".into() });
        let none = Program { args: vec!["/no/such/program".into()], envs: Vec::new(), ..Program::default() };
        let missing = run_once(&none, limits(Duration::from_secs(1)), None).unwrap();
        assert!(matches!(missing.exit, Exit::NotStarted { .. }), "{:?}", missing.exit);
    }

    #[test]
    fn cpu_time_and_input_of_a_run() {
        let busy = run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
        assert!(busy.usage.user_s > 0.01 && busy.usage.user_s < 15.0, "{:?}", busy.usage);
        let asleep = run("sleep 0.3");
        assert!(asleep.usage.cpu_s() < 2.0 && asleep.usage.voluntary_switches > 0, "{:?}", asleep.usage);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("input");
        std::fs::write(&file, "line\n").unwrap();
        let limits = Limits { input: Some(&file), ..limits(Duration::from_secs(20)) };
        assert_eq!(run_once(&shell("cat"), limits, None).unwrap().stdout, b"line\n");
        let missing = Limits { input: Some(Path::new("/no/such/file")), ..limits };
        assert!(matches!(run_once(&shell("cat"), missing, None).unwrap().exit, Exit::NotStarted { .. }));
    }

    #[test]
    fn the_environment_is_set_and_removed() {
        let mut program = shell("echo \"$LOCKSWAP_TEST:${HOME-none}\"");
        program.envs = vec![("LOCKSWAP_TEST".into(), Some("1".into())), ("HOME".into(), None)];
        let ended = run_once(&program, limits(Duration::from_secs(20)), None).unwrap();
        assert_eq!(ended.stdout, b"1:none\n");
    }

    #[test]
    fn much_output_on_both_streams_neither_blocks_nor_is_kept_whole() {
        let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo end; echo end >&2";
        let ended = run(script);
        assert_eq!(ended.exit, Exit::Code { code: 0 });
        for stream in [ended.stdout, ended.stderr] {
            assert!(stream.len() <= 1 << 20 && stream.ends_with(b"end\n"), "{} bytes kept", stream.len());
        }
    }

    #[test]
    fn a_time_out_kills_the_whole_process_group() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        let script = format!("sleep 300 & echo $! > {0}; sleep 301 & echo $! >> {0}; wait", pids.display());
        let begin = Instant::now();
        let ended = run_once(&shell(&script), limits(Duration::from_millis(700)), None).unwrap();
        assert_eq!(ended.exit, Exit::TimedOut { after_s: 0.7 });
        assert!(begin.elapsed() < Duration::from_secs(10));
        let pids = std::fs::read_to_string(pids).unwrap();
        assert_eq!(pids.lines().count(), 2);
        std::thread::sleep(Duration::from_millis(100));
        for pid in pids.lines() {
            assert!(!alive(pid), "process {pid} outlived the time-out");
        }
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed_and_does_not_hold_up_the_end() {
        let begin = Instant::now();
        let ended = run("sleep 300 & echo $!");
        assert_eq!(ended.exit, Exit::Code { code: 0 });
        assert!(begin.elapsed() < Duration::from_secs(10), "waited for the child that kept the pipe open");
        std::thread::sleep(Duration::from_millis(100));
        assert!(!alive(String::from_utf8(ended.stdout).unwrap().trim()));
    }

    #[test]
    fn a_script_without_an_interpreter_line_runs_in_the_shell() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("plain");
        std::fs::write(&script, "echo \"from $1\"\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program { args: vec![script.into(), "sh".into()], envs: Vec::new(), ..Program::default() };
        let ended = run_once(&program, limits(Duration::from_secs(20)), None).unwrap();
        assert_eq!((ended.exit, &*ended.stdout), (Exit::Code { code: 0 }, &b"from sh\n"[..]));
    }

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert_eq!(find_in_path(OsStr::new("./x/y")).as_deref(), Some(Path::new("./x/y")));
        assert!(find_in_path(OsStr::new("sh")).is_some_and(|p| p.is_absolute()));
        assert_eq!(find_in_path(OsStr::new("no-such-program-anywhere")), None);
    }
}
