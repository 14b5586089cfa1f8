//! Stacks, names and sums of real programs.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use lockswap_records::trace::{Event, Kind, Use, BEFORE_WAIT};
use tempfile::TempDir;

use crate::gather::Gathered;
use crate::names::{Frame, Names};
use crate::process::{Place, Processes};
use crate::report::{Facts, Identity, Report};

/// Prints its registers and its stack from within a few functions, the addresses of some variables, and stays.
const SOURCE: &str = r#"
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

pthread_mutex_t table_lock[4];
static struct { long before[8]; pthread_mutex_t lock; } queue = {{1}, PTHREAD_MUTEX_INITIALIZER};

#ifdef __cplusplus
namespace store {
struct Cache { static pthread_mutex_t guard; };
pthread_mutex_t Cache::guard;
#define GUARD &Cache::guard
#else
#define GUARD table_lock
#endif

__attribute__((noinline)) void capture(long salt) {
    ucontext_t here;
    getcontext(&here);
#ifdef __x86_64__
    greg_t *r = here.uc_mcontext.gregs;
    unsigned long pc = r[REG_RIP], sp = r[REG_RSP], fp = r[REG_RBP], lr = 0;
#else
    unsigned long pc = here.uc_mcontext.pc, sp = here.uc_mcontext.sp;
    unsigned long fp = here.uc_mcontext.regs[29], lr = here.uc_mcontext.regs[30];
#endif
    printf("%d %lx %lx %lx %lx\n", getpid(), pc, sp, fp, lr);
    printf("%lx %lx %lx %lx\n", (long)&table_lock[2], (long)&queue.lock, (long)GUARD, (long)malloc(8));
    for (int i = 0; i < 512; i++) printf("%lx ", ((volatile unsigned long *)sp)[i]);
    printf("%ld\n", salt);
    fflush(stdout);
    for (;;) pause();
}

static inline __attribute__((always_inline)) void inlined(long x) { capture(x + 1); }

__attribute__((noinline)) void with_a_large_frame(long x) {
    volatile char room[300 + 0 * sizeof(x)];
    room[x & 255] = 1;
    inlined(room[x & 127] + x);
    room[0] = 2;
}

__attribute__((noinline)) void *begin(void *arg) {
    with_a_large_frame((long)arg);
    return arg;
}
#ifdef __cplusplus
}
using namespace store;
#endif

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, begin, 0);
    pthread_join(thread, 0);
    return queue.before[0];
}
"#;

/// A program that has printed where it is.
struct Captured {
    _folder: TempDir,
    child: Child,
    event: Event,
    stack: Vec<u64>,
    addresses: Vec<u64>,
    program: PathBuf,
}

impl Drop for Captured {
    fn drop(&mut self) {
        // Both may fail for one reason only: it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn capture(compiler: &str, ending: &str, options: &[&str]) -> Captured {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join(format!("victim.{ending}")), folder.path().join("victim"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut command = Command::new(compiler);
    command.args(["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-Wl,--build-id"]);
    let done = command.args(options).arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(done.success(), "{compiler} (Debian packages gcc, g++)");
    start(folder, program)
}

fn start(folder: TempDir, program: PathBuf) -> Captured {
    let mut child = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let numbers = |line: String| -> Vec<u64> {
        line.split_whitespace().map(|word| u64::from_str_radix(word, 16).unwrap()).collect()
    };
    let registers = numbers(lines.next().unwrap());
    let [pc, sp, fp, lr] = registers[1..] else { panic!("{registers:?}") };
    let addresses = numbers(lines.next().unwrap());
    let mut stack = numbers(lines.next().unwrap());
    stack.truncate(512);
    let process = child.id();
    let event = Event { process, thread: process, stack: 1, length: 4096, pc, sp, fp, lr, ..Event::default() };
    Captured { _folder: folder, child, event, stack, addresses, program }
}

/// The functions of a captured stack.
fn unwound(captured: &Captured) -> (Processes, Vec<Place>) {
    let mut processes = Processes::default();
    let places = processes.unwind(&captured.event, &captured.stack);
    (processes, places)
}

fn functions(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.function.as_str()).collect()
}

