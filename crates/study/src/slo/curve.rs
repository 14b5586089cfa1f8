//! What was measured, and what it says.

use std::collections::BTreeMap;

use lockswap_platform::Ns;
use serde::Serialize;

use crate::descriptive::median;
use crate::latencies::Figures;
use crate::machine::Machine;
use crate::model::{Sample, BASELINE};
use crate::numbers::time_in_words;
use crate::stats::Difference;

/// Version of the JSON shape; it grows when a key changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// A target counts as met if the 99th percentile on little cores is at most so much of it: one in ten above is noise.
const MET: f64 = 1.1;
/// The share of the best gain that the knee has.
const KNEE: f64 = 0.9;
/// The least gain worth a knee, as a factor on the throughput of the lock below.
const WORTH: f64 = 1.05;

/// An epoch over a range of targets. Serialised with serde it is the JSON of `lockswap slo --export FILE.json`.
#[derive(Serialize)]
pub struct Curve {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of lockswap that measured.
    pub tool_version: String,
    /// When the first run began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// Where it was measured.
    pub machine: Machine,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The epoch's id.
    pub epoch: i32,
    /// Id of the lock.
    pub lock: String,
    /// Id of the lock below it, or of the same one if there is none.
    pub fifo: String,
    /// The expression that finds the throughput in the output; epochs per second if there is none.
    pub metric: Option<String>,
    /// Runs asked for with each target.
    pub runs: u32,
    /// Whether all of them were made.
    pub complete: bool,
    /// The references first, then the targets from the lowest on.
    pub points: Vec<Point>,
    /// The target at the knee, ns.
    pub knee_slo_ns: Option<Ns>,
}

/// One setting of the program, with the medians of its good runs.
#[derive(Clone, Serialize)]
pub struct Point {
    /// What it is.
    pub role: Role,
    /// The target, ns, where there is one.
    pub slo_ns: Option<Ns>,
    /// Runs that ended as the plain program does and gave a throughput.
    pub good_runs: usize,
    /// Throughput: the metric, or epochs per second.
    pub throughput: Option<f64>,
    /// How many times the throughput of the lock below, estimated from the rounds in which both had a good run (Hodges
    /// and Lehmann, as in `lockswap compare`).
    pub ratio: Option<f64>,
    /// The lower end of the ratio's 95 % confidence interval, where there are rounds enough for one.
    pub ratio_low: Option<f64>,
    /// Its upper end.
    pub ratio_high: Option<f64>,
    /// The epoch on big cores, if it ran there.
    pub big: Option<Medians>,
    /// The epoch on little cores, if it ran there.
    pub little: Option<Medians>,
    /// What went wrong with other runs, if anything.
    pub problems: Vec<String>,
    /// All runs.
    pub runs: Vec<Run>,
}

/// What a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Without the preload library.
    Pthread,
    /// The lock below LibASL, or a lock that has none below, with nobody standing back.
    Fifo,
    /// LibASL without a target: the longest window.
    NoTarget,
    /// LibASL with a target.
    Target,
}

/// Medians over runs.
#[derive(Clone, Debug, Serialize)]
pub struct Medians {
    /// How often the epoch ran.
    pub count: f64,
    /// Share of its runs that took longer than the target.
    pub missed: f64,
    /// Half took no longer, ns.
    pub p50_ns: f64,
    /// 99% took no longer, ns.
    pub p99_ns: f64,
    /// 99.9% took no longer, ns.
    pub p999_ns: f64,
}

/// One run of the program.
#[derive(Clone, Serialize)]
pub struct Run {
    /// Time, metric and end of the run.
    #[serde(flatten)]
    pub sample: Sample,
    /// Runs of the epoch per second, from the first start to the last end.
    pub epochs_per_s: Option<f64>,
    /// The epoch's latencies on each kind of core.
    pub latencies: Vec<Figures>,
    /// Why the run does not count, if it does not.
    pub problem: Option<String>,
}

impl Run {
    /// Its throughput: the metric, or epochs per second.
    pub fn throughput(&self, uses_metric: bool) -> Option<f64> {
        if uses_metric {
            self.sample.metrics.first().copied().flatten()
        } else {
            self.epochs_per_s
        }
    }
}

