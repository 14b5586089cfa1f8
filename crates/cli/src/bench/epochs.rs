//! `lockswap bench epochs`: the micro-benchmarks of the LibASL paper (PPoPP 2022, section 4.1).

use super::series::{self, misuse, ns, rate, Measured, Options, Point, Series};
use super::Common;
use crate::duration::with_unit;
use crate::terminal;
use lockswap_locks::info::Family;
use lockswap_locks::registry::{self, Role};
use lockswap_platform::Ns;
use lockswap_workloads::affinity;
use lockswap_workloads::epochs::{Config, Length};
use lockswap_workloads::hardware::Seat;
use lockswap_workloads::report::{Distribution, Report};
use lockswap_workloads::workload::Workload;
use std::process::ExitCode;

/// Arguments of `lockswap bench epochs`.
#[derive(clap::Args)]
#[command(after_help = "\
Threads are pinned. An epoch takes 4 locks in turn and increments 64 lines of memory. Locks of the
LibASL family (asl...) are measured once with their largest reorder window, without targets (SLO:
max), and once for each --slo, with epochs that are annotated through the Rust library; other locks
once. The first lock is the baseline.

On a machine whose CPUs are alike, --little says which ones do FACTOR times the work; LOCKSWAP_BIG
is set accordingly. Where fewer than 4 CPUs are big, fewer threads want the lock: then there is one
lock instead of 2 and no pause between epochs, so that contention is as heavy as in the paper.

--bench 1  epochs              the epochs as they are
        2  epochs-variable     lengths that change in the run
        3  epochs-mixed        short ones, and 100 times longer
        4  epochs-scalability  1, 2, ... threads; one lock, 64 lines, 33 steps between
        5  epochs-contention   several pauses; one lock, 2 lines
        6  epochs-oversub      two threads per CPU

Examples:
  lockswap bench epochs --little 1:3 --lock asl --slo 50us,100us,200us,500us
  lockswap bench epochs-mixed --little 1:3 --long 0,20,80 --export-json mixed.json
  lockswap bench epochs --little 2-3:2.5 --lock asl,shfl-pb10,pthread --slo 1ms")]
pub struct EpochsArgs {
    /// Benchmark of the paper, 1 to 6 [default: by the name: epochs is 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    bench: Option<u8>,
    /// Latency targets [default: 20us,50us,100us,200us; bench 2 and 3: 100us; bench 4: 0,12us; bench 5: none;
    /// bench 6: 500us,1ms,5ms]
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit)]
    slo: Vec<Ns>,
    /// Fixed reorder windows to measure besides, without targets; the paper's LibASL-OPT has the best one
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit)]
    window: Vec<Ns>,
    /// Numbers of threads [default: one per CPU; bench 4: 1 and upwards; bench 6: two per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// How many locks the epochs take: section i takes lock i modulo their number [default: 2, or 1 with fewer than 4 big CPUs]
    #[arg(long, alias = "locks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    lock_count: Option<u32>,
    /// Lines that each critical section of an epoch increments [default: 8,12,20,24; bench 4: 64; bench 5: 2]
    #[arg(long, value_name = "LINES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sections: Vec<u32>,
    /// Steps computed inside for each line; a step is six instructions of one cycle [default: 0; with --little: 20,
    /// or 2 for bench 3]
    #[arg(long, value_name = "STEPS")]
    inside: Option<u64>,
    /// Steps computed between two epochs [default: 1600, bench 4: 33, or 0 with fewer than 4 big CPUs; bench 5:
    /// 0,10,100,1000,10000]
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    between: Vec<u64>,
    /// Shares of long epochs, percent, for bench 3 [default: 0,20,40,60,80,100]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = series::percent)]
    long: Vec<u32>,
    #[command(flatten)]
    options: Options,
}

/// `given`, or `standard` if that is empty.
fn or<T: Copy>(given: &[T], standard: &[T]) -> Vec<T> {
    if given.is_empty() { standard } else { given }.to_vec()
}

/// The benchmarks' names, from 1.
const NAMES: [&str; 6] =
    ["epochs", "epochs-variable", "epochs-mixed", "epochs-scalability", "epochs-contention", "epochs-oversub"];

impl EpochsArgs {
    /// The number of the benchmark.
    fn bench(&self) -> u8 {
        self.bench.unwrap_or(1)
    }

