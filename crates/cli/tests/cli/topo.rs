//! `lockswap topo`, and what `lockswap run` tells the locks about the machine.

use super::{text, Place};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn machine(name: &str) -> String {
    let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/machines");
    machines.join(name).with_extension("txt").to_str().unwrap().to_owned()
}

fn topo(place: &Place, args: &[&str], environment: &[(&str, &str)]) -> String {
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
fn keys(data: &Value) -> Vec<&String> {
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

/// The machine that the tests run on, with a route that goes through its CPUs backwards.
fn backwards() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).rev().collect()
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// What the preload library says about a program on the lock.
fn said(place: &Place, lock: &str, environment: &[(&str, &str)]) -> String {
    let mut command = place.lockswap(&["run", "--lock", lock, "--", "true"]);
    let output = command.env("LOCKSWAP_VERBOSE", "1").envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    text(&output.stderr)
}

/// The one file that keeps a route.
fn stored(place: &Place) -> PathBuf {
    let files = fs::read_dir(place.path("cache/lockswap")).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("machine-"));
    let file = files.next().expect("a stored route");
    assert_eq!(files.next(), None);
    file
}

#[test]
fn a_matrix_gives_the_shortest_round_trip() {
    let place = Place::new();
    fs::write(place.path("m.csv"), "# ring 0 2 1 3\n0,90,10,10\n90,0,10,10\n10,10,0,90\n10,10,90,0\n").unwrap();
    let data = |file: &str| -> Value {
        let mut data: Value = serde_json::from_str(&topo(&place, &["--latency", file, "--json"], &[])).unwrap();
        assert_eq!(data["latencies"]["source"].take(), file);
        data
    };
    let out = data("m.csv");
    assert_eq!((&out["route"], &out["round_trip_ns"]), (&serde_json::json!([0, 2, 1, 3]), &40.0.into()));
    assert_eq!(out["latencies"]["ns"][1], serde_json::json!([90.0, 0.0, 10.0, 10.0]));
    assert!(out["cpus"].is_null() && out["source"].is_null() && out["route_stored"].is_null(), "{out}");
    fs::write(place.path("triangle"), "90\n10,10\n10,10,90\n").unwrap();
    assert_eq!(data("triangle"), out);
    let args = ["--latency", "m.csv", "--export", "m.svg", "--export-csv", "n.csv"];
    let shown = topo(&place, &args, &[]);
    assert!(shown.contains("route 0,2,1,3\nround trip 40.0 ns through 4 CPUs"), "{shown}");
    let svg = fs::read_to_string(place.path("m.svg")).unwrap();
    for word in ["one-way latency (ns)", "on the route", "lockswap 0.", "topo --latency m.csv"] {
        assert!(svg.contains(word), "{word}: {svg}");
    }
    assert_eq!(data("n.csv"), out);
    assert!(!place.path("cache/lockswap").exists(), "a matrix of any machine is not stored");
}

