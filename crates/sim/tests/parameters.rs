//! No parameter of a lock is for show: some workload comes out otherwise with another value.

use lockswap_locks::parameters::{Default, Parameter, Values};
use lockswap_locks::registry::{find, Entry, Role};
use lockswap_sim::{Job, Machine, Workload};

/// A value below the default and one above, as a user writes them, where the parameter has them.
fn other_values(parameter: &Parameter) -> Vec<String> {
    match (parameter.values, parameter.default) {
        (Values::Locks(_), _) => Vec::new(),
        (Values::Time(_), Default::Time(default)) => vec!["0ns".into(), format!("{}ns", 20 * default)],
        (Values::Time(_), _) => vec!["0ns".into(), "1ms".into()],
        (Values::Number(_, least, most, _), default) => {
            let default = if let Default::Number(default) = default { default } else { 500 };
            vec![least.to_string(), default.saturating_mul(20).max(20).clamp(least, most).to_string()]
        }
    }
}

/// What else is set where a patience is tested: a waiter of this lock leaves its CPU for the first time after a
/// critical section of the longest sort, which is too long for these runs.
const BESIDES: [(&str, &str); 1] = [("mcs-timepub", "section=50us")];

/// What a lock does in a run, in numbers of virtual time.
fn behaviour(machine: &Machine, (workload, threads, duration): (&str, usize, u64), lock: &str) -> String {
    let mut parts = workload.split(':');
    let mut workload = Workload::named(parts.next().unwrap_or_default()).expect("a known workload");
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        workload.set(key, value).expect("a known key");
    }
    let workload = workload.with(threads, duration);
    let run = Job { machine, workload, lock, seed: 3 }.run();
    format!("{:?}", run.unwrap_or_else(|failure| panic!("{lock} on {}: {failure}", machine.id)).report)
}

/// The first parameters of a lock with which nothing changes.
fn idle(role: Role, runs: &[(&str, (&str, usize, u64))]) -> Vec<String> {
    let runs: Vec<_> =
        runs.iter().map(|(id, run)| (Machine::built_in(id, &[]).expect("a known machine"), *run)).collect();
    let is_idle = |entry: &Entry, parameter: &Parameter| {
        let values = other_values(parameter);
        let changes = |(machine, run): &(Machine, _)| {
            let id = BESIDES.iter().find(|(lock, _)| *lock == entry.info.id && parameter.key == "patience");
            let id = id.map_or(entry.info.id.to_owned(), |(lock, besides)| format!("{lock}:{besides}"));
            let standard = behaviour(machine, *run, &id);
            values.iter().any(|value| behaviour(machine, *run, &format!("{id}:{}={value}", parameter.key)) != standard)
        };
        !values.is_empty() && !runs.iter().any(changes)
    };
    let entries = lockswap_sim::locks(role).filter_map(|id| find(role, id));
    let all = entries.flat_map(|entry| entry.parameters.iter().map(move |parameter| (entry, parameter)));
    all.filter(|(entry, parameter)| is_idle(entry, parameter))
        .map(|(entry, parameter)| format!("{}:{}", entry.info.id, parameter.key))
        .collect()
}

#[test]
fn every_parameter_of_a_mutex_acts() {
    let runs = [
        ("xeon-e5-2699v3", ("counter", 24, 500_000)),
        ("apple-m1", ("oversub", 20, 20_000_000)),
        ("apple-m1", ("epochs", 8, 2_000_000)),
        ("amd-2990wx", ("counter", 48, 2_000_000)),
        ("apple-m1", ("oversub", 48, 150_000_000)),
        ("opteron-a64", ("oversub", 100, 50_000_000)),
    ];
    let (sleeps, others): (Vec<_>, Vec<_>) =
        idle(Role::Mutex, &runs).into_iter().partition(|parameter| parameter.ends_with("_stp-barging:sleeps"));
    assert_eq!(others, [""; 0]);
    // The heads of their queues seldom sleep before they acquire the lock. The three locks share the code in which
    // they do.
    assert!(sleeps.len() < 3, "{sleeps:?}");
}

#[test]
fn every_parameter_of_a_read_write_lock_acts() {
    let runs = [
        ("amd-2990wx", ("readers", 16, 2_000_000)),
        ("amd-2990wx", ("readers:reads=99:outside=2000", 8, 50_000_000)),
        ("apple-m1", ("readers", 20, 20_000_000)),
    ];
    // The workloads' readers go first, as those of a default pthread rwlock; only the others lose patience.
    assert_eq!(idle(Role::RwLock, &runs), ["cohort-rw:patience"]);
}
