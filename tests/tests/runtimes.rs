//! Java's and Node's virtual machines on a few locks, compared with their plain run. Each run proves by its statistics
//! that the lock was used.

use lockswap_e2e::{cached, compare_on, need, or_skip, run_with_timeout, scratch_dir, Outcome, Program, Which};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const COLLECTORS: [&str; 2] = ["-XX:+UseParallelGC", "-XX:+UseZGC"];

fn run(command: &mut Command) -> Result<Outcome, String> {
    let outcome = run_with_timeout(command, Duration::from_secs(120));
    if outcome.success() {
        return Ok(outcome);
    }
    Err(format!("{command:?} {}:\n{}", outcome.ending(), outcome.tail()))
}

fn compare_proven(program: &Program) {
    compare_on(program.name, Which::Few, |variant| {
        variant.map_or_else(|| program.plain(), |variant| program.proven_on(variant))
    });
}

fn source(name: &str) -> String {
    format!("{}/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// All files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    let mut all: Vec<PathBuf> = entries.flat_map(|entry| below(entry.expect("readable").path())).collect();
    all.sort();
    all
}

/// The sources of a module of this JDK, from the Debian package that has them, unpacked without installing it: that
/// would bring the graphical half of the JDK.
fn module_sources(compiler: &Path, name: &str) -> Result<PathBuf, String> {
    let version = run(Command::new(compiler).arg("-version"))?.stdout;
    let major = version.trim().trim_start_matches("javac ").split('.').next().unwrap_or_default().to_string();
    let package = format!("openjdk-{major}-source");
    cached(&format!("{package}-{name}"), |directory| {
        // Fails without root, which then needs package lists that are there already.
        let _ = run(Command::new("apt-get").args(["update", "-q"]));
        run(Command::new("apt-get").args(["download", "-q", &package]).current_dir(directory))?;
        let archive = files(directory).pop().ok_or_else(|| format!("apt-get download {package} left nothing"))?;
        run(Command::new("dpkg-deb").arg("-x").args([&archive, directory]))?;
        let zip = directory.join(format!("usr/lib/jvm/openjdk-{major}/lib/src.zip"));
        run(Command::new(compiler.with_file_name("jar")).arg("xf").args([&zip]).arg(name).current_dir(directory))?;
        let left_over = |error| format!("{}: {error}", directory.display());
        fs::remove_file(&archive).map_err(left_over)?;
        fs::remove_dir_all(directory.join("usr")).map_err(left_over)
    })
    .map(|directory| directory.join(name))
}

/// Which class files there are, and what is in them.
fn classes(_: &Outcome, directory: &Path) -> Result<String, String> {
    let all = files(directory);
    let mut hasher = DefaultHasher::new();
    for file in &all {
        fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?.hash(&mut hasher);
        file.strip_prefix(directory).expect("below it").hash(&mut hasher);
    }
    Ok(format!("{} classes, {:016x}", all.len(), hasher.finish()))
}

#[test]
fn javac() {
    let Some(compiler) = need("javac", "openjdk-17-jdk-headless") else { return };
    let module = "jdk.jdi";
    let Some(sources) = or_skip(&format!("the sources of {module}"), module_sources(&compiler, module)) else { return };
    let mut all = files(&sources);
    all.retain(|path| path.extension().is_some_and(|extension| extension == "java"));
    assert!(all.len() > 200, "only {} sources in {}", all.len(), sources.display());
    let own = scratch_dir();
    let list = own.path().join("sources");
    let lines: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
    fs::write(&list, lines.join("\n")).expect("write the list of sources");
    let (patched, list) = (format!("{module}={}", sources.display()), format!("@{}", list.display()));
    for collector in COLLECTORS {
        let arguments = [
            &format!("-J{collector}"),
            // Only the quick one of the compilers at run time, or half of the time would be that of the other.
            "-J-XX:TieredStopAtLevel=1",
            "-J-Xmx512m",
            "-proc:none",
            "-nowarn",
            "-d",
            "{dir}",
            "--patch-module",
            &patched,
            &list,
        ];
        let mut program = Program::new("javac", compiler.clone(), &arguments);
        program.limit = Duration::from_secs(120);
        program.result = classes;
        compare_proven(&program);
    }
}

#[test]
fn java_monitors_and_parked_threads() {
    let Some(compiler) = need("javac", "openjdk-17-jdk-headless") else { return };
    let Some(java) = need("java", "openjdk-17-jre-headless") else { return };
    let compiled = scratch_dir();
    run(Command::new(compiler).arg("-d").arg(compiled.path()).arg(source("Monitors.java")))
        .unwrap_or_else(|error| panic!("{error}"));
    let path = compiled.path().to_str().expect("plain name");
    for collector in COLLECTORS {
        let mut program =
            Program::new("Monitors.java", java.clone(), &[collector, "-Xmx128m", "-cp", path, "Monitors"]);
        program.limit = Duration::from_secs(120);
        compare_proven(&program);
    }
}

#[test]
fn node_workers() {
    let Some(node) = need("node", "nodejs") else { return };
    let mut program = Program::new("node", node, &[&source("workers.mjs"), "{dir}"]);
    program.limit = Duration::from_secs(60);
    compare_proven(&program);
}
