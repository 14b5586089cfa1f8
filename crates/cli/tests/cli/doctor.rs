use std::fs;
use std::os::unix::fs::{chown, symlink, MetadataExt};
use std::process::Stdio;

use crate::{compile, make_executable, text, wait_for, Place};
use serde_json::Value;

const LOCKING: &str = "#include <pthread.h>\n\
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
    int main(void) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); return 0; }\n";
const IDLE: &str = "int main(void) { return 0; }\n";

fn examine(place: &Place, program: &str) -> (Option<i32>, Value) {
    let output = place.output(&["doctor", "--json", program]);
    let value = serde_json::from_slice(&output.stdout);
    (output.status.code(), value.unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr))))
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["program"]["checks"].as_array().unwrap();
    checks.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no check {name} in {report:#}"))
}

#[test]
fn this_machine_can_do_it() {
    let place = Place::new();
    let output = place.output(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["here"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["preload library", "glibc", "rseq", "CPUs", "cgroup quota"]);
    assert!(checks.iter().all(|c| c["status"] == "ok" || c["remedy"].is_string()), "{report:#}");
    assert!(text(&place.output(&["doctor"]).stdout).ends_with("verdict: works\n"));
    let same: Value = serde_json::from_slice(&place.output(&["doctor", "--format", "json"]).stdout).unwrap();
    assert_eq!((&same["here"], &same["works"]), (&report["here"], &true.into()));
    assert_eq!(place.output(&["doctor", "--format", "csv"]).status.code(), Some(2));
}

#[test]
fn what_a_program_and_its_libraries_import_is_named() {
    let place = Place::new();
    let (status, report) = examine(&place, &compile(&place, "locking", LOCKING, &[]));
    assert_eq!((status, &report["verdict"]), (Some(0), &"works".into()));
    assert_eq!(
        report["program"]["imports"][0]["symbols"],
        serde_json::json!(["pthread_mutex_lock", "pthread_mutex_unlock"])
    );

    let (status, report) = examine(&place, &compile(&place, "idle", IDLE, &[]));
    assert_eq!((status, &report["verdict"]), (Some(0), &"works, but nothing to replace".into()));
    assert!(check(&report, "imports")["found"].as_str().unwrap().contains("no pthread lock functions"));

    // A library beside the program, found through $ORIGIN only.
    fs::create_dir(place.path("lib")).unwrap();
    let library = LOCKING.replace("main", "use_locks");
    compile(&place, "lib/libuses.so", &library, &["-shared", "-fPIC", "-Wl,-soname,libuses.so"]);
    let user = "int use_locks(void); int main(void) { return use_locks(); }\n";
    let (dir, origin) = (format!("-L{}", place.path("lib").display()), "-Wl,-rpath,$ORIGIN/lib");
    let (status, report) = examine(&place, &compile(&place, "user", user, &[&dir, "-luses", origin]));
    assert_eq!((status, &report["verdict"]), (Some(0), &"works".into()), "{report:#}");
    let object = report["program"]["imports"][0]["object"].as_str().unwrap();
    assert!(object.ends_with("lib/libuses.so"), "{object}");
}

#[test]
fn a_static_program_cannot_work() {
    let place = Place::new();
    let (status, report) = examine(&place, &compile(&place, "fixed", LOCKING, &["-static"]));
    assert_eq!((status, &report["verdict"]), (Some(1), &"cannot work".into()));
    let linking = check(&report, "linking");
    assert_eq!(linking["status"], "problem");
    let found = linking["found"].as_str().unwrap();
    assert!(found.contains("static") && found.contains("runs as without lockswap"), "{found}");
    let (_, report) = examine(&place, &compile(&place, "movable", LOCKING, &["-static-pie"]));
    assert!(check(&report, "linking")["found"].as_str().unwrap().contains("static"), "{report:#}");
}

#[test]
fn a_go_program_is_recognised() {
    let place = Place::new();
    // What marks a Go program is a section; the rest of it does not matter here.
    let go = "__attribute__((section(\".go.buildinfo\"), used)) static char info[16] = \"Go buildinf:\";\n";
    let (status, report) = examine(&place, &compile(&place, "go", &format!("{go}{IDLE}"), &["-static"]));
    assert_eq!(status, Some(1));
    assert!(check(&report, "linking")["found"].as_str().unwrap().contains("Go"));
    let (status, report) = examine(&place, &compile(&place, "cgo", &format!("{go}{LOCKING}"), &[]));
    assert_eq!(status, Some(0));
    assert_eq!(check(&report, "Go")["status"], "note");
}

#[test]
fn of_a_script_the_interpreter_is_examined() {
    let place = Place::new();
    let program = compile(&place, "interpreter", LOCKING, &[]);
    let script = place.path("script");
    fs::write(&script, format!("#!{program} -x\n")).unwrap();
    make_executable(&script, 0o755);
    let (status, report) = examine(&place, script.to_str().unwrap());
    assert_eq!((status, &report["verdict"]), (Some(0), &"works".into()));
    assert_eq!(report["program"]["program"].as_str(), Some(program.as_str()));
    assert!(check(&report, "script")["found"].as_str().unwrap().contains("script is run by"));

    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let output = place.output(&["doctor", script.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/interpreter"));
}

#[test]
fn a_program_that_changes_its_user_cannot_work() {
    let place = Place::new();
    let own = fs::metadata(place.path(".")).unwrap().uid();
    let program = if own == 0 {
        let program = compile(&place, "setuid", LOCKING, &[]);
        chown(&program, Some(65534), None).unwrap();
        make_executable(program.as_ref(), 0o4755);
        program
    } else {
        "/usr/bin/su".to_owned()
    };
    let (status, report) = examine(&place, &program);
    assert_eq!((status, &check(&report, "setuid")["status"]), (Some(1), &"problem".into()));
    if own == 0 {
        chown(&program, Some(0), None).unwrap();
        make_executable(program.as_ref(), 0o4755);
        let (status, report) = examine(&place, &program);
        assert_eq!((status, &check(&report, "setuid")["status"]), (Some(0), &"note".into()), "root stays root");
    }
}

#[test]
fn other_architectures_other_files_and_missing_ones() {
    let place = Place::new();
    let program = compile(&place, "foreign", LOCKING, &[]);
    let mut bytes = fs::read(&program).unwrap();
    // e_machine: RISC-V
    bytes[18..20].copy_from_slice(&243u16.to_le_bytes());
    fs::write(&program, bytes).unwrap();
    let (status, report) = examine(&place, &program);
    assert_eq!((status, &check(&report, "architecture")["status"]), (Some(1), &"problem".into()));

    let data = place.path("data");
    fs::write(&data, "just text").unwrap();
    let (status, report) = examine(&place, data.to_str().unwrap());
    assert_eq!((status, &check(&report, "file")["status"]), (Some(1), &"problem".into()));
    assert_eq!(check(&report, "permissions")["status"], "problem");

    let output = place.output(&["doctor", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not found"));
}

#[test]
fn a_library_that_is_missing_is_named() {
    let place = Place::new();
    compile(&place, "libgone.so", &LOCKING.replace("main", "use_locks"), &["-shared", "-fPIC"]);
    let user = "int use_locks(void); int main(void) { return use_locks(); }\n";
    let dir = format!("-L{}", place.path("").display());
    let program = compile(&place, "user", user, &[&dir, "-lgone"]);
    fs::remove_file(place.path("libgone.so")).unwrap();
    let (_, report) = examine(&place, &program);
    assert!(check(&report, "libraries")["found"].as_str().unwrap().contains("libgone.so"));
}

const USER: &str = "int use_locks(void); int main(void) { return use_locks(); }\n";

/// A program that needs a library under any name, such as one that is no library at all.
fn needing(place: &Place, name: &str) -> String {
    let soname = format!("-Wl,-soname,{name}");
    let library = compile(place, "named.so", &LOCKING.replace("main", "use_locks"), &["-shared", "-fPIC", &soname]);
    let program = compile(place, "needing", USER, &[&library]);
    fs::remove_file(library).unwrap();
    program
}

/// `lockswap doctor`, which must end soon.
fn doctor(place: &Place, args: &[&str]) -> std::process::Output {
    let args = [&["doctor"], args].concat();
    let mut child = place.lockswap(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the end of doctor", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

#[test]
fn devices_pipes_and_huge_files_are_not_read_as_libraries() {
    let place = Place::new();
    let pipe = place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let huge = place.path("huge");
    fs::write(&huge, "\x7fELF").unwrap();
    fs::File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    for path in ["/dev/zero", pipe.to_str().unwrap(), huge.to_str().unwrap(), place.path("").to_str().unwrap()] {
        let output = doctor(&place, &["--json", &needing(&place, path)]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(check(&report, "libraries")["found"].as_str().unwrap().contains(path), "{report:#}");
        let output = doctor(&place, &[path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        assert!(text(&output.stderr).contains("cannot read"), "{}", text(&output.stderr));
    }
}

#[test]
fn names_from_files_cannot_steer_the_terminal() {
    let place = Place::new();
    let output = doctor(&place, &[&needing(&place, "evil\x1b]0;title\x07\nverdict: works\u{202e}.so")]);
    let said = text(&output.stdout);
    assert!(said.contains("evil\\u{1b}]0;title\\u{7}\\nverdict: works\\u{202e}.so"), "{said}");
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");

    let script = place.path("script");
    fs::write(&script, "#!/no/such/\x1b[2Jinterpreter\n").unwrap();
    make_executable(&script, 0o755);
    let error = text(&doctor(&place, &[script.to_str().unwrap()]).stderr);
    assert!(error.contains("/no/such/\\u{1b}[2Jinterpreter"), "{error:?}");
}

#[test]
fn libraries_lie_beside_the_program_and_not_beside_a_link_to_it() {
    let place = Place::new();
    for dir in ["app", "app/bin", "app/lib", "links"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    let library = LOCKING.replace("main", "use_locks");
    compile(&place, "app/lib/libuses.so", &library, &["-shared", "-fPIC", "-Wl,-soname,libuses.so"]);
    let dir = format!("-L{}", place.path("app/lib").display());
    let program = compile(&place, "app/bin/user", USER, &[&dir, "-luses", "-Wl,-rpath,$ORIGIN/../lib"]);
    symlink(&program, place.path("links/user")).unwrap();
    let (status, report) = examine(&place, place.path("links/user").to_str().unwrap());
    assert_eq!((status, &report["verdict"]), (Some(0), &"works".into()), "{report:#}");
    let missing = report["program"]["checks"].as_array().unwrap().iter().find(|c| c["name"] == "libraries");
    assert_eq!(missing, None);
}

#[test]
fn a_launcher_of_java_is_recognised() {
    let place = Place::new();
    let (status, report) = examine(&place, &needing(&place, "libjli.so"));
    assert_eq!(status, Some(0));
    let java = check(&report, "Java");
    assert!(java["status"] == "ok" && java["found"].as_str().unwrap().contains("are replaced"), "{java}");
}

#[test]
fn what_a_program_will_load_is_not_known_before_it_runs() {
    let place = Place::new();
    let loading = "#include <dlfcn.h>\nint main(void) { return dlopen(\"libx.so\", RTLD_NOW) != 0; }\n";
    let (status, report) = examine(&place, &compile(&place, "loading", loading, &["-ldl"]));
    assert_eq!(status, Some(0));
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.contains("whether") && verdict.contains("lockswap run --summary"), "{verdict}");
}

#[test]
fn a_plug_in_is_a_library_and_not_a_static_program() {
    let place = Place::new();
    let plug_in = compile(&place, "plug-in.so", &LOCKING.replace("main", "use_locks"), &["-shared", "-fPIC"]);
    make_executable(plug_in.as_ref(), 0o644);
    let (status, report) = examine(&place, &plug_in);
    assert_eq!((status, &report["verdict"]), (Some(0), &"works".into()), "{report:#}");
    let linking = check(&report, "linking");
    assert!(linking["status"] == "note" && linking["found"].as_str().unwrap().contains("shared library"), "{linking}");
}

#[test]
fn programs_for_other_c_libraries_run_as_without_lockswap() {
    let place = Place::new();
    let linking = |report: &Value| check(report, "linking")["found"].as_str().unwrap().to_owned();
    let musl = compile(&place, "musl", LOCKING, &["-Wl,--dynamic-linker=/lib/ld-musl-any.so.1"]);
    let (status, report) = examine(&place, &musl);
    assert_eq!(status, Some(1));
    assert!(linking(&report).contains("runs as without lockswap"), "{report:#}");

    fs::create_dir(place.path("other")).unwrap();
    let loader = format!("-Wl,--dynamic-linker={}", place.path("other/ld.so").display());
    let program = compile(&place, "foreign", LOCKING, &[&loader]);
    let (status, report) = examine(&place, &program);
    assert_eq!(status, Some(1));
    assert!(linking(&report).contains("loader cannot be used"), "{report:#}");
    compile(&place, "other/ld.so", "int nothing;\n", &["-shared", "-fPIC"]);
    let (status, report) = examine(&place, &program);
    assert_eq!(status, Some(0));
    assert!(linking(&report).contains("its glibc is not known"), "{report:#}");
    for (version, status) in [("2.31", 1), ("2.33", 1), ("2.34", 0), ("2.41", 0)] {
        let banner = format!("char banner[] = \"GNU C Library (Debian) stable release version {version}.\\n\";\n");
        compile(&place, "other/libc.so.6", &banner, &["-shared", "-fPIC"]);
        let (found, report) = examine(&place, &program);
        assert_eq!(found, Some(status), "{version}");
        assert!(linking(&report).contains(&format!("glibc {version}")), "{report:#}");
        assert_eq!(linking(&report).contains("cannot be loaded into it"), status == 1, "{report:#}");
    }
}

#[test]
fn sanitizers_are_recognised_in_libraries_and_in_the_program() {
    let place = Place::new();
    for (options, name, verdict) in [
        (&["-fsanitize=thread"][..], "ThreadSanitizer", "stands aside"),
        (&["-fsanitize=thread", "-static-libtsan"], "ThreadSanitizer", "stands aside"),
        (&["-fsanitize=thread", "-static-libtsan", "-s"], "ThreadSanitizer", "stands aside"),
        (&["-fsanitize=address"], "AddressSanitizer", "works"),
        (&["-fsanitize=address", "-static-libasan"], "AddressSanitizer", "works"),
    ] {
        let (status, report) = examine(&place, &compile(&place, "watched", LOCKING, options));
        assert_eq!(status, Some(0), "{options:?}");
        assert!(check(&report, "sanitizer")["found"].as_str().unwrap().starts_with(name), "{options:?}: {report:#}");
        assert!(report["verdict"].as_str().unwrap().contains(verdict), "{options:?}: {report:#}");
    }
}