#[test]
fn a_stack_without_frame_pointers_is_unwound_and_named() {
    let mut captured = capture("cc", "c", &["-g"]);
    let (processes, places) = unwound(&captured);
    // Names are known when the process has ended.
    captured.child.kill().unwrap();
    captured.child.wait().unwrap();
    let names = Names::new(&processes.images);
    let frames = names.stack(&places);
    assert_eq!(functions(&frames)[..4], ["capture", "inlined", "with_a_large_frame", "begin"], "{frames:?}");
    assert!(!functions(&frames).contains(&Frame::CUT), "{frames:?}");
    let line = |text: &str| SOURCE.lines().position(|line| line.contains(text)).unwrap() as u32 + 1;
    let lines: Vec<Option<u32>> = frames[..4].iter().map(|frame| frame.line).collect();
    let expected =
        ["getcontext(&here)", "void inlined(long x) { capture", "inlined(room[x", "with_a_large_frame((long)arg);"];
    assert_eq!(lines, expected.map(|text| Some(line(text))), "{frames:?}");
    assert!(frames[0].words().starts_with("capture (victim.c:"), "{}", frames[0].words());
    assert_eq!(frames[0].module.as_deref(), Some("victim"));
}

#[test]
fn a_stack_that_was_copied_in_part_is_cut_off() {
    let mut captured = capture("cc", "c", &[]);
    captured.stack.truncate(150);
    let (processes, places) = unwound(&captured);
    let frames = Names::new(&processes.images).stack(&places);
    assert_eq!(frames.first().map(|frame| frame.function.as_str()), Some("capture"));
    assert_eq!(frames.last().map(|frame| frame.function.as_str()), Some(Frame::CUT), "{frames:?}");
}

#[test]
fn a_stripped_program_shows_places_and_its_build_id() {
    let captured = capture("cc", "c", &["-s"]);
    let (processes, places) = unwound(&captured);
    let frames = Names::new(&processes.images).stack(&places);
    let own: Vec<&Frame> = frames.iter().take(3).collect();
    for frame in &own {
        assert!(frame.function.starts_with("victim+0x") && frame.build_id.is_some(), "{frame:?}");
        assert!(frame.words().contains(" (build id "), "{}", frame.words());
    }
    let notes = Command::new("readelf").arg("-n").arg(&captured.program).output().unwrap();
    let notes = String::from_utf8(notes.stdout).unwrap();
    assert!(notes.contains(own[0].build_id.as_deref().unwrap()), "{notes}");
}

#[test]
fn debug_information_in_a_file_beside_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let captured = capture("cc", "c", &["-g"]);
    let (program, separate) = (folder.path().join("victim"), folder.path().join("victim.debug"));
    let objcopy = |args: &[&std::ffi::OsStr]| assert!(Command::new("objcopy").args(args).status().unwrap().success());
    let option = std::ffi::OsString::from(format!("--add-gnu-debuglink={}", separate.display()));
    objcopy(&["--only-keep-debug".as_ref(), captured.program.as_os_str(), separate.as_os_str()]);
    objcopy(&["--strip-all".as_ref(), &option, captured.program.as_os_str(), program.as_os_str()]);
    let stripped = start(folder, program);
    let (processes, places) = unwound(&stripped);
    let frames = Names::new(&processes.images).stack(&places);
    assert_eq!(functions(&frames)[..3], ["capture", "inlined", "with_a_large_frame"], "{frames:?}");
    assert!(frames[0].line.is_some());
}

#[test]
fn variables_of_c_and_cpp_have_names() {
    for (compiler, ending, function, guard) in
        [("cc", "c", "capture", "table_lock"), ("c++", "cc", "store::capture", "store::Cache::guard")]
    {
        let captured = capture(compiler, ending, &[]);
        let (mut processes, places) = unwound(&captured);
        let process = captured.event.process;
        let places_of_data: Vec<Place> =
            captured.addresses.iter().map(|address| processes.place(process, *address)).collect();
        let names = Names::new(&processes.images);
        let found: Vec<Option<String>> = places_of_data.iter().map(|place| names.variable(*place)).collect();
        let expected =
            [Some("table_lock+0x50".to_owned()), Some("queue+0x40".to_owned()), Some(guard.to_owned()), None];
        assert_eq!(found, expected, "{ending}");
        assert_eq!(names.stack(&places)[0].function, function);
    }
}

#[test]
fn functions_of_rust_have_names() {
    let mut processes = Processes::default();
    let place = processes.place(std::process::id(), functions_of_rust_have_names as *const () as u64);
    let names = Names::new(&processes.images);
    let found = names.frames(place);
    assert!(found.last().unwrap().function.ends_with("tests::functions_of_rust_have_names"), "{found:?}");
}

/// Events of threads of this process, whose stacks have one frame, in a function of this file.
pub(crate) struct Events {
    pub gathered: Gathered,
    stacks: u64,
}

