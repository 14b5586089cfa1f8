use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::{compile, send, text, Place};
use serde_json::Value;

/// Two threads and one static mutex. One holds it for 1 ms in `slow_section`, the other hardly at all.
const CACHE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int done;
static volatile long work;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void spin(long ns) {
    for (long end = now() + ns; now() < end;) work++;
}
__attribute__((noinline)) void slow_section(void) {
    pthread_mutex_lock(&cache_lock);
    spin(1000000);
    pthread_mutex_unlock(&cache_lock);
    work++;
}
__attribute__((noinline)) void fast_section(void) {
    pthread_mutex_lock(&cache_lock);
    work++;
    pthread_mutex_unlock(&cache_lock);
    work++;
}
static void *slow(void *arg) {
    pthread_setname_np(pthread_self(), "slow");
    for (int i = 0; i < 400; i++) {
        slow_section();
        spin(500000);
    }
    done = 1;
    return arg;
}
static void *fast(void *arg) {
    pthread_setname_np(pthread_self(), "fast");
    while (!done) {
        fast_section();
        spin(20000);
    }
    return arg;
}
int main(int argc, char **argv) {
    pthread_t a, b;
    pthread_create(&a, 0, slow, 0);
    pthread_create(&b, 0, fast, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    puts("the program's own output");
    if (argc > 1 && !strcmp(argv[1], "abort")) abort();
    return argc > 1 ? atoi(argv[1]) : 0;
}
"#;

const OPTIONS: [&str; 4] = ["-O2", "-g", "-fomit-frame-pointer", "-pthread"];

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(place.path(name)).unwrap()).unwrap()
}

fn function(stack: &Value) -> &str {
    stack["frames"][0]["function"].as_str().unwrap_or("none")
}

#[test]
fn the_report_names_the_mutex_and_its_worst_holder() {
    let place = Place::new();
    let program = compile(&place, "cache", CACHE, &OPTIONS);
    let files = ["t.json", "t.html", "t.svg", "t.folded", "t.pb.gz", "t.profile.json"];
    let exports = files.map(|file| ["--export", file]).concat();
    let args = [&["trace"], &exports[..], &["--spacing", "100us", "--", &program, "7"]].concat();
    let output = place.output(&args);
    let (said, report) = (text(&output.stderr), json(&place, "t.json"));
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(7), "the program's own output\n"),
        "{said}"
    );
    let mutex = &report["objects"][0];
    assert_eq!(
        (&mutex["name"], &mutex["module"], &mutex["used"]),
        (&"cache_lock".into(), &"cache".into(), &"mutex".into())
    );
    assert_eq!(function(&mutex["holders"][0]), "slow_section", "{mutex:#}");
    assert_eq!(function(&mutex["waiters"][0]), "fast_section", "{mutex:#}");
    let pair = &mutex["threads"][0];
    assert_eq!((&pair["waiter"], &pair["holder"]), (&"fast".into(), &"slow".into()), "{mutex:#}");
    // Nearly all holds that let the other thread wait last for 1 ms; it comes at any moment of them.
    let number = |value: &Value| value.as_f64().unwrap();
    let wait = &mutex["wait"];
    assert!((2e5..3e6).contains(&number(&wait["p50_ns"])), "{wait}");
    let charged = number(&mutex["charged_ns"]) / number(&wait["total_ns"]);
    assert!((0.5..1.5).contains(&charged), "charged {charged} of what was waited: {mutex:#}");
    assert!(number(&mutex["acquisitions"]["value"]) > 800.0, "{mutex:#}");
    for part in [
        "cache_lock in cache",
        "slow_section (cache.c:",
        "fast_section (cache.c:",
        "Look first at its holder in slow_section",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let file = |name: &str| std::fs::read(place.path(name)).unwrap();
    let folded = text(&file("t.folded"));
    assert!(folded.lines().next().unwrap().starts_with("cache_lock (mutex);"), "{folded}");
    assert!(folded.contains(";slow;slow_section "), "{folded}");
    assert!(text(&file("t.svg")).contains("slow_section"));
    assert!(text(&file("t.html")).contains("slow_section (cache.c:"));
    assert!(file("t.pb.gz").starts_with(&[0x1f, 0x8b]));
    let line = json(&place, "t.profile.json");
    let names: Vec<&str> = line["threads"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"fast") && names.contains(&"slow"), "{names:?}");
}

