//! `lockswap topo`, and what `lockswap run` tells the locks about the machine.

use super::{text, Place};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn machine(name: &str) -> String {
    let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/machines");
    machines.join(name).with_extension("txt").to_str().unwrap().to_owned()
}

pub(super) fn topo(place: &Place, args: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = place.lockswap(&[&["topo"], args].concat());
    let output = command.envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(place: &Place, name: &str, environment: &[(&str, &str)]) -> Value {
    serde_json::from_str(&topo(place, &["--json", "--sysfs", &machine(name)], environment)).unwrap()
}

#[test]
fn the_tree_merges_levels_that_say_the_same() {
    let place = Place::new();
    let xeon = topo(&place, &["--sysfs", &machine("xeon-gold-6242-2s")], &[]);
    let rows: Vec<&str> = xeon.lines().skip_while(|line| !line.starts_with("machine")).take(3).collect();
    assert_eq!(
        rows,
        [
            "machine                    0-63",
            "├─ package 0, node 0, LLC  0-15,32-47",
            "└─ package 1, node 1, LLC  16-31,48-63"
        ]
    );
    assert!(xeon.contains("each core has 2 threads (SMT): N and N+32 are one core"), "{xeon}");
    assert!(xeon.contains("   0   10   21\n   1   21   10\n"), "{xeon}");
}

/// What `hmcs` makes of a machine: a third level where caches lie in nodes, or nodes in packages, whatever is asked
/// for.
#[test]
fn the_levels_of_hierarchical_locks_are_shown() {
    let place = Place::new();
    let levels = |name: &str, level: &str| -> Option<String> {
        let shown = topo(&place, &["--sysfs", &machine(name)], &[("LOCKSWAP_LEVEL", level)]);
        let row = shown.lines().find_map(|line| line.strip_prefix("levels     "));
        row.map(|row| row.strip_prefix("3 for hmcs and ahmcs: ").unwrap_or(row).to_owned())
    };
    let two_nodes = Some("2 for hmcs and ahmcs: 2 nodes in the machine");
    for (name, level, expected) in [
        ("epyc-7742-2s-nps4", "", Some("32 last-level caches in 8 nodes in the machine")),
        ("epyc-7742-2s-nps4", "node", Some("32 last-level caches in 8 nodes in the machine")),
        ("threadripper-2990wx", "", Some("8 last-level caches in 4 nodes in the machine")),
        ("kunpeng-920-2s", "", Some("4 nodes in 2 packages in the machine")),
        ("xeon-gold-6242-2s", "", two_nodes),
        ("xeon-snc2", "", two_nodes),
        ("vm-hidden", "", None),
    ] {
        assert_eq!(levels(name, level).as_deref(), expected, "{name} {level}");
    }
    let level = &json(&place, "kunpeng-920-2s", &[])["level"];
    assert_eq!(level["inner"], level["groups"]);
    assert_eq!(level["outer"].as_array().unwrap().len(), 2);
    assert_eq!(level["outer"][1], serde_json::json!({"group": 1, "cpus": "64-127"}));
    assert_eq!(json(&place, "xeon-snc2", &[])["level"]["outer"], serde_json::json!([]));
}

#[test]
fn two_hundred_fifty_six_cpus_fit_on_a_page() {
    let place = Place::new();
    let epyc = topo(&place, &["--sysfs", &machine("epyc-7742-2s-nps4")], &[]);
    assert!(epyc.lines().count() <= 45, "{epyc}");
    assert!(epyc.lines().all(|line| line.chars().count() <= 100), "{epyc}");
    assert!(epyc.contains("level      llc for NUMA locks"), "{epyc}");
}

#[test]
fn what_the_system_hides_is_named() {
    let place = Place::new();
    let hidden = topo(&place, &["--sysfs", &machine("vm-hidden")], &[]);
    assert!(hidden.contains("not shown  cores, packages, NUMA nodes, caches"), "{hidden}");
    assert_eq!(json(&place, "vm-sockets", &[])["not_visible"], serde_json::json!(["caches that cores share"]));
}

#[test]
fn the_data_has_every_cpu_and_the_level() {
    let place = Place::new();
    let m1 = json(&place, "apple-m1", &[]);
    assert_eq!((&m1["schema"], m1["cpus"].as_array().unwrap().len()), (&2.into(), 8));
    let cpu = &m1["cpus"][5];
    for (field, value) in [("llc", 4), ("core", 5), ("package", 0), ("node", 0), ("speed", 1024), ("group", 1)] {
        assert_eq!(cpu[field], value, "{field} of {cpu}");
    }
    assert_eq!((&cpu["kind"], &cpu["die"]), (&"big".into(), &Value::Null));
    assert_eq!(m1["kinds"]["little"], "0-3");
    assert_eq!((&m1["level"]["name"], &m1["level"]["groups"][0]["cpus"]), (&"llc".into(), &"0-3".into()));
    let by_node = json(&place, "apple-m1", &[("LOCKSWAP_LEVEL", "node"), ("LOCKSWAP_BIG", "0")]);
    assert_eq!(by_node["level"]["groups"].as_array().unwrap().len(), 1);
    assert_eq!(by_node["kinds"]["big"], "0");
}

#[test]
fn a_copy_of_sys_is_read_and_its_cpuset_respected() {
    let place = Place::new();
    let copy = place.path("copy/sys/");
    for (path, content) in [
        ("devices/system/cpu/online", "0-3"),
        ("devices/system/node/online", "0"),
        ("devices/system/node/node0/cpulist", "0-3"),
        ("fs/cgroup/cpuset.cpus.effective", "1-2"),
    ] {
        let path = copy.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    for folder in ["copy", "copy/sys"] {
        let tree = topo(&place, &["--sysfs", folder], &[]);
        assert!(tree.contains("may use 2 of 4 CPUs: 1,2 (its control group: 1,2)"), "{tree}");
    }
}

#[test]
fn what_cannot_be_read_is_one_clear_line() {
    let place = Place::new();
    fs::create_dir_all(place.path("empty")).unwrap();
    fs::create_dir_all(place.path("none/devices/system/cpu")).unwrap();
    fs::write(place.path("words"), "no machine\n").unwrap();
    for (path, why) in [
        ("missing", "No such file"),
        ("empty", "neither devices/system/cpu nor sys/devices/system/cpu"),
        ("none", "devices/system/cpu/online names no CPU"),
        ("words", "'no machine' is not PATH<TAB>CONTENT"),
    ] {
        let output = place.output(&["topo", "--sysfs", path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        let error = text(&output.stderr);
        assert!(error.lines().next().unwrap().contains(why), "{path}: {error}");
        assert_eq!(text(&output.stdout), "");
    }
    for (name, value) in [("LOCKSWAP_LEVEL", "cache"), ("LOCKSWAP_BIG", "x"), ("LOCKSWAP_TOPOLOGY", "2")] {
        let output = place.lockswap(&["topo"]).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        let error = text(&output.stderr);
        assert!(error.contains(&format!("{name}={value} is not")), "{error}");
    }
}

/// The names of what an object holds.
pub(super) fn keys(data: &Value) -> Vec<&String> {
    data.as_object().unwrap().keys().collect()
}

/// The fields that docs/topology.md says a JSON object of `lockswap topo` has.
fn documented() -> Vec<String> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/topology.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("JSON")).expect("a section on JSON");
    let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let names = names.flat_map(|(names, _)| names.trim_matches('`').split("`, `"));
    names.filter(|name| !name.starts_with('.')).map(|name| name.trim_end_matches("[]").to_owned()).collect()
}

#[test]
fn the_data_have_the_same_documented_keys_whatever_is_shown() {
    let place = Place::new();
    fs::write(place.path("m.csv"), "0,5\n5,0\n").unwrap();
    let of = |args: &[&str]| -> Value { serde_json::from_str(&topo(&place, args, &[])).unwrap() };
    let described = of(&["--format", "json", "--sysfs", &machine("apple-m1")]);
    let latencies = of(&["--format", "json", "--latency", "m.csv"]);
    let mut documented = documented();
    documented.sort_unstable();
    assert_eq!(keys(&described), documented.iter().collect::<Vec<_>>());
    assert_eq!(keys(&latencies), keys(&described));
    assert_eq!(latencies["latencies"]["cpus"], serde_json::json!([0, 1]));
}

#[test]
fn a_machine_goes_to_files_in_the_form_that_their_names_say() {
    let place = Place::new();
    let m1 = machine("apple-m1");
    let shown = topo(&place, &["--sysfs", &m1, "--export", "m.json", "--export", "m.csv", "--format", "csv"], &[]);
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(read("m.json"), topo(&place, &["--sysfs", &m1, "--json"], &[]));
    assert_eq!(read("m.csv"), shown);
    let mut lines = shown.lines();
    assert_eq!(lines.next(), Some("cpu,usable,core,module,llc,die,package,node,kind,class,speed,group,llc_group"));
    let fifth = lines.nth(5).unwrap();
    assert!(fifth.starts_with("5,true,5,") && fifth.contains(",big,0,1024,1,"), "{fifth}");
}

#[test]
fn this_machine_is_shown() {
    let place = Place::new();
    let here: Value = serde_json::from_str(&topo(&place, &["--json"], &[])).unwrap();
    assert_eq!(here["source"], "/sys");
    assert!(!here["cpus"].as_array().unwrap().is_empty());
}

/// The note of the library about the machine, with these variables.
fn note(place: &Place, lock: &str, environment: &[(&str, &str)]) -> Option<String> {
    let mut command = place.lockswap(&["run", "--lock", lock, "--", "/bin/true"]);
    command.env("LOCKSWAP_VERBOSE", "1").envs(environment.iter().copied());
    let notes = text(&command.output().unwrap().stderr);
    notes.lines().find(|line| line.contains("level ")).map(str::to_owned)
}

#[test]
fn only_locks_that_ask_learn_about_the_machine() {
    let place = Place::new();
    assert_eq!(note(&place, "futex", &[]), None);
    let two_nodes = [("LOCKSWAP_TOPOLOGY", "2x1")];
    let note = note(&place, "cna", &two_nodes).expect("a note");
    assert!(note.contains("level node (LOCKSWAP_TOPOLOGY declares the nodes)"), "{note}");
    assert!(note.contains("kept up to date by lockswap run"), "{note}");
}

#[test]
fn without_the_command_the_library_reads_the_machine_itself() {
    let place = Place::new();
    let library = text(&place.output(&["preload-path"]).stdout);
    let run = |variables: &[(&str, &str)]| {
        let mut program = std::process::Command::new("/bin/true");
        program.env("LD_PRELOAD", library.trim()).env("LOCKSWAP_VERBOSE", "1").envs(variables.iter().copied());
        text(&program.output().unwrap().stderr)
    };
    let asl = ("LOCKSWAP_LOCK", "asl-cna");
    let here = run(&[asl, ("LOCKSWAP_SYSFS", "/sys")]);
    assert!(here.contains("; read in "), "{here}");
    let nowhere = run(&[asl, ("LOCKSWAP_SYSFS", "/nowhere")]);
    assert!(nowhere.contains("in 1 group, 1 cache, 0 little, kinds from none"), "{nowhere}");
    // auto heeds kinds in epochs only: who says nothing of these does not wait until kinds are read.
    let auto = ("LOCKSWAP_LOCK", "auto");
    for (epochs, reads) in [(&[][..], false), (&[("LOCKSWAP_SLO", "5=1ms")], true), (&[("LOCKSWAP_BIG", "0")], true)] {
        let said = run(&[&[auto], epochs].concat());
        assert!(said.contains("; read in ") && said.contains("kinds from") == reads, "{epochs:?}: {said}");
    }
}

/// The CPUs that this process may use.
fn own_cpus() -> Vec<usize> {
    lockswap_machine::cpuset::CpuSet::of_this_thread().iter().collect()
}

#[test]
fn what_was_measured_counts_where_the_system_does_not_tell() {
    use lockswap_machine::matrix::Matrix;
    use lockswap_machine::places::Steps;
    use lockswap_machine::route::Route;
    use lockswap_machine::stored::{self, Facts, Identity};

    let place = Place::new();
    let [first, second, ..] = own_cpus()[..] else {
        lockswap_e2e::skip("two CPUs");
        return;
    };
    // Two caches, each shared by one of our CPUs and one that is not ours.
    let set = |path: &str, content: String| {
        let path = place.path("sys/devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content + "\n").unwrap();
    };
    let others = [4094, 4095];
    set("cpu/online", format!("{first},{second},{},{}", others[0], others[1]));
    for (cpu, other) in [(first, others[0]), (second, others[1])] {
        for sharer in [cpu, other] {
            set(&format!("cpu/cpu{sharer}/cache/index0/level"), "3".into());
            set(&format!("cpu/cpu{sharer}/cache/index0/shared_cpu_list"), format!("{cpu},{other}"));
        }
    }
    let sys = place.path("sys");
    let machine = Identity::of(&lockswap_machine::open(&sys).unwrap());
    let matrix = Matrix::new(vec![first, second], |_, _| 100.0);
    let big = first.to_string();
    let big = lockswap_platform::CpuList::parse(big.as_bytes());
    let steps = Some(Steps { same_llc: 50.0, same_node: 55.0, far: None });
    let file = place.path("stored");
    let store = |facts| {
        let text = stored::file(machine, "a machine", &Route::through(&matrix), &matrix, &facts);
        fs::write(&file, text).unwrap();
    };
    let environment = [("LOCKSWAP_SYSFS", sys.to_str().unwrap()), ("LOCKSWAP_ROUTE_FILE", file.to_str().unwrap())];
    let data = || -> Value { serde_json::from_str(&topo(&place, &["--json"], &environment)).unwrap() };
    let library = text(&place.output(&["preload-path"]).stdout);
    let preloaded = || {
        let mut command = std::process::Command::new("/bin/true");
        command.env("LD_PRELOAD", library.trim()).env("LOCKSWAP_LOCK", "asl-cna").env("LOCKSWAP_VERBOSE", "1");
        text(&command.envs(environment).output().unwrap().stderr)
    };

    store(Facts::default());
    assert_eq!((&data()["level"]["name"], &data()["kinds"]["source"]), (&"llc".into(), &Value::Null));
    assert!(preloaded().contains("level llc (a node has several"), "{}", preloaded());
    store(Facts { steps, big });
    let (level, kinds) = (&data()["level"], &data()["kinds"]);
    assert_eq!(level["name"], "node");
    assert_eq!(level["reason"], "measured: 50 ns within a cache, 55 ns within a node");
    assert_eq!((&kinds["source"], &kinds["big"]), (&"a timed loop on each CPU".into(), &first.to_string().into()));
    let note = preloaded();
    assert!(
        note.contains("level node (measured: 50 ns") && note.contains("1 little, kinds from a timed loop"),
        "{note}"
    );
    let watched = self::note(&place, "asl-cna", &environment).unwrap();
    assert!(watched.contains("level node (measured: 50 ns") && watched.contains("kept up to date"), "{watched}");
    // Another machine's.
    let other = fs::read_to_string(&file).unwrap().replace(&machine.to_string(), "0123456789abcdef");
    fs::write(&file, other).unwrap();
    assert!(preloaded().contains("level llc"), "{}", preloaded());
}
