//! Programs that a compiler has built with a sanitizer run under `lockswap run` as they do without it.

use lockswap_e2e::{file, need, run_with_timeout, scratch_dir, Outcome, Variant};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// How a program gets its runtime.
#[derive(Clone, Copy, Debug)]
enum Runtime {
    Shared,
    Static,
}

#[derive(Clone, Copy, Debug)]
enum Compiler {
    Gcc,
    Clang,
}

const ALL: [(Compiler, Runtime); 4] = [
    (Compiler::Gcc, Runtime::Shared),
    (Compiler::Gcc, Runtime::Static),
    (Compiler::Clang, Runtime::Shared),
    (Compiler::Clang, Runtime::Static),
];

/// The folder of clang's runtimes, which are in a package of their own.
fn runtimes_of_clang(clang: &Path) -> Option<PathBuf> {
    let found = run_with_timeout(Command::new(clang).arg("-print-resource-dir"), LIMIT);
    let resources = Path::new(found.stdout.trim());
    let version = resources.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
    let package = format!("libclang-rt-{}-dev", version.expect("clang's folder is named by its version"));
    let library = format!("lib/linux/libclang_rt.asan-{}.so", std::env::consts::ARCH);
    let library = file(&resources.join(library), &package)?;
    library.parent().map(Path::to_owned)
}

/// Builds `tests/programs/sanitized.c` with a sanitizer, `address` or `thread`; `None` without the compiler.
fn build(directory: &Path, sanitizer: &str, compiler: Compiler, runtime: Runtime) -> Option<PathBuf> {
    let path = directory.join(format!("{sanitizer}-{compiler:?}-{runtime:?}"));
    let program = match compiler {
        Compiler::Gcc => need("gcc", "gcc")?,
        Compiler::Clang => need("clang", "clang")?,
    };
    let mut options = vec!["-g".to_string(), "-O1".into(), "-pthread".into(), format!("-fsanitize={sanitizer}")];
    match (compiler, runtime) {
        (Compiler::Gcc, Runtime::Shared) => {}
        (Compiler::Gcc, Runtime::Static) => options.push(format!("-static-lib{}san", &sanitizer[..1])),
        (Compiler::Clang, runtime) => {
            let folder = runtimes_of_clang(&program)?;
            if let Runtime::Shared = runtime {
                options.extend(["-shared-libsan".into(), format!("-Wl,-rpath,{}", folder.display())]);
            }
        }
    }
    let mut command = Command::new(&program);
    command.args(options).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/sanitized.c")).arg("-o").arg(&path);
    let built = run_with_timeout(&mut command, LIMIT);
    assert!(built.success(), "{command:?}: {}", built.tail());
    Some(path)
}

/// Runs the program on a lock, started by `wrapper`.
fn on(lock: &str, wrapper: &[&str], program: &Path, mode: &str) -> Outcome {
    let variant = Variant { lock: lock.into(), topology: None };
    let mut words: Vec<String> = wrapper.iter().map(ToString::to_string).collect();
    words.extend([program.to_str().expect("plain name").to_string(), mode.to_string()]);
    let mut command = variant.command(&["--summary"], Path::new(&words[0]), &words[1..]);
    run_with_timeout(command.env_remove("ASAN_OPTIONS"), LIMIT)
}

