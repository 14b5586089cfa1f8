//! `lockswap bench counter`, `kv`, `ncs`, `oversub`, `shares`, `bursts`, `phases` and `readers`.

use super::session::{self, picture, Part};
use super::{locks, misuse, percent, threads, Common, Options};
use crate::duration::with_unit;
use crate::selection::{INTERPOSED, PLAIN};
use lockswap_experiment::hardware::page::how_to_read;
use lockswap_experiment::hardware::series::{Group, Series};
use lockswap_experiment::hardware::workloads::{self, groups, page, throughput, with_empty_section};
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_study::page::Page;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::record::Detail;
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{bursts as bursting, phases as changing};
use lockswap_workloads::{counter as counting, kv as map, ncs as sections, readers as reading, shares as sharing};
use std::process::ExitCode;

/// What all workloads of this sort take.
#[derive(clap::Args)]
struct Usual {
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
}

/// Arguments of `lockswap bench counter`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys of --set: inside, outside: steps computed inside the lock and between two acquisitions
[default: 0]; a step is six instructions of one cycle.

Examples:
  lockswap bench counter --set inside=100 --set outside=400,1600
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
  lockswap bench kv --lock mcs_spin,cna --threads 1,2,4 --set keys=4096,65536
  lockswap bench kv --set updates=50 --waits")]
pub struct KvArgs {
    /// Keys; half of them are in the map at first
    #[arg(long, hide = true, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    keys: u64,
    /// Share of inserts and removes, percent
    #[arg(long, hide = true, value_name = "PERCENT", default_value_t = 20, value_parser = percent)]
    updates: u32,
    /// Steps computed between two operations: the external work, of which the paper's figure 6 has none
    #[arg(long, hide = true, value_name = "STEPS", default_value_t = 0)]
    external: u64,
    #[command(flatten)]
    usual: Usual,
}

/// Arguments of `lockswap bench bursts`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys of --set: burst: acquisitions in a row [default: 30]; inside, outside: steps computed inside
the lock and between two acquisitions of a burst [default: 50]; away: steps between two bursts,
half as many to half as many again [default: 50000].

Examples:
  lockswap bench bursts --threads 4,16
  lockswap bench bursts --lock futex,mcs_stp --set burst=10,100")]
pub struct BurstsArgs {
    #[command(flatten)]
    usual: Usual,
}

/// Arguments of `lockswap bench phases`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys of --set: phase: length of a phase [default: 2ms]; inside, outside: steps computed inside the
lock and between two acquisitions, phase by phase [default: 50,50,500 and 50,10000,500].

Examples:
  lockswap bench phases --threads 4,16
  lockswap bench phases --lock futex,mutexee --set phase=1ms,20ms")]
pub struct PhasesArgs {
    #[command(flatten)]
    usual: Usual,
}

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
  lockswap bench ncs --threads 2,4 --lock ron-ticket,futex --export ncs.json")]
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

/// Arguments of `lockswap bench oversub`.
#[derive(clap::Args)]
pub struct OversubArgs {
    /// Competing threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Measure read-write locks instead, these besides the baselines, or with no ID all of them; nine reads for a
    /// write
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 0..)]
    rwlock: Option<Vec<String>>,
    #[command(flatten)]
    options: Options,
}

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
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = percent, default_value = "90")]
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

/// Arguments of `lockswap bench shares` and `shares-store`.
#[derive(clap::Args)]
#[command(after_help = "\
Thread i is of class i modulo the number of classes. Shown are the share that each class has of the
time in which the lock is held, and Jain's index over the threads: 1 if each has had what is due to
its weight in the scheduler.

Keys of --set: lengths of the critical sections, a class for each [default: 10us,1us; shares-store
6us,1us]; nice: nice values, class by class [default: 0]; pause between two sections [default: 0;
shares-store 1us]; spread of the lengths, percent [default: 0; shares-store 50].

Examples:
  lockswap bench shares
  lockswap bench shares --lock u-scl --set lengths=3us,3us --set nice=0,5
  lockswap bench shares-store --threads 2,4,8 --lock u-scl,ticket")]
pub struct SharesArgs {
    /// Numbers of threads [default: one per CPU, at least 2]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    #[command(flatten)]
    options: Options,
}