impl Point {
    /// A point without runs.
    pub fn new(role: Role, slo_ns: Option<Ns>) -> Self {
        let (big, little, problems, runs) = (None, None, Vec::new(), Vec::new());
        let (throughput, ratio, ratio_low, ratio_high) = (None, None, None, None);
        Point { role, slo_ns, good_runs: 0, throughput, ratio, ratio_low, ratio_high, big, little, problems, runs }
    }

    /// The runs that count.
    pub fn good(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.problem.is_none())
    }

    /// Computes the medians from the runs.
    fn summarise(&mut self, uses_metric: bool) {
        let good: Vec<&Run> = self.runs.iter().filter(|run| run.problem.is_none()).collect();
        let throughputs: Vec<f64> = good.iter().filter_map(|run| run.throughput(uses_metric)).collect();
        let of_kind = |kind: &str| {
            let figures: Vec<&Figures> =
                good.iter().flat_map(|run| &run.latencies).filter(|f| f.kind == kind).collect();
            let median_of = |value: fn(&Figures) -> f64| median(&figures.iter().map(|f| value(f)).collect::<Vec<_>>());
            Some(Medians {
                count: median_of(|f| f.count as f64)?,
                missed: median_of(|f| f.missed as f64 / f.count.max(1) as f64)?,
                p50_ns: median_of(|f| f.p50_ns)?,
                p99_ns: median_of(|f| f.p99_ns)?,
                p999_ns: median_of(|f| f.p999_ns)?,
            })
        };
        (self.big, self.little) = (of_kind("big"), of_kind("little"));
        self.good_runs = good.len();
        self.throughput = median(&throughputs);
        let mut problems: Vec<String> = self.runs.iter().filter_map(|run| run.problem.clone()).collect();
        problems.dedup();
        self.problems = problems;
    }

    /// Computes the ratio to the runs of the lock below, given by round.
    fn compare(&mut self, fifo: &BTreeMap<u32, f64>, uses_metric: bool) {
        let own = throughputs(self, uses_metric);
        let both: Vec<_> = own.iter().filter_map(|(round, own)| Some((*own, *fifo.get(round)?))).collect();
        let found = Difference::of(&both);
        let interval = found.and_then(|difference| difference.ratio_interval());
        self.ratio = found.and_then(|difference| difference.ratio());
        (self.ratio_low, self.ratio_high) = (interval.map(|ends| ends.0), interval.map(|ends| ends.1));
    }

    /// Whether little cores keep the target; `None` where there is no target, or no little core.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.little.as_ref()?.p99_ns <= MET * self.slo_ns? as f64)
    }
}

/// The throughput of each round with a good run.
fn throughputs(point: &Point, uses_metric: bool) -> BTreeMap<u32, f64> {
    point.good().filter_map(|run| Some((run.sample.round, run.throughput(uses_metric)?))).collect()
}

impl Curve {
    /// Whether those who do not stand back get another lock, as with LibASL.
    pub fn has_lock_below(&self) -> bool {
        self.fifo != self.lock
    }

    /// How a point is called in tables.
    pub fn name_of(&self, point: &Point) -> String {
        match (point.role, point.slo_ns) {
            (Role::Pthread, _) => BASELINE.into(),
            (Role::Fifo, _) => self.fifo.clone(),
            (Role::NoTarget, _) => "no target".into(),
            (Role::Target, slo) => time_in_words(slo.unwrap_or_default() as f64),
        }
    }

    /// Computes medians, ratios and knee from the runs.
    pub fn summarise(&mut self) {
        let uses_metric = self.metric.is_some();
        self.points.iter_mut().for_each(|point| point.summarise(uses_metric));
        let fifo = self.reference(Role::Fifo).map(|fifo| throughputs(fifo, uses_metric)).unwrap_or_default();
        for point in self.points.iter_mut().filter(|point| point.role != Role::Fifo) {
            point.compare(&fifo, uses_metric);
        }
        self.knee_slo_ns = self.knee().and_then(|point| point.slo_ns);
    }

