//! The command in a terminal: what its screen shows, and that it is left usable.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pty_process::blocking::Pty;
use rustix::termios::LocalModes;

use crate::{text, wait_for, Place};

/// Rows of the emulated screen: enough for all that a command writes.
const ROWS: u16 = 1000;

/// A command that runs in a terminal of its own, in whose session it and all that it starts are.
pub struct Terminal {
    child: Child,
    pty: Arc<Pty>,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    columns: u16,
}

impl Terminal {
    pub fn start(command: Command, columns: u16) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(50, columns)).unwrap();
        let child = pty_process::blocking::Command::from(command).spawn(pts).unwrap();
        let (pty, written) = (Arc::new(pty), Arc::new(Mutex::new(Vec::new())));
        let (source, sink) = (Arc::clone(&pty), Arc::clone(&written));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails (EIO) when the last process has closed the terminal.
            while let Ok(length) = source.as_ref().read(&mut bytes) {
                sink.lock().unwrap().extend_from_slice(&bytes[..length]);
            }
        });
        Self { child, pty, written, reader, columns }
    }

    pub fn shown(&self) -> Shown {
        Shown { bytes: self.written.lock().unwrap().clone(), columns: self.columns }
    }

    /// Types Ctrl-C.
    pub fn interrupt(&self) {
        self.press("\x03");
    }

    /// Types these keys.
    pub fn press(&self, keys: &str) {
        self.pty.as_ref().write_all(keys.as_bytes()).unwrap();
    }

    /// The process of the command.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether the command has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Whether what is typed is shown, and given to programs by lines.
    pub fn is_cooked(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&*self.pty).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Waits for the end; nothing may be left of what the command started.
    pub fn end(mut self) -> (ExitStatus, Shown) {
        let status = self.child.wait().unwrap();
        let session = self.child.id();
        wait_for("the end of all processes of the session", || processes_of(session).is_empty());
        self.reader.join().unwrap();
        let bytes = self.written.lock().unwrap().clone();
        (status, Shown { bytes, columns: self.columns })
    }
}

/// Processes of a session that have not ended.
fn processes_of(session: u32) -> Vec<String> {
    let stat =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok();
    let in_session = |stat: &String| {
        // What follows the name in brackets: state, parent, group, session.
        let rest: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').take(4).collect();
        rest.first() != Some(&"Z") && rest.get(3) == Some(&session.to_string().as_str())
    };
    std::fs::read_dir("/proc").unwrap().filter_map(stat).filter(in_session).collect()
}

/// What was written to a terminal of so many columns.
pub struct Shown {
    bytes: Vec<u8>,
    columns: u16,
}

impl Shown {
    fn empty_screen(&self) -> vt100::Parser {
        let size = |size| NonZero::new(size).unwrap();
        vt100::Parser::new(size(ROWS), size(self.columns), 0)
    }

    fn screen(&self) -> vt100::Parser {
        let mut parser = self.empty_screen();
        parser.process(&self.bytes);
        parser
    }

    pub fn text(&self) -> String {
        self.screen().screen().contents()
    }

    /// Whether it is the screen of a program that has all of it, behind which that of the shell waits.
    pub fn is_alternate(&self) -> bool {
        self.screen().screen().alternate_screen()
    }

    /// Whether a line was at any time too long for the terminal.
    fn is_wrapped(&self) -> bool {
        let mut parser = self.empty_screen();
        self.bytes.split_inclusive(|byte| *byte == b'\r').any(|piece| {
            parser.process(piece);
            (0..ROWS).any(|row| parser.screen().row_wrapped(row))
        })
    }

    /// Whether something on the screen is green.
    fn has_green(&self) -> bool {
        let parser = self.screen();
        let is_green = |row, column| {
            let cell = parser.screen().cell(row, column);
            cell.is_some_and(|cell| matches!(cell.fgcolor(), vt100::Color::Idx(2 | 10)) && cell.has_contents())
        };
        (0..ROWS).any(|row| (0..self.columns).any(|column| is_green(row, column)))
    }

    /// Words of letters alone.
    fn words(&self) -> BTreeSet<String> {
        let text = self.text();
        let words = text.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        words.filter(|word| !word.is_empty() && word.chars().all(char::is_alphabetic)).map(str::to_owned).collect()
    }

