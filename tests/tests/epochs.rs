//! Programs that mark epochs: built in every usual way, with and without the preload library.

use lockswap_e2e::{driver, lockswap, need, run_with_timeout, scratch_dir, start, stop, Outcome};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("epochs").join(name)
}

/// Compiles C or C++ sources, without a warning; `None` without the compiler, as with [`need`].
#[must_use]
fn compile(compiler: &str, flags: &[&str], sources: &[&str], output: &Path) -> Option<()> {
    let mut command = Command::new(need(compiler, compiler)?);
    command.args(["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-pthread"]).args(flags);
    command.args(sources.iter().map(|name| source(name))).arg("-o").arg(output);
    let outcome = run_with_timeout(&mut command, LIMIT);
    assert!(outcome.success(), "{command:?}: {}\n{}", outcome.ending(), outcome.tail());
    Some(())
}

/// Runs a program under `lockswap run` with these options, on `asl` if they name no lock, all CPUs but one being
/// little.
fn under_lockswap(options: &[&str], program: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(lockswap());
    let lock: &[&str] = if options.contains(&"--lock") { &[] } else { &["--lock", "asl"] };
    command.arg("run").args(lock).args(options).arg("--").arg(program).args(arguments);
    run_with_timeout(command.env("LOCKSWAP_BIG", "0"), LIMIT)
}

/// The same, with its statistics.
fn statistics(options: &[&str], program: &Path, arguments: &[&str]) -> (Outcome, Value) {
    let directory = scratch_dir();
    let file = directory.path().join("stats.json");
    let with_file = [options, &["--stats-json", file.to_str().expect("plain name")]].concat();
    let outcome = under_lockswap(&with_file, program, arguments);
    let text =
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("no statistics: {error}\n{}", outcome.tail()));
    (outcome, serde_json::from_str(&text).expect("JSON"))
}

/// The sum of one number over both kinds of core.
fn sum(stats: &Value, id: i64, number: &str) -> u64 {
    let epochs = stats["epochs"].as_array().expect("a list");
    epochs.iter().filter(|epoch| epoch["id"] == id).map(|epoch| epoch[number].as_u64().expect("a number")).sum()
}

fn runs(stats: &Value, id: i64) -> u64 {
    sum(stats, id, "count")
}

fn said(outcome: &Outcome, words: &str) {
    assert!(outcome.success() && outcome.stdout.trim() == words, "{}\n{}", outcome.ending(), outcome.tail());
}

/// The C compilers that are here, which compile C++ with `-xc++` too, if its library is here.
fn compilers() -> Vec<&'static str> {
    let Some(_) = need("g++", "g++") else { return Vec::new() };
    ["gcc", "clang"].into_iter().filter(|compiler| need(compiler, compiler).is_some()).collect()
}

#[test]
fn marked_programs_run_in_every_build_with_and_without_the_library() {
    let directory = scratch_dir();
    let program = directory.path().join("program");
    let links: [(&[&str], u32); 5] = [
        (&[], 1),
        (&["-no-pie", "-fno-pie"], 1),
        (&["-fPIE", "-pie", "-fno-plt"], 1),
        (&["-static"], 0),
        (&["-static-pie", "-fPIE"], 0),
    ];
    for compiler in compilers() {
        for language in
            [&["-xc", "-std=gnu89"][..], &["-xc", "-std=c99"], &["-xc++", "-std=c++98"], &["-xc++", "-std=c++17"]]
        {
            for (link, preloaded) in links {
                for optimisation in ["-O0", "-O2"] {
                    // A static program with dlopen warns that it needs glibc at run time.
                    let flags = [language, link, &[optimisation, "-Wno-error"]].concat();
                    let Some(()) = compile(compiler, &flags, &["epochs.c", "other.c"], &program) else { return };
                    said(&run_with_timeout(&mut Command::new(&program), LIMIT), "preloaded=0");
                    let (outcome, stats) = statistics(&[], &program, &[]);
                    assert!(outcome.success(), "{compiler} {flags:?}: {}", outcome.tail());
                    assert_eq!(outcome.stdout.trim(), format!("preloaded={preloaded}"), "{compiler} {flags:?}");
                    assert_eq!(runs(&stats, 5), 1000 * u64::from(preloaded), "{compiler} {flags:?}: {stats}");
                }
            }
        }
    }
}

