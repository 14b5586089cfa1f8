//! The machine that this runs on as a simulated one: every shape of which a description is at hand, and a probe.

use lockswap_machine::captured::Captured;
use lockswap_machine::cpuset::CpuSet;
use lockswap_platform::CpuList;
use lockswap_sim::host::{Facts, Found, Probe, Shape};
use lockswap_sim::{Job, Machine, Workload};

macro_rules! machine {
    ($name:literal) => {
        Captured::parse(include_str!(concat!("../../machine/tests/machines/", $name, ".txt"))).unwrap()
    };
}

fn facts() -> Facts {
    Facts { name: "a \"machine\"".into(), key: "key".into(), remarks: vec!["remark".into()] }
}

/// The shape of a machine of which only `allowed` may be used, all if empty.
fn shape(files: &Captured, allowed: &str) -> Result<Shape, String> {
    let allowed = CpuList::parse(allowed.as_bytes()).map(CpuSet::from);
    Shape::of(&lockswap_machine::read(files, allowed.as_ref())).map_err(|error| format!("{error} ({})", error.remedy))
}

/// The file of a machine on which nothing was measured.
fn file(shape: Shape, files: &Captured) -> String {
    Probe::new(shape, files).file(&Found::default(), &facts())
}

/// The simulated machine of a described one, and the topology in its file.
fn simulated(files: &Captured, allowed: &str) -> (Machine, toml::Table) {
    let shape = shape(files, allowed).unwrap();
    let cpus = shape.cpus().len();
    let text = file(shape, files);
    let machine = Machine::parse("host", &text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(machine.cpu_count(), cpus);
    let table: toml::Table = text.parse().unwrap();
    (machine, table["topology"].as_table().unwrap().clone())
}

fn clusters(topology: &toml::Table) -> Vec<(String, i64)> {
    let of = |cluster: &toml::Value| (cluster["kind"].as_str().unwrap().into(), cluster["cores"].as_integer().unwrap());
    topology["clusters"].as_array().unwrap().iter().map(of).collect()
}

fn levels(topology: &toml::Table) -> [i64; 3] {
    ["cpus", "sockets", "nodes_per_socket"].map(|key| topology[key].as_integer().unwrap())
}

fn of(kind: &str, cores: i64) -> (String, i64) {
    (kind.to_owned(), cores)
}

#[test]
fn servers_have_sockets_nodes_and_clusters() {
    let (_, xeon) = simulated(&machine!("xeon-gold-6242-2s"), "");
    assert_eq!((levels(&xeon), clusters(&xeon)), ([64, 2, 1], vec![of("core", 16)]));
    assert_eq!(xeon["numbering"].as_str(), Some("cores-first"));
    let (_, epyc) = simulated(&machine!("epyc-7742-2s-nps4"), "");
    assert_eq!((levels(&epyc), clusters(&epyc)), ([256, 2, 4], vec![of("core", 4); 4]));
    assert_eq!(epyc["llc"].as_str(), Some("cluster"));
    let (_, ryzen) = simulated(&machine!("ryzen-5950x-smt-off"), "");
    // One of its CPUs is offline.
    assert_eq!((levels(&ryzen), clusters(&ryzen)), ([15, 1, 1], vec![of("core", 7), of("core", 8)]));
}

#[test]
fn kinds_make_clusters_of_their_own() {
    let (_, lake) = simulated(&machine!("alder-lake-12900k"), "");
    assert_eq!((levels(&lake), clusters(&lake)), ([24, 1, 1], vec![of("big", 8), of("little", 4), of("little", 4)]));
    assert_eq!((lake["llc"].as_str(), lake["numbering"].as_str()), (Some("node"), Some("siblings-adjacent")));
    let (_, phone) = simulated(&machine!("phone-snapdragon-865"), "");
    assert_eq!(levels(&phone), [8, 1, 1]);
    assert_eq!(clusters(&phone).iter().map(|cluster| cluster.1).sum::<i64>(), 8);
}

#[test]
fn every_machine_at_hand_makes_a_valid_file() {
    for files in [
        machine!("apple-m1"),
        machine!("container-cpuset"),
        machine!("kunpeng-920-2s"),
        machine!("ryzen-strix-point"),
        machine!("threadripper-2990wx"),
        machine!("vm-hidden"),
        machine!("vm-sockets"),
        machine!("xeon-snc2"),
    ] {
        let (machine, _) = simulated(&files, "");
        let workload = Workload::named("counter").unwrap().with(machine.cpu_count().min(8), 20_000);
        let run = Job { machine: &machine, workload, lock: "mcs_spin", seed: 1 }.run().unwrap();
        assert!(run.report.ops > 0, "{}", machine.title);
    }
}

#[test]
fn a_part_of_a_machine_is_a_machine() {
    let xeon = machine!("xeon-gold-6242-2s");
    let (_, one) = simulated(&xeon, "3");
    assert_eq!((levels(&one), clusters(&one)), ([1, 1, 1], vec![of("core", 1)]));
    let (_, node) = simulated(&xeon, "16-31,48-63");
    assert_eq!((levels(&node), clusters(&node)), ([32, 1, 1], vec![of("core", 16)]));
    // A core with one of its threads and one with both are of two kinds.
    let (_, mixed) = simulated(&xeon, "0,1,32");
    assert_eq!((levels(&mixed), clusters(&mixed)), ([3, 1, 1], vec![of("core-2", 1), of("core-1", 1)]));
}

#[test]
fn nodes_that_differ_are_refused_with_a_way_out() {
    let error = shape(&machine!("xeon-gold-6242-2s"), "0-2,16").unwrap_err();
    assert!(error.contains("CPUs 0-2 and CPUs 16 differ") && error.contains("taskset -c 0-2"), "{error}");
    let error = shape(&machine!("threadripper-2990wx"), "0-7,8,16,24").unwrap_err();
    assert!(error.contains("a machine file can only say that all nodes are alike"), "{error}");
}

#[test]
fn what_a_file_cannot_say_is_noted_in_it() {
    let files = machine!("vm-sockets");
    let text = file(shape(&files, "").unwrap(), &files);
    assert!(text.contains("# note: ") && text.contains("\nsockets = 1\n"), "{text}");
}

/// Every number of a file, with its key.
fn numbers(table: &toml::Table, path: &str, found: &mut Vec<(String, f64)>) {
    for (key, value) in table {
        let path = format!("{path}.{key}");
        match value {
            toml::Value::Table(table) => numbers(table, &path, found),
            toml::Value::Float(number) => found.push((path, *number)),
            toml::Value::Integer(number) => found.push((path, *number as f64)),
            _ => {}
        }
    }
}

#[test]
fn this_machine_is_probed() {
    let files = lockswap_machine::open("/sys".as_ref()).ok();
    let allowed: CpuSet = CpuSet::of_this_thread().iter().take(2).collect();
    let Ok(shape) = Shape::of(&lockswap_machine::read(&files, Some(&allowed))) else { return };
    let cpus = shape.cpus().len();
    let probe = Probe::new(shape, &files);
    let text = probe.file(&probe.pass().unwrap(), &facts());
    assert!(text.starts_with(&facts().head(probe.shape())), "{text}");
    let machine = Machine::parse("host", &text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(machine.cpu_count(), cpus);
    // Every number says where it comes from.
    let body = &text[text.find("[[kind]]").unwrap()..];
    for line in body.lines().filter(|line| line.contains(" = ")) {
        let origin = line.split_once('#').unwrap_or_else(|| panic!("no origin: {line}")).1.trim_start();
        assert!(["measured", "system", "assumed", "as "].iter().any(|word| origin.starts_with(word)), "{line}");
    }
    // Within what any machine of the last decade has, however busy it is.
    let mut found = Vec::new();
    numbers(&text.parse().unwrap(), "", &mut found);
    for (key, low, high) in [
        (".core.cycle", 0.1, 5.0),
        (".core.hit", 0.01, 50.0),
        (".core.rmw", 0.5, 200.0),
        (".core.pause", 0.1, 2_000.0),
        (".core.clock", 1.0, 20_000.0),
        (".core.counter", 1.0, 20_000.0),
        (".latency.memory", 10.0, 5_000.0),
        (".latency.shared_cache", 1.0, 5_000.0),
        (".latency.cluster.core", 1.0, 20_000.0),
        (".fabric.request", 0.001, 1.0),
        (".scheduler.slice", 1e5, 1e9),
        (".scheduler.switch", 50.0, 1e7),
        (".scheduler.yield", 20.0, 1e7),
        (".scheduler.park", 20.0, 1e7),
        (".scheduler.unpark", 20.0, 1e8),
        (".scheduler.wake", 0.0, 1e9),
        (".scheduler.timer_slack", 0.0, 1e9),
    ] {
        let Some((_, number)) = found.iter().find(|(known, _)| known == key) else { panic!("no {key}\n{text}") };
        assert!((low..=high).contains(number), "{key} is {number}\n{text}");
    }
}