    fn threads(&self) -> Vec<usize> {
        let cpus = affinity::allowed().len();
        let given: Vec<usize> = self.threads.iter().map(|&n| n as usize).collect();
        let standard = match self.bench() {
            4 => (1..=cpus).collect(),
            6 => vec![2 * cpus],
            _ => vec![cpus.max(2)],
        };
        or(&given, &standard)
    }

    fn targets(&self) -> Vec<Ns> {
        let standard: &[Ns] = match self.bench() {
            2 | 3 => &[100_000],
            4 => &[0, 12_000],
            5 => &[],
            6 => &[500_000, 1_000_000, 5_000_000],
            _ => &[20_000, 50_000, 100_000, 200_000],
        };
        or(&self.slo, standard)
    }

    /// How `lock` is measured in a setting.
    fn held(&self, lock: &str, config: &Config) -> Vec<Held> {
        let mut held = vec![Held::Free];
        let is_set = config.slo.is_some() || config.window.is_some();
        if is_reorderable(lock) && !is_set {
            held.extend(self.targets().into_iter().map(Held::Slo));
            held.extend(self.window.iter().copied().map(Held::Window));
        }
        held
    }

    /// Every setting but locks and targets.
    fn configs(&self, seats: &[Seat]) -> Vec<Config> {
        let crowded = seats.iter().filter(|seat| seat.pace == 1.0).count() >= 4;
        let mut configs = Vec::new();
        for threads in self.threads() {
            let paper = match self.bench() {
                2 => Config::variable(threads),
                3 => Config::mixed(threads, 0),
                4 => Config::scalability(threads),
                5 => Config::contention(threads, 0),
                _ => Config::contended(threads),
            };
            let pauses = match self.bench() {
                5 => or(&self.between, &[0, 10, 100, 1000, 10_000]),
                _ => or(&self.between, &[if crowded { paper.between } else { 0 }]),
            };
            let shares = match self.bench() {
                3 => or(&self.long, &[0, 20, 40, 60, 80, 100]),
                _ => vec![paper.long],
            };
            let sections: Vec<usize> = self.sections.iter().map(|&n| n as usize).collect();
            let config = Config {
                locks: self.lock_count.map_or(if crowded { paper.locks } else { 1 }, |n| n as usize),
                sections: or(&sections, &paper.sections),
                inside: self.inside.unwrap_or(match (&self.options.little, self.bench()) {
                    (None, _) => paper.inside,
                    // Long epochs then take about as long as their target where all are long, as in the paper.
                    (Some(_), 3) => 2,
                    (Some(_), _) => 20,
                }),
                timing: self.options.timing(paper.timing),
                slo: None,
                ..paper
            };
            for between in pauses {
                configs.extend(shares.iter().map(|&long| Config { between, long, ..config.clone() }));
            }
        }
        configs
    }
}

/// Variable that sets the reorder window of code outside epochs.
const WINDOW: &str = "LOCKSWAP_ASL_MAX_WINDOW";

/// What little CPUs are held to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    /// What the setting says: the longest window if nothing is said, or a lock that knows no windows.
    Free,
    /// A target of so many ns.
    Slo(Ns),
    /// A window of so many ns.
    Window(Ns),
}

impl Held {
    fn of(self, config: &Config) -> Config {
        match self {
            Held::Free => config.clone(),
            Held::Slo(slo) => Config { slo: Some(slo), ..config.clone() },
            Held::Window(window) => Config { window: Some(window), ..config.clone() },
        }
    }
}

fn is_reorderable(lock: &str) -> bool {
    registry::find(Role::Mutex, lock).is_some_and(|entry| entry.info.family == Family::Asymmetric)
}