impl Events {
    pub fn new() -> Self {
        Self { gathered: Gathered::new(false), stacks: 0 }
    }

    pub fn event(&self, thread: u32, begin: u64, length: u64) -> Event {
        Event { process: std::process::id(), thread, object: 64, begin, length, weight: 1, ..Event::default() }
    }

    /// The stack of a thread that is about to wait.
    pub fn begin_wait(&mut self, event: Event, function: fn()) -> Event {
        Event { flags: 0, ..self.stack(Event { flags: BEFORE_WAIT, ..event }, function) }
    }

    pub fn stack(&mut self, event: Event, function: fn()) -> Event {
        self.stacks += 1;
        let event = Event { stack: self.stacks, ..event };
        // Where a call in that function would return to.
        let registers = Event { pc: function as *const () as u64 + 2, length: 0, ..event };
        self.gathered.take(Kind::Stack, &registers, &[]);
        event
    }

    fn report(&self) -> Report {
        Report::new(&self.gathered, Facts::default())
    }
}

#[inline(never)]
pub(crate) fn waits_here() {
    std::hint::black_box(1);
}

#[inline(never)]
pub(crate) fn holds_here() {
    std::hint::black_box(2);
}

#[inline(never)]
pub(crate) fn born_here() {
    std::hint::black_box(3);
}

fn innermost(frames: &[Frame]) -> &str {
    frames.first().map_or("none", |frame| frame.function.rsplit("::").next().unwrap())
}

#[test]
fn holders_are_charged_and_matched_with_those_who_waited() {
    let mut events = Events::new();
    // Thread 2 waits from 1000 to 3000, of which it is handed the lock in 100; thread 1 has held since 500.
    let wait = events.begin_wait(events.event(2, 1_000, 2_000), waits_here);
    let hold = Event { charged: 1_900, waiters: 3, preempted: 1, ..events.event(1, 500, 2_400) };
    let hold = events.stack(hold, holds_here);
    let wait = Event { weight: 10, other: 1, cpu: 1, other_cpu: 2, handed: 100, flags: 2, ..wait };
    // The waiter can be first to say so.
    events.gathered.take(Kind::Wait, &wait, &[]);
    events.gathered.take(Kind::Hold, &hold, &[]);
    let again = events.stack(events.event(2, 5_000, 1_000), holds_here);
    events.gathered.take(Kind::Hold, &Event { weight: 19, ..again }, &[]);
    let report = events.report();
    let [object] = &report.objects[..] else { panic!("{:?}", report.objects) };
    assert_eq!((object.used, object.objects, object.longest_queue), ("mutex", 1, 1));
    assert_eq!((object.wait.total_ns, object.wait.count, object.wait.noted), (20_000.0, 10.0, 1));
    assert_eq!((object.acquisitions.value, object.contended), (20.0, Some(0.5)));
    assert_eq!((object.slept, object.changed_owner, object.changed_cpu), (1.0, 1.0, 1.0));
    assert_eq!((object.holder_preempted, object.holder_slept), (1.0 / 20.0, 0.0));
    assert_eq!((object.charged_ns, object.handed.max_ns), (1_900.0, 100));
    assert_eq!((innermost(&object.waiters[0].frames), object.waiters[0].waited_ns), ("waits_here", 20_000.0));
    let holder = &object.holders[0];
    assert_eq!((innermost(&holder.frames), holder.waited_ns, holder.count), ("holds_here", 1_900.0, 20.0));
    assert_eq!(object.stacks.len(), 1);
    let pair = object.stacks[0];
    assert_eq!((pair.waiter, pair.holder, pair.waited_ns), (0, 0, 1_900.0));
    assert_eq!(object.threads[0].waited_ns, 1_900.0);
    assert!(report.still_waiting.is_empty() && object.name.starts_with("first waited for in "), "{}", object.name);
    assert!(object.name.contains("waits_here"), "{}", object.name);
}

#[test]
fn what_threads_do_between_two_acquisitions_is_estimated() {
    let mut events = Events::new();
    for (thread, begin) in [(1, 1_000), (2, 3_000), (1, 5_000)] {
        let hold = events.stack(events.event(thread, begin, 1_000), holds_here);
        events.gathered.take(Kind::Hold, &hold, &[]);
    }
    let report = events.report();
    let object = &report.objects[0];
    // Of twice 5000 they held it for 3000, three times.
    assert_eq!((object.users, object.think_ns.round()), (2, 2_333.0));
    assert_eq!(report.thread_time_ns, 5_000 + 1_000);
    let Identity::Seen { functions } = &object.identity else { panic!("{:?}", object.identity) };
    assert!(functions[0].function.contains("holds_here") && functions[0].is_named, "{functions:?}");
}