/// A series of a workload, and what is said about it.
pub struct Bench<'a> {
    /// Its name.
    pub name: &'a str,
    /// Rounds where none are asked for.
    pub rounds: u32,
    /// What the locks are compared with.
    pub baseline: &'a str,
    /// Its tables, and notes on their columns.
    pub page: &'a dyn Fn(&Series<Report>) -> Page,
}

impl Bench<'_> {
    /// Measures it.
    pub fn run(&self, common: &Common, series: Series<Report>, options: &Options) -> anyhow::Result<ExitCode> {
        let page = |series: &Series<Report>| {
            let mut page = (self.page)(series);
            page.title = format!("lockswap bench {}", self.name);
            page.notes.insert(0, how_to_read(self.baseline, series.comparisons(1)));
            page
        };
        let json = |series: &Series<Report>, machine: &_| {
            let little = options.little.as_ref().map(ToString::to_string);
            workloads::json(series, &workloads::About { name: self.name, settings: &options.set, little, machine })
        };
        let part = Part {
            rounds: self.rounds,
            more: None,
            measures: vec![throughput()],
            json: &json,
            csv: &workloads::csv,
            page: &page,
            picture: &|series, look| picture(&workloads::rows(series), self.name, self.baseline, series.seed, look),
        };
        session::run(common, series, &part)
    }
}

/// Runs `lockswap bench counter`.
pub fn counter(args: &CounterArgs, common: &Common) -> anyhow::Result<ExitCode> {
    run_usual("counter", &args.usual, common, |threads| {
        let bare = counting::Config::bare(threads);
        let timing = args.usual.options.timing(bare.timing);
        let detail = args.usual.detail();
        Workload::Counter(counting::Config { inside: args.inside, outside: args.outside, timing, detail, ..bare })
    })
}

/// Runs `lockswap bench kv`.
pub fn kv(args: &KvArgs, common: &Common) -> anyhow::Result<ExitCode> {
    run_usual("kv", &args.usual, common, |threads| {
        let paper = map::Config::new(threads);
        let (timing, detail) = (args.usual.options.timing(paper.timing), args.usual.detail());
        let &KvArgs { keys, updates, external, .. } = args;
        Workload::Kv(map::Config { keys, updates, external, timing, detail, ..paper })
    })
}

/// Runs `lockswap bench bursts`.
pub fn bursts(args: &BurstsArgs, common: &Common) -> anyhow::Result<ExitCode> {
    run_usual("bursts", &args.usual, common, |threads| {
        let usual = bursting::Config::new(threads);
        let (timing, detail) = (args.usual.options.timing(usual.timing), args.usual.detail());
        Workload::Bursts(bursting::Config { timing, detail, ..usual })
    })
}

/// Runs `lockswap bench phases`.
pub fn phases(args: &PhasesArgs, common: &Common) -> anyhow::Result<ExitCode> {
    run_usual("phases", &args.usual, common, |threads| {
        let usual = changing::Config::new(threads);
        let (timing, detail) = (args.usual.options.timing(usual.timing), args.usual.detail());
        Workload::Phases(changing::Config { timing, detail, ..usual })
    })
}

/// The locks that are asked for, besides the baselines.
fn mutexes(common: &Common, standard: &[&str]) -> anyhow::Result<Vec<String>> {
    let standard = if common.all { &[] } else { standard };
    Ok(locks(Role::Mutex, &common.lock, &[PLAIN, INTERPOSED], standard)?)
}

fn run_usual(name: &str, usual: &Usual, common: &Common, of: impl Fn(usize) -> Workload) -> anyhow::Result<ExitCode> {
    let locks = mutexes(common, &["auto", "futex", "ttas", "ticket", "mcs_stp", "cna", "shfllock-b"])?;
    let seats = usual.options.seats(false)?;
    let settings = usual.options.settle(threads(&usual.threads).into_iter().map(of))?;
    let series = Series::new(groups(&settings, &["threads"], &locks, Role::Mutex), common.seed, seats);
    let detail = usual.detail();
    let page = |series: &Series<Report>| page::usual(series, detail);
    Bench { name, rounds: 5, baseline: PLAIN, page: &page }.run(common, series, &usual.options)
}

