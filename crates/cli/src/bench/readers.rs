//! `lockswap bench readers`: readers and writers of one read-write lock.

use super::series::{self, misuse, ns, rate, Measured, Options, Series};
use super::Common;
use crate::error::UserError;
use crate::selection::{self, INTERPOSED, PLAIN};
use crate::terminal;
use lockswap_locks::registry::{self, Role};
use lockswap_workloads::readers::Config;
use lockswap_workloads::workload::Workload;
use std::process::ExitCode;

/// Arguments of `lockswap bench readers`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys of --set: lines of memory that writers write and readers read [default: 4]; reading, writing,
outside: steps computed by a reader inside, by a writer inside, and between two operations [default:
32, 32, 128].

Examples:
  lockswap bench readers --rwlock rw-futex,bravo --reads 50,99
  lockswap bench readers --set reading=1000 --threads 2,4")]
pub struct ReadersArgs {
    /// Read-write locks to measure, besides the baselines [default: all]
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    rwlock: Vec<String>,
    /// Numbers of threads, each of which reads and writes [default: one per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// Shares of the operations that read, percent
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = series::percent, default_value = "90")]
    reads: Vec<u32>,
    /// Lines of memory that writers write and readers read
    #[arg(long, hide = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lines: u32,
    /// Steps that a reader computes inside; a step is six instructions of one cycle
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 32)]
    reading: u64,
    /// Steps that a writer computes inside
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 32)]
    writing: u64,
    /// Steps computed between two operations
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 128)]
    outside: u64,
    #[command(flatten)]
    options: Options,
}

/// The read-write locks: the baselines, then `wanted`, or all if that is empty.
pub fn rwlocks(wanted: &[String]) -> Result<Vec<String>, UserError> {
    let wanted: Vec<&str> = wanted.iter().map(|lock| selection::known(Role::RwLock, lock)).collect::<Result<_, _>>()?;
    let mut locks = vec![PLAIN.to_owned(), INTERPOSED.to_owned()];
    let chosen = if wanted.is_empty() { registry::ids(Role::RwLock).collect() } else { wanted };
    for lock in chosen {
        if !locks.iter().any(|present| present == lock) {
            locks.push(lock.to_owned());
        }
    }
    Ok(locks)
}

/// Runs `lockswap bench readers`.
pub fn run(args: &ReadersArgs, common: &Common) -> anyhow::Result<ExitCode> {
    if !common.lock.is_empty() {
        return Err(misuse("--lock names mutex locks, and readers measures read-write locks", "write --rwlock ID"));
    }
    let locks = rwlocks(&args.rwlock)?;
    let seats = args.options.seats(false)?;
    let threads = match args.threads[..] {
        [] => vec![series::usual_threads()],
        ref given => given.iter().map(|&n| n as usize).collect(),
    };
    let of = |threads: usize, reads: u32| {
        let usual = Config::new(threads);
        Workload::Readers(Config {
            reads,
            timing: args.options.timing(usual.timing),
            lines: args.lines as usize,
            reading: args.reading,
            writing: args.writing,
            outside: args.outside,
            ..usual
        })
    };
    let settings = threads.iter().flat_map(|&threads| args.reads.iter().map(move |&reads| of(threads, reads)));
    let points = series::points(args.options.settle(settings)?, &locks, Role::RwLock);
    let series = Series::run("readers", points, seats, &args.options, common)?;
    series.finish(&render(&series, locks.len()))
}

/// The table: each chunk of `locks` measurements has one setting, the first is the baseline.
fn render(series: &Series, locks: usize) -> String {
    let headings = [
        "threads",
        "reads",
        "rwlock",
        "throughput",
        "ratio to pthread",
        "fairness",
        "read P50",
        "P99",
        "longest",
        "write P50",
        "P99",
        "longest",
    ];
    let numeric: Vec<usize> = (0..headings.len()).filter(|&column| column != 2).collect();
    let mut table = terminal::table(&headings, &numeric);
    for group in series.measured.chunks(locks.max(1)) {
        for own in group {
            if let Some(row) = row(own, &group[0]) {
                table.add_row(row);
            }
        }
    }
    let rounds = series.measured.iter().map(|measured| measured.rounds.len()).max().unwrap_or_default();
    terminal::lines(&table)
        + &format!(
            "\nMedians of {rounds} rounds; ratio of the throughputs in the same round, ± half the distance between the quartiles:\n\
             above 1 is faster. fairness: share of the busier half of the threads, 0.5 is fair. P50, P99, longest: waits for\n\
             the lock.\n"
        )
}

fn row(own: &Measured, base: &Measured) -> Option<Vec<String>> {
    let median = own.median()?;
    let Workload::Readers(Config { reads, .. }) = own.point.workload else { return None };
    let mut row = vec![
        median.threads.to_string(),
        format!("{reads} %"),
        own.point.lock.clone(),
        rate(median.throughput),
        Series::ratio(own, base, |report| report.throughput).map(|ratio| ratio.to_string()).unwrap_or_default(),
        format!("{:.2}", median.fairness_factor),
    ];
    for class in ["read", "write"] {
        let waits = median.latency.get(class)?;
        let times = [waits.p50_ns, waits.p99_ns, waits.max_ns];
        row.extend(times.map(|time| if waits.count == 0 { "-".to_owned() } else { ns(time as f64) }));
    }
    Some(row)
}
