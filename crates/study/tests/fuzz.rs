//! What this crate reads: comparisons in JSON, expressions that find a number and the output in which they do, limits
//! of control groups, and the C library's banner. docs/fuzzing.md lists all readers.

use std::fs;

use lockswap_fuzz::{bytes, mutated, reading, run, text, MIB};
use lockswap_study::calls::{Answers, Calls, Counted};
use lockswap_study::export::{render, Format};
use lockswap_study::machine::{cpu_quota, glibc_version, Machine};
use lockswap_study::metric::Metric;
use lockswap_study::model::{Comparison, Exit, LockRuns, Measure, Phase, Sample, Usage, SCHEMA};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn comparison(input: &[u8]) {
    match reading(input, MIB, || serde_json::from_slice::<Comparison>(input)) {
        Ok(all) => reads_back(&all),
        Err(error) => assert!(error.line() > 0 || input.is_empty(), "{error}"),
    }
}

fn reads_back(all: &Comparison) {
    let written = render(Format::Json, all).expect("JSON");
    let again: Comparison = serde_json::from_str(&written).expect("its own JSON");
    assert_eq!((&again.locks, &again.command, &again.measures), (&all.locks, &all.command, &all.measures));
    assert_eq!(render(Format::Json, &again).expect("JSON"), written);
    // Whatever it holds, it can be judged and shown.
    let mut judged = again;
    judged.summarise();
    for format in [Format::Csv, Format::Markdown, Format::Html] {
        assert!(!render(format, &judged).expect("a report").is_empty());
    }
}

fn metric(input: &[u8]) {
    // The first line is the expression.
    let text = text(input);
    let (expression, output) = text.split_once('\n').unwrap_or((&text, &text));
    match reading(input, 4 * MIB, || Metric::new(expression)) {
        Ok(metric) => {
            let found = reading(input, 64 * MIB, || metric.find(output));
            assert!(found.is_none_or(f64::is_finite));
        }
        Err(error) => assert!(!error.is_empty()),
    }
}

fn number(input: &[u8]) {
    let everything = Metric::new("(?s).*").expect("an expression");
    let text = text(input);
    let Some(found) = everything.find(&text) else { return };
    assert_eq!(everything.find(&found.to_string()), Some(found), "{text}");
    if text.contains(',') {
        // Nothing but digits between separators.
        assert!(text.split('.').next().is_some_and(|whole| !whole.contains(['e', 'E'])), "{text}");
    }
}

fn banner(input: &[u8]) {
    let version = reading(input, MIB, || glibc_version(input));
    assert!(version.is_none_or(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')));
}

thread_local! {
    /// A folder with the files that say how much of the CPUs a process may have.
    static ROOT: tempfile::TempDir = {
        let root = tempfile::tempdir().expect("a folder");
        for path in ["proc/self", "sys/fs/cgroup/a"] {
            fs::create_dir_all(root.path().join(path)).expect("a folder");
        }
        root
    };
}

fn quota(input: &[u8]) {
    ROOT.with(|root| {
        let root = root.path();
        for (membership, limit) in [(&b"0::/a/b\n"[..], input), (input, b"150000 100000\n")] {
            fs::write(root.join("proc/self/cgroup"), membership).expect("a file");
            fs::write(root.join("sys/fs/cgroup/a/cpu.max"), limit).expect("a file");
            assert!(cpu_quota(root).is_none_or(|quota| quota > 0.0 && quota.is_finite()));
        }
    });
}

lockswap_fuzz::tests!(comparison, 16, super::comparison);
lockswap_fuzz::tests!(metric, 2, super::metric);
lockswap_fuzz::tests!(number, 16, super::number);
lockswap_fuzz::tests!(glibc_banner, 16, super::banner);
lockswap_fuzz::tests!(quota, 1, super::quota);

#[test]
fn comparisons_read_back() {
    let exit = prop_oneof![
        any::<i32>().prop_map(|code| Exit::Code { code }),
        (any::<i32>(), ".*").prop_map(|(number, name)| Exit::Signal { number, name }),
        (0.0..1e9).prop_map(|after_s| Exit::TimedOut { after_s }),
        ".*".prop_map(|error| Exit::NotStarted { error }),
    ];
    let time = prop_oneof![0.0..1e3, proptest::num::f64::POSITIVE];
    let phase = prop_oneof![Just(Phase::WarmUp), Just(Phase::Measured), Just(Phase::Confirmation)];
    let rest = (vec(option::of(time.clone()), 0..3), option::of(".*"), option::of(".*"));
    let sample = (any::<u32>(), phase, time, any::<u64>(), exit, rest).prop_map(
        |(round, phase, wall_s, switches, exit, (metrics, failure, stderr_tail))| Sample {
            round,
            phase,
            wall_s,
            usage: Usage { user_s: wall_s, voluntary_switches: switches, ..Usage::default() },
            metrics,
            exit,
            failure,
            stdout_tail: stderr_tail.clone(),
            stderr_tail,
        },
    );
    let counted = any::<u64>().prop_map(|ours| Counted {
        calls: Calls { mutex: Answers { ours, robust: ours, ..Answers::default() }, ..Calls::default() },
        processes: ours,
        left_alone: ours,
    });
    let id = prop_oneof![Just("pthread".to_owned()), Just("interposed-pthread".to_owned()), ".*"];
    let setting = vec((".*", ".*"), 0..2);
    let lock = (id, setting, any::<bool>(), option::of(counted), option::of(".*"), vec(sample, 0..20)).prop_map(
        |(lock, setting, preloaded, counted, left_out, samples)| LockRuns {
            lock,
            setting,
            preloaded,
            counted,
            left_out,
            samples,
        },
    );
    run((vec(lock, 0..4), vec(".*", 0..4), any::<u64>()), 2, file!(), |(locks, command, seed)| {
        reads_back(&Comparison {
            schema: SCHEMA,
            tool_version: "0.1.0".into(),
            started_unix_s: *seed,
            machine: Machine::default(),
            seed: *seed,
            name: command.join(" "),
            command: command.clone(),
            measures: vec![Measure::metric(1, "x", "x", "", true), Measure::wall()],
            runs: 1,
            warmup: 1,
            timeout_s: 0.1,
            smallest_effect: 0.01,
            loading_s: Some(0.001),
            complete: false,
            locks: locks.clone(),
            summary: Vec::new(),
            winners: Vec::new(),
        });
    });
}

#[test]
fn expressions_and_output_of_any_sort() {
    bytes(4, file!(), |input| metric(&[b"(\\d+)\n", input].concat()));
    run(mutated("number"), 4, file!(), |input| metric(&[b"= *([-+0-9.,e]+)\nx=", &input[..]].concat()));
}
