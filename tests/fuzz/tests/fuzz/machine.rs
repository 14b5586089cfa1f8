//! Latencies, kept measurements, and copies of `/sys` and `/proc`.

use lockswap_fuzz::{reading, run, text, MIB};
use lockswap_machine::captured::Captured;
use lockswap_machine::costs::memory::Caches;
use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::matrix::Matrix;
use lockswap_machine::order::Order;
use lockswap_machine::places::{choose, find, Level, Settings, Steps};
use lockswap_machine::route::Route;
use lockswap_machine::steps::steps as steps_of;
use lockswap_machine::stored::{self, Facts, Identity};
use lockswap_machine::topology::{Group, Topology};
use lockswap_machine::{cgroup as groups, read};
use lockswap_platform::{CpuList, TopologyOverride, MAX_CPUS};
use lockswap_sim::host::{Facts as About, Found, Probe, Shape};
use lockswap_sim::Machine;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

/// What an error says fits into a line or two.
fn is_short(error: &str) {
    assert!(!error.is_empty() && error.len() < 700, "{error}");
    assert!(!error.chars().any(char::is_control), "{error:?}");
}

fn matrix(input: &[u8]) {
    let text = text(input);
    match reading(input, MIB, || Matrix::parse(&text)) {
        Ok(matrix) => is_matrix(&matrix),
        Err(error) => is_short(&error.to_string()),
    }
}

fn is_matrix(matrix: &Matrix) {
    let side = matrix.side();
    let cpus: CpuSet = matrix.cpus().iter().copied().collect();
    assert!((1..=MAX_CPUS).contains(&side) && cpus.len() == side);
    let again = Matrix::parse(&matrix.to_csv()).expect("its own text");
    assert_eq!(again.cpus(), matrix.cpus());
    for (from, to) in (0..side * side).map(|cell| (cell / side, cell % side)) {
        assert!((again.ns(from, to) - matrix.ns(from, to)).abs() <= 0.006, "{from} {to}");
    }
    // A search for a route takes a second.
    if side <= 9 {
        let route = Route::through(matrix);
        assert_eq!(route.cpus.iter().copied().collect::<CpuSet>(), cpus);
        assert!(route.round_trip_ns >= 0.0);
    }
}

const HERE: Identity = Identity(0xabc);

fn kept(input: &[u8]) {
    let text = text(input);
    let route = reading(input, MIB, || stored::route(input, HERE).map(|route| route.cpus().collect::<Vec<_>>()));
    if let Ok(route) = route {
        assert!((1..=MAX_CPUS).contains(&route.len()) && route.iter().all(|cpu| *cpu < MAX_CPUS));
    }
    if let Some(steps) = stored::facts(input).steps {
        assert!(steps.same_llc > 0.0 && steps.same_node > 0.0 && steps.far.is_none_or(|far| far > 0.0));
    }
    if let Some(matrix) = reading(input, MIB, || stored::latencies(&text)) {
        is_matrix(&matrix);
    }
    let mut path = [0; 512];
    if let Some(path) = stored::path(&mut path, Some(input), None, Some(input), HERE) {
        assert!(input.starts_with(path.to_bytes()));
    }
}

fn steps(input: &[u8]) {
    if let Some(steps) = Steps::parse(&text(input)) {
        assert!(steps.same_llc > 0.0 && steps.same_node > 0.0);
        // Tiny ones are written as 0.0, which is none.
        if steps.same_llc.min(steps.same_node).min(steps.far.unwrap_or(1.0)) >= 0.1 {
            assert!(Steps::parse(&steps.to_string()).is_some(), "{steps}");
        }
    }
}

fn captured(input: &[u8]) {
    let text = text(input);
    // Each line may name many files; together they are at most 64 MiB.
    match reading(input, 256 * MIB, || Captured::parse(&text)) {
        Err(error) => is_short(&error),
        Ok(files) => is_machine(&files),
    }
}

/// Goes through all that is made of a copy of `/sys`.
fn is_machine(files: &Captured) {
    let allowed = groups::cpus(files, None);
    let topology = read(files, allowed.as_ref());
    let _ = Identity::of(files);
    if topology.allowed().is_empty() {
        return;
    }
    are_places(&topology);
    let nodes = TopologyOverride::parse(b"3x2");
    let settings =
        Settings { level: None, nodes, big: CpuList::parse(b"1,3").map(CpuSet::from), allowed: CpuSet::EMPTY };
    let mut declared = read(files, None);
    settings.apply(&mut declared);
    are_places(&declared);
    let order: Vec<usize> = Order::along(&topology, topology.allowed()).iter().collect();
    assert_eq!(order.len(), topology.allowed().len());
    let some: Vec<usize> = order.into_iter().take(40).collect();
    let _ = steps_of(&topology, &Matrix::new(some, |a, b| (a * b) as f64));
    let _ = Caches::of(files, topology.online().first().unwrap_or(0));
    is_simulated(&topology, files);
}