#[test]
fn address_sanitizer_works_as_without_lockswap() {
    let directory = scratch_dir();
    for (compiler, runtime) in ALL {
        let Some(program) = build(directory.path(), "address", compiler, runtime) else { continue };
        let what = format!("{compiler:?}, {runtime:?} runtime");
        let plain = run_with_timeout(Command::new(&program).arg("correct"), LIMIT);
        assert!(plain.success() && plain.stderr.is_empty(), "{what}, plain: {}", plain.tail());
        for lock in ["mcs_spin", "auto"] {
            for wrapper in [&[][..], &["/bin/sh", "-c", "\"$0\" \"$@\""]] {
                let correct = on(lock, wrapper, &program, "correct");
                assert!(correct.success(), "{what} on {lock}: {}: {}", correct.ending(), correct.tail());
                assert_eq!(correct.stdout, plain.stdout, "{what} on {lock}");
                assert!(!correct.stderr.contains("Sanitizer"), "{what} on {lock}: {}", correct.stderr);
                // Three objects of the program, whatever the shell has.
                let replaced = correct.stderr.lines().find(|line| line.contains("replaced")).unwrap_or_default();
                assert!(!replaced.contains(" 0 mutexes"), "{what} on {lock}: {}", correct.stderr);
            }
            let wrong = on(lock, &[], &program, "overflow");
            assert!(!wrong.success(), "{what} on {lock}: an overflow was missed");
            assert!(wrong.stderr.contains("heap-buffer-overflow"), "{what} on {lock}: {}", wrong.tail());
        }
    }
}

/// The runtime is not loaded into a child that was built without it: there it would report what the child never frees.
#[test]
fn children_without_the_sanitizer_stay_without_it() {
    let directory = scratch_dir();
    let Some(gcc) = need("gcc", "gcc") else { return };
    let Some(program) = build(directory.path(), "address", Compiler::Gcc, Runtime::Shared) else { return };
    let leak = directory.path().join("leak");
    let source = directory.path().join("leak.c");
    std::fs::write(&source, "#include <stdlib.h>\nint main(void) { return !malloc(100); }\n").expect("write");
    let built = run_with_timeout(Command::new(gcc).arg(&source).arg("-o").arg(&leak), LIMIT);
    assert!(built.success(), "{}", built.tail());
    let outcome = on("mcs_spin", &[], &program, &format!("run {}", leak.display()));
    assert!(outcome.success() && outcome.stdout == "0\n", "{}: {}", outcome.ending(), outcome.tail());
    assert!(!outcome.stderr.contains("Sanitizer"), "{}", outcome.stderr);
}

/// ThreadSanitizer is not tried with clang's shared runtime: with clang 14 such programs crash without lockswap, too.
const WITH_THREADS: [(Compiler, Runtime); 3] =
    [(Compiler::Gcc, Runtime::Shared), (Compiler::Gcc, Runtime::Static), (Compiler::Clang, Runtime::Static)];

/// ThreadSanitizer must see the locks: the library stands aside, says so in one line, and nothing else is different.
#[test]
fn thread_sanitizer_sees_the_programs_own_locks() {
    let directory = scratch_dir();
    for (compiler, runtime) in WITH_THREADS {
        let Some(program) = build(directory.path(), "thread", compiler, runtime) else { continue };
        let what = format!("{compiler:?}, {runtime:?} runtime");
        let plain = run_with_timeout(Command::new(&program).arg("correct"), LIMIT);
        assert!(plain.success() && plain.stderr.is_empty(), "{what}, plain: {}", plain.tail());
        for lock in ["mcs_spin", "auto"] {
            let variant = Variant { lock: lock.into(), topology: None };
            let run = |mode: &str| run_with_timeout(&mut variant.command(&[], &program, &[mode.into()]), LIMIT);
            let correct = run("correct");
            assert!(correct.success(), "{what} on {lock}: {}: {}", correct.ending(), correct.tail());
            assert_eq!(correct.stdout, plain.stdout, "{what} on {lock}");
            let said: Vec<&str> = correct.stderr.lines().collect();
            let one = matches!(said[..], [line] if line.starts_with("lockswap: ") && line.contains("ThreadSanitizer"));
            assert!(one, "{what} on {lock}: {}", correct.stderr);
            let racy = run("race");
            assert!(!racy.success(), "{what} on {lock}: a race was missed");
            assert_eq!(
                racy.stderr.matches("WARNING: ThreadSanitizer: data race").count(),
                1,
                "{what} on {lock}: {}",
                racy.stderr
            );
        }
    }
}