/// Runs the benchmark number `bench` of `lockswap bench epochs`, or the one that the arguments name.
pub fn run(mut args: EpochsArgs, bench: u8, common: &Common) -> anyhow::Result<ExitCode> {
    if bench != 1 && args.bench.is_some_and(|given| given != bench) {
        let name = NAMES[usize::from(bench) - 1];
        return Err(misuse(format!("{name} is bench {bench}"), "leave --bench out"));
    }
    let bench = args.bench.unwrap_or(bench);
    args.bench = Some(bench);
    if !args.long.is_empty() && bench != 3 {
        return Err(misuse("--long is for short and long epochs", "write epochs-mixed --long PERCENT"));
    }
    let (baselines, standard): (&[&str], &[&str]) = match bench {
        6 => (&["pthread", "mcs_stp"], &["asl-blocking"]),
        _ => (&["mcs_spin"], &["asl"]),
    };
    let locks = series::locks(common, Role::Mutex, baselines, standard)?;
    let seats = args.options.seats(true)?;
    let settings = args.options.settle(args.configs(&seats).into_iter().map(Workload::Epochs))?;
    let mut points = Vec::new();
    for setting in &settings {
        let Workload::Epochs(setting) = setting else { continue };
        for lock in &locks {
            for held in args.held(lock, setting) {
                let config = held.of(setting);
                let window = config.window.map(|window| (WINDOW.into(), Some(format!("{window}ns").into())));
                let (workload, variables) = (Workload::Epochs(config), window.into_iter().collect());
                points.push(Point { lock: lock.clone(), role: Role::Mutex, workload, variables });
            }
        }
    }
    let per_setting = points.len() / settings.len().max(1);
    let series = Series::run(NAMES[usize::from(bench) - 1], points, seats.clone(), &args.options, common)?;
    series.finish(&render(&series, per_setting, &seats))
}

fn config(measured: &Measured) -> Option<&Config> {
    match &measured.point.workload {
        Workload::Epochs(config) => Some(config),
        _ => None,
    }
}

/// What tells a setting from the others, in words.
fn setting(config: &Config) -> String {
    match config.length {
        Length::Mixed => format!("{} threads, {} % long", config.threads, config.long),
        _ => format!("{} threads, {} steps between", config.threads, config.between),
    }
}

/// A table for each setting, which has `per_setting` measurements; the first is the baseline.
fn render(series: &Series, per_setting: usize, seats: &[Seat]) -> String {
    let mut text: String = series.measured.chunks(per_setting.max(1)).map(table).collect();
    let rounds = series.measured.iter().map(|measured| measured.rounds.len()).max().unwrap_or_default();
    text += &format!(
        "Medians of {rounds} rounds. ratio: of the throughputs in the same round, ± half the distance between the quartiles:\n\
         above 1 is faster. SLO: = is a fixed window. big, little: latency of epochs on CPUs of that kind. P99/SLO: on little CPUs.\n"
    );
    if seats.iter().all(|seat| seat.pace == 1.0) {
        text += "note: no CPU is declared slower; --little CPUS:FACTOR does that where all are alike\n";
    }
    text
}

