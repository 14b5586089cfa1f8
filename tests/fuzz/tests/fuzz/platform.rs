//! What environment variables and options say, and the file of latencies that a program writes.

use lockswap_fuzz::{reading, run, text, MIB};
use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::places::Level;
use lockswap_platform::{parse_duration, CoreKind, CpuList, TopologyOverride, LONGEST_DURATION, MAX_CPUS};
use lockswap_records::latency::{ids, unrecorded, Latencies, FILE_WORDS};
use proptest::collection::vec;
use proptest::prelude::*;

fn cpu_list(input: &[u8]) {
    let cpus = reading(input, MIB, || CpuList::parse(input).map(|list| list.cpus().collect::<Vec<usize>>()));
    let Some(cpus) = cpus else { return };
    assert!((1..=MAX_CPUS).contains(&cpus.len()) && cpus.iter().all(|cpu| *cpu < MAX_CPUS));
    let set: CpuSet = cpus.into_iter().collect();
    let written = set.to_string();
    assert_eq!(CpuList::parse(written.as_bytes()).map(CpuSet::from), Some(set), "{written}");
}

fn nodes(input: &[u8]) {
    let Some(nodes) = TopologyOverride::parse(input) else { return };
    let cpus = usize::from(nodes.nodes) * usize::from(nodes.cpus_per_node);
    assert_eq!(nodes.node(cpus - 1), Some(nodes.nodes - 1));
    assert_eq!(nodes.node(cpus), None);
    assert!(Level::parse(input).is_none());
}

fn duration(input: &[u8]) {
    if let Some(ns) = parse_duration(&text(input)) {
        assert!(ns <= LONGEST_DURATION);
        assert_eq!(parse_duration(&format!("{ns}ns")), Some(ns));
    }
}

lockswap_fuzz::tests!(cpu_list, 64, super::cpu_list);
lockswap_fuzz::tests!(nodes, 64, super::nodes);
lockswap_fuzz::tests!(duration, 64, super::duration);

#[test]
fn durations_read_back() {
    let decimals = (0..LONGEST_DURATION, prop_oneof![Just((1u64, "ns")), Just((1_000, "us")), Just((1_000_000, "ms"))]);
    run(decimals, 16, file!(), |(ns, (unit, name))| {
        let digits = unit.ilog10() as usize;
        let written = match digits {
            0 => format!("{ns}{name}"),
            _ => format!("{}.{:0digits$}{name}", ns / unit, ns % unit),
        };
        assert_eq!(parse_duration(&written), Some(*ns), "{written}");
    });
}

#[test]
fn words_of_a_file_of_latencies() {
    let word = prop_oneof![any::<u64>(), 0..2000u64, Just(u64::MAX), Just(1 << 63 | 1 << 32 | 7), Just(1 << 63)];
    // The table of records, the first record, and anywhere.
    let place = prop_oneof![2 => 0..16usize, 4 => 2056..3400usize, 1 => 0..FILE_WORDS];
    run(vec((place, word), 0..100), 1, file!(), |changes| {
        let mut words = vec![0; FILE_WORDS];
        words[0] = 3;
        changes.iter().for_each(|(place, word)| words[*place] = *word);
        let _ = unrecorded(&words);
        for id in ids(&words).take(3) {
            for kind in [CoreKind::Big, CoreKind::Little] {
                let Some(found) = Latencies::read(&words, id, kind) else { continue };
                assert!(found.histogram.iter().all(|count| *count <= found.count()));
                let p99 = found.percentile(0.99);
                assert!((0.0..=found.max as f64).contains(&p99), "{p99}");
            }
        }
        let cut = changes.first().map_or(0, |change| change.0);
        assert!(ids(&words[..cut]).count() <= ids(&words).count());
    });
}