    /// The reference of this role.
    pub fn reference(&self, role: Role) -> Option<&Point> {
        self.points.iter().find(|point| point.role == role)
    }

    /// The targets that have a throughput, with it.
    pub fn measured(&self) -> impl Iterator<Item = (&Point, Ns, f64)> {
        let targets = self.points.iter().filter(|point| point.role == Role::Target);
        targets.filter_map(|point| Some((point, point.slo_ns?, point.throughput?)))
    }

    /// The lowest target that is met and has [`KNEE`] of the best gain, if any gains enough.
    pub fn knee(&self) -> Option<&Point> {
        let fifo = self.reference(Role::Fifo)?.throughput?;
        let best = self.measured().map(|(.., throughput)| throughput).fold(fifo, f64::max);
        let enough = fifo + KNEE * (best - fifo);
        let is_knee = |point: &Point, throughput| throughput >= enough && point.is_met() == Some(true);
        let found = self.measured().find(|(point, _, throughput)| is_knee(point, *throughput));
        found.map(|(point, ..)| point).filter(|_| best >= WORTH * fifo)
    }

    /// The end of the range at which the knee lies, if it does: the real one may be outside.
    pub fn edge(&self) -> Option<Edge> {
        let knee = self.knee()?.slo_ns;
        let mut targets = self.measured().map(|(_, slo, _)| Some(slo));
        let (first, last) = (targets.next()?, targets.last());
        match () {
            () if last == Some(knee) => Some(Edge::Highest),
            () if first == knee => Some(Edge::Lowest),
            () => None,
        }
    }
}

/// An end of the range of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The lowest target.
    Lowest,
    /// The highest target.
    Highest,
}

