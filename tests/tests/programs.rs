//! Real programs on every lock, compared with their plain run.

use lockswap_e2e::{
    compare, each_lock, library, lockswap, need, run_with_timeout, scratch_dir, Outcome, Program, Variant, Which,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn script(name: &str) -> String {
    format!("{}/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn last_line_ok(outcome: &Outcome, _: &Path) -> Result<String, String> {
    let last = outcome.stdout.lines().rev().find(|line| !line.is_empty()).unwrap_or("");
    if last == "ok" {
        return Ok(last.to_string());
    }
    Err(format!("the last line is {last:?}, not \"ok\""))
}

fn python_program() -> Option<Program> {
    Some(Program::new("python3", need("python3", "python3")?, &[&script("threads.py"), "{dir}"]))
}

fn db_bench_program() -> Option<Program> {
    let arguments = [
        "--db={dir}/db",
        "--num=4000",
        "--threads=3",
        "--seed=5",
        "--compression_type=none",
        "--write_buffer_size=400000",
        "--max_background_jobs=3",
        "--benchmarks=fillrandom,fillseq,overwrite,readwhilewriting,readrandom,verifychecksum",
    ];
    let mut program = Program::new("db_bench", need("db_bench", "rocksdb-tools")?, &arguments);
    program.limit = Duration::from_secs(60);
    program.result = |outcome, _| {
        let found = |name: &str| {
            let line = outcome.stdout.lines().find(|line| line.starts_with(name));
            let count = line.and_then(|line| line.rsplit_once('(')).map(|(_, count)| format!("{name} ({count}"));
            count.ok_or_else(|| format!("no result of {name}"))
        };
        Ok(format!("{} {}", found("readwhilewriting")?, found("readrandom")?))
    };
    Some(program)
}

#[test]
fn python() {
    let Some(program) = python_program() else { return };
    compare(&program);
}

#[test]
fn kyoto_cabinet() {
    let Some(cache) = need("kccachetest", "kyotocabinet-utils") else { return };
    let Some(hash) = need("kchashtest", "kyotocabinet-utils") else { return };
    let mut programs = [
        Program::new("kccachetest wicked", cache, &["wicked", "-th", "4", "-it", "2", "-capcnt", "10000", "8000"]),
        Program::new("kchashtest wicked", hash.clone(), &["wicked", "-th", "4", "{dir}/hash.kch", "4000"]),
        Program::new("kchashtest order", hash, &["order", "-th", "4", "-rnd", "{dir}/hash.kch", "4000"]),
    ];
    for program in &mut programs {
        program.result = last_line_ok;
        compare(program);
    }
}

#[test]
fn sysbench() {
    let Some(path) = need("sysbench", "sysbench") else { return };
    let events = |outcome: &Outcome, _: &Path| {
        let line = outcome.stdout.lines().find(|line| line.contains("total number of events"));
        line.map(|line| line.trim().to_string()).ok_or_else(|| "no number of events".to_string())
    };
    let mutex =
        ["mutex", "--threads=4", "--mutex-num=16", "--mutex-locks=20000", "--mutex-loops=200", "--rand-seed=7", "run"];
    let threads =
        ["threads", "--threads=4", "--thread-locks=4", "--thread-yields=20", "--events=2000", "--time=0", "run"];
    for (name, arguments) in [("sysbench mutex", mutex), ("sysbench threads", threads)] {
        let mut program = Program::new(name, path.clone(), &arguments);
        program.result = events;
        compare(&program);
    }
}

/// As root its workers have real-time priorities: a lock that only spins never lets the holder run.
#[test]
fn stress_ng_ends_on_time() {
    let Some(path) = need("stress-ng", "stress-ng") else { return };
    let run = |variant: Option<&Variant>, seconds: &str| {
        let arguments = ["--mutex", "2", "-t", seconds].map(String::from);
        let mut command = match variant {
            None => Command::new(&path),
            Some(variant) => variant.command(&[], &path, &arguments),
        };
        if variant.is_none() {
            command.args(arguments);
        }
        let outcome = run_with_timeout(&mut command, Duration::from_secs(25));
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        // Its word for "the time was up before I came to wait": real-time spinners may keep its main thread waiting so
        // long.
        let starved = text.contains("could not create any pthreads");
        if !(outcome.success() || starved) || !text.contains("successful run completed") {
            return Err(format!("{}:\n{}", outcome.ending(), outcome.tail()));
        }
        if outcome.took > Duration::from_secs(12) {
            return Err(format!("took {:.1} s for {seconds} s", outcome.took.as_secs_f64()));
        }
        Ok(())
    };
    run(None, "1").unwrap_or_else(|error| panic!("stress-ng without lockswap: {error}"));
    let seconds = |variant: &Variant| if variant.lock == "auto" { "3" } else { "1" };
    each_lock("stress-ng --mutex", Which::Representatives, 1, |variant| run(Some(variant), seconds(variant)));
}

#[test]
fn rocksdb() {
    let Some(program) = db_bench_program() else { return };
    compare(&program);
}

/// Moving gradients with noise: enough to keep motion search and rate control busy.
fn raw_video(path: &Path) {
    let (width, height, frames) = (176usize, 144usize, 30usize);
    let mut bytes = format!("YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420\n").into_bytes();
    let mut noise = 12345u32;
    for frame in 0..frames {
        bytes.extend(b"FRAME\n");
        for at in 0..width * height * 3 / 2 {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (x, y) = (at % width, at / width);
            bytes.push(((x + 3 * frame) ^ (y + frame)) as u8 ^ (noise >> 29) as u8);
        }
    }
    fs::write(path, bytes).expect("write the video");
}

/// A file's length and FNV-1a hash: enough to tell it from another.
fn fingerprint(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    Ok(format!("{} bytes, {hash:016x}", bytes.len()))
}

#[test]
fn x264() {
    let Some(path) = need("x264", "x264") else { return };
    let directory = scratch_dir();
    let video = directory.path().join("video.y4m");
    raw_video(&video);
    let video = video.to_str().expect("plain name");
    for (name, threading) in [("x264 frames", "--no-sliced-threads"), ("x264 slices", "--sliced-threads")] {
        let arguments = [
            "--quiet",
            "--preset",
            "fast",
            "--threads",
            "4",
            threading,
            "--demuxer",
            "y4m",
            "-o",
            "{dir}/out.264",
            video,
        ];
        let mut program = Program::new(name, path.clone(), &arguments);
        program.result = |_, directory| fingerprint(&directory.join("out.264"));
        compare(&program);
    }
}

fn preload_path() -> PathBuf {
    let outcome = run_with_timeout(Command::new(lockswap()).arg("preload-path"), Duration::from_secs(20));
    assert!(outcome.success(), "lockswap preload-path {}: {}", outcome.ending(), outcome.tail());
    PathBuf::from(outcome.stdout.trim())
}

/// jemalloc takes locks inside malloc, which in turn is called before anything else has run.
#[test]
fn jemalloc_in_both_orders() {
    let Some(jemalloc) = library("libjemalloc.so.2", "libjemalloc2") else { return };
    let ours = preload_path();
    for program in [python_program(), db_bench_program()].into_iter().flatten() {
        let expected = program.plain().unwrap_or_else(|error| panic!("{} without lockswap: {error}", program.name));
        for (order, first, second) in [("ours first", &ours, &jemalloc), ("jemalloc first", &jemalloc, &ours)] {
            each_lock(&format!("{} with jemalloc, {order}", program.name), Which::Representatives, 1, |variant| {
                let mut arguments = program.arguments.clone();
                arguments.insert(0, program.program.to_str().expect("plain name").to_string());
                let mut wrapped = Program::new(program.name, PathBuf::from("/usr/bin/env"), &[]);
                wrapped.arguments = arguments;
                wrapped.limit = program.limit;
                wrapped.result = program.result;
                let preload = format!("LD_PRELOAD={}:{}", first.display(), second.display());
                let mut settings = vec![preload, format!("LOCKSWAP_LOCK={}", variant.lock)];
                settings.extend(variant.topology.map(|topology| format!("LOCKSWAP_TOPOLOGY={topology}")));
                wrapped.arguments.splice(0..0, settings);
                let got = wrapped.plain()?;
                if got == expected {
                    return Ok(());
                }
                Err(format!("expected\n{expected}\ngot\n{got}"))
            });
        }
    }
}

#[test]
fn bash_and_git() {
    let (Some(_), Some(bash)) = (need("git", "git"), need("bash", "bash")) else { return };
    compare(&Program::new("bash and git", bash, &[&script("repository.sh"), "{dir}"]));
}
