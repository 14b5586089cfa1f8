//! `lockswap bench oversub`: more threads than CPUs on one mutex, or on one read-write lock.

use super::readers::rwlocks;
use super::series::{self, misuse, ns, Measured, Options, Series};
use super::Common;
use crate::selection::{INTERPOSED, PLAIN};
use crate::terminal;
use lockswap_locks::registry::Role;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{counter, readers};
use std::process::ExitCode;
use std::time::Duration;

/// A thread that waits longer than this for one acquisition has stalled.
const STALL: Duration = Duration::from_secs(1);

/// Arguments of `lockswap bench oversub`.
#[derive(clap::Args)]
pub struct OversubArgs {
    /// Competing threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Measure read-write locks instead, these besides the baselines, or with no ID all of them; nine reads for a write
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 0..)]
    rwlock: Option<Vec<String>>,
    #[command(flatten)]
    options: Options,
}

impl OversubArgs {
    fn workload(&self, role: Role) -> Workload {
        let threads = self.threads as usize;
        let usual = counter::Config::oversubscribed(threads);
        let timing = self.options.timing(usual.timing);
        match role {
            Role::RwLock => Workload::Readers(readers::Config { timing, ..readers::Config::new(threads) }),
            _ => Workload::Counter(counter::Config { timing, ..usual }),
        }
    }
}

/// Runs `lockswap bench oversub`.
pub fn run(args: &OversubArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let (role, locks) = match &args.rwlock {
        Some(_) if !common.lock.is_empty() => {
            return Err(misuse("--lock and --rwlock measure different objects", "write one of them"));
        }
        Some(wanted) => (Role::RwLock, rwlocks(wanted)?),
        None => {
            let all = Common { all: common.lock.is_empty(), ..common.clone() };
            (Role::Mutex, series::locks(&all, Role::Mutex, &[PLAIN, INTERPOSED], &[])?)
        }
    };
    let seats = args.options.seats(false)?;
    let settings = args.options.settle([args.workload(role)])?;
    let common = Common { runs: common.runs.or(Some(7)), ..common.clone() };
    let points = series::points(settings, &locks, role);
    let series = Series::run("oversub", points, seats, &args.options, &common)?;
    series.finish(&render(&series, role))
}

/// The longest wait of any thread in each round, ns.
fn longest(measured: &Measured) -> impl Iterator<Item = u64> + '_ {
    let of = |report: &lockswap_workloads::report::Report| {
        report.per_thread.iter().filter_map(|thread| thread.longest_ns).max().unwrap_or_default()
    };
    measured.rounds.iter().map(of)
}

/// Threads that have stalled, in all rounds.
fn stalls(measured: &Measured) -> usize {
    let threads = measured.rounds.iter().flat_map(|report| &report.per_thread);
    threads.filter(|thread| thread.longest_ns.is_some_and(|wait| u128::from(wait) > STALL.as_nanos())).count()
}

fn render(series: &Series, role: Role) -> String {
    let Some(baseline) = series.measured.first() else { return String::new() };
    let name = if role == Role::RwLock { "rwlock" } else { "lock" };
    let headings = [name, "acquisition", "ratio to pthread", "fairness", "longest wait", "worst round", "stalls"];
    let mut table = terminal::table(&headings, &[1, 2, 3, 4, 5, 6]);
    for own in &series.measured {
        let Some(median) = own.median() else { continue };
        let ratio = Series::ratio(own, baseline, |report| 1.0 / report.throughput);
        let waits = super::Quartiles::of(longest(own).map(|ns| ns as f64).collect());
        let stalls = stalls(own);
        table.add_row([
            own.point.lock.clone(),
            ns(1e9 / median.throughput),
            ratio.map(|ratio| ratio.to_string()).unwrap_or_default(),
            format!("{:.2}", median.fairness_factor),
            waits.map(|waits| format!("{:.1} ms", waits.median / 1e6)).unwrap_or_default(),
            format!("{:.1} ms", longest(own).max().unwrap_or_default() as f64 / 1e6),
            if stalls == 0 { "none".to_owned() } else { format!("{stalls} threads") },
        ]);
    }
    let work = match &baseline.point.workload {
        Workload::Readers(config) => format!(
            "{} threads, {} % of the operations read, {} steps inside and {} outside the lock",
            config.threads, config.reads, config.reading, config.outside
        ),
        Workload::Counter(config) => {
            format!(
                "{} threads, each {} steps inside and {} outside the lock",
                config.threads, config.inside, config.outside
            )
        }
        _ => String::new(),
    };
    let duration = baseline.point.workload.timing().duration;
    let rounds = baseline.rounds.len();
    terminal::lines(&table)
        + &format!(
            "\n{work}; {rounds} rounds of {} s\n\
             acquisition: time from one to the next, median of the rounds; its ratio to pthread in the same round, ± half the\n\
             distance between the quartiles: below 1 is faster. fairness: share of the busier half of the threads, 0.5 is fair.\n\
             longest wait: of any thread for one acquisition, median of the rounds, and in the worst round. stalls: threads\n\
             that waited over {} s for one, in all rounds.\n",
            duration as f64 / 1e9,
            STALL.as_secs(),
        )
}

#[cfg(test)]
mod tests {
    use super::super::series::Point;
    use super::*;
    use lockswap_workloads::report::{Report, ThreadReport};

    #[test]
    fn the_table_shows_ratios_waits_and_stalls() {
        let args = OversubArgs { threads: 9, rwlock: None, options: Options::default() };
        let round = |throughput, longest: u64| {
            let thread = |ns| ThreadReport { ops: 1, kind: "big".into(), longest_ns: Some(ns) };
            Report { throughput, per_thread: vec![thread(longest), thread(5), thread(longest)], ..Report::default() }
        };
        let measured = |lock: &str, rounds| {
            let workload = args.workload(Role::Mutex);
            let point = Point { lock: lock.into(), role: Role::Mutex, workload, variables: Vec::new() };
            Measured::of(point, rounds)
        };
        let (ns, s) = (1e9, 1_000_000_000);
        let base = measured(PLAIN, vec![round(ns / 100.0, 5_000_000), round(ns / 100.0, 5_000_000)]);
        let own = measured("ttas", vec![round(ns / 50.0, 7_000_000), round(ns / 50.0, 3 * s / 2)]);
        assert_eq!((stalls(&base), stalls(&own)), (0, 2));
        let text = render(&Series::of(vec![base, own]), Role::Mutex);
        for shown in ["100 ns", "50.0 ns  ", "0.50 ±0.00", "1500.0 ms", "2 threads", "none", "9 threads, each 32 steps"]
        {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