#[test]
fn a_plugin_and_its_host_may_both_mark_epochs() {
    let directory = scratch_dir();
    let (program, plugin) = (directory.path().join("program"), directory.path().join("plugin.so"));
    for compiler in compilers() {
        for pie in [&["-no-pie", "-fno-pie"][..], &["-fPIE", "-pie"]] {
            let Some(()) = compile(compiler, &[pie, &["-O2"]].concat(), &["epochs.c", "other.c"], &program) else {
                return;
            };
            let flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-fvisibility=default", "-Wl,--no-undefined"];
            let Some(()) = compile(compiler, &flags, &["other.c"], &plugin) else { return };
            let argument = plugin.to_str().expect("plain name");
            said(&run_with_timeout(Command::new(&program).arg(argument), LIMIT), "preloaded=0");
            let (outcome, stats) = statistics(&[], &program, &[argument]);
            said(&outcome, "preloaded=1");
            assert_eq!(runs(&stats, 5), 1000, "{stats}");
        }
    }
}

#[test]
fn a_mark_allocates_nothing_so_that_a_handler_may_make_it() {
    let directory = scratch_dir();
    let program = directory.path().join("handler");
    for compiler in compilers() {
        let Some(()) = compile(compiler, &["-std=gnu99", "-O2"], &["handler.c"], &program) else { return };
        said(&run_with_timeout(&mut Command::new(&program), LIMIT), "allocations=0");
        let (outcome, stats) = statistics(&[], &program, &[]);
        said(&outcome, "allocations=0");
        assert_eq!(runs(&stats, 5), 1, "{stats}");
    }
}

#[test]
fn scopes_end_with_exceptions_too() {
    let directory = scratch_dir();
    let program = directory.path().join("scope");
    for standard in ["-std=c++11", "-std=c++20"] {
        let Some(()) = compile("g++", &[standard, "-O2", "-Wshadow", "-Wold-style-cast"], &["scope.cpp"], &program)
        else {
            return;
        };
        said(&run_with_timeout(&mut Command::new(&program), LIMIT), "preloaded=0 left=334");
        let (outcome, stats) = statistics(&[], &program, &[]);
        said(&outcome, "preloaded=1 left=334");
        assert_eq!((runs(&stats, 5), runs(&stats, 6)), (1000, 1000));
        assert_eq!(sum(&stats, 5, "missed"), 1000, "a target below 0 counts as 0: {stats}");
        for misuse in ["ends_without_start", "starts_without_end", "ignored", "not_recorded"] {
            assert_eq!(stats["epochs_misused"][misuse], 0, "{stats}");
        }
    }
}

/// Started by the test below, as a Rust program that marks epochs.
#[test]
#[ignore = "a part of another test"]
fn marked_rust_program() {
    lockswap::set_percentile(5, 95.0);
    for _ in 0..1000 {
        let _outer = lockswap::epoch(5, Duration::from_secs(1));
        let _inner = lockswap::epoch(6, Duration::MAX);
    }
    eprintln!("preloaded={}", lockswap::is_preloaded());
}

#[test]
fn rust_programs_mark_epochs_by_guards() {
    let own = std::env::current_exe().expect("this program has a path");
    let arguments = ["--ignored", "--exact", "marked_rust_program", "--nocapture"];
    let plain = run_with_timeout(Command::new(&own).args(arguments), LIMIT);
    assert!(plain.success() && plain.stderr.contains("preloaded=false"), "{}", plain.tail());
    let (outcome, stats) = statistics(&[], &own, &arguments);
    assert!(outcome.success() && outcome.stderr.contains("preloaded=true"), "{}", outcome.tail());
    assert_eq!((runs(&stats, 5), runs(&stats, 6), sum(&stats, 6, "missed")), (1000, 1000, 0), "{stats}");
    assert_eq!(stats["epochs_misused"]["starts_without_end"], 0, "guards end in the right order: {stats}");
}

