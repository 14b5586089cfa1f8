use std::fs;
use std::os::unix::fs::{chown, MetadataExt};
use std::process::Command;

use crate::{make_executable, text, Place};
use serde_json::Value;

/// Compiles a C program; linking Rust needs the same compiler.
fn compile(place: &Place, name: &str, source: &str, options: &[&str]) -> String {
    let (file, program) = (place.path(&format!("{name}.c")), place.path(name));
    fs::write(&file, source).unwrap();
    let output = Command::new("cc").arg(&file).arg("-o").arg(&program).args(options).output().unwrap();
    assert!(output.status.success(), "cc (Debian package gcc): {}", text(&output.stderr));
    program.to_str().unwrap().to_owned()
}

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
    assert!(linking["found"].as_str().unwrap().contains("static") && linking["remedy"].is_string());
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
