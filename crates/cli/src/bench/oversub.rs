//! `lockswap bench oversub`: more threads than CPUs on one mutex.

use super::{numbers_of, ratio_to, show, BenchArgs, LockResult, PTHREAD};
use crate::terminal;
use lockswap_platform::Native;
use lockswap_study::machine::Machine;
use lockswap_workloads::counter::{self, Config};
use lockswap_workloads::hardware::Hardware;
use lockswap_workloads::micro::Unit;
use lockswap_workloads::pthread::{Kind, Mutex};
use std::fmt::Write as _;
use std::time::Duration;

const ACQUISITION: &str = "oversub";
const LONGEST_WAIT: &str = "longest_wait";
const STALLED: &str = "stalled_threads";

/// Ids and units of the numbers.
pub const MEASUREMENTS: &[(&str, &str)] = &[(ACQUISITION, "ns"), (LONGEST_WAIT, "ns"), (STALLED, "threads")];

/// A thread that waits longer than this for one acquisition has stalled.
const STALL: Duration = Duration::from_secs(1);

fn config(args: &BenchArgs) -> Config {
    Config::oversubscribed(args.threads.map_or(16, |threads| threads as usize))
}

/// The numbers of this process.
pub fn measure(args: &BenchArgs) -> [(&'static str, f64); 3] {
    let report = counter::run::<Native, _>(&config(args), &Hardware::default(), &*Mutex::new(Kind::Normal));
    let longest: Vec<u64> = report.per_thread.iter().filter_map(|thread| thread.longest_ns).collect();
    let stalled = longest.iter().filter(|wait| u128::from(**wait) > STALL.as_nanos()).count();
    [
        (ACQUISITION, report.duration_ns as f64 / report.ops.max(1) as f64),
        (LONGEST_WAIT, longest.into_iter().max().unwrap_or_default() as f64),
        (STALLED, stalled as f64),
    ]
}

/// The largest number of all rounds.
fn worst(result: &LockResult, id: &str) -> f64 {
    result.rounds.iter().filter_map(|round| round.get(id)).copied().fold(0.0, f64::max)
}

/// The table.
pub fn render(results: &[LockResult], args: &BenchArgs) -> String {
    let mut text = format!("{}\n\n", Machine::here().words());
    let Some(baseline) = results.iter().find(|result| result.lock == PTHREAD) else { return text };
    let headings = ["lock", "acquisition", "ratio to pthread", "longest wait", "worst round", "stalls"];
    let mut table = terminal::table(&headings, &[1, 2, 3, 4, 5]);
    for result in results {
        let (Some(time), Some(wait)) = (numbers_of(result, ACQUISITION), numbers_of(result, LONGEST_WAIT)) else {
            continue;
        };
        let ratio = ratio_to(result, ACQUISITION, baseline, ACQUISITION);
        let ratio = ratio.map(|ratio| format!("{:.2} ±{:.2}", ratio.median, ratio.spread()));
        let stalls: f64 = result.rounds.iter().filter_map(|round| round.get(STALLED)).sum();
        table.add_row([
            result.lock.clone(),
            show(time.median, Unit::Nanoseconds),
            ratio.unwrap_or_default(),
            format!("{:.1} ms", wait.median / 1e6),
            format!("{:.1} ms", worst(result, LONGEST_WAIT) / 1e6),
            if stalls == 0.0 { "none".to_owned() } else { format!("{stalls:.0} threads") },
        ]);
    }
    text += &terminal::lines(&table);
    let _ = writeln!(
        text,
        "\n{} threads, each {} numbers inside and {} outside the lock; {} rounds of {} s\n\
         acquisition: time from one to the next, median of the rounds; its ratio to pthread in the same round, ± half the\n\
         distance between the quartiles: below 1 is faster. longest wait: of any thread for one acquisition, median of\n\
         the rounds, and in the worst round. stalls: threads that waited over {} s for one, in all rounds.",
        config(args).threads,
        config(args).inside,
        config(args).outside,
        baseline.rounds.len(),
        config(args).timing.duration as f64 / 1e9,
        STALL.as_secs(),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{parse, result};

    #[test]
    fn the_table_shows_ratios_waits_and_stalls() {
        let numbers = |ns, wait, stalled| [(ACQUISITION, ns), (LONGEST_WAIT, wait), (STALLED, stalled)];
        let (base, first, second) = (numbers(100.0, 5e6, 0.0), numbers(50.0, 7e6, 0.0), numbers(50.0, 1.5e9, 2.0));
        let results = [result(PTHREAD, &[&base, &base]), result("ttas", &[&first, &second])];
        let text = render(&results, &parse(&["oversub", "--threads", "9"]));
        assert!(text.contains("0.50 ±0.00") && text.contains("1500.0 ms") && text.contains("2 threads"), "{text}");
        assert!(text.contains("9 threads, each") && text.contains("none"), "{text}");
    }
}
