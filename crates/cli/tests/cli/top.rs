//! The live view: tables for scripts, and the picture on a terminal.

use std::io::Read;
use std::process::Child;

use crate::terminal::{command, Terminal};
use crate::{compile, send, text, wait_for, Place};

/// Two mutexes for each of which two threads compete: one of both threads holds it for long.
const TWO: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* It goes away by itself if the test does not end it. */
#define LIFETIME 120

pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER, warm = PTHREAD_MUTEX_INITIALIZER;
static volatile long work;

static void spin(long ns) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        work++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < ns);
}
__attribute__((noinline)) void slow_section(void) {
    pthread_mutex_lock(&hot);
    spin(2000000);
    pthread_mutex_unlock(&hot);
    work++;
}
__attribute__((noinline)) void fast_section(void) {
    pthread_mutex_lock(&hot);
    work++;
    pthread_mutex_unlock(&hot);
    work++;
}
__attribute__((noinline)) void warm_section(void) {
    pthread_mutex_lock(&warm);
    spin(200000);
    pthread_mutex_unlock(&warm);
    work++;
}
static void *slow(void *arg) {
    for (;;) {
        slow_section();
        warm_section();
    }
    return arg;
}
static void *fast(void *arg) {
    for (;;) {
        fast_section();
        warm_section();
        spin(20000);
    }
    return arg;
}
int main(void) {
    pthread_t a, b;
    sigset_t execute;
    int caught;
    alarm(LIFETIME);
    sigemptyset(&execute);
    sigaddset(&execute, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &execute, 0);
    pthread_create(&a, 0, slow, 0);
    pthread_create(&b, 0, fast, 0);
    sigwait(&execute, &caught);
    execlp("sleep", "sleep", "60", (char *)0);
    return 1;
}
"#;

/// A program that is ready to be watched, and killed in the end.
struct Running(Child);