#[test]
fn targets_from_outside_count_instead_of_the_programs() {
    let directory = scratch_dir();
    let program = directory.path().join("scope");
    let Some(()) = compile("g++", &["-std=c++11", "-O2"], &["scope.cpp"], &program) else { return };
    for lock in ["asl", "auto"] {
        let options = ["--lock", lock, "--slo", "5=1.5ms", "--slo", "6=0", "--slo", "-7=1s"];
        let (outcome, stats) = statistics(&options, &program, &[]);
        said(&outcome, "preloaded=1 left=334");
        let slos = |id: i64| -> Vec<u64> {
            let epochs = stats["epochs"].as_array().expect("a list");
            epochs.iter().filter(|epoch| epoch["id"] == id).map(|epoch| epoch["slo_ns"].as_u64().expect("ns")).collect()
        };
        assert!(slos(5).iter().all(|slo| *slo == 1_500_000) && slos(6).iter().all(|slo| *slo == 0), "{stats}");
        assert_eq!(runs(&stats, -7), 0, "an epoch that is never entered is no error");
    }
}

#[test]
fn misuse_is_counted() {
    let Some(driver) = driver() else { return };
    let (outcome, stats) = statistics(&[], &driver, &["epoch_misuse"]);
    assert!(outcome.success(), "{}", outcome.tail());
    for (misuse, count) in [("ends_without_start", 3), ("starts_without_end", 2), ("ignored", 2), ("not_recorded", 0)] {
        assert_eq!(stats["epochs_misused"][misuse], count, "{stats}");
    }
    let (outcome, stats) = statistics(&[], &driver, &["epoch_many_ids"]);
    assert!(outcome.success(), "{}", outcome.tail());
    let lost = stats["epochs_misused"]["not_recorded"].as_u64().zip(stats["epochs_misused"]["ignored"].as_u64());
    let recorded: u64 =
        stats["epochs"].as_array().expect("a list").iter().filter_map(|epoch| epoch["count"].as_u64()).sum();
    let (unrecorded, ignored) = lost.expect("numbers");
    assert_eq!(
        recorded + unrecorded + ignored,
        160_000,
        "each of them is somewhere: {recorded} {unrecorded} {ignored}"
    );
    assert_eq!(ignored, 2 * (80_000 - 65_536), "{stats}");
}

#[test]
fn no_kind_of_end_loses_latencies() {
    let Some(driver) = driver() else { return };
    let (outcome, stats) = statistics(&[], &driver, &["epoch_killed"]);
    assert!(outcome.success(), "{}", outcome.tail());
    assert_eq!(runs(&stats, 5), 2000, "one child was killed, one called _exit: {stats}");
}

#[test]
fn an_epoch_that_is_never_entered_is_named() {
    let directory = scratch_dir();
    let program = directory.path().join("scope");
    let Some(()) = compile("g++", &["-std=c++11", "-O2"], &["scope.cpp"], &program) else { return };
    let slo = |epoch: &str, big: &str| {
        let mut command = Command::new(lockswap());
        command.args(["slo", "--epoch", epoch, "--from=1us", "--to=1ms", "--steps=2", "--runs=1", "--"]).arg(&program);
        run_with_timeout(command.env("LOCKSWAP_BIG", big), LIMIT)
    };
    let outcome = slo("7", "0");
    assert!(outcome.stderr.contains("never enters epoch 7, only 5, 6"), "{}", outcome.tail());
    let outcome = slo("5", "0-4095");
    assert!(outcome.stderr.contains("big cores only") && outcome.stderr.contains("LOCKSWAP_BIG"), "{}", outcome.tail());
}

#[test]
fn a_range_of_targets_is_measured() {
    a_range_is_measured(&[], ["mcs_spin", "first come, first served", "the lock below"]);
    // auto has no lock below, so that the reference is the same lock.
    a_range_is_measured(&["--lock", "auto"], ["auto", "nobody stands back", "the lock without targets"]);
}

