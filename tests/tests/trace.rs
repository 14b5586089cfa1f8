//! What the preload library notes of a traced program, and that it stays the program's own.

use lockswap_e2e::{driver, lockswap, need, preload, program, run_with_timeout, scratch_dir, start, stop, Outcome};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A debugger finds the probes that glibc has elsewhere, stops at one, and finds its argument.
#[test]
fn probes_are_those_of_glibc() {
    let (Some(gdb), Some(program)) = (need("gdb", "gdb"), program("sections")) else { return };
    let mut command = Command::new(gdb);
    command.args(["-nx", "-batch", "-ex", "set breakpoint pending on"]);
    let variables = [("LD_PRELOAD", preload().to_str().unwrap().to_owned()), ("LOCKSWAP_TRACE", "probes".into())];
    for (name, value) in variables {
        command.args(["-ex", &format!("set environment {name} {value}")]);
    }
    for text in [
        "break -probe-stap libc:mutex_acquired if $_probe_arg0 == (long)&hot",
        "run",
        "info probes stap libc",
        "bt 4",
        "kill",
    ] {
        command.args(["-ex", text]);
    }
    let outcome = run_with_timeout(command.arg("--args").arg(program).arg("20"), Duration::from_secs(60));
    let said = &outcome.stdout;
    let probes = [
        "mutex_init",
        "mutex_destroy",
        "mutex_entry",
        "mutex_acquired",
        "mutex_release",
        "cond_init",
        "cond_destroy",
        "cond_wait",
        "cond_signal",
        "cond_broadcast",
        "rdlock_entry",
        "rdlock_acquire_read",
        "wrlock_entry",
        "wrlock_acquire_write",
        "rwlock_unlock",
        "rwlock_destroy",
    ];
    for probe in probes {
        assert!(said.contains(&format!(" {probe} ")), "{probe}: {}", outcome.tail());
    }
    // Whose section it is, is a matter of luck.
    assert!(said.contains("_section ("), "{}", outcome.tail());
}

/// Where root may ask the kernel for it, `bpftrace` counts as many acquisitions of a mutex as the program does.
#[test]
fn bpftrace_counts_what_the_program_counts() {
    // The kernel's files of probes may not be in their place: they are put there for these commands only.
    let in_place = "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; test -w /sys/kernel/tracing/uprobe_events";
    let of_own = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        run_with_timeout(&mut command, Duration::from_secs(60))
    };
    let lets_us = |script: &str| {
        let does = of_own(script).success();
        if !does {
            eprintln!("not looked at: this kernel does not let this user have probes of programs ({script})");
        }
        does
    };
    if !lets_us(in_place) {
        return;
    }
    let (Some(bpftrace), Some(program)) = (need("bpftrace", "bpftrace"), program("shares")) else { return };
    if !lets_us(&format!("{} -e 'BEGIN {{ exit(); }}'", bpftrace.display())) {
        return;
    }
    let dir = scratch_dir();
    // A copy: the kernel puts probes into a file for all who map it, among them the debugger's program above.
    let library = dir.path().join("liblockswap.so");
    fs::copy(preload(), &library).unwrap();
    let (bpftrace, program, library) = (bpftrace.display(), program.display(), library.display());
    let count = format!("usdt:{library}:libc:mutex_acquired /comm == \"shares\"/ {{ @[arg0] = count(); }}");
    let outcome = of_own(&format!(
        "{in_place} || exit 1; cd {dir}
        {bpftrace} -B line -e 'BEGIN {{ printf(\"ready\\n\"); }} {count}' > seen 2> said & tool=$!
        until grep -q ready seen; do kill -0 $tool || {{ cat said; exit 1; }}; sleep 0.1; done
        env LD_PRELOAD={library} LOCKSWAP_LOCK=pthread LOCKSWAP_TRACE=probes {program} 1 10000 100000
        kill -INT $tool; wait $tool; cat seen said",
        dir = dir.path().display()
    ));
    let lines = outcome.stdout.lines();
    let own: u64 = lines.clone().find_map(|line| line.parse().ok()).unwrap_or_else(|| panic!("{}", outcome.tail()));
    let seen: Vec<u64> = lines.filter_map(|line| line.strip_prefix("@[")?.split(": ").nth(1)?.parse().ok()).collect();
    assert_eq!(seen, [own], "{}", outcome.tail());
}

fn attach(process: u32, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(lockswap());
    command.args(["trace", "--pid", &process.to_string()]).args(arguments);
    run_with_timeout(&mut command, Duration::from_secs(60))
}