/// Runs `lockswap bench ncs`: each setting with the shared array, for throughput, hand-over and contention time, and
/// with an empty critical section, for the time of a round.
pub fn ncs(args: &NcsArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let locks = mutexes(common, &["ttas", "ticket", "mcs_spin", "c-bo-mcs_spin", "shfllock", "ron"])?;
    let seats = args.options.seats(true)?;
    let timing = args.options.timing(Timing::lasting(200_000_000));
    let of = |&length: &Ns, threads: usize| {
        let (lines, detail) = (args.lines as usize, Detail::Handoffs);
        Workload::Ncs(sections::Config { threads, timing, lines, inside: sections::INSIDE, ncs: length, detail })
    };
    let settings =
        threads(&args.threads).into_iter().flat_map(|threads| args.ncs.iter().map(move |ncs| of(ncs, threads)));
    let settings = args.options.settle(settings)?;
    let empty: Vec<Workload> = settings.iter().map(with_empty_section).collect();
    let keys = ["threads", "ncs", "lines"];
    let full = groups(&settings, &keys, &locks, Role::Mutex);
    let empty = groups(&empty, &[], &locks, Role::Mutex).into_iter().map(Group::alone);
    let series = Series::new(full.into_iter().zip(empty).flat_map(|(a, b)| [a, b]).collect(), common.seed, seats);
    Bench { name: "ncs", rounds: 5, baseline: PLAIN, page: &page::ncs }.run(common, series, &args.options)
}

/// Runs `lockswap bench oversub`.
pub fn oversub(args: &OversubArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let baselines = [PLAIN, INTERPOSED];
    let (role, locks) = match &args.rwlock {
        Some(_) if !common.lock.is_empty() => {
            return Err(misuse("--lock and --rwlock measure different objects", "write one of them"));
        }
        Some(wanted) => (Role::RwLock, locks(Role::RwLock, wanted, &baselines, &[])?),
        None => (Role::Mutex, locks(Role::Mutex, &common.lock, &baselines, &[])?),
    };
    let mut workload = workloads::oversubscribed(role, args.threads as usize);
    match &mut workload {
        Workload::Readers(config) => config.timing = args.options.timing(config.timing),
        Workload::Counter(config) => config.timing = args.options.timing(config.timing),
        _ => {}
    }
    let settings = args.options.settle([workload])?;
    let series = Series::new(groups(&settings, &[], &locks, role), common.seed, args.options.seats(false)?);
    let page = |series: &Series<Report>| page::oversub(series, role);
    Bench { name: "oversub", rounds: 7, baseline: PLAIN, page: &page }.run(common, series, &args.options)
}

/// Runs `lockswap bench shares` and `shares-store`: the workload of this name, as `of` makes it for so many threads.
pub fn shares(
    args: &SharesArgs,
    name: &str,
    of: fn(usize) -> sharing::Config,
    common: &Common,
) -> anyhow::Result<ExitCode> {
    let locks = mutexes(common, &["auto", "futex", "ttas", "ticket", "mcs_spin", "u-scl"])?;
    let of = |threads: usize| {
        let usual = of(threads);
        Workload::Shares(sharing::Config { timing: args.options.timing(usual.timing), ..usual })
    };
    let settings = args.options.settle(threads(&args.threads).into_iter().map(of))?;
    let seats = args.options.seats(true)?;
    let series = Series::new(groups(&settings, &["threads"], &locks, Role::Mutex), common.seed, seats);
    Bench { name, rounds: 5, baseline: PLAIN, page: &page::shares }.run(common, series, &args.options)
}

/// Runs `lockswap bench readers`.
pub fn readers(args: &ReadersArgs, common: &Common) -> anyhow::Result<ExitCode> {
    if !common.lock.is_empty() {
        return Err(misuse("--lock names mutex locks, and readers measures read-write locks", "write --rwlock ID"));
    }
    let locks = locks(Role::RwLock, &args.rwlock, &[PLAIN, INTERPOSED], &[])?;
    let of = |threads: usize, reads: u32| {
        let usual = reading::Config::new(threads);
        let (timing, lines) = (args.options.timing(usual.timing), args.lines as usize);
        let &ReadersArgs { reading, writing, outside, .. } = args;
        Workload::Readers(reading::Config { reads, timing, lines, reading, writing, outside, ..usual })
    };
    let settings =
        threads(&args.threads).into_iter().flat_map(|threads| args.reads.iter().map(move |&reads| of(threads, reads)));
    let settings = args.options.settle(settings)?;
    let seats = args.options.seats(false)?;
    let series = Series::new(groups(&settings, &["threads", "reads"], &locks, Role::RwLock), common.seed, seats);
    Bench { name: "readers", rounds: 5, baseline: PLAIN, page: &page::readers }.run(common, series, &args.options)
}
