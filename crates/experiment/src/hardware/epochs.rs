//! The micro-benchmarks of the LibASL paper (PPoPP 2022, section 4.1).

pub mod page;

use super::job::Work;
use super::series::{Group, Point};
use super::workloads;
use lockswap_locks::info::Family;
use lockswap_locks::named;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_study::numbers::as_option;
use lockswap_workloads::affinity;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::epochs::Config;
use lockswap_workloads::hardware::Seat;
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;

/// A benchmark of the paper; its numbers there are 1 to 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The epochs as they are.
    #[default]
    Constant,
    /// Lengths that change in the run.
    Variable,
    /// Short epochs and long ones.
    Mixed,
    /// 1, 2, ... threads.
    Scalability,
    /// Pauses of several lengths.
    Contention,
    /// Two threads per CPU.
    Oversub,
}

impl Kind {
    /// All of them in the order of the paper.
    pub const ALL: [Kind; 6] =
        [Kind::Constant, Kind::Variable, Kind::Mixed, Kind::Scalability, Kind::Contention, Kind::Oversub];

    /// What it is called in `lockswap bench` and `lockswap sim`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Constant => "epochs",
            Kind::Variable => "epochs-variable",
            Kind::Mixed => "epochs-mixed",
            Kind::Scalability => "epochs-scalability",
            Kind::Contention => "epochs-contention",
            Kind::Oversub => "epochs-oversub",
        }
    }
}

/// What to measure; empty lists and `None` stand for what suits the benchmark.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The benchmark.
    pub kind: Kind,
    /// Latency targets.
    pub slo: Vec<Ns>,
    /// Fixed reorder windows, measured besides and without targets.
    pub window: Vec<Ns>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// How many locks the epochs take.
    pub locks: Option<usize>,
    /// Lines that each critical section of an epoch increments.
    pub sections: Vec<usize>,
    /// Steps computed inside for each line.
    pub inside: Option<u64>,
    /// Steps computed between two epochs.
    pub between: Vec<u64>,
    /// Shares of long epochs, percent, for [`Kind::Mixed`].
    pub long: Vec<u32>,
    /// Whether some CPUs are said to be little.
    pub has_little: bool,
    /// The measured time of a run.
    pub duration: Option<Ns>,
}

/// `given`, or `standard` if that is empty.
fn or<T: Copy>(given: &[T], standard: &[T]) -> Vec<T> {
    if given.is_empty() { standard } else { given }.to_vec()
}