fn are_places(topology: &Topology) {
    for cpu in topology.online().iter() {
        for group in Group::ALL {
            assert!(topology.group(group, cpu).is_none_or(|number| number < MAX_CPUS));
        }
        assert!(topology.class(cpu) < topology.classes());
    }
    for asked in [None, Some(Level::Node), Some(Level::Llc), Some(Level::CoreKind)] {
        let (level, reason) = choose(topology, asked, None);
        let mut groups = std::collections::BTreeSet::new();
        let summary = find(topology, level, |cpu, place| {
            if topology.allowed().contains(cpu) {
                groups.insert(place.group());
            }
        });
        assert_eq!((summary.cpus, summary.groups), (topology.allowed().len(), groups.len()), "{reason}");
    }
}

/// A machine is refused, or its file describes it.
fn is_simulated(topology: &Topology, files: &Captured) {
    let shape = match Shape::of(topology) {
        Ok(shape) => shape,
        Err(error) => return assert!(!error.remedy.is_empty()),
    };
    let cpus = shape.cpus();
    assert_eq!(cpus.iter().copied().collect::<CpuSet>(), *topology.allowed());
    let about = About { name: "a \"name\"\n\u{1b}".into(), key: "key".into(), remarks: Vec::new() };
    let file = Probe::new(shape, files).file(&Found::default(), &about);
    match Machine::parse("host", &file, &[]) {
        Ok(machine) => assert_eq!(machine.cpu_count(), cpus.len()),
        // Larger than the simulator's machines can be.
        Err(error) => assert!(error.what.contains(", over ") || error.what.contains("threads is"), "{error}\n{file}"),
    }
}

fn cgroup(input: &[u8]) {
    let mut files = Captured::default();
    files.set("fs/cgroup/a/cpuset.cpus.effective", "0-3");
    files.set("fs/cgroup/cpuset/c/cpuset.effective_cpus", "2-5");
    let found = reading(input, MIB, || groups::cpus(&files, Some(&text(input))));
    assert!(found.is_none_or(|cpus| cpus.without(&(0..6).collect()).is_empty()));
}

lockswap_fuzz::tests!(matrix, 32, super::matrix);
lockswap_fuzz::tests!(kept, 32, super::kept);
lockswap_fuzz::tests!(steps, 16, super::steps);
lockswap_fuzz::tests!(captured, 1, super::captured);
lockswap_fuzz::tests!(cgroup, 16, super::cgroup);

/// A matrix of some CPUs.
fn matrices() -> impl Strategy<Value = Matrix> {
    (btree_set(0..MAX_CPUS, 1..20), vec(0..100_000_000_u32, 400)).prop_map(|(cpus, cells)| {
        Matrix::new(cpus.into_iter().collect(), |from, to| f64::from(cells[from * 20 + to]) / 100.0)
    })
}

#[test]
fn matrices_read_back() {
    run(matrices(), 4, file!(), |matrix| assert_eq!(Matrix::parse(&matrix.to_csv()).as_ref(), Ok(matrix)));
}

#[test]
fn kept_measurements_read_back() {
    let times = (1..1000u32, 1..1000u32, option::of(1..1000u32));
    let facts = (option::of(times), option::of(btree_set(0..MAX_CPUS, 1..30)), ".*");
    run((matrices(), facts), 4, file!(), |(matrix, (times, big, name))| {
        let steps = times.map(|(same_llc, same_node, far)| Steps {
            same_llc: same_llc.into(),
            same_node: same_node.into(),
            far: far.map(f64::from),
        });
        let big: Option<CpuSet> = big.as_ref().map(|cpus| cpus.iter().copied().collect());
        let list = big.map(|big| big.to_string());
        let list = list.as_deref().and_then(|list| CpuList::parse(list.as_bytes()));
        let route = Route { cpus: matrix.cpus().to_vec(), round_trip_ns: 1.0 };
        let file = stored::file(HERE, name, &route, matrix, &Facts { steps, big: list });
        let found = stored::route(file.as_bytes(), HERE).map(|route| route.cpus().collect::<Vec<_>>());
        assert_eq!(found, Ok(route.cpus));
        let facts = stored::facts(file.as_bytes());
        assert_eq!((facts.steps, facts.big.map(CpuSet::from)), (steps, big));
        assert_eq!(stored::latencies(&file).as_ref(), Some(matrix));
    });
}
