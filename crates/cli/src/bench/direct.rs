//! `lockswap bench direct`: each lock behind the pthread functions, and called directly as in a program that was changed
//! by hand, in one interleaved run of the same workloads.

use super::job::Work;
use super::micro::show;
use super::numbers::{self, numbers_of, ratio_to, LockResult, Measurements};
use super::{Common, Quartiles};
use crate::terminal;
use lockswap_locks::info::Family;
use lockswap_locks::registry::{self, Entry, Role};
use lockswap_study::machine::Machine;
use lockswap_workloads::micro::Unit;
use lockswap_workloads::price::{KEY_VALUE, UNCONTENDED};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Ids and units of the numbers.
const MEASUREMENTS: &[(&str, &str)] = &[(KEY_VALUE, "ns"), (UNCONTENDED, "ns")];

/// What LiTL's authors found for programs under contention on the average of their locks (USENIX ATC 2016, section 4.3).
const STUDY: f64 = 0.05;

/// Each lock twice, side by side. Where it is glibc's, there is no lock of ours to call.
fn results(locks: Vec<String>) -> Vec<LockResult> {
    let is_ours = |entry: &Entry| entry.info.family != Family::Native;
    let replaced = locks.into_iter().filter(|lock| registry::find(Role::Mutex, lock).is_some_and(is_ours));
    let both = |lock: String| [LockResult { directly: true, ..LockResult::new(lock.clone()) }, LockResult::new(lock)];
    replaced.flat_map(both).collect()
}

/// Measures both forms of every lock.
pub fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let results = results(numbers::selection(&common.lock)?);
    let measurements = Measurements { part: Some("direct"), ids: MEASUREMENTS.to_vec() };
    let work = |result: &LockResult| Work::Price { directly: result.directly.then(|| result.lock.clone()) };
    numbers::run(results, common, &measurements, work, render)
}

/// How many times longer the interposed lock takes than the direct one; `id` tells the workload.
fn price(pair: &[LockResult], id: &str) -> Option<Quartiles> {
    match pair {
        [direct, interposed] => ratio_to(interposed, id, direct, id),
        _ => None,
    }
}

/// The table.
fn render(results: &[LockResult]) -> String {
    let mut text = format!("{}\n\n", Machine::here().words());
    let headings = [
        "lock",
        "kv direct",
        "interposed",
        "ratio",
        "within 5 %",
        "uncontended direct",
        "interposed",
        "ratio",
        "difference",
    ];
    let mut table = terminal::table(&headings, &[1, 2, 3, 5, 6, 7, 8]);
    let mut differences = Vec::new();
    for pair in results.chunks(2) {
        let [direct, interposed] = pair else { continue };
        let (Some(kv), Some(alone)) = (price(pair, KEY_VALUE), price(pair, UNCONTENDED)) else { continue };
        differences.push((kv.median - 1.0).abs());
        let time = |result, id| numbers_of(result, id).map_or(0.0, |numbers| numbers.median);
        let shown = |result, id| show(time(result, id), Unit::Nanoseconds);
        table.add_row([
            direct.lock.clone(),
            shown(direct, KEY_VALUE),
            shown(interposed, KEY_VALUE),
            kv.to_string(),
            verdict(kv).to_owned(),
            shown(direct, UNCONTENDED),
            shown(interposed, UNCONTENDED),
            alone.to_string(),
            show_difference(time(interposed, UNCONTENDED) - time(direct, UNCONTENDED)),
        ]);
    }
    text += &terminal::lines(&table);
    let rounds = results.first().map_or(0, |result| result.rounds.len());
    let _ = writeln!(
        text,
        "\nkv: time from one operation of the contended key-value workload to the next; uncontended: lock and unlock by\n\
         one thread. Medians of {rounds} rounds. ratio: interposed to direct in the same round, ± half the distance\n\
         between the quartiles: below 1 the interposed one is faster. ~: {:.0} % lies within the quartiles.",
        100.0 * STUDY,
    );
    if !differences.is_empty() {
        let within = differences.iter().filter(|difference| is_within(**difference)).count();
        let median = Quartiles::of(differences.clone()).map_or(0.0, |of| of.median);
        let _ = writeln!(
            text,
            "kv: {within} of {} locks within {:.0} %, {:.1} % apart in the median (LiTL, section 4.3: below {:.0} % on average).",
            differences.len(),
            100.0 * STUDY,
            100.0 * median,
            100.0 * STUDY,
        );
    }
    text
}

fn is_within(difference: f64) -> bool {
    // Two decimals are shown, so 0.054 counts as the 0.05 that the reader sees.
    difference < STUDY + 0.005
}

fn verdict(ratio: Quartiles) -> &'static str {
    if is_within((ratio.median - 1.0).abs()) {
        "yes"
    } else if ratio.lower - 1.0 < STUDY && 1.0 - ratio.upper < STUDY {
        "~"
    } else {
        "no"
    }
}

fn show_difference(ns: f64) -> String {
    format!("{ns:+.1} ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::numbers::tests::result;
    use crate::selection::{INTERPOSED, PLAIN as PTHREAD};

    #[test]
    fn both_forms_of_each_lock_stand_side_by_side() {
        let locks = [PTHREAD, INTERPOSED, "ttas", "cna"].map(str::to_owned).to_vec();
        let forms: Vec<_> = results(locks).into_iter().map(|result| (result.lock, result.directly)).collect();
        let expected = [("ttas", true), ("ttas", false), ("cna", true), ("cna", false)];
        assert_eq!(forms, expected.map(|(lock, directly)| (lock.to_owned(), directly)));
    }

    #[test]
    fn the_table_tells_near_from_far() {
        let numbers = |kv, alone| [(KEY_VALUE, kv), (UNCONTENDED, alone)];
        let (direct, near, far) = (numbers(100.0, 5.0), numbers(104.0, 8.0), numbers(80.0, 8.0));
        let results =
            [result("ttas", &[&direct]), result("ttas", &[&near]), result("cna", &[&direct]), result("cna", &[&far])];
        let text = render(&results);
        assert!(text.contains("1.04 ±0.00  yes") && text.contains("0.80 ±0.00  no"), "{text}");
        assert!(
            text.contains("+3.0 ns") && text.contains("1 of 2 locks within 5 %, 12.0 % apart in the median"),
            "{text}"
        );
    }

    #[test]
    fn a_ratio_whose_quartiles_reach_the_bound_is_close() {
        let at = |lower, median, upper| Quartiles { lower, median, upper };
        assert_eq!(verdict(at(1.03, 1.08, 1.12)), "~");
        assert_eq!(verdict(at(0.90, 0.94, 0.97)), "~");
        assert_eq!(verdict(at(1.06, 1.08, 1.12)), "no");
    }
}
