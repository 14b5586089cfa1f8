//! `lockswap study run` and `merge`: plans, and those that are ready in `studies/`.

use std::fs;
use std::path::Path;
use std::process::Command;

use lockswap_e2e::{file, need};

use crate::study::{numbers, succeed};
use crate::{text, Place};

/// Two programs, of which one crashes and the other hangs on one lock.
const PLAN: &str = r#"
locks = ["pthread", "ticket", "mcs_stp"]
machine = "box"
nodes = [1, 2]
repetitions = 6
timeout = "20s"
[[program]]
name = "rate"
command = ["sh", "-c", "echo rate: $(( {nodes} * 100 + ${#LOCKSWAP_LOCK} ))"]
metric = { name = "rate", regex = "rate: ([0-9]+)", unit = "1/s" }
[[program]]
name = "crash"
command = ["sh", "-c", "[ \"$LOCKSWAP_LOCK\" != ticket ] || { echo first words; echo last words >&2; kill -SEGV $$; }"]
nodes = [1]
"#;

/// What a query on a database prints.
fn query(place: &Place, database: &str, sql: &str) -> String {
    let script = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(*row)";
    let python = need("python3", "python3").expect("python3");
    let output = Command::new(python).args(["-c", script, database, sql]).current_dir(place.path("")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_plan_is_run_reported_and_not_run_twice() {
    let place = Place::new();
    fs::write(place.path("plan.toml"), PLAN).unwrap();
    let output = place.output(&["study", "run", "plan.toml"]);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{said}{told}");
    assert!(told.contains("63 runs, about "), "three cells of three locks in seven rounds: {told}");
    assert!(
        said.contains("66 runs were added to plan.db, 7 of them failed; 'lockswap study report plan.db'"),
        "{said}"
    );
    let sql = "SELECT DISTINCT program, lock, problem, json_extract(sample, '$.stdout_tail'),
                   json_extract(sample, '$.stderr_tail')
               FROM run WHERE problem IS NOT NULL";
    assert_eq!(query(&place, "plan.db", sql), "crash ticket crashed: SIGSEGV first words last words\n");
    let report = succeed(&place, &["study", "report", "plan.db", "--sensitive", "0", "--draws", "40"]);
    assert!(report.contains("Runs that failed") && report.contains("crash at 1 on ticket"), "{report}");
    let csv = succeed(&place, &["study", "report", "plan.db", "--sensitive", "0", "--draws", "40", "--format", "csv"]);
    // The lengths of the locks' names are in the rates: 106, and 107 for the one with seven letters.
    let gain = numbers(&csv, 1)[&["gains-max", "rate", "ticket"].map(str::to_owned)];
    assert!((gain - (207.0 / 206.0 - 1.0)).abs() < 1e-9, "{gain}");
    let again = place.output(&["study", "run", "plan.toml"]);
    assert!(again.status.code() == Some(2) && text(&again.stderr).contains("--resume goes on with it"));
    fs::write(place.path("plan.toml"), PLAN.replace("repetitions = 6", "repetitions = 7")).unwrap();
    let other = place.output(&["study", "run", "plan.toml", "--resume"]);
    assert!(
        other.status.code() == Some(2) && text(&other.stderr).contains("is not the one that plan.db was begun with")
    );
}

#[test]
fn a_killed_study_goes_on_where_it_was() {
    let place = Place::new();
    fs::write(place.path("plan.toml"), PLAN.replace("echo rate", "sleep 0.1; echo rate")).unwrap();
    let mut child = place.lockswap(&["study", "run", "plan.toml"]).spawn().unwrap();
    let count = || {
        if place.path("plan.db").exists() {
            query(&place, "plan.db", "SELECT count(*) FROM run")
        } else {
            "0".into()
        }
    };
    crate::wait_for("runs", || count().trim().parse::<u32>().unwrap() > 12);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept: u32 = count().trim().parse().unwrap();
    assert!(kept < 66, "{kept}");
    let short = place.output(&["study", "run", "plan.toml", "--resume", "--budget", "1ms"]);
    assert_eq!(short.status.code(), Some(4), "{}", text(&short.stderr));
    let told = text(&short.stderr);
    assert!(told.contains("the budget is used up after"), "{told}");
    assert!(told.contains("0 runs were added to plan.db; 'lockswap study run plan.toml --resume' goes on"), "{told}");
    let rest = place.output(&["study", "run", "plan.toml", "--resume"]);
    assert_eq!(rest.status.code(), Some(3), "{}", text(&rest.stderr));
    assert!(
        text(&rest.stdout).contains(&format!("{} runs were added to plan.db", 66 - kept)),
        "{}",
        text(&rest.stdout)
    );
    let twice = "SELECT count(*) FROM (SELECT 1 FROM run GROUP BY program, nodes, lock, round HAVING count(*) > 1)";
    assert_eq!((query(&place, "plan.db", twice).as_str(), count().trim()), ("0\n", "66"));
}

#[test]
fn shards_become_one_database() {
    let place = Place::new();
    fs::write(place.path("plan.toml"), PLAN.replace("repetitions = 6", "repetitions = 1")).unwrap();
    for shard in ["1", "2"] {
        let args = ["study", "run", "plan.toml", "--shard", &format!("{shard}/2"), "--db", &format!("{shard}.db")];
        place.output(&args);
    }
    let said = succeed(&place, &["study", "merge", "1.db", "2.db", "--db", "all.db"]);
    assert_eq!(said, "1.db: 14 runs\n2.db: 7 runs\n");
    assert_eq!(query(&place, "all.db", "SELECT count(*), count(DISTINCT source) FROM run"), "21 2\n");
    let shown = succeed(&place, &["study", "report", "all.db", "--sensitive", "0", "--draws", "40"]);
    assert!(shown.contains("box: 2 programs, 3 locks, 8 cells"), "{shown}");
    let again = place.output(&["study", "merge", "1.db", "--db", "all.db"]);
    assert!(!again.status.success() && text(&again.stderr).contains("merge each database once"));
}

#[test]
fn what_is_wrong_with_a_plan_is_said_before_a_run_is_made() {
    let place = Place::new();
    let mut tried = 0;
    let mut error = |old: &str, new: &str| {
        tried += 1;
        let plan = format!("plan{tried}.toml");
        assert!(PLAN.contains(old), "{old}");
        fs::write(place.path(&plan), PLAN.replacen(old, new, 1)).unwrap();
        let output = place.output(&["study", "run", &plan]);
        (output.status.code(), text(&output.stderr))
    };
    for (old, new, status, said) in [
        ("machine =", "machin =", 2, "unknown field `machin`"),
        ("\"ticket\"", "\"tiket\"", 2, "line 2: there is no mutex lock 'tiket'"),
        (
            "command = [\"sh\"",
            "command = [\"shell-of-nobody\"",
            2,
            "program 'rate': there is no command shell-of-nobody",
        ),
        ("nodes = [1, 2]", "nodes = [0]", 2, "it has no numbers of nodes from 1 up"),
        ("rate: ([0-9]+)\"", "speed: ([0-9]+)\"", 1, "rate at 1 nodes fails without lockswap: metric not found"),
        ("rate: ([0-9]+)\"", "rate: ([0-9]+\"", 2, "program 'rate'"),
        ("name = \"crash\"", "name = \"rate\"", 2, "there are two of this name"),
    ] {
        let (code, words) = error(old, new);
        assert!(code == Some(status) && words.contains(said), "{new}: {code:?}: {words}");
    }
    let (code, words) = error("nodes = [1, 2]", "pin = \"cpus\"\nnodes = [100000]");
    assert!(code == Some(1) && words.contains("program 'rate' at 100000 nodes: there are "), "{words}");
    // A plan that was never begun may be corrected and run under the same name.
    fs::write(place.path("p.toml"), PLAN.replace("rate: ([0-9]+)", "speed: ([0-9]+)")).unwrap();
    assert_eq!(place.output(&["study", "run", "p.toml"]).status.code(), Some(1));
    fs::write(place.path("p.toml"), PLAN.replace("repetitions = 6", "repetitions = 1")).unwrap();
    assert_eq!(place.output(&["study", "run", "p.toml"]).status.code(), Some(3));
    for args in [&["study", "run", "none.toml"][..], &["study", "run", "p.toml", "--shard", "3/2"]] {
        assert!(!place.output(args).status.success());
    }
}

/// What makes the plans of `studies/` small.
const SMALLER: [(&str, &str); 21] = [
    ("repetitions = 10", "repetitions = 1"),
    ("warmup = 1", "warmup = 0"),
    ("--seconds 2", "--seconds 0.2"),
    ("--scale 4", "--scale 1"),
    ("20000", "2000"),
    (".kct 5000", ".kct 500"),
    ("--time=2", "--time=1"),
    ("=100000", "=1000"),
    // As many operations as other options say, not a whole second.
    ("--duration=2", "--duration=0"),
    ("--timeout 2s", "--timeout 1s"),
    ("--mutex-procs {nodes}", "--mutex-procs {nodes} --mutex-ops 20000"),
    ("--pthread {nodes}", "--pthread {nodes} --pthread-ops 2000"),
    ("-time 2", "-time 1"),
    ("--frames 90", "--frames 9"),
    ("0 .. 89", "0 .. 8"),
    ("2000 2000", "300 300"),
    ("3000000", "30000"),
    ("after = \"1s\"", "after = \"0.3s\""),
    ("after = \"3s\"", "after = \"0.3s\""),
    ("length = \"5s\"", "length = \"0.5s\""),
    ("length = \"10s\"", "length = \"0.5s\""),
];

/// Runs a plan of `studies/` that needs these programs and files of Debian packages: small, on two locks, at one
/// level. What it says, where it could run.
fn run_small(place: &Place, plan: &str, programs: &[(&str, &str)], files: &[(&str, &str)]) -> Option<String> {
    let is_there = programs.iter().all(|(program, package)| need(program, package).is_some())
        && files.iter().all(|(path, package)| file(Path::new(path), package).is_some());
    if !is_there {
        return None;
    }
    // Plans name drivers by paths from the repository's folder, which is this one here.
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !place.path("studies").exists() {
        let copy = ["-r".into(), repository.join("studies"), repository.join("include"), place.path("")];
        assert!(Command::new("cp").args(copy).status().unwrap().success());
    }
    let mut text = fs::read_to_string(repository.join("studies").join(plan).with_extension("toml")).unwrap();
    for (large, small) in SMALLER {
        text = text.replace(large, small);
    }
    let short = |line: &str| match line {
        line if line.starts_with("nodes = ") => "nodes = [2]".to_owned(),
        line if line.starts_with("locks = ") => "locks = [\"futex\", \"ticket\"]".to_owned(),
        line => line.to_owned(),
    };
    let text: Vec<String> = text.lines().map(short).collect();
    fs::write(place.path(&format!("{plan}.toml")), text.join("\n")).unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_lockswap")).parent().unwrap();
    let path = format!("{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", own.display());
    let output = place.lockswap(&["study", "run", &format!("{plan}.toml")]).env("PATH", path).output().unwrap();
    let said = text_of(&output);
    assert!(output.status.success(), "{plan}: {said}");
    Some(said)
}

fn text_of(output: &std::process::Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Runs a small plan and counts its runs: those without lockswap, and those on two locks.
fn check_plan(plan: &str, runs: usize, programs: &[(&str, &str)]) {
    let Some(said) = run_small(&Place::new(), plan, programs, &[]) else { return };
    assert!(said.contains(&format!("{runs} runs were added to {plan}.db;")), "{plan}: {said}");
}

#[test]
fn ready_plans_run_on_debians_programs() {
    check_plan("kyotocabinet", 6, &[("kccachetest", "kyotocabinet-utils")]);
    check_plan("sysbench", 6, &[("sysbench", "sysbench")]);
    check_plan("example", 9, &[("kccachetest", "kyotocabinet-utils"), ("sysbench", "sysbench")]);
    check_plan("rocksdb", 12, &[("db_bench", "rocksdb-tools")]);
    check_plan("tools", 9, &[("x264", "x264"), ("vips", "libvips-tools"), ("pbzip2", "pbzip2"), ("perl", "perl")]);
    check_plan("stress-ng", 6, &[("stress-ng", "stress-ng")]);
}

#[test]
fn ready_plans_load_debians_servers() {
    let memcached = ("memcached", "memcached");
    check_plan("memcached", 3, &[memcached, ("memcslap", "libmemcached-tools")]);
    check_plan("ssl", 3, &[memcached, ("stunnel4", "stunnel4"), ("openssl", "openssl")]);
    let mariadb = [
        ("mariadbd", "mariadb-server-core"),
        ("mariadb-install-db", "mariadb-server-core"),
        ("mariadb", "mariadb-client-core"),
        ("sysbench", "sysbench"),
    ];
    check_plan("mariadb", 3, &mariadb);
}

#[test]
fn ready_plans_run_our_own_kernels() {
    check_plan("kernels", 12, &[]);
    check_plan("manual", 18, &[]);
}

/// Headers of the databases that have drivers, with their Debian packages.
const HEADERS: [(&str, &str); 4] = [
    ("/usr/include/leveldb/c.h", "libleveldb-dev"),
    ("/usr/include/lmdb.h", "liblmdb-dev"),
    ("/usr/include/sqlite3.h", "libsqlite3-dev"),
    ("/usr/include/kccachedb.h", "libkyotocabinet-dev"),
];

#[test]
fn ready_plans_drive_databases() {
    let compilers = [("cc", "gcc"), ("c++", "g++")];
    // In one folder, so that the drivers are built once.
    let place = Place::new();
    for (plan, programs) in [("databases", 9), ("libasl", 4)] {
        let Some(said) = run_small(&place, plan, &compilers, &HEADERS) else { return };
        let has_upscaledb = Path::new("/usr/include/ups/upscaledb.h").exists();
        let why = "upscaledb is left out: the command of setup failed: exit status 1\n    \
                   upscaledb is not here: there is no ups/upscaledb.h; install upscaledb from";
        assert_eq!(said.contains(why), !has_upscaledb, "{said}");
        let runs = 3 * (programs + usize::from(has_upscaledb));
        assert!(said.contains(&format!("{runs} runs were added to {plan}.db;")), "{plan}: {said}");
        if plan == "libasl" {
            // Each run has the three numbers, and a little CPU is slower than a big one.
            let sql = "SELECT count(*), sum(l.value > b.value) FROM value l JOIN value b ON l.run = b.run
                       WHERE l.position = 1 AND b.position = 2";
            let found = query(&place, &format!("{plan}.db"), sql);
            let (all, slower) = found.trim().split_once(' ').unwrap();
            assert_eq!(all, runs.to_string());
            assert!(2 * slower.parse::<usize>().unwrap() > runs, "{found}");
        }
    }
}