    /// The cursor can be seen, and the last line is empty, ready for the shell's prompt.
    pub fn check_usable(&self) {
        let parser = self.screen();
        assert!(!parser.screen().hide_cursor(), "{}", self.text());
        let (row, column) = parser.screen().cursor_position();
        let line = parser.screen().rows(0, self.columns).nth(usize::from(row));
        assert_eq!((column, line.as_deref()), (0, Some("")), "{}", self.text());
    }
}

/// `lockswap` as a terminal's shell starts it.
pub fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = place.lockswap(args);
    command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").env_remove("COLUMNS");
    command
}

fn shown(place: &Place, columns: u16, args: &[&str]) -> (ExitStatus, Shown) {
    Terminal::start(command(place, args), columns).end()
}

/// The words in the sources of what makes the texts. What is said of measurements differs from run to run.
fn words_of_texts() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut folders = ["study", "experiment", "machine", "plot"]
        .map(|name| {
            let crates = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
            crates.join(name).join("src")
        })
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                words.extend(text.split(|c: char| !c.is_alphabetic()).map(str::to_owned));
            }
        }
    }
    words
}

/// Shows `args` on terminals of several widths: no line is too long, and all words are whole; gives the narrow one's
/// text.
fn fits(args: &[&str], other_words: &str) -> String {
    let place = Place::new();
    fits_in(&place, args, other_words)
}

fn fits_in(place: &Place, args: &[&str], other_words: &str) -> String {
    let (status, wide) = shown(place, 200, args);
    assert!(status.code().is_some(), "{args:?}: {status}");
    let mut known = wide.words();
    assert!(!wide.is_wrapped() && known.len() > 3, "{args:?}\n{}", wide.text());
    known.extend(other_words.split(' ').map(str::to_owned));
    known.extend(words_of_texts());
    for columns in [80, 60] {
        let (_, narrow) = shown(place, columns, args);
        assert!(!narrow.is_wrapped(), "{args:?} at {columns}\n{}", narrow.text());
        let broken: Vec<_> = narrow.words().difference(&known).cloned().collect();
        assert!(broken.is_empty(), "{args:?} at {columns}: {broken:?}\n{}", narrow.text());
        if columns == 60 {
            return narrow.text();
        }
    }
    unreachable!("60 is one of the widths")
}

#[test]
fn comparisons_fit() {
    let place = Place::new();
    let script = place.locking_script("program", "sleep 0.01");
    let shown = fits_in(&place, &["compare", "--runs", "6", "--lock", "futex", "--", &script], "");
    assert!(shown.contains("ratio [95% CI]") && shown.contains("verdict"), "{shown}");
    let row = shown.lines().find(|line| line.trim_start().starts_with("futex ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(row.contains('[') && row.contains(']'), "{shown}");
}

#[test]
fn tables_of_locks_and_machines_fit() {
    fits(&["list"], "list lockswap");
    fits(&["topo"], "");
}

#[test]
fn tables_of_numbers_fit() {
    fits(&["bench", "uncontended", "--runs", "1", "--lock", "futex"], "");
    fits(&["bench", "kv", "--runs", "1", "--lock", "futex", "--duration", "50ms"], "");
}

#[test]
fn simulations_fit() {
    let small = ["--duration", "200us", "--threads", "1,8"];
    let shown = fits(&[&["sim", "--workload", "kv", "--set", "external=0,100"], &small[..]].concat(), "");
    let parts = shown.lines().filter(|line| line.trim_start().starts_with("lock  "));
    assert!(parts.clone().count() > 1 && parts.clone().all(|line| line.contains("with") && line.contains("threads")));
    fits(&["sim", "reproduce", "--only", "cna-mcs-1,shfl-1", "--seeds", "1"], "");
    let few = ["--only", "cna-mcs-1", "--parameter", "core,kv", "--duration", "1ms"];
    fits(&[&["sim", "sensitivity"], &few[..]].concat(), "");
    let short = ["--runs", "2", "--duration", "20ms", "--simulated", "1ms", "--machine", "apple-m1"];
    let validate = [&["sim", "validate", "--lock", "ttas,ticket", "--workloads", "counter"], &short[..]].concat();
    fits(&validate, "");
}

#[test]
fn help_fits() {
    for subcommand in [
        "run",
        "compare",
        "slo",
        "trace",
        "top",
        "advise",
        "list",
        "doctor",
        "topo",
        "preload-path",
        "bench",
        "sim",
        "study",
        "torture",
        "install-docs",
    ] {
        fits(&[subcommand, "--help"], "");
    }
}

/// A program that says itself how good each lock is: three times as good as glibc's.
fn graded(place: &Place) -> String {
    place.locking_script("graded", "[ \"$LOCKSWAP_LOCK\" = ticket ] && echo m=300 || echo m=100")
}

const GRADED: [&str; 8] = ["compare", "--lock", "ticket", "--runs", "6", "--metric", "m=([0-9]+)", "--no-confirm"];

#[test]
fn colours_go_to_a_terminal_that_wants_them() {
    let place = Place::new();
    let script = graded(&place);
    let args = [&GRADED[..], &["--", &script]].concat();
    let (_, coloured) = shown(&place, 100, &args);
    assert!(coloured.text().contains("x better") && coloured.has_green(), "{}", coloured.text());
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut command = command(&place, &args);
        command.env(name, value);
        let (_, plain) = Terminal::start(command, 100).end();
        assert!(plain.text().contains("x better") && !plain.has_green(), "{name}: {}", plain.text());
    }
    let piped = text(&command(&place, &args).output().unwrap().stdout);
    assert!(piped.contains("x better") && !piped.contains('\x1b'), "{piped}");
}

#[test]
fn a_locale_of_ascii_gets_ascii() {
    let place = Place::new();
    let script = graded(&place);
    let args = [&GRADED[..], &["--export", "c.md", "--", &script]].concat();
    let mut command = command(&place, &args);
    let output = command.env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success() && output.stdout.is_ascii(), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("+-"), "{}", text(&output.stdout));
    let exported = std::fs::read_to_string(place.path("c.md")).unwrap();
    assert!(exported.contains('±'), "{exported}");
}

