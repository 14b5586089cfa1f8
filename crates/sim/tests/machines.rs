//! Machine files: all that come along are right, and wrong ones are refused with the place and the remedy.

use lockswap_sim::Machine;

fn text() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/machines/apple-m1.toml")).unwrap()
}

/// What is wrong with the Apple M1's file after `from` has become `to`.
fn wrong(from: &str, to: &str) -> String {
    let text = text();
    assert!(text.contains(from), "{from}");
    Machine::parse("mine.toml", &text.replace(from, to), &[]).expect_err(to).what
}

#[test]
fn the_machines_that_come_along_have_as_many_cpus_as_they_should() {
    let cpus = |id| Machine::built_in(id, &[]).unwrap_or_else(|error| panic!("{error}")).cpu_count();
    assert_eq!(
        Machine::ids().map(|id| (id, cpus(id))).collect::<Vec<_>>(),
        [
            ("xeon-e5-2699v3", 72),
            ("xeon-e7-8895v3", 144),
            ("xeon-8s192c", 192),
            ("amd-2990wx", 64),
            ("opteron-a64", 64),
            ("epyc-7742-2s", 256),
            ("apple-m1", 8),
            ("hikey970", 8),
            ("intel-hybrid", 24),
        ]
    );
}

#[test]
fn wrong_files_are_refused_by_name_and_key() {
    for (from, to, expected) in [
        ("cpus = 8", "cpus = 9", "mine.toml: topology.cpus is 9, but the other keys make 8 CPUs"),
        ("kind = \"little\"", "kind = \"tiny\"", "names the kind 'tiny', which no [[kind]] describes"),
        ("sockets = 1", "sockets = 0", "a level with nothing in it"),
        ("node = 144", "", "latency.node is missing: there are cores that far apart"),
        ("little = 53", "", "latency.cluster.little is missing"),
        ("stream = 0.2 ", "stream = 1.2 ", "core.stream is 1.2"),
        ("slice = 3e6", "slice = 3", "scheduler.slice is 3, under 1000 ns"),
        ("line = 128", "line = 96", "core.line is 96, not 64 or 128"),
        ("invalidate = 1", "invalidate = -3", "fabric.invalidate is -3, not in 0 to"),
        ("request = 0.5", "request = 1.5", "fabric.request is 1.5, not in 0 to 1"),
        ("[core]", "[cores]", "unknown field `cores`"),
        ("hit = ", "hitt = ", "unknown field `hitt`"),
        ("title = ", "title ", "line 3"),
    ] {
        let found = wrong(from, to);
        assert!(found.contains(expected), "{to}: {found}");
    }
}

#[test]
fn routes_must_name_each_cpu_once() {
    let with = |route: &str| wrong("llc = \"node\"", &format!("llc = \"node\"\nroute = {route}"));
    assert!(with("[0, 1]").contains("topology.route leaves out CPU 2"));
    assert!(with("[0, 0]").contains("topology.route names CPU 0 twice"));
    assert!(with("[0, 8]").contains("topology.route names CPU 8, but there are 8"));
}

#[test]
fn keys_can_be_set_from_outside() {
    let with = |key: &str, value: &str| Machine::built_in("apple-m1", &[(key.to_owned(), value.to_owned())]);
    assert!(with("latency.node", "100").is_ok() && with("kind.little.speed", "0.5").is_ok());
    assert!(with("topology.placement", "spread").is_ok());
    for (key, value, expected) in [
        ("latency.bla", "1", "unknown field `bla`"),
        ("latency.node", "far", "invalid type: string"),
        ("kind.huge.speed", "1", "nothing is called 'huge'"),
        ("bla.bla", "1", "the machine has no key 'bla.bla'"),
        ("topology.placement", "chaos", "unknown variant `chaos`"),
        ("topology.cpus", "7", "topology.cpus is 7"),
    ] {
        let found = with(key, value).expect_err(key).what;
        assert!(found.contains(expected), "{key}={value}: {found}");
    }
    let unknown = Machine::built_in("cray-1", &[]).unwrap_err();
    assert!(unknown.what.contains("cray-1") && unknown.remedy.contains("apple-m1"));
}