#[test]
fn flame_graphs_of_waiters_and_other_locks_are_there_for_the_asking() {
    let place = Place::new();
    let program = compile(&place, "cache", CACHE, &OPTIONS);
    let args =
        ["trace", "--lock", "mcs_stp", "--waiters", "--export", "w.folded", "--export", "w.json", "--", &program];
    let output = place.output(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let folded = text(&std::fs::read(place.path("w.folded")).unwrap());
    assert!(folded.contains(";fast;fast_section "), "{folded}");
    assert_eq!(json(&place, "w.json")["locks"][0], "mcs_stp");
    assert!(text(&output.stderr).contains("The program ran on mcs_stp"), "{}", text(&output.stderr));
}

#[test]
fn a_program_that_is_killed_keeps_what_was_seen() {
    let place = Place::new();
    let program = compile(&place, "cache", CACHE, &OPTIONS);
    let aborted = place.output(&["trace", "--", &program, "abort"]);
    assert_eq!(aborted.status.signal(), Some(6), "{}", text(&aborted.stderr));
    assert!(text(&aborted.stderr).contains("slow_section"), "{}", text(&aborted.stderr));
    let script = format!("'{program}' & sleep 0.4; kill -KILL $!; wait $!");
    let killed = place.output(&["trace", "--", "sh", "-c", &script]);
    assert_eq!(killed.status.code(), Some(137), "{}", text(&killed.stderr));
    assert!(text(&killed.stderr).contains("slow_section"), "{}", text(&killed.stderr));
}

/// Two threads that wait for each other for ever, for mutexes on the heap, and one that waits for a condition.
const STUCK: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct queue { pthread_mutex_t lock; } *queues[2];
static pthread_barrier_t both;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle_condition = PTHREAD_COND_INITIALIZER;

__attribute__((noinline)) struct queue *make_queue(void) {
    struct queue *made = malloc(sizeof *made);
    pthread_mutex_init(&made->lock, 0);
    return made;
}
__attribute__((noinline)) void take_both(long first) {
    pthread_mutex_lock(&queues[first]->lock);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&queues[!first]->lock);
    puts("never");
}
static void *take(void *first) {
    take_both((long)first);
    return first;
}
__attribute__((noinline)) void idle(void) {
    pthread_mutex_lock(&idle_lock);
    for (;;) pthread_cond_wait(&idle_condition, &idle_lock);
}
static void *idles(void *arg) {
    idle();
    return arg;
}
int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) queues[i] = make_queue();
    pthread_barrier_init(&both, 0, 2);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, take, (void *)i);
    pthread_create(&threads[2], 0, idles, 0);
    puts("stuck");
    fflush(stdout);
    pthread_join(threads[0], 0);
    return 0;
}
"#;

#[test]
fn after_ctrl_c_threads_that_still_wait_are_listed() {
    let place = Place::new();
    let program = compile(&place, "stuck", STUCK, &OPTIONS);
    let mut command = place.lockswap(&["trace", "--export", "s.json", "--", &program]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begun = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    send(child.id(), "-INT");
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(2), "{said}");
    let report = json(&place, "s.json");
    let waiting = report["still_waiting"].as_array().unwrap();
    let [mutexes, condition] = &waiting[..] else { panic!("{waiting:#?}") };
    assert_eq!((&mutexes["threads"], function(mutexes)), (&2.into(), "take_both"));
    let name = mutexes["name"].as_str().unwrap();
    assert!(
        name.starts_with("initialised in make_queue (stuck.c:") && name.contains(", called by main (stuck.c:"),
        "{name}"
    );
    assert!(mutexes["since_ns"].as_f64().unwrap() > 2e8, "{mutexes}");
    assert_eq!((function(condition), &condition["name"]), ("idle", &"idle_condition".into()));
    let [order, back] = &report["cycles"][0]["orders"].as_array().unwrap()[..] else { panic!("{report:#}") };
    assert_eq!((&order["held"], &order["wanted"]), (&back["wanted"], &back["held"]));
    assert_eq!((function(order), function(back)), ("take_both", "take_both"));
    assert!(said.contains("Possible deadlock") && said.contains(" at 0x"), "{said}");
    assert!(
        said.contains("2 threads waited for a lock when")
            && said.contains("Threads that waited when the program ended")
            && said.contains("take_both"),
        "{said}"
    );
}

/// Two threads take turns, by semaphores, at two mutexes, each in an order of its own: they never wait for each other,
/// but could.
const ORDERS: &str = r#"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, audit = PTHREAD_MUTEX_INITIALIZER;
static sem_t turns[2];
static pthread_barrier_t together;