/// `steps` targets from `from` to `to`, each the same factor above the one before, with three digits; equal ones once.
pub fn targets(from: Ns, to: Ns, steps: u32) -> Vec<Ns> {
    let factor = to as f64 / from as f64;
    let between = (1..steps - 1).map(|step| {
        let exact = from as f64 * factor.powf(f64::from(step) / f64::from(steps - 1));
        let unit = 10f64.powf((exact.log10().floor() - 2.0).max(0.0));
        ((exact / unit).round() * unit) as Ns
    });
    let mut all: Vec<Ns> = std::iter::once(from).chain(between).chain([to]).map(|ns| ns.clamp(from, to)).collect();
    all.dedup();
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Exit, Phase, Usage};

    /// A run with this throughput and these 99th percentiles on big and little cores.
    pub fn run(throughput: f64, big: f64, little: f64) -> Run {
        let figures = |kind, p99_ns| Figures {
            id: 5,
            kind,
            count: 1000,
            missed: 10,
            slo_ns: 1,
            p50_ns: p99_ns / 2.0,
            p99_ns,
            p999_ns: p99_ns * 2.0,
            max_ns: 1,
        };
        let (exit, stderr_tail) = (Exit::Code { code: 0 }, None);
        Run {
            sample: Sample {
                round: 0,
                phase: Phase::Measured,
                wall_s: 1.0,
                usage: Usage::default(),
                metrics: Vec::new(),
                exit,
                failure: None,
                stdout_tail: None,
                stderr_tail,
            },
            epochs_per_s: Some(throughput),
            latencies: vec![figures("big", big), figures("little", little)],
            problem: None,
        }
    }

    /// A curve of targets with the throughputs and the percentiles on little cores.
    pub fn curve(fifo: f64, targets: &[(Ns, f64, f64)]) -> Curve {
        let point = |role, slo_ns, runs| Point { runs, ..Point::new(role, slo_ns) };
        let mut points = vec![point(Role::Fifo, None, vec![run(fifo, 5_000.0, 5_000.0)])];
        points.push(point(Role::NoTarget, None, vec![run(2.0 * fifo, 3_000.0, 9e6)]));
        let target = |(slo, throughput, p99): &(Ns, f64, f64)| {
            point(Role::Target, Some(*slo), vec![run(*throughput, 3e3, *p99)])
        };
        points.extend(targets.iter().map(target));
        let mut curve = Curve {
            schema: SCHEMA,
            tool_version: "0".into(),
            started_unix_s: 0,
            machine: Machine::default(),
            command: vec!["./program".into()],
            epoch: 5,
            lock: "asl".into(),
            fifo: "mcs_spin".into(),
            metric: None,
            runs: 1,
            complete: true,
            points,
            knee_slo_ns: None,
        };
        curve.summarise();
        curve
    }

    #[test]
    fn a_knee_at_the_end_of_the_range_is_known_as_such() {
        let edge = |targets: &[(Ns, f64, f64)]| curve(100.0, targets).edge();
        let (low, middle, high) = ((10, 150.0, 9.0), (20, 198.0, 19.0), (40, 200.0, 39.0));
        assert_eq!(edge(&[low, middle, high]), None);
        assert_eq!(edge(&[low, middle]), Some(Edge::Highest));
        assert_eq!(edge(&[middle, high]), Some(Edge::Lowest));
        assert_eq!(edge(&[]), None);
    }

    #[test]
    fn targets_rise_by_one_factor_and_are_round() {
        assert_eq!(targets(10_000, 1_000_000, 3), [10_000, 100_000, 1_000_000]);
        let twelve = targets(10_000, 1_000_000, 12);
        assert_eq!(twelve.len(), 12);
        assert_eq!(twelve[..3], [10_000, 15_200, 23_100]);
        assert_eq!(targets(5, 5, 12), [5]);
        assert!(targets(1, 3, 12).is_sorted());
    }

    #[test]
    fn the_knee_is_the_lowest_target_with_most_of_the_gain() {
        let rising = [(10_000, 100.0, 14_000.0), (20_000, 150.0, 19e3), (40_000, 195.0, 41e3), (80_000, 200.0, 80e3)];
        assert_eq!(curve(100.0, &rising).knee_slo_ns, Some(40_000));
        assert_eq!(curve(196.0, &rising).knee_slo_ns, None, "2% are nothing");
        let missed = [(10_000, 200.0, 14_000.0), (20_000, 200.0, 19_000.0)];
        assert_eq!(curve(100.0, &missed).knee_slo_ns, Some(20_000), "a target that is not met is no target");
        assert_eq!(curve(100.0, &[]).knee_slo_ns, None);
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let mut curve = curve(100.0, &[(10_000, 150.0, 9_000.0)]);
        // The machine slows down from round to round, the lock below and the target alike.
        for (index, factor) in [(0, 1.0), (2, 1.5)] {
            let round = |round: u32| {
                let mut run = run(100.0 * factor / f64::from(round + 1), 1.0, 1.0);
                run.sample.round = round;
                run
            };
            curve.points[index].runs = (0..6).map(round).collect();
        }
        curve.summarise();
        let ends = |point: &Point| (point.ratio, point.ratio_low.zip(point.ratio_high));
        assert_eq!(ends(&curve.points[0]), (None, None));
        let (ratio, interval) = ends(&curve.points[2]);
        assert!((ratio.unwrap() - 1.5).abs() < 1e-9);
        assert!(interval.is_some_and(|(low, high)| (low - 1.5).abs() < 1e-9 && (high - 1.5).abs() < 1e-9));
        curve.points[2].runs.truncate(5);
        curve.summarise();
        assert_eq!(ends(&curve.points[2]).1, None, "five rounds give no interval");
    }

    #[test]
    fn bad_runs_do_not_count() {
        let mut curve = curve(100.0, &[(10_000, 150.0, 9_000.0)]);
        let bad = Run { problem: Some("crashed: SIGSEGV".into()), ..run(1e9, 1.0, 1.0) };
        curve.points[2].runs.extend([bad.clone(), bad]);
        curve.summarise();
        let point = &curve.points[2];
        assert_eq!((point.good_runs, point.throughput), (1, Some(150.0)));
        assert_eq!(point.problems, ["crashed: SIGSEGV"]);
        assert_eq!(point.little.as_ref().unwrap().missed, 0.01);
    }
}
