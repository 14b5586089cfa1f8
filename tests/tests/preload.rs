//! What the preload library promises to programs by itself: which functions it replaces, when, and for whom not.

use lockswap_e2e::{lockswap, need, preload, program, run_with_timeout, scratch_dir, skip, Outcome};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs `program` with the library alone, without the command.
fn preloaded(program: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preload()).envs(environment.iter().copied());
    run_with_timeout(&mut command, LIMIT)
}

/// Runs `program` on `lock` and returns its statistics.
fn counted(lock: &str, program: &Path) -> serde_json::Value {
    let directory = scratch_dir();
    let file = directory.path().join("stats.json");
    let mut command = Command::new(lockswap());
    command.args(["run", "--lock", lock, "--stats-json"]).arg(&file).arg("--").arg(program);
    let outcome = run_with_timeout(&mut command, LIMIT);
    assert!(outcome.success(), "{lock}: {}:\n{}", outcome.ending(), outcome.tail());
    serde_json::from_str(&fs::read_to_string(&file).expect("statistics")).expect("JSON")
}

/// The functions that the library exports.
fn exported() -> Option<Vec<String>> {
    let nm = need("nm", "binutils")?;
    let listed = run_with_timeout(Command::new(nm).args(["--dynamic", "--defined-only"]).arg(preload()), LIMIT);
    assert!(listed.success(), "{}", listed.tail());
    // "ADDRESS T NAME@VERSION"; the versions themselves are symbols of type A.
    let functions = listed.stdout.lines().filter_map(|line| line.split_once(" T "));
    let mut names: Vec<String> =
        functions.map(|(_, name)| name.split('@').next().expect("a first part").to_owned()).collect();
    names.sort();
    names.dedup();
    Some(names)
}

#[test]
fn versions() {
    let Some(program) = program("versions") else { return };
    let Some(names) = exported() else { return };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let outcome = preloaded(&program, &[], &names);
    assert!(outcome.success(), "{}:\n{}", outcome.ending(), outcome.tail());
    // Each function without a version and with one at least.
    assert!(outcome.stdout.lines().count() >= 150, "{}", outcome.stdout);
    for name in ["pthread_cond_wait -", "pthread_cond_wait GLIBC_2.3.2", "pthread_mutex_clocklock GLIBC_2.34"] {
        let is_of_x86_64 = name.ends_with("2.3.2");
        let found = outcome.stdout.lines().any(|line| line.starts_with(name));
        assert!(found || is_of_x86_64 && !cfg!(target_arch = "x86_64"), "{name} is missing:\n{}", outcome.stdout);
    }
    let is_ours = |line: &&str| line.rsplit('/').next().is_some_and(|file| file.starts_with("liblockswap"));
    // The old version takes a file without "#!" for a script, which ours does not.
    let is_left_out = |line: &&str| line.starts_with("posix_spawn") && line.contains(" GLIBC_2.2.5 ");
    let others: Vec<&str> = outcome.stdout.lines().filter(|line| !is_ours(line) && !is_left_out(line)).collect();
    assert!(others.is_empty(), "not ours:\n{}", others.join("\n"));
}

#[test]
fn calls_before_the_environment_is_there() {
    let Some(program) = program("early") else { return };
    let plain = run_with_timeout(&mut Command::new(&program), LIMIT);
    // Else the test would prove nothing.
    assert_eq!(plain.stdout, "environment 0, lock 0, unlock 0, answer 42\n", "{}", plain.tail());

    let outcome = preloaded(&program, &[("LOCKSWAP_LOCK", "no-such-lock")], &[]);
    assert_eq!(outcome.status.and_then(|status| status.code()), Some(127), "{}", outcome.tail());
    assert!(outcome.stderr.contains("LOCKSWAP_LOCK=no-such-lock names no mutex lock"), "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with("mutex lock; 'lockswap list' shows all\n"), "{}", outcome.stderr);
    let outcome = preloaded(&program, &[("LOCKSWAP_LOCK", "CLH")], &[]);
    let said = "LOCKSWAP_LOCK=CLH names no mutex lock; did you mean 'clh_spin', 'clh_stp' or 'clh-ls'? 'lockswap list' shows all";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    for (lock, said) in [
        ("mcs_spin:fifo=cna", "LOCKSWAP_LOCK=mcs_spin:fifo=cna: mcs_spin has no parameter 'fifo'"),
        ("asl:max-window=5", "max-window=5: give a time with its unit, as in 1ms"),
        ("cna:threshold=0", "LOCKSWAP_LOCK=cna:threshold=0: threshold=0: give a number of hand-offs from 1 to"),
    ] {
        let outcome = preloaded(&program, &[("LOCKSWAP_LOCK", lock)], &[]);
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(127), "{}", outcome.tail());
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    let outcome =
        preloaded(&program, &[("LOCKSWAP_LOCK", "asl:fifo=cna:max-window=1ms"), ("LOCKSWAP_VERBOSE", "1")], &[]);
    assert!(outcome.success() && outcome.stderr.contains("mutex asl-cna:max-window=1ms,"), "{}", outcome.tail());

    let statistics = counted("mcs_spin", &program);
    assert_eq!(statistics["replaced"]["mutex"], 1, "{statistics}");
    assert_eq!(statistics["calls"]["mutex"]["ours"], 1, "{statistics}");
}

/// A program with more rights than its user must not do what its user's environment says.
#[test]
fn programs_with_more_rights_than_their_user() {
    static VICTIM: [u8; 1 << 20] = [0xa5; 1 << 20];
    if !rustix::process::geteuid().is_root() {
        return skip("root, for a set-user-ID program in a folder of its own");
    }
    let Some(chroot) = need("chroot", "coreutils") else { return };
    let Some(program) = program("identity") else { return };
    let directory = scratch_dir();
    let root = directory.path();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    set_mode(root, 0o755);
    for name in ["etc", "lib", "dev"] {
        fs::create_dir(root.join(name)).expect("mkdir");
    }
    symlink("lib", root.join("lib64")).expect("symlink");
    // The program's libraries, as the dynamic linker finds them: "NAME => PATH (ADDRESS)" and "PATH (ADDRESS)".
    let Some(ldd) = need("ldd", "libc-bin") else { return };
    let libraries = run_with_timeout(Command::new(ldd).arg(&program), LIMIT);
    for path in libraries.stdout.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new) {
        fs::copy(path, root.join("lib").join(path.file_name().expect("a file"))).expect("copy a library");
    }
    fs::copy(preload(), root.join("lib/liblockswap.so")).expect("copy the library");
    // Preloaded into set-user-ID programs too, by the system's administrator.
    fs::write(root.join("etc/ld.so.preload"), "/lib/liblockswap.so\n").expect("write");
    fs::copy(&program, root.join("identity")).expect("copy the program");
    set_mode(&root.join("identity"), 0o4755);
    fs::write(root.join("victim"), VICTIM).expect("write");
    set_mode(&root.join("victim"), 0o600);

    let mut command = Command::new(chroot);
    command.arg("--userspec=65534:65534").arg(root).arg("/identity").env("LOCKSWAP_STATS", "/victim");
    // chroot itself is not meant.
    let outcome = run_with_timeout(command.env_remove("LD_PRELOAD").env("LOCKSWAP_LOCK", "no-such-lock"), LIMIT);
    if outcome.stdout.starts_with("user 65534, effective 65534,") {
        return skip("a temporary folder on a file system that honours set-user-ID");
    }
    assert!(outcome.success(), "{}:\n{}", outcome.ending(), outcome.tail());
    assert_eq!(outcome.stdout, "user 65534, effective 0, error 0, /lib/liblockswap.so\n", "{}", outcome.stderr);
    assert!(fs::read(root.join("victim")).expect("read") == VICTIM, "the file that LOCKSWAP_STATS named has changed");
}