__attribute__((noinline)) void transfer(void) {
    pthread_mutex_lock(&accounts);
    pthread_mutex_lock(&audit);
    pthread_mutex_unlock(&audit);
    pthread_mutex_unlock(&accounts);
}
__attribute__((noinline)) void report(void) {
    pthread_mutex_lock(&audit);
    pthread_mutex_lock(&accounts);
    pthread_mutex_unlock(&accounts);
    pthread_mutex_unlock(&audit);
}
static void *take(void *arg) {
    long me = (long)arg;
    for (int i = 0; i < 200; i++) {
        sem_wait(&turns[me]);
        if (me) report(); else transfer();
        sem_post(&turns[!me]);
    }
    for (int i = 0; i < 20; i++) pthread_barrier_wait(&together);
    return arg;
}
int main(void) {
    pthread_t threads[2];
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    pthread_barrier_init(&together, 0, 2);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, take, (void *)i);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn semaphores_barriers_and_contradicting_orders_are_told() {
    let place = Place::new();
    let program = compile(&place, "orders", ORDERS, &OPTIONS);
    let output = place.output(&["trace", "--spacing", "0ms", "--export", "o.json", "--", &program]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = json(&place, "o.json");
    let [cycle] = &report["cycles"].as_array().unwrap()[..] else { panic!("{report:#}") };
    let orders: Vec<[&str; 3]> = cycle["orders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|order| {
            [order["held"]["name"].as_str().unwrap(), order["wanted"]["name"].as_str().unwrap(), function(order)]
        })
        .collect();
    assert!(orders.contains(&["accounts", "audit", "transfer"]), "{orders:?}");
    assert!(orders.contains(&["audit", "accounts", "report"]), "{orders:?}");
    let used: Vec<_> = report["conditions"].as_array().unwrap().iter().map(|c| (&c["used"], &c["name"])).collect();
    assert!(used.contains(&(&"barrier".into(), &"together".into())), "{used:?}");
    assert!(
        used.iter().any(|(used, name)| *used == "semaphore" && name.as_str().unwrap().starts_with("turns")),
        "{used:?}"
    );
    assert!(said.contains("Possible deadlock") && said.contains("while holding"), "{said}");
}

#[test]
fn what_cannot_be_traced_is_refused_in_words() {
    let place = Place::new();
    let refused = |args: &[&str], status: i32, part: &str| {
        let output = place.output(&[&["trace"], args].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(status) && said.contains(part), "{args:?}: {:?}: {said}", output.status);
        assert!(said.contains("remedy:") || said.contains("tip:") || said.contains("--help"), "{said}");
    };
    refused(&["--", "./nowhere"], 127, "nowhere: not found");
    refused(&["--", "no-such-program-at-all"], 127, "not found");
    let source = "int main(void) { return 0; }";
    let fixed = compile(&place, "fixed", source, &["-static"]);
    refused(&["--", &fixed], 126, "cannot be traced");
    refused(&["--export", "t.txt", "--", "true"], 2, "does not say in which form");
    refused(&["--export", "t.json", "--export", "t.json", "--", "true"], 2, "two exports");
    refused(&["--export", "nowhere/t.json", "--", "true"], 1, "cannot write");
    refused(&["--lock", "nonsense", "--", "true"], 2, "nonsense");
    refused(&["--stack", "100000", "--", "true"], 2, "100000");
    refused(&["--spacing", "4", "--", "true"], 2, "unit");
    refused(&[], 2, "PROGRAM");
}

#[test]
fn a_program_without_locks_is_told_so() {
    let place = Place::new();
    let program = compile(&place, "idle", "int main(void) { return 3; }", &["-pthread"]);
    let output = place.output(&["trace", "--", &program]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("No lock of the program was seen"), "{}", text(&output.stderr));
}

#[test]
fn without_room_for_the_file_the_program_is_not_started() {
    let place = Place::new();
    let args = ["trace", "--", "/bin/echo", "started"];
    let Some(mut command) = place.lockswap_with_mounts("mount -t tmpfs -o size=1m none /dev/shm", &args) else {
        return;
    };
    // The folder for temporary files has no room, either.
    let output = command.env("TMPDIR", "/dev/shm").output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no file for the trace") && output.stdout.is_empty());
}