#[test]
fn a_thread_that_waits_at_the_end_is_listed_with_the_last_holder() {
    let mut events = Events::new();
    let hold = events.stack(events.event(1, 100, 50), holds_here);
    events.gathered.take(Kind::Hold, &hold, &[]);
    events.begin_wait(events.event(2, 1_000, 0), waits_here);
    // A thread that went on has only lost a record.
    events.begin_wait(events.event(3, 1_000, 0), waits_here);
    events.gathered.take(Kind::Hold, &events.event(3, 2_000, 1), &[]);
    // One that released something has not waited since.
    events.stack(events.event(4, 3_000, 0), holds_here);
    let report = events.report();
    let [waiting] = &report.still_waiting[..] else { panic!("{:?}", report.still_waiting) };
    assert_eq!((waiting.threads, waiting.thread.as_str(), innermost(&waiting.frames)), (1, "2 (2)", "waits_here"));
    assert_eq!(waiting.last_holder.as_deref(), Some("3 (3)"));
}

#[test]
fn orders_that_contradict_each_other_are_reported_with_both_stacks() {
    let mut events = Events::new();
    for (thread, held, wanted, place) in
        [(1, 64, 128, holds_here as fn()), (2, 128, 64, waits_here), (3, 64, 192, waits_here)]
    {
        let order = Event { object: wanted, charged: held, ..events.event(thread, 1_000, 0) };
        let order = events.stack(order, place);
        events.gathered.take(Kind::Order, &order, &[]);
    }
    let report = events.report();
    let [cycle] = &report.cycles[..] else { panic!("{:?}", report.cycles) };
    let orders: Vec<_> = cycle
        .orders
        .iter()
        .map(|order| (order.held.address, order.wanted.address, order.thread.as_str(), innermost(&order.frames)))
        .collect();
    assert_eq!(orders, [(64, 128, "1 (1)", "holds_here"), (128, 64, "2 (2)", "waits_here")]);
    assert_eq!((cycle.others, report.notes.orders), (0, 3));
    let page = crate::export::page(&report, crate::export::Extent::Whole);
    let table =
        page.tables.iter().find(|table| table.title.as_ref().is_some_and(|t| t.starts_with("Possible deadlock")));
    // The names are the same.
    let cells: Vec<_> = table.unwrap().rows.iter().map(|row| row.cells[0].rsplit(" at ").next().unwrap()).collect();
    assert_eq!(cells, ["0x40 (mutex)", "0x80 (mutex)"]);
}

#[test]
fn objects_that_were_initialised_at_the_same_place_are_one_group() {
    let mut events = Events::new();
    for number in 0..1_000 {
        let birth = born_here as *const () as u64 + 2;
        let hold = Event { object: 64 + 64 * number, birth, ..events.event(1, 100, 50) };
        events.gathered.take(Kind::Hold, &hold, &[]);
        // The library forgets where objects were initialised when it sees many.
        events.gathered.take(Kind::Hold, &Event { birth: 0, ..hold }, &[]);
    }
    let report = events.report();
    let [object] = &report.objects[..] else { panic!("{} objects", report.objects.len()) };
    assert!(object.name.starts_with("initialised in ") && object.name.contains("born_here"), "{}", object.name);
    assert_eq!((object.objects, object.acquisitions.value), (1_000, 2_000.0));
    let Identity::Initialised { functions } = &object.identity else { panic!("{:?}", object.identity) };
    assert!(functions[0].function.contains("born_here") && functions[0].module.is_some(), "{functions:?}");
}

#[test]
fn memory_is_bounded_and_what_is_left_out_is_counted() {
    let mut events = Events::new();
    for number in 0..100_500 {
        let used = Use::Read as u8;
        let wait = Event { object: 8 * (number + 1), used, ..events.event(1, 100, 50) };
        events.gathered.take(Kind::Wait, &wait, &[]);
    }
    assert_eq!((events.gathered.objects.len(), events.gathered.counts.rest), (100_001, 500));
    let report = events.report();
    let rest = report.objects.iter().find(|object| object.name == "all other objects").unwrap();
    assert_eq!((rest.used, rest.wait.count), ("rwlock, read", 500.0));
    assert_eq!(report.notes.of_other_objects, 500);
}