impl Running {
    fn start(place: &Place) -> Self {
        let program = compile(place, "two", TWO, &["-O2", "-g", "-pthread"]);
        // With a lock that asks nothing about CPUs the command turns into the program.
        let running = Self(place.lockswap(&["run", "--lock", "futex", "--", &program]).spawn().unwrap());
        let maps = format!("/proc/{}/maps", running.0.id());
        wait_for("the program to be ready", || {
            std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("/lockswap-trace."))
        });
        running
    }

    fn process(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn scripts_get_a_table_for_each_interval() {
    let place = Place::new();
    let running = Running::start(&place);
    let top = |args: &[&str]| {
        let output = place.output(&[&["top", "--pid", &running.process(), "--interval", "3s"], args].concat());
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let shown = top(&["--count", "2"]);
    assert!(!shown.contains('\x1b') && shown.matches("worst holder").count() == 2, "{shown}");
    let has = |lock: &str, functions: &[&str]| {
        let of_lock = |line: &&str| line.trim_start().starts_with(lock);
        shown.lines().filter(of_lock).any(|line| functions.iter().all(|function| line.contains(function)))
    };
    assert!(has("hot ", &[" mutex ", " slow_section ", " fast_section"]), "{shown}");
    assert!(has("warm ", &[" mutex ", " warm_section ", " warm_section"]), "{shown}");
    // It can be traced again: nothing is left of the first time.
    let shown = top(&["--count", "1", "--top", "1"]);
    assert!(shown.contains("worst holder") && shown.matches(" mutex ").count() == 1, "{shown}");
}

/// The view in a terminal, when it shows the program's locks, since the beginning.
fn watching(place: &Place, running: &Running) -> Terminal {
    let terminal = Terminal::start(command(place, &["top", "--pid", &running.process(), "--interval", "300ms"]), 120);
    wait_for("the first picture", || terminal.shown().text().contains("q quit"));
    terminal.press("t");
    wait_for("the lock and its holder", || {
        let shown = terminal.shown().text();
        shown.contains("\nhot ") && shown.contains("slow_section")
    });
    terminal
}

/// Waits for the end, after which the terminal is as it was before.
fn restored(mut terminal: Terminal) -> Option<i32> {
    wait_for("the end", || terminal.has_ended());
    assert!(terminal.is_cooked(), "keys are not shown, or come at once");
    let (status, shown) = terminal.end();
    assert!(!shown.is_alternate() && !shown.text().contains("slow_section"), "{}", shown.text());
    shown.check_usable();
    status.code()
}

#[test]
fn the_live_view_reacts_to_keys_and_restores_the_terminal() {
    let place = Place::new();
    let running = Running::start(&place);
    let terminal = watching(&place, &running);
    assert!(terminal.shown().is_alternate() && !terminal.is_cooked());
    let shows = |words: &str| {
        wait_for(words, || terminal.shown().text().contains(words));
    };
    terminal.press("\r");
    shows("Who let others wait");
    shows("slow_section (two.c:");
    terminal.press("?");
    shows("the function that let others wait longest");
    terminal.press("s");
    shows(", by acquisitions");
    terminal.press("t");
    shows("the last ");
    terminal.press(" ");
    shows("paused");
    let busy = place.output(&["top", "--pid", &running.process()]);
    assert!(text(&busy.stderr).contains("another lockswap traces it"), "{}", text(&busy.stderr));
    terminal.press("q");
    assert_eq!(restored(terminal), Some(0));
}

#[test]
fn signals_and_ctrl_c_restore_the_terminal() {
    let place = Place::new();
    let running = Running::start(&place);
    for signal in ["-TERM", "-HUP", "-INT"] {
        let terminal = watching(&place, &running);
        send(terminal.process(), signal);
        assert_eq!(restored(terminal), Some(0), "{signal}");
    }
    let terminal = watching(&place, &running);
    terminal.interrupt();
    assert_eq!(restored(terminal), Some(0));
}

#[test]
fn a_terminal_that_goes_away_ends_the_view() {
    let place = Place::new();
    let running = Running::start(&place);
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(24, 80)).unwrap();
    let view = command(&place, &["top", "--pid", &running.process()]);
    let mut child = pty_process::blocking::Command::from(view).spawn(pts).unwrap();
    pty.read_exact(&mut [0; 100]).unwrap();
    drop(pty);
    wait_for("the end", || child.try_wait().unwrap().is_some());
}

#[test]
fn the_last_picture_stays_when_the_process_ends() {
    let place = Place::new();
    let running = Running::start(&place);
    let terminal = watching(&place, &running);
    send(running.0.id(), "-KILL");
    wait_for("the end of the process", || terminal.shown().text().contains("the process has ended: q quits"));
    let shown = terminal.shown().text();
    assert!(shown.contains("slow_section"), "{shown}");
    terminal.press("q");
    assert_eq!(restored(terminal), Some(0));
}

#[test]
fn a_process_that_runs_another_program_is_told() {
    let place = Place::new();
    let running = Running::start(&place);
    let terminal = watching(&place, &running);
    send(running.0.id(), "-USR1");
    let said = "the process runs another program now (exec): q quits";
    wait_for(said, || terminal.shown().text().contains(said));
    terminal.press("q");
    assert_eq!(restored(terminal), Some(0));
}

#[test]
fn what_cannot_be_watched_is_refused_in_words() {
    let place = Place::new();
    let own = std::process::id().to_string();
    for (args, status, part) in [
        (&["--pid", "4000000000"][..], 1, "there is no such process"),
        (&["--pid", &own], 1, "it was not started by lockswap run"),
        (&["--pid", "x"], 2, "invalid value"),
        (&["--interval", "1ms"], 2, "from 100ms to 1h"),
        (&["--count", "0"], 2, "0 is not in"),
    ] {
        let output = place.output(&[&["top"], args].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(status) && said.contains(part), "{args:?}: {:?}: {said}", output.status);
    }
}

/// In a namespace with a /dev/shm of its own, where no other processes are ready.
#[test]
fn without_a_number_the_only_process_is_watched_and_several_are_listed() {
    let place = Place::new();
    let program = compile(&place, "two", TWO, &["-O2", "-g", "-pthread"]);
    let script = format!(
        "mount -t tmpfs none /dev/shm
         start() {{ LOCKSWAP_LOCK=futex LOCKSWAP_TRACE=ready LD_PRELOAD=\"$library\" '{program}' \"$1\" & }}
         ready() {{ for i in $(seq 400); do [ -e /dev/shm/lockswap-trace.0/$1 ] && break; sleep 0.05; done; }}
         library=$('{own}' preload-path)
         '{own}' top --count 1 && exit 9
         start first; one=$!; ready $one
         \"$@\" || exit 8
         start second; two=$!; ready $two
         status=0; '{own}' top || status=$?
         kill $one $two; exit $status",
        own = env!("CARGO_BIN_EXE_lockswap"),
    );
    let Some(mut command) = place.lockswap_with_mounts(&script, &["top", "--count", "1", "--interval", "500ms"]) else {
        return;
    };
    let output = command.output().unwrap();
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{shown}\n{said}");
    assert!(said.contains("no process of yours is ready to be traced"), "{said}");
    assert!(said.contains("is the only one that is ready: ") && said.contains("name one of them"), "{said}");
    assert!(shown.lines().any(|line| line.trim_start().starts_with("hot ")), "{shown}");
    let listed = shown.lines().filter(|line| line.ends_with("/two first") || line.ends_with("/two second"));
    assert_eq!(listed.count(), 2, "{shown}");
}