/// One setting.
fn table(rows: &[Measured]) -> String {
    let Some((base, config)) = rows.first().and_then(|base| Some((base, config(base)?))) else { return String::new() };
    let phases = matches!(config.length, Length::Phases);
    let headings = [
        "lock",
        "SLO",
        "throughput",
        "ratio",
        "big P50",
        "big P99",
        "little P50",
        "little P99",
        "little P99.9",
        "P99/SLO",
    ];
    let mut table = terminal::table(&headings, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for own in rows {
        let Some(median) = own.median() else { continue };
        let ratio = Series::ratio(own, base, |report| report.throughput);
        let mut cells = vec![own.point.lock.clone(), target(own), rate(median.throughput)];
        cells.push(ratio.map(|ratio| ratio.to_string()).unwrap_or_default());
        cells.extend(latencies(&median, "", slo(own)));
        table.add_row(cells);
        if phases {
            for class in ["1x", "128x", "1x-again", "random", "1024x"] {
                let mut cells = vec![format!("  {class}"), String::new(), String::new(), String::new()];
                cells.extend(latencies(&median, class, slo(own)));
                table.add_row(cells);
            }
        }
    }
    let locks = if config.locks == 1 { "lock" } else { "locks" };
    let sections: Vec<String> = config.sections.iter().map(ToString::to_string).collect();
    format!(
        "{}; {} {locks}, sections of {} lines, {} steps per line\n{}\n",
        setting(config),
        config.locks,
        sections.join(", "),
        config.inside,
        terminal::lines(&table)
    )
}

fn slo(measured: &Measured) -> Option<Ns> {
    config(measured)?.slo
}

/// The target in words.
fn target(measured: &Measured) -> String {
    match (slo(measured), config(measured).and_then(|config| config.window)) {
        (Some(slo), _) => ns(slo as f64),
        (None, Some(window)) => format!("= {}", ns(window as f64)),
        (None, None) if is_reorderable(&measured.point.lock) => "max".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// The cells from big P50 to P99/SLO.
fn latencies(report: &Report, class: &str, slo: Option<Ns>) -> [String; 6] {
    let of = |kind: &str| -> Option<&Distribution> {
        let key = if class.is_empty() { kind.to_owned() } else { format!("{class}-{kind}") };
        report.latency.get(&key).filter(|times| times.count > 0)
    };
    // Where all CPUs are alike, they are big.
    let all = if class.is_empty() { "all" } else { class };
    let big = of("big").or_else(|| report.latency.get(all).filter(|times| times.count > 0));
    let little = of("little");
    let show = |times: Option<&Distribution>, pick: fn(&Distribution) -> Ns| {
        times.map_or("-".to_owned(), |times| ns(pick(times) as f64))
    };
    let share = little.zip(slo).filter(|(_, slo)| *slo > 0);
    [
        show(big, |times| times.p50_ns),
        show(big, |times| times.p99_ns),
        show(little, |times| times.p50_ns),
        show(little, |times| times.p99_ns),
        show(little, |times| times.p999_ns),
        share.map_or("-".to_owned(), |(times, slo)| format!("{:.2}", times.p99_ns as f64 / slo as f64)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_workloads::little::Little;

    fn args(bench: u8, little: &str) -> EpochsArgs {
        let options = Options { little: little.parse::<Little>().ok(), ..Options::default() };
        let [threads, sections, long] = [vec![3], Vec::new(), Vec::new()];
        let bench = Some(bench);
        let (slo, window, between) = (vec![7], vec![9], Vec::new());
        EpochsArgs { bench, slo, window, threads, lock_count: None, sections, inside: None, between, long, options }
    }

    #[test]
    fn locks_with_windows_are_held_to_each_target_and_window() {
        let (args, config) = (args(1, ""), Config::contended(2));
        assert_eq!(args.held("asl", &config), [Held::Free, Held::Slo(7), Held::Window(9)]);
        assert_eq!(args.held("mcs_spin", &config), [Held::Free]);
        let set = Held::Slo(8).of(&config);
        assert_eq!(args.held("asl", &set), [Held::Free], "--set slo=8ns says it already");
    }

    #[test]
    fn few_big_cpus_have_one_lock_and_no_pause() {
        let seats = |big: usize| -> Vec<Seat> {
            (0..8).map(|cpu| Seat { cpu, pace: if cpu < big { 1.0 } else { 3.0 } }).collect()
        };
        let of = |bench, big| args(bench, "7:3").configs(&seats(big));
        let paper = &of(1, 4)[0];
        assert_eq!((paper.locks, paper.between, paper.inside, paper.threads), (2, 1600, 20, 3));
        assert_eq!((of(1, 3)[0].locks, of(1, 3)[0].between), (1, 0));
        assert_eq!(args(1, "").configs(&seats(8))[0].inside, 0);
        assert_eq!(of(3, 4).len(), 6);
        assert_eq!(of(5, 4).iter().map(|config| config.between).collect::<Vec<_>>(), [0, 10, 100, 1000, 10_000]);
        assert_eq!(of(5, 4)[0].sections, [2]);
        assert_eq!((of(4, 4)[0].sections.as_slice(), of(4, 4)[0].between, of(4, 4)[0].locks), (&[64][..], 33, 1));
    }

    #[test]
    fn the_table_relates_the_little_p99_to_the_target() {
        let args = args(1, "1:3");
        let config = args.configs(&[]).remove(0);
        let point = |lock: &str, held: Held| {
            let workload = Workload::Epochs(held.of(&config));
            Point { lock: lock.into(), role: Role::Mutex, workload, variables: Vec::new() }
        };
        let report = |throughput, p99_ns| {
            let times = Distribution { count: 1, p99_ns, ..Distribution::default() };
            let latency = ["big", "little"].map(|kind| (kind.to_owned(), times.clone()));
            Report { throughput, latency: latency.into(), ..Report::default() }
        };
        let series = Series::of(vec![
            Measured::of(point("mcs_spin", Held::Free), vec![report(1e5, 12_000)]),
            Measured::of(point("asl", Held::Slo(50_000)), vec![report(2e5, 45_000)]),
            Measured::of(point("asl", Held::Window(30_000)), vec![report(3e5, 45_000)]),
        ]);
        let text = render(&series, 3, &[]);
        for shown in ["2.00 ±0.00", "0.90", "= 30.0 us", "45.0 us", "3 threads"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