/// Where a process is ready to be traced its file lies here.
fn is_ready(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/maps")).is_ok_and(|maps| maps.contains("/lockswap-trace."))
}

/// Whether a command traces the process: it has locked its file then.
fn is_traced(process: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let inode =
        maps.lines().find(|line| line.contains("/lockswap-trace.")).and_then(|line| line.split_whitespace().nth(4));
    let locks = fs::read_to_string("/proc/locks").unwrap();
    inode.is_some_and(|inode| locks.contains(&format!(":{inode} ")))
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// `sections`, by `lockswap run` and ready to be traced.
fn sections(output: Stdio) -> Option<Child> {
    // With a lock that asks nothing about CPUs the command turns into the program.
    let mut command = Command::new(lockswap());
    command.args(["run", "--lock", "futex", "--"]).arg(program("sections")?).arg("120").stdout(output);
    let child = start(&mut command);
    wait_for("the program is not ready", || is_ready(child.id()));
    Some(child)
}

#[test]
fn what_a_killed_process_leaves_behind_goes_with_the_next_run() {
    let Some(mut child) = sections(Stdio::null()) else { return };
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let file =
        maps.lines().find_map(|line| line.find("/dev/shm/lockswap-trace.").map(|at| line[at..].to_owned())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(fs::exists(&file).unwrap(), "{file}");
    assert!(run_with_timeout(Command::new(lockswap()).args(["run", "--", "true"]), Duration::from_secs(60)).success());
    assert!(!fs::exists(&file).unwrap(), "{file}");
}

#[test]
fn tracing_is_switched_on_and_off_while_a_program_runs() {
    let dir = scratch_dir();
    let output = fs::File::create(dir.path().join("out")).unwrap();
    let Some(mut child) = sections(output.into()) else { return };
    let process = child.id();
    for round in 0..3 {
        let file = dir.path().join(format!("{round}.json"));
        let outcome = attach(process, &["--for", "1s", "--export", file.to_str().unwrap()]);
        assert!(outcome.success(), "{}", outcome.tail());
        let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let object = &report["objects"][0];
        assert_eq!((&object["name"], &object["used"]), (&"hot".into(), &"mutex".into()), "{object:#}");
        // What came in this second only: the slow thread cannot acquire more often than every 2 ms.
        let acquisitions = object["acquisitions"]["value"].as_f64().unwrap();
        assert!((10.0..60_000.0).contains(&acquisitions), "round {round}: {object:#}");
        assert!(object["wait"]["total_ns"].as_f64().unwrap() > 0.0, "{object:#}");
    }
    // One at a time, until the end of the program, which is seen.
    let other = thread::spawn(move || attach(process, &[]));
    wait_for("the process is not traced", || is_traced(process));
    let refused = attach(process, &[]);
    assert!(refused.stderr.contains("another lockswap traces it"), "{}", refused.tail());
    assert!(stop(&mut child, Duration::from_secs(60)).is_some_and(|status| status.success()));
    let outcome = other.join().unwrap();
    assert!(outcome.success(), "{}", outcome.tail());
    let said = fs::read_to_string(dir.path().join("out")).unwrap();
    assert!(said.starts_with("slow ") && !said.contains(" 0"), "{said}");
    let gone = attach(process, &[]);
    assert!(gone.stderr.contains("there is no such process"), "{}", gone.tail());
    let own = attach(std::process::id(), &[]);
    assert!(own.stderr.contains("it was not started by lockswap run"), "{}", own.tail());
}

/// The report of `many`, traced with these options, and what it counted itself.
fn many(options: &[&str], arguments: [&str; 3]) -> Option<(Value, f64)> {
    let many = program("many")?;
    let dir = scratch_dir();
    let file = dir.path().join("many.json");
    let mut command = Command::new(lockswap());
    command.arg("trace").args(options).arg("--export").arg(&file).arg("--").arg(many).args(arguments);
    let outcome = run_with_timeout(&mut command, Duration::from_secs(120));
    assert!(outcome.success(), "{}", outcome.tail());
    let counted = outcome.stdout.trim().parse().unwrap();
    Some((serde_json::from_slice(&fs::read(file).unwrap()).unwrap(), counted))
}

fn object<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut objects = report["objects"].as_array().unwrap().iter();
    objects.find(|object| object["name"].as_str().unwrap().contains(name)).unwrap_or_else(|| panic!("{report:#}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Each of the threads acquires three times only, at different distances.
#[test]
fn acquisitions_of_threads_that_live_shortly_are_estimated_without_bias() {
    let Some((report, truth)) = many(&["--stack", "512"], ["0", "3000", "0"]) else { return };
    let found = &object(&report, "shared")["acquisitions"];
    let (value, error) = (number(&found["value"]), number(&found["error"]));
    // The error is two standard deviations: beyond five of them is one run of two millions. Nothing else may be lost.
    assert_eq!(report["notes"]["lost"], 0);
    assert!((value - truth).abs() <= 2.5 * error && error < truth / 10.0, "{truth}: {found}");
    assert_eq!(report["notes"]["threads"], 3_000);
}

#[test]
fn what_there_is_too_much_of_is_summed_up_and_counted() {
    let Some((report, _)) = many(&["--spacing", "0ms", "--stack", "0"], ["150000", "0", "0"]) else { return };
    let notes = &report["notes"];
    let objects = report["objects"].as_array().unwrap().iter();
    let acquisitions: f64 = objects.map(|object| number(&object["acquisitions"]["value"])).sum();
    assert_eq!((acquisitions, &notes["lost"]), (150_000.0, &0.into()), "{notes}");
    assert_eq!(notes["of_other_objects"], 50_000);
}

#[test]
fn each_child_of_a_storm_of_forks_has_its_own_mutexes() {
    let Some((report, _)) = many(&["--spacing", "0ms"], ["0", "0", "300"]) else { return };
    let shared = object(&report, "shared");
    // Two threads in each, with three acquisitions; there is room for all of that even if nobody reads.
    assert_eq!(
        (number(&shared["acquisitions"]["value"]), &report["notes"]["lost"]),
        (1_800.0, &0.into()),
        "{shared:#}"
    );
    assert_eq!((&shared["objects"], &report["notes"]["processes"]), (&300.into(), &301.into()));
}

/// The ratio that an experiment on `hot` estimates, for threads that hold it for `section` ns and then think for
/// `think` ns.
fn what_if(change: &[&str], section: &str, think: &str) -> Option<f64> {
    let (program, dir) = (program("shares")?, scratch_dir());
    let file = dir.path().join("found.json");
    let mut command = Command::new(lockswap());
    command.arg("trace").args(change).args(["--export", file.to_str().unwrap(), "--"]);
    let outcome = run_with_timeout(command.arg(program).args(["6", section, think]), Duration::from_secs(60));
    assert!(outcome.success(), "{}", outcome.tail());
    let found: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let ratio = found["ratio"].as_f64().unwrap_or_else(|| panic!("{found:#}"));
    let [low, high] = [0, 1].map(|end| found["interval"][end].as_f64().unwrap());
    assert!(low <= ratio && ratio <= high, "{found:#}");
    assert!(found["problems"].as_array().unwrap().is_empty(), "{found:#}");
    assert!(outcome.stderr.contains("With sections of hot "), "{}", outcome.tail());
    Some(ratio)
}

/// Sections of 200 us that threads queue for, and sections of 10 us in which hardly anybody is met: busy machines make
/// neither look like the other.
#[test]
fn what_shorter_and_longer_sections_bring_depends_on_who_waits() {
    let Some(saturated) = what_if(&["--shorten", "hot:50%"], "200000", "1000") else { return };
    assert!((1.3..4.0).contains(&saturated), "half as long: {saturated} times as often");
    let rare = what_if(&["--shorten", "hot:50%"], "10000", "400000").unwrap();
    assert!((0.6..1.3).contains(&rare), "half as long: {rare} times as often");
    let longer = what_if(&["--delay", "hot:200us"], "200000", "1000").unwrap();
    assert!((0.2..0.8).contains(&longer), "twice as long: {longer} times as often");
}

/// Waiters for a condition of lockswap's sleep at semaphores, which are not the program's.
#[test]
fn what_lockswap_itself_waits_with_is_not_traced() {
    let Some(driver) = driver() else { return };
    let dir = scratch_dir();
    let file = dir.path().join("waits.json");
    let mut command = Command::new(lockswap());
    command.args(["trace", "--lock", "futex", "--spacing", "0ms", "--export"]).arg(&file).arg("--").arg(driver);
    let outcome = run_with_timeout(command.args(["--here", "cond_pingpong"]), Duration::from_secs(120));
    assert!(outcome.success(), "{}", outcome.tail());
    let report: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let used: Vec<&str> =
        report["conditions"].as_array().unwrap().iter().map(|object| object["used"].as_str().unwrap()).collect();
    assert!(!used.is_empty() && used.iter().all(|used| *used == "condition variable"), "{used:?}");
}