#[test]
fn the_table_of_functions_cannot_be_written_to() {
    if !cfg!(target_arch = "x86_64") {
        return skip("x86-64, whose jumps the program reads");
    }
    let Some(program) = program("table") else { return };
    for lock in ["auto", "futex", "mcs_spin", "interposed-pthread"] {
        let outcome = preloaded(&program, &[("LOCKSWAP_LOCK", lock)], &[]);
        assert!(outcome.success(), "{lock}: {}:\n{}", outcome.ending(), outcome.tail());
        // "BEGIN-END RIGHTS ..."
        let rights = outcome.stdout.split_whitespace().nth(1);
        assert_eq!(rights, Some("r--p"), "{lock}: {}", outcome.stdout);
    }
}

/// Every call is counted once, by what it is made on and who answers it.
#[test]
fn calls() {
    const THREADS_AND_ROUNDS: u64 = 4 * 100;
    let Some(program) = program("calls") else { return };
    // In the order of `Why`: what becomes lockswap's depends on the lock.
    let expected = [("mutex", 7, [2, 1, 0, 3]), ("cond", 4, [0, 0, 0, 2]), ("rwlock", 6, [0, 0, 0, 2])];
    for lock in ["auto", "futex", "mcs_spin", "c-bo-mcs_stp", "interposed-pthread"] {
        let statistics = counted(lock, &program);
        let calls = &statistics["calls"];
        let (replacing, other) = if lock == "interposed-pthread" { ("chosen", "ours") } else { ("ours", "chosen") };
        for (role, replaced, others) in expected {
            let others = ["robust", "pi", "protect", "pshared"].into_iter().zip(others);
            for (why, number) in others.chain([(replacing, replaced), (other, 0)]) {
                assert_eq!(calls[role][why], number * THREADS_AND_ROUNDS, "{lock}: {role} {why}: {calls}");
            }
        }
        assert_eq!(calls["spin"][replacing], 3 * THREADS_AND_ROUNDS, "{lock}: {calls}");
    }
}

#[test]
fn loaded_by_a_running_program() {
    let Some(program) = program("late") else { return };
    for lock in ["auto", "futex", "mcs_spin", "cna", "hmcs"] {
        for _ in 0..5 {
            let mut command = Command::new(&program);
            let outcome = run_with_timeout(command.arg(preload()).env("LOCKSWAP_LOCK", lock), LIMIT);
            assert!(outcome.success(), "{lock}: {}:\n{}", outcome.ending(), outcome.tail());
        }
    }
}

/// Helgrind must see the program's own locks, else it reports races that are none.
#[test]
fn under_helgrind() {
    let Some(valgrind) = need("valgrind", "valgrind") else { return };
    let Some(program) = program("quiet") else { return };
    let mut command = Command::new(lockswap());
    command.args(["run", "--lock", "mcs_spin", "--"]).arg(valgrind).args(["--tool=helgrind", "--error-exitcode=9"]);
    let outcome = run_with_timeout(command.arg(program), LIMIT);
    assert!(outcome.success(), "{}:\n{}", outcome.ending(), outcome.tail());
    assert_eq!(outcome.stdout, "40 turns\n");
    assert!(outcome.stderr.contains("ERROR SUMMARY: 0 errors"), "{}", outcome.stderr);
    let line = "lockswap: nothing is replaced: Helgrind must see the program's own locks";
    assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
}
