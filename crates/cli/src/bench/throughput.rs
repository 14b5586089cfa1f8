//! `lockswap bench counter` and `bench kv`: throughput and fairness over threads.

use super::series::{self, ns, rate, Options, Series};
use super::Common;
use crate::selection::{INTERPOSED, PLAIN};
use crate::terminal;
use lockswap_locks::registry::Role;
use lockswap_workloads::record::Detail;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{counter as counting, kv as map};
use std::process::ExitCode;

/// What all workloads of this sort take.
#[derive(clap::Args)]
pub struct Usual {
    /// Numbers of threads [default: one per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// Time each wait for the lock, and report percentiles and waiters; costs two looks at the clock
    #[arg(long)]
    waits: bool,
    /// Besides, note where each hand-off comes from and how long it takes; costs a line of memory more
    #[arg(long)]
    handoffs: bool,
    #[command(flatten)]
    options: Options,
}

impl Usual {
    fn detail(&self) -> Detail {
        match (self.waits, self.handoffs) {
            (_, true) => Detail::Handoffs,
            (true, false) => Detail::Waits,
            (false, false) => Detail::Counts,
        }
    }

    fn threads(&self) -> Vec<usize> {
        match self.threads[..] {
            [] => vec![series::usual_threads()],
            ref given => given.iter().map(|&n| n as usize).collect(),
        }
    }
}

/// Arguments of `lockswap bench counter`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys of --set: inside, outside: steps computed inside the lock and between two acquisitions [default:
0]; a step is six instructions of one cycle.

Examples:
  lockswap bench counter --set inside=100 --set outside=400
  lockswap bench counter --lock mcs_spin,ticket --threads 1,2,4 --handoffs")]
pub struct CounterArgs {
    /// Steps computed inside the lock; a step is six instructions of one cycle
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 0)]
    inside: u64,
    /// Steps computed between two acquisitions
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 0)]
    outside: u64,
    #[command(flatten)]
    usual: Usual,
}

/// Arguments of `lockswap bench kv`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys of --set: keys, half of which are in the map at first [default: 1024]; updates: inserts and
removes, percent [default: 20]; inside, external: steps computed inside the lock and between two
operations [default: 0].

Examples:
  lockswap bench kv --lock mcs_spin,cna --threads 1,2,4 --set keys=4096
  lockswap bench kv --set updates=50 --waits")]
pub struct KvArgs {
    /// Keys; half of them are in the map at first
    #[arg(long, hide = true, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: u64,
    /// Share of inserts and removes, percent
    #[arg(long, hide = true, value_name = "PERCENT", default_value_t = 20, value_parser = series::percent)]
    updates: u32,
    /// Steps computed between two operations: the external work, of which the paper's figure 6 has none
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 0)]
    external: u64,
    #[command(flatten)]
    usual: Usual,
}

/// Runs `lockswap bench counter`.
pub fn counter(args: &CounterArgs, common: &Common) -> anyhow::Result<ExitCode> {
    measure("counter", &args.usual, common, |threads| {
        let bare = counting::Config::bare(threads);
        let timing = args.usual.options.timing(bare.timing);
        let detail = args.usual.detail();
        Workload::Counter(counting::Config { inside: args.inside, outside: args.outside, timing, detail, ..bare })
    })
}

/// Runs `lockswap bench kv`.
pub fn kv(args: &KvArgs, common: &Common) -> anyhow::Result<ExitCode> {
    measure("kv", &args.usual, common, |threads| {
        let paper = map::Config::new(threads);
        let timing = args.usual.options.timing(paper.timing);
        Workload::Kv(map::Config {
            keys: args.keys,
            updates: args.updates,
            external: args.external,
            timing,
            detail: args.usual.detail(),
            ..paper
        })
    })
}

fn measure(
    name: &str,
    usual: &Usual,
    common: &Common,
    workload: impl Fn(usize) -> Workload,
) -> anyhow::Result<ExitCode> {
    let standard = ["futex", "ttas", "ticket", "mcs_spin", "mcs_stp", "cna", "shfllock-b"];
    let locks = series::locks(common, Role::Mutex, &[PLAIN, INTERPOSED], &standard)?;
    let seats = usual.options.seats(false)?;
    let settings = usual.options.settle(usual.threads().into_iter().map(workload))?;
    let points = series::points(settings, &locks, Role::Mutex);
    let series = Series::run(name, points, seats, &usual.options, common)?;
    series.finish(&render(&series, locks.len(), usual.detail()))
}

/// The table: each chunk of `locks` measurements has one number of threads, the first is the baseline.
fn render(series: &Series, locks: usize, detail: Detail) -> String {
    let mut headings = vec!["threads", "lock", "throughput", "ratio to pthread", "fairness", "cv", "Jain"];
    if detail >= Detail::Waits {
        headings.extend(["waiters", "P50 wait", "P99", "P99.9", "longest"]);
    }
    if detail == Detail::Handoffs {
        headings.extend(["hand-offs", "in core", "in LLC", "in node", "hand-over", "contention"]);
    }
    let numeric: Vec<usize> = (0..headings.len()).filter(|&column| column != 1).collect();
    let mut table = terminal::table(&headings, &numeric);
    for group in series.measured.chunks(locks.max(1)) {
        for own in group {
            let Some(median) = own.median() else { continue };
            let ratio = Series::ratio(own, &group[0], |report| report.throughput);
            let mut row = vec![
                median.threads.to_string(),
                own.point.lock.clone(),
                rate(median.throughput),
                ratio.map(|ratio| ratio.to_string()).unwrap_or_default(),
                format!("{:.2}", median.fairness_factor),
                format!("{:.2}", median.cv),
                format!("{:.2}", median.jain),
            ];
            if let (Some(waiters), Some(waits)) = (median.waiters, median.latency.get("all")) {
                let times = [waits.p50_ns, waits.p99_ns, waits.p999_ns, waits.max_ns];
                row.push(format!("{waiters:.1}"));
                row.extend(times.map(|time| ns(time as f64)));
            }
            if let Some(handoffs) = &median.handoffs {
                let share = |share: f64| format!("{:.0} %", 100.0 * share);
                row.push(share(handoffs.count as f64 / median.ops.max(1) as f64));
                row.extend([handoffs.within_core, handoffs.within_llc, handoffs.within_node].map(share));
                row.extend([handoffs.handover_ns, handoffs.contention_ns].map(|time| time.map_or("-".into(), ns)));
            }
            table.add_row(row);
        }
    }
    let rounds = series.measured.iter().map(|measured| measured.rounds.len()).max().unwrap_or_default();
    terminal::lines(&table)
        + &format!(
            "\nMedians of {rounds} rounds; ratio of the throughputs in the same round, ± half the distance between the quartiles:\n\
             above 1 is faster. fairness: share of the busier half of the threads, 0.5 is fair; cv: standard deviation of the\n\
             threads' operations over their mean; Jain: 1 is fair.\n"
        )
}