/// The knee that this finds depends on the machine, and is not looked at; that each figure is there is.
fn a_range_is_measured(lock: &[&str], reference: [&str; 3]) {
    let directory = scratch_dir();
    let [program, json, svg] = ["work", "slo.json", "slo.svg"].map(|name| directory.path().join(name));
    let Some(()) = compile("gcc", &["-std=gnu11", "-O2"], &["work.c"], &program) else { return };
    let mut command = Command::new(lockswap());
    command.args(["slo", "--epoch=5", "--from=100us", "--to=10ms", "--steps=3", "--runs=2"]).args(lock);
    command.args(["--metric", "epochs/s: ([0-9]+)", "--export-json"]).arg(&json).arg("--export").arg(&svg);
    command.arg("--").arg(&program).args(["2", "0.2"]).env("LOCKSWAP_BIG", "0");
    let outcome = run_with_timeout(&mut command, LIMIT);
    assert!(outcome.success(), "{}\n{}", outcome.ending(), outcome.tail());
    for words in ["no target", "100 us", "1.00 ms", "10.0 ms", "knee"].iter().chain(&reference) {
        assert!(outcome.stdout.contains(words), "{words} is missing in\n{}", outcome.stdout);
    }
    let curve: Value = serde_json::from_str(&std::fs::read_to_string(json).expect("written")).expect("JSON");
    assert_eq!((&curve["complete"], curve["points"].as_array().map(Vec::len)), (&Value::Bool(true), Some(6)));
    for point in curve["points"].as_array().expect("a list") {
        assert_eq!(point["good_runs"], 2, "{point}");
        assert!(point["throughput"].as_f64().is_some_and(|throughput| throughput > 0.0), "{point}");
        let preloaded = point["role"] != "pthread";
        assert_eq!(point["little"]["p99_ns"].as_f64().is_some_and(|p99| p99 > 0.0), preloaded, "{point}");
    }
    assert!(std::fs::read_to_string(svg).expect("written").starts_with("<svg"));
}

#[test]
fn an_interrupted_search_keeps_what_it_measured() {
    let directory = scratch_dir();
    let [program, json] = ["work", "slo.json"].map(|name| directory.path().join(name));
    let Some(()) = compile("gcc", &["-std=gnu11", "-O2"], &["work.c"], &program) else { return };
    let mut command = Command::new(lockswap());
    command.args(["slo", "--epoch=5", "--from=100us", "--to=10ms", "--runs=1000", "--export-json"]).arg(&json);
    command.arg("--").arg(&program).args(["2", "0.1"]).env("LOCKSWAP_BIG", "0");
    let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let read = || std::fs::read_to_string(&json).ok().map(|text| serde_json::from_str::<Value>(&text).expect("whole"));
    let measured = |curve: &Value| curve["points"][3]["good_runs"].as_u64().is_some_and(|runs| runs > 0);
    let begin = Instant::now();
    while !read().as_ref().is_some_and(measured) {
        assert!(begin.elapsed() < LIMIT, "nothing was measured");
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = stop(&mut child, Duration::from_secs(20)).expect("it ends");
    assert_eq!(status.code(), Some(128 + 15));
    let curve = read().expect("it is there");
    assert!(measured(&curve) && curve["complete"] == false, "{curve}");
    let mut table = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("piped"), &mut table).expect("text");
    assert!(table.contains("mcs_spin") && table.contains("100 us"), "{table}");
}

/// For the documentation: printed, as it depends on the machine.
#[test]
fn the_cost_of_an_epoch() {
    let directory = scratch_dir();
    let program = directory.path().join("cost");
    let Some(()) = compile("gcc", &["-O2"], &["cost.c"], &program) else { return };
    let show = |how: &str, outcome: Outcome| {
        assert!(outcome.success(), "{}", outcome.tail());
        eprintln!("{how}: {}", outcome.stdout.trim());
    };
    show("without the library", run_with_timeout(&mut Command::new(&program), LIMIT));
    let with = |big: &str, options: &[&str]| {
        let mut command = Command::new(lockswap());
        command.args(["run", "--lock", "asl"]).args(options).arg("--").arg(&program);
        run_with_timeout(command.env("LOCKSWAP_BIG", big), LIMIT)
    };
    show("on big cores", with("0-4095", &[]));
    show("on little cores", with("4095", &[]));
    show("on little cores, recorded", with("4095", &["--summary"]));
}