#[test]
fn a_home_that_is_missing_or_closed_stops_nothing() {
    let place = Place::new();
    let script = place.locking_script("program", "true");
    for args in
        [&["compare", "--lock", "futex", "--runs", "1", "--", &script][..], &["run", "--summary", "--", &script]]
    {
        for home in [None, Some("/proc")] {
            let mut command = command(&place, args);
            command.env_remove("XDG_CACHE_HOME");
            home.map(|home| command.env("HOME", home));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{args:?}, {home:?}: {}", text(&output.stderr));
        }
    }
}

/// A program that writes to a mapped file without room for it would be killed (SIGBUS).
#[test]
fn without_room_for_counters_the_program_runs_and_that_is_said() {
    let place = Place::new();
    std::fs::create_dir(place.path("full")).unwrap();
    let full = place.path("full");
    let mounts = format!(
        "for folder in '{}' /dev/shm; do mount -t tmpfs -o size=4k none \"$folder\"; done",
        full.to_str().unwrap()
    );
    let script = place.locking_script("program", "echo it ran");
    let run = |args: &[&str]| {
        let mut command = place.lockswap_with_mounts(&mounts, args)?;
        let output = command.env("TMPDIR", &full).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}\n{}", output.status, text(&output.stderr));
        Some((text(&output.stdout), text(&output.stderr)))
    };
    let Some((compared, _)) = run(&["compare", "--lock", "futex", "--runs", "6", "--", &script]) else { return };
    assert!(compared.contains("warning: lock calls were not counted") && compared.contains("ratio"), "{compared}");
    let (output, said) = run(&["run", "--summary", "--", &script]).unwrap();
    assert!(output.contains("it ran") && said.contains("what is replaced cannot be counted"), "{output}\n{said}");
    // With room there is no such warning.
    let compared = text(&place.output(&["compare", "--lock", "futex", "--runs", "6", "--", &script]).stdout);
    assert!(compared.contains("ratio") && !compared.contains("not counted"), "{compared}");
}

/// Types Ctrl-C when `ready`; gives the status and what is shown at the end.
fn interrupted(place: &Place, args: &[&str], ready: impl Fn(&Terminal) -> bool) -> (ExitStatus, String) {
    let terminal = Terminal::start(command(place, args), 80);
    wait_for(&format!("the beginning of {args:?}"), || ready(&terminal));
    terminal.interrupt();
    let (status, shown) = terminal.end();
    shown.check_usable();
    let text = shown.text();
    assert!(!text.contains(" left  "), "a progress bar is left of {args:?}\n{text}");
    (status, text)
}

