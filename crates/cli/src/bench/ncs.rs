//! `lockswap bench ncs`: the measurements behind figures 5 to 8 of the RON paper (OSDI 2023).
//!
//! Each setting is measured twice: with the shared array, for throughput, hand-over and contention time, and with an empty
//! critical section, for the time of a round (figure 8).

use super::series::{self, ns, rate, Measured, Options, Point, Series};
use super::Common;
use crate::duration::with_unit;
use crate::selection::{INTERPOSED, PLAIN};
use crate::terminal;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::ncs::{self, Config};
use lockswap_workloads::record::Detail;
use lockswap_workloads::workload::Workload;
use std::process::ExitCode;

/// Arguments of `lockswap bench ncs`.
#[derive(clap::Args)]
#[command(after_help = "\
waiters: threads that wait for the lock, on average. hand-over: time in which the holder reads and
writes the shared array after it got the lock from another thread (figure 7). contention: time from
the end of that thread's critical section to the begin of the next, where the next thread had asked
before that end. round: time from one round of a thread to its next with an empty critical section
(figure 8). The clock is read inside the critical section. Threads are pinned, thread i to the i-th
CPU.

Keys of --set: lines of the shared array, which the critical section reads and writes [default: 2].

Examples:
  lockswap bench ncs
  lockswap bench ncs --lock ron,mcs_spin --ncs 0,1us,10us,100us --set lines=8
  lockswap bench ncs --threads 2,4 --lock ron-ticket,futex --export-json ncs.json")]
pub struct NcsArgs {
    /// Numbers of threads [default: one per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// Lengths of the non-critical section, each ±15 %
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit, default_value = "1us,3us,10us,30us,100us")]
    ncs: Vec<Ns>,
    /// Lines of the shared array, which the critical section reads and writes
    #[arg(long, hide = true, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lines: u32,
    #[command(flatten)]
    options: Options,
}

/// Runs `lockswap bench ncs`.
pub fn run(args: &NcsArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let standard = ["ttas", "ticket", "mcs_spin", "c-bo-mcs_spin", "shfllock", "ron"];
    let locks = series::locks(common, Role::Mutex, &[PLAIN, INTERPOSED], &standard)?;
    let seats = args.options.seats(true)?;
    let timing = args.options.timing(Timing::lasting(200_000_000));
    let threads = match args.threads[..] {
        [] => vec![series::usual_threads()],
        ref given => given.iter().map(|&n| n as usize).collect(),
    };
    let of = |&length: &Ns, threads: usize| {
        let (lines, detail) = (args.lines as usize, Detail::Handoffs);
        Workload::Ncs(Config { threads, timing, lines, inside: ncs::INSIDE, ncs: length, detail })
    };
    let settings = threads.iter().flat_map(|&threads| args.ncs.iter().map(move |ncs| of(ncs, threads)));
    let settings = args.options.settle(settings)?;
    // Each point, and the same with an empty critical section.
    let points = series::points(settings, &locks, Role::Mutex).into_iter().flat_map(|full| {
        let mut empty =
            Point { variables: Vec::new(), lock: full.lock.clone(), workload: full.workload.clone(), ..full };
        if let Workload::Ncs(config) = &mut empty.workload {
            (config.lines, config.inside) = (0, 0);
        }
        [full, empty]
    });
    let series = Series::run("ncs", points.collect(), seats, &args.options, common)?;
    series.finish(&render(&series, locks.len()))
}

fn config(measured: &Measured) -> Option<&Config> {
    match &measured.point.workload {
        Workload::Ncs(config) => Some(config),
        _ => None,
    }
}

/// The table: two measurements per row, `locks` rows per setting.
fn render(series: &Series, locks: usize) -> String {
    let lines = series.measured.first().and_then(config).map_or(0, |config| config.lines);
    let headings = [
        "threads",
        "nCS",
        "lock",
        "throughput",
        "ratio to pthread",
        "fairness",
        "waiters",
        "hand-offs",
        "hand-over",
        "contention",
        "round",
    ];
    let numeric: Vec<usize> = (0..headings.len()).filter(|&column| column != 2).collect();
    let mut table = terminal::table(&headings, &numeric);
    for group in series.measured.chunks((2 * locks).max(1)) {
        for pair in group.chunks(2) {
            let [full, empty] = pair else { continue };
            let (Some(median), Some(round), Some(config)) = (full.median(), empty.median(), config(full)) else {
                continue;
            };
            let Some(handoffs) = &median.handoffs else { continue };
            let ratio = Series::ratio(full, &group[0], |report| report.throughput);
            let optional = |time: Option<f64>| time.map_or("-".into(), ns);
            table.add_row([
                median.threads.to_string(),
                ns(config.ncs as f64),
                full.point.lock.clone(),
                rate(median.throughput),
                ratio.map(|ratio| ratio.to_string()).unwrap_or_default(),
                format!("{:.2}", median.fairness_factor),
                format!("{:.2}", median.waiters.unwrap_or_default()),
                format!("{:.0} %", 100.0 * handoffs.count as f64 / median.ops.max(1) as f64),
                optional(handoffs.handover_ns),
                optional(handoffs.contention_ns),
                ns(round.round_ns),
            ]);
        }
    }
    let rounds = series.measured.iter().map(|measured| measured.rounds.len()).max().unwrap_or_default();
    terminal::lines(&table)
        + &format!(
            "\n{lines} lines in the critical section; medians of {rounds} rounds. ratio: of the throughputs in the same round, above\n\
             1 is faster. waiters: threads waiting on average. hand-offs: acquisitions after another thread's. hand-over: time\n\
             to touch the lines then. contention: from the end of one critical section to the begin of the next, if awaited.\n\
             round: of one thread, with an empty critical section. Each look at the clock is part of these times.\n"
        )
}