impl Plan {
    /// The baselines, and the locks that are measured where none are named.
    pub fn locks(&self) -> (&'static [&'static str], &'static [&'static str]) {
        match self.kind {
            Kind::Oversub => (&["pthread", "mcs_stp"], &["asl-blocking"]),
            _ => (&["mcs_spin"], &["asl"]),
        }
    }

    fn threads(&self) -> Vec<usize> {
        let cpus = affinity::allowed().len();
        let standard = match self.kind {
            Kind::Scalability => (1..=cpus).collect(),
            Kind::Oversub => vec![2 * cpus],
            _ => vec![cpus.max(2)],
        };
        or(&self.threads, &standard)
    }

    fn targets(&self) -> Vec<Ns> {
        let standard: &[Ns] = match self.kind {
            Kind::Variable | Kind::Mixed => &[100_000],
            Kind::Scalability => &[0, 12_000],
            Kind::Contention => &[],
            Kind::Oversub => &[500_000, 1_000_000, 5_000_000],
            Kind::Constant => &[20_000, 50_000, 100_000, 200_000],
        };
        or(&self.slo, standard)
    }

    /// How `lock` is measured in a setting.
    fn held(&self, lock: &str, config: &Config) -> Vec<Held> {
        let mut held = vec![Held::Free];
        let is_set = config.slo.is_some() || config.window.is_some();
        if is_set {
            return held;
        }
        if named::read(Role::Mutex, lock).is_ok_and(|named| named.entry.info.asks.epoch) {
            held.extend(self.targets().into_iter().map(Held::Slo));
        }
        if is_reorderable(lock) {
            held.extend(self.window.iter().copied().map(Held::Window));
        }
        held
    }

    /// Every setting but locks and targets.
    pub fn configs(&self, seats: &[Seat]) -> Vec<Config> {
        let crowded = seats.iter().filter(|seat| seat.pace == 1.0).count() >= 4;
        let mut configs = Vec::new();
        for threads in self.threads() {
            let paper = match self.kind {
                Kind::Variable => Config::variable(threads),
                Kind::Mixed => Config::mixed(threads, 0),
                Kind::Scalability => Config::scalability(threads),
                Kind::Contention => Config::contention(threads, 0),
                Kind::Constant | Kind::Oversub => Config::contended(threads),
            };
            let pauses = match self.kind {
                Kind::Contention => or(&self.between, &[0, 10, 100, 1000, 10_000]),
                _ => or(&self.between, &[if crowded { paper.between } else { 0 }]),
            };
            let shares = match self.kind {
                Kind::Mixed => or(&self.long, &[0, 20, 40, 60, 80, 100]),
                _ => vec![paper.long],
            };
            let config = Config {
                locks: self.locks.unwrap_or(if crowded { paper.locks } else { 1 }),
                sections: or(&self.sections, &paper.sections),
                inside: self.inside.unwrap_or(match (self.has_little, self.kind) {
                    (false, _) => paper.inside,
                    // Long epochs then take about as long as their target where all are long, as in the paper.
                    (true, Kind::Mixed) => 2,
                    (true, _) => 20,
                }),
                timing: self.duration.map_or(paper.timing, Timing::lasting),
                slo: None,
                ..paper
            };
            for between in pauses {
                configs.extend(shares.iter().map(|&long| Config { between, long, ..config.clone() }));
            }
        }
        configs
    }

    /// A group for each of these settings: the locks, and those with windows once for each target and window.
    pub fn groups(&self, settings: &[Workload], locks: &[String]) -> Vec<Group<Report>> {
        let told_apart = workloads::settings(settings, &[]);
        let group = |(workload, setting): (&Workload, _)| {
            let Workload::Epochs(config) = workload else { return Group { setting, ..Group::of([]) } };
            let points = locks
                .iter()
                .flat_map(|lock| self.held(lock, config).into_iter().map(move |held| held.point(lock, config)));
            Group { setting, ..Group::of(points) }
        };
        settings.iter().zip(told_apart).map(group).collect()
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

    fn point(self, lock: &str, config: &Config) -> Point {
        let config = self.of(config);
        let window = config.window.map(|window| (WINDOW.into(), Some(format!("{window}ns").into())));
        let variant = match self {
            Held::Free => String::new(),
            Held::Slo(slo) => format!("slo={}", as_option(slo)),
            Held::Window(window) => format!("window={}", as_option(window)),
        };
        let work = Work::Workload(Workload::Epochs(config));
        Point { variant, variables: window.into_iter().collect(), ..Point::new(lock, Role::Mutex, work) }
    }
}

/// Whether a lock knows reorder windows outside epochs.
pub fn is_reorderable(lock: &str) -> bool {
    named::read(Role::Mutex, lock).is_ok_and(|named| named.entry.info.family == Family::Asymmetric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: Kind, has_little: bool) -> Plan {
        Plan { kind, slo: vec![7], window: vec![9], threads: vec![3], has_little, ..Plan::default() }
    }

    #[test]
    fn locks_with_windows_are_held_to_each_target_and_window() {
        let (plan, config) = (plan(Kind::Constant, false), Config::contended(2));
        assert_eq!(plan.held("asl", &config), [Held::Free, Held::Slo(7), Held::Window(9)]);
        assert_eq!(plan.held("auto", &config), [Held::Free, Held::Slo(7)], "no windows outside epochs");
        assert_eq!(plan.held("mcs_spin", &config), [Held::Free]);
        let set = Held::Slo(8).of(&config);
        assert_eq!(plan.held("asl", &set), [Held::Free], "--set slo=8ns says it already");
    }

    #[test]
    fn few_big_cpus_have_one_lock_and_no_pause() {
        let seats = |big: usize| -> Vec<Seat> {
            (0..8).map(|cpu| Seat { cpu, pace: if cpu < big { 1.0 } else { 3.0 } }).collect()
        };
        let of = |kind, big| plan(kind, true).configs(&seats(big));
        let paper = &of(Kind::Constant, 4)[0];
        assert_eq!((paper.locks, paper.between, paper.inside, paper.threads), (2, 1600, 20, 3));
        assert_eq!((of(Kind::Constant, 3)[0].locks, of(Kind::Constant, 3)[0].between), (1, 0));
        assert_eq!(plan(Kind::Constant, false).configs(&seats(8))[0].inside, 0);
        assert_eq!(of(Kind::Mixed, 4).len(), 6);
        assert_eq!(
            of(Kind::Contention, 4).iter().map(|config| config.between).collect::<Vec<_>>(),
            [0, 10, 100, 1000, 10_000]
        );
        assert_eq!(of(Kind::Contention, 4)[0].sections, [2]);
        assert_eq!(
            (
                of(Kind::Scalability, 4)[0].sections.as_slice(),
                of(Kind::Scalability, 4)[0].between,
                of(Kind::Scalability, 4)[0].locks
            ),
            (&[64][..], 33, 1)
        );
    }
}