fn shows(words: &str) -> impl Fn(&Terminal) -> bool + '_ {
    move |terminal| terminal.shown().text().contains(words)
}

#[test]
fn an_interrupted_comparison_shows_what_it_has() {
    let place = Place::new();
    let script = place.locking_script("program", "echo >> ran; sleep 0.05");
    let ran = |_: &Terminal| std::fs::read(place.path("ran")).is_ok_and(|lines| lines.len() > 9);
    let (status, shown) = interrupted(&place, &["compare", "--lock", "futex", "--runs", "999", "--", &script], ran);
    assert_eq!(status.code(), Some(130), "{shown}");
    assert!(shown.contains("interrupted: ") && shown.contains("interposed-pthread"), "{shown}");
}

#[test]
fn interrupted_measurements_show_what_they_have() {
    let place = Place::new();
    let measured = |_: &Terminal| place.path("b.json").exists();
    let args = ["bench", "kv", "--runs", "999", "--lock", "futex", "--duration", "50ms", "--export-json", "b.json"];
    let (status, shown) = interrupted(&place, &args, measured);
    assert_eq!(status.code(), Some(130), "{shown}");
    assert!(shown.contains("interrupted: ") && shown.contains("/s"), "{shown}");
    for (args, begun, said) in [
        (&["slo", "--epoch=5", "--from=10us", "--to=1ms", "--", "sleep", "60"][..], " left", "interrupted"),
        (&["torture", "--lock", "futex", "--time", "60s"], "1/1 futex", "interrupted: 0 of 1 locks were tested"),
    ] {
        let (status, shown) = interrupted(&place, args, shows(begun));
        assert_eq!(status.code(), Some(130), "{args:?}\n{shown}");
        assert!(shown.contains(said), "{args:?}\n{shown}");
    }
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let (status, shown) = interrupted(&place, &["topo", "--measure"], shows("measuring"));
        assert_eq!(status.code(), Some(130), "{shown}");
        assert!(shown.contains("interrupted: nothing is kept"), "{shown}");
    }
}

#[test]
fn interrupted_simulations_show_what_they_have() {
    let place = Place::new();
    let validate = ["sim", "validate", "--lock", "mcs_spin,ttas", "--runs", "999"];
    for (args, ready, expected) in [
        // At once, and after some runs.
        (&["sim", "--duration", "1s", "--threads", "8"][..], " left", "interrupted: "),
        (&["sim", "--lock", "ttas", "--threads", "8", "--seeds", "100"], "3/100 ", "ttas"),
        (&["sim", "reproduce"], " left", "interrupted: "),
        (&["sim", "sensitivity", "--only", "cna-70"], " left", "interrupted: "),
        // After two seeds of each claim, of which the second takes many.
        (&["sim", "reproduce", "--only", "cna-mcs-1,m1-tas-little", "--seeds", "100"], "6/8 ", "of 2 claims agree"),
        (&validate, " left", "interrupted: "),
        // In the first round.
        (&validate, "2/", "counter"),
    ] {
        let (status, shown) = interrupted(&place, args, shows(ready));
        assert_eq!(status.code(), Some(130), "{args:?}\n{shown}");
        assert!(shown.contains("interrupted: ") && shown.contains(expected), "{args:?}\n{shown}");
    }
}

#[test]
fn an_interrupted_program_ends_as_it_wants_to() {
    let place = Place::new();
    let runs = |terminal: &Terminal| processes_of(terminal.child.id()).iter().any(|stat| stat.contains("(sleep)"));
    let (status, shown) = interrupted(&place, &["run", "--summary", "--", "sleep", "60"], runs);
    assert_eq!(status.signal(), Some(2), "{shown}");
    assert!(shown.contains("killed by SIGINT"), "{shown}");
    let script = place.script("trap", "trap 'exit 7' INT\nsleep 60");
    let (status, shown) = interrupted(&place, &["run", "--summary", "--", &script], runs);
    assert_eq!(status.code(), Some(7), "{shown}");
    assert!(shown.contains("exit status 7"), "{shown}");
}