#[test]
fn bad_matrices_get_one_line_and_a_remedy_and_leave_nothing_behind() {
    let place = Place::new();
    for (content, wanted) in [
        ("", "m.csv: it holds no latencies"),
        ("0,1\n1\n", "m.csv: line 2: 1 value"),
        ("0,-1\n1,0\n", "m.csv: line 1: column 2: the latency -1 is negative"),
        ("0,x\n1,0\n0,0", "m.csv: line 1: "),
        ("0,nan\n1,0\n", "m.csv: line 1: column 2: nan is not a latency"),
    ] {
        fs::write(place.path("m.csv"), content).unwrap();
        let output = place.output(&["topo", "--latency", "m.csv", "--export", "m.png", "--json"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(output.stdout.is_empty() && error.contains(wanted), "{wanted}: {error}");
        assert_eq!(error.lines().count(), 2, "{error}");
        assert!(error.lines().nth(1).unwrap().starts_with("  remedy: "), "{error}");
        assert!(!place.path("m.png").exists());
    }
    fs::write(place.path("m.csv"), b"\xff\xfe0,1").unwrap();
    for (args, wanted) in [
        (&["--latency", "m.csv"][..], "it is not text"),
        (&["--latency", "no.csv"], "no.csv: No such file"),
        (&["--latency", "m.csv", "--sysfs", "x"], "cannot be used with"),
        (&["--export", "m.png"], "pictures show latencies: add --measure or --latency FILE"),
        (&["--format", "md"], "choose table, json or csv"),
    ] {
        let output = place.output(&[&["topo"], args].concat());
        assert!(!output.status.success() && text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
    fs::write(place.path("m.csv"), "0 1\n1 0").unwrap();
    let output = place.output(&["topo", "--latency", "m.csv", "--export", "m.pdf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("end it in .svg, .png, .csv or .json"));
}

#[test]
fn what_is_measured_is_stored_and_the_locks_of_later_programs_follow_it() {
    let place = Place::new();
    let cpus = backwards();
    if cpus.len() < 2 {
        lockswap_e2e::skip("two CPUs");
        return;
    }
    assert!(said(&place, "ron", &[]).contains(", along the topology\n"));
    let output = place.output(&["topo", "--measure", "--json", "--export", "m.png", "--export", "m.csv"]);
    let said_first = text(&output.stderr);
    assert!(output.status.success() && said_first.starts_with("measuring "), "{said_first}");
    let found: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let route: Vec<usize> =
        found["route"].as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap() as usize).collect();
    let mut sorted = route.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(sorted, cpus);
    assert!(found["round_trip_ns"].as_f64().unwrap() > 1.0);
    assert_eq!(found["route_stored"].as_str().unwrap(), stored(&place).to_str().unwrap());
    assert!(place.path("m.png").exists());
    let again: Value = serde_json::from_str(&topo(&place, &["--latency", "m.csv", "--json"], &[])).unwrap();
    assert_eq!(again["route"], found["route"]);

    let line = format!("lockswap: route {}, as lockswap topo has stored it\n", list(&route));
    assert!(said(&place, "ron", &[]).contains(&line), "{line}");
    assert!(said(&place, "ron-shared", &[]).contains(&line), "{line}");
    assert!(!said(&place, "ticket", &[]).contains("route"), "only for a lock that follows it");
    let declared = said(&place, "ron", &[("LOCKSWAP_ROUTE", &list(&cpus))]);
    assert!(declared.contains(&format!("route {}, as LOCKSWAP_ROUTE says\n", list(&cpus))), "{declared}");
    let shown: Value = serde_json::from_str(&topo(&place, &["--json"], &[])).unwrap();
    assert_eq!((&shown["route"], &shown["route_stored"]), (&found["route"], &found["route_stored"]));
    assert_eq!(keys(&shown), keys(&found));
    assert_eq!(keys(&again), keys(&found));
    assert!(shown["latencies"].is_null() && shown["round_trip_ns"].is_null(), "{shown}");
    assert!(found["cpus"].is_array() && found["latencies"]["source"].is_null(), "{found}");
}

#[test]
fn a_route_from_a_matrix_can_be_stored_and_damaged_ones_are_ignored_with_a_line() {
    let place = Place::new();
    let cpus = backwards();
    let names = list(&cpus);
    let cell = |row: usize, column: usize| if row == column { "0" } else { "7" };
    let rows = cpus.iter().enumerate().map(|(row, cpu)| {
        let cells: Vec<&str> = (0..cpus.len()).map(|column| cell(row, column)).collect();
        format!("{cpu},{}\n", cells.join(","))
    });
    fs::write(place.path("m.csv"), format!("cpu,{names}\n{}", rows.collect::<String>())).unwrap();
    topo(&place, &["--latency", "m.csv", "--store"], &[]);
    let file = stored(&place);
    let whole = fs::read_to_string(&file).unwrap();
    // As if somebody had found that backwards is shorter.
    let route = whole.lines().find(|line| line.starts_with("route ")).unwrap().to_owned();
    let whole = whole.replace(&route, &format!("route {names}"));
    fs::write(&file, &whole).unwrap();
    assert!(said(&place, "ron", &[]).contains(&format!("route {names}, as lockswap topo")), "{whole}");

    let id = whole.lines().find(|line| line.starts_with("id ")).unwrap().to_owned();
    for (content, why) in [
        (whole.replace("lockswap-machine 1", "lockswap-machine 999"), "another version"),
        (whole.replace(&id, "id 0123456789abcdef"), "measured on another machine"),
        (whole.replace(&format!("route {names}"), "route 0,nonsense"), "its route is damaged"),
        (whole[..whole.find("route ").unwrap() + 7].to_owned(), "its route is damaged"),
        (String::new(), "no file of lockswap's"),
        ("\0".repeat(100_000), "no file of lockswap's"),
    ] {
        fs::write(&file, &content).unwrap();
        let said = said(&place, "ron", &[]);
        let lines = said.lines().filter(|line| line.contains("is ignored")).collect::<Vec<_>>();
        assert!(matches!(lines[..], [line] if line.contains(why)), "{why}: {said}");
        assert!(said.contains(", along the topology\n"), "{said}");
        let silent = place.output(&["run", "--lock", "ron", "--", "true"]);
        assert!(silent.status.success() && silent.stderr.is_empty(), "{}", text(&silent.stderr));
        let shown = place.output(&["topo"]);
        let ignored = text(&shown.stderr);
        assert!(shown.status.success() && ignored.lines().count() == 1 && ignored.contains(why), "{ignored}");
    }
    let elsewhere = place.path("elsewhere").to_str().unwrap().to_owned();
    fs::write(&elsewhere, &whole).unwrap();
    let said = said(&place, "ron", &[("LOCKSWAP_ROUTE_FILE", &elsewhere)]);
    assert!(said.contains(&format!("route {names}, as lockswap topo")), "{said}");

    fs::write(place.path("large.csv"), "cpu 0 4000\n0 0 9\n4000 9 0\n").unwrap();
    let output = place.output(&["topo", "--latency", "large.csv", "--store"]);
    assert!(text(&output.stderr).contains("describes another machine: there is no CPU 4000 here"));
}

#[test]
fn nothing_is_measured_where_it_could_not_be_written_or_there_is_one_cpu() {
    let place = Place::new();
    let output = place.output(&["topo", "--measure", "--export", "no/such/m.png"]);
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.starts_with("error: cannot write no/such/m.png"), "{error}");
    assert!(!place.path("cache").exists());
    let mut command = std::process::Command::new("taskset");
    let cpu = backwards()[0].to_string();
    command.args(["-c", &cpu]).arg(env!("CARGO_BIN_EXE_lockswap")).args(["topo", "--measure"]);
    let output = command.env("XDG_CACHE_HOME", place.path("cache")).output().unwrap();
    let error = text(&output.stderr);
    assert!(error.contains(&format!("this process may use CPU {cpu} only")), "{error}");
    assert!(!place.path("cache").exists());
}