/// Two threads that take turns at a mutex on the heap and at a part of a static variable, for half a second.
const NAMES: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct queue { long length; pthread_mutex_t lock; } *queue;
static struct { pthread_mutex_t first; pthread_spinlock_t second; } stock = { PTHREAD_MUTEX_INITIALIZER, 0 };
static pthread_mutex_t inner;

__attribute__((noinline)) struct queue *make_queue(void) {
    struct queue *made = malloc(sizeof *made);
    pthread_mutex_init(&made->lock, 0);
    return made;
}
static void *work(void *arg) {
    for (time_t end = time(0) + 2; time(0) < end;) {
        pthread_mutex_lock(&queue->lock);
        pthread_mutex_lock(&inner);
        pthread_mutex_lock(&inner);
        pthread_mutex_unlock(&inner);
        pthread_mutex_unlock(&inner);
        pthread_mutex_unlock(&queue->lock);
        pthread_mutex_lock(&stock.first);
        pthread_spin_lock(&stock.second);
        pthread_spin_unlock(&stock.second);
        pthread_mutex_unlock(&stock.first);
    }
    return arg;
}
int main(void) {
    pthread_t threads[2];
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&inner, &recursive);
    pthread_spin_init(&stock.second, 0);
    queue = make_queue();
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 3;
}
"#;

#[test]
fn experiments_find_locks_by_the_names_of_tables() {
    let place = Place::new();
    let program = compile(&place, "names", NAMES, &OPTIONS);
    // How many of the sections that a turn of the loop has, for each release of the lock that is initialised by a
    // call.
    for (lock, sections) in [("make_queue", 1.0), ("stock", 2.0), ("names:stock+0x28", 1.0), ("inner", 1.0)] {
        let change = format!("{lock}:30%");
        let args = ["trace", "--shorten", &change, "--progress", "make_queue", "--export", "w.json", "--", &program];
        let output = place.output(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("it takes 6 pairs of phases with progress, 3 s"), "{said}");
        let found = json(&place, "w.json");
        assert_eq!((&found["lock"], &found["progress"]), (&lock.into(), &"make_queue".into()), "{found:#}");
        assert!(found["problems"].as_array().unwrap().is_empty(), "{found:#}");
        let number = |phase: &Value, name: &str| phase[name].as_f64().unwrap();
        for phase in found["pairs"].as_array().unwrap().iter().flat_map(|pair| [&pair["as_it_is"], &pair["changed"]]) {
            let ratio = number(phase, "sections") / number(phase, "progress");
            assert!((ratio / sections - 1.0).abs() < 0.1, "{lock}: {ratio} sections a turn: {phase}");
        }
    }
    let output = place.output(&["trace", "--delay", "stok:1us", "--", &program]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("stok was not found") && said.contains("did you mean 'stock'"), "{said}");
}

#[test]
fn experiments_that_make_no_sense_are_refused() {
    let place = Place::new();
    for (args, said) in [
        (&["--delay", "hot"][..], "a colon and by how much, as in hot:100ns"),
        (&["--delay", "hot:100"], "a unit is missing"),
        (&["--delay", "hot:0ns"], "a time above 0"),
        (&["--delay", ":1us"], "the name of a lock"),
        (&["--shorten", "hot:0%"], "from 1% to 100%"),
        (&["--shorten", "hot:101%"], "from 1% to 100%"),
        (&["--shorten", "hot:NaN%"], "from 1% to 100%"),
        (&["--shorten", "hot:10us"], "from 1% to 100%"),
        (&["--shorten", "a::b"], "a colon and by how much"),
        (&["--shorten", "hot:5%", "--delay", "hot:1us"], "cannot be used with"),
        (&["--shorten", "hot:5%", "--top", "3"], "cannot be used with"),
        (&["--shorten", "hot:5%", "--export", "x.svg"], "JSON only"),
        (&["--progress", "hot"], "add --delay or --shorten"),
    ] {
        let output = place.output(&[&["trace"], args, &["--", "true"]].concat());
        let found = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {found}");
        assert!(found.contains(said), "{args:?}: {found}");
    }
    let attached = place.output(&["trace", "--shorten", "hot:5%", "--pid", "1"]);
    assert!(text(&attached.stderr).contains("cannot be used with"), "{}", text(&attached.stderr));
    let without = place.output(&["trace", "--shorten", "hot:5%"]);
    assert!(text(&without.stderr).contains("<PROGRAM>"), "{}", text(&without.stderr));
}
