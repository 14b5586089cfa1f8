//! Epochs of critical sections with a latency target (Liu, Gu, Tang, Li, Zang, Chen: LibASL, PPoPP 2022, section 4.1):
//! an epoch takes 4 critical sections of different lengths under 2 locks and increments 64 lines of memory in all; a
//! thread computes between two epochs.
//!
//! [`Config`] has the paper's six benchmarks as presets. Deviation: the paper's threads execute `nop` instructions
//! between epochs; here they compute ([`Platform::compute`]), one step for 48 instructions, since the paper's machine
//! decodes 8 in a cycle and a step takes 6 cycles. The paper does not tell the lengths of the 4 sections, nor which
//! lock each takes; here two take turns, and one of them has 40 of the 64 lines (`docs/simulator.md`, "Where it
//! disagrees"). In bench 2 longer epochs touch the same lines more often, where the paper's touch more lines: epochs
//! of 128 times the length take longer than the target as it is, and lines that come from another core each would take
//! longer still. In bench 3 `long` is the percentage of long epochs, because the paper's text says both that and the
//! opposite.

use crate::crew::{gather, Crew, Member, Phase, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::random::Random;
use crate::record::{Baton, Detail, Record};
use crate::report::{About, Report};
use crate::section::now;
use crate::{section, Mutex};
use lockswap_platform::{Ns, Platform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an epoch is told to the lock.
pub trait Annotate: Sync {
    /// Runs `body` as an epoch `id` of the calling thread, whose target is `slo` ns.
    fn epoch<R>(&self, id: i32, slo: Ns, body: impl FnOnce() -> R) -> R;
}

/// The epoch's number in the annotations.
pub const EPOCH: i32 = 1;

/// `nop` instructions that take as long as a step.
const NOPS: u64 = 48;

/// Steps for the paper's 600 * 2^7 `nop` instructions.
const BETWEEN: u64 = 600 * 128 / NOPS;

/// How long epochs are: the factor is on the lines that they touch, and on the steps that they compute inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Length {
    /// All alike.
    Constant,
    /// Changes five times in a run: as usual for 100 of 350 parts of it, then 128 times, usual for 50, each by chance
    /// 1 to 128 times for 50, 1024 times for the last 50 (bench 2).
    Phases,
    /// Some of the epochs, by chance, take more steps: `long` and `factor` of [`Config`] (bench 3).
    Mixed,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EpochsConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Locks; section i takes lock i modulo their number.
    pub locks: usize,
    /// The critical sections of an epoch: how many lines each touches, which are its own.
    pub sections: Vec<usize>,
    /// Steps that the holder computes for each line.
    pub inside: u64,
    /// Steps that a thread computes between two epochs.
    pub between: u64,
    /// How the lengths vary.
    pub length: Length,
    /// Percentage of long epochs, where lengths are mixed.
    pub long: u32,
    /// How many times the steps of a short epoch a long one takes.
    pub factor: u64,
    /// The target, ns; without one, epochs are not annotated, and a reorderable lock uses its largest window.
    pub slo: Option<Ns>,
    /// The largest reorder window, ns; without one, the lock's own. Without a target it is the window of all, as in
    /// the paper's LibASL-OPT.
    pub window: Option<Ns>,
    /// What is noted about each critical section.
    pub detail: Detail,
}

impl Config {
    /// Bench 1: heavy contention.
    pub fn contended(threads: usize) -> Self {
        Self {
            threads,
            timing: Timing::lasting(500_000_000),
            locks: 2,
            sections: vec![4, 10, 20, 30],
            inside: 0,
            between: BETWEEN,
            length: Length::Constant,
            long: 0,
            factor: 100,
            slo: None,
            window: None,
            detail: Detail::Counts,
        }
    }

    /// Bench 2: lengths that change in the run.
    pub fn variable(threads: usize) -> Self {
        let timing = Timing { warm_up: 0, duration: 350_000_000 };
        Self { timing, length: Length::Phases, slo: Some(100_000), ..Self::contended(threads) }
    }

    /// Bench 3: short and long epochs, the long ones 100 times.
    pub fn mixed(threads: usize, long: u32) -> Self {
        Self { length: Length::Mixed, long, inside: 1, slo: Some(100_000), ..Self::contended(threads) }
    }

    /// Bench 4, which is set up as the paper's figure 4: one lock, one section of 64 lines, 1600 `nop` instructions
    /// between.
    pub fn scalability(threads: usize) -> Self {
        Self { locks: 1, sections: vec![64], between: 1600 / NOPS, ..Self::contended(threads) }
    }

    /// Bench 5: one lock, one section of 2 lines, `between` steps of pause, no targets.
    pub fn contention(threads: usize, between: u64) -> Self {
        Self { locks: 1, sections: vec![2], between, ..Self::contended(threads) }
    }

    fn classes(&self) -> &'static [&'static str] {
        match self.length {
            Length::Constant => &[""],
            Length::Phases => &["", "1x", "128x", "1x-again", "random", "1024x"],
            Length::Mixed => &["", "short", "long"],
        }
    }
}

/// The phase of bench 2 after `part` of the run: its number from 1, and where lengths vary by chance nothing, else the
/// factor.
fn phase(part: f64) -> (usize, Option<u64>) {
    match part * 350.0 {
        at if at < 100.0 => (1, Some(1)),
        at if at < 200.0 => (2, Some(128)),
        at if at < 250.0 => (3, Some(1)),
        at if at < 300.0 => (4, None),
        _ => (5, Some(1024)),
    }
}

/// One epoch's length.
struct Extent {
    /// Factor on the lines.
    lines: u64,
    /// Factor on the steps.
    steps: u64,
    /// The class that its time belongs to; 0: none.
    class: usize,
}

impl Extent {
    fn draw(config: &Config, random: &mut Random, part: impl FnOnce() -> f64) -> Self {
        match config.length {
            Length::Constant => Extent { lines: 1, steps: 1, class: 0 },
            Length::Phases => {
                let (class, factor) = phase(part());
                let factor = factor.unwrap_or_else(|| 1 + u64::from(random.below(128)));
                Extent { lines: factor, steps: factor, class }
            }
            Length::Mixed => {
                let long = random.below(100) < config.long;
                let steps = if long { config.factor } else { 1 };
                Extent { lines: 1, steps, class: if long { 2 } else { 1 } }
            }
        }
    }
}

/// What all threads of a run share.
struct Shared<'a, P: Platform, M> {
    crew: &'a dyn Crew,
    mutexes: &'a [M],
    batons: Vec<Baton>,
    sections: Vec<Box<[Line<P>]>>,
    config: &'a Config,
}

impl<P: Platform, M: Mutex> Shared<'_, P, M> {
    /// The critical sections of one epoch.
    #[inline]
    fn pass(&self, me: &mut [M::Thread], member: &Member<'_>, seen: Phase, extent: &Extent, record: &mut Record) {
        for (index, lines) in self.sections.iter().enumerate() {
            let lock = index % self.mutexes.len();
            let count = lines.len() as u64;
            let touches = member.paced(count * extent.lines);
            let steps = member.paced(count * self.config.inside * extent.steps);
            let mutex = (&self.mutexes[lock], &mut me[lock]);
            let noted = section::acquire::<P, M>(mutex, member, (self.config.detail, &self.batons[lock]), || {
                touch(lines, touches);
                P::compute(steps);
            });
            record.waited += noted.measured;
            if seen == Phase::Measure {
                noted.count(self.crew, record);
            }
            record.made += touches;
        }
    }
}

/// Runs the workload on `config.locks` mutexes. The times are those of whole epochs, waits included.
///
/// # Panics
/// If an increment was lost, which means that a lock did not exclude; if there are no threads, locks or sections.
pub fn run<P: Platform, M: Mutex>(config: &Config, crew: &dyn Crew, mutexes: &[M], annotate: &impl Annotate) -> Report {
    assert!(mutexes.len() == config.locks && config.locks > 0, "{} mutexes for {} locks", mutexes.len(), config.locks);
    assert!(config.sections.iter().all(|&lines| lines > 0), "a section without a line");
    let sections = config.sections.iter().map(|&count| lines::<P>(count)).collect();
    let batons = mutexes.iter().map(|_| Baton::default()).collect();
    let shared = Shared { crew, mutexes, batons, sections, config };
    let classes = config.classes();
    let began = now::<P>();
    let (records, elapsed) = gather(crew, config.threads, config.timing, |member| {
        let mut me: Vec<_> = mutexes.iter().map(Mutex::thread).collect();
        let mut random = member.random();
        let mut record = Record::new(member, classes.len());
        let between = member.paced(config.between);
        loop {
            let seen = member.signal.phase();
            if seen == Phase::Stop {
                return record;
            }
            let start = now::<P>();
            let part = || (start - began) as f64 / (config.timing.warm_up + config.timing.duration) as f64;
            let extent = Extent::draw(config, &mut random, part);
            let mut pass = || {
                shared.pass(&mut me, member, seen, &extent, &mut record);
                now::<P>() - start
            };
            let time = match config.slo {
                Some(slo) => annotate.epoch(EPOCH, slo, pass),
                None => pass(),
            };
            if seen == Phase::Measure {
                record.time(0, time);
                if extent.class != 0 {
                    record.time(extent.class, time);
                }
                record.ops += u64::from(member.signal.phase() == Phase::Measure);
            }
            P::compute(between);
        }
    });
    check(&records, shared.sections.iter().flatten());
    Report::new(&records, elapsed, About { timed: "epoch", classes, ..section::about(config.detail) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{Hardware, Seat};
    use crate::pthread::Mutex as PthreadMutex;
    use lockswap_platform::Native;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Counts annotations.
    #[derive(Default)]
    struct Counted(AtomicU64);
    impl Annotate for Counted {
        fn epoch<R>(&self, id: i32, slo: Ns, body: impl FnOnce() -> R) -> R {
            assert_eq!((id, slo), (EPOCH, 100_000));
            self.0.fetch_add(1, Relaxed);
            body()
        }
    }

    /// The report, and how many epochs were annotated.
    fn run_here(config: &Config, crew: &Hardware) -> (Report, u64) {
        let (mutexes, counted) = (PthreadMutex::array(config.locks), Counted::default());
        (run::<Native, PthreadMutex>(config, crew, &mutexes, &counted), counted.0.into_inner())
    }

    #[test]
    fn every_epoch_is_annotated_if_there_is_a_target() {
        let timing = Timing::lasting(50_000_000);
        let config = Config { timing, slo: Some(100_000), detail: Detail::Handoffs, ..Config::contended(2) };
        assert_eq!(config.sections.iter().sum::<usize>(), 64);
        let (report, annotated) = run_here(&config, &Hardware::default());
        assert!(annotated >= report.ops && report.ops > 10, "{annotated} {report:?}");
        assert!(report.latency["all"].count >= report.ops && report.handoffs.is_some() && report.waiters.is_some());
        let (_, annotated) = run_here(&Config { slo: None, ..config }, &Hardware::default());
        assert_eq!(annotated, 0);
    }

    #[test]
    fn a_slower_cpu_does_more_work_and_takes_longer() {
        let cpu = crate::affinity::allowed()[0];
        let config = Config {
            timing: Timing::lasting(100_000_000),
            inside: 2000,
            between: 0,
            sections: vec![1],
            locks: 1,
            ..Config::contended(1)
        };
        let at = |pace| run_here(&config, &Hardware { seats: vec![Seat { cpu, pace }], ..Hardware::default() }).0;
        let (fast, slow) = (at(1.0), at(3.0));
        let ratio = slow.latency["all"].p50_ns as f64 / fast.latency["all"].p50_ns as f64;
        assert!(ratio > 1.5, "{ratio}");
        assert_eq!((&*fast.per_thread[0].kind, &*slow.per_thread[0].kind), ("big", "little"));
    }

    #[test]
    fn the_phases_of_bench_2_are_those_of_the_paper() {
        let at = |ms: f64| phase(ms / 350.0);
        let found = [0.0, 99.0, 150.0, 240.0, 275.0, 301.0, 349.0].map(at);
        let expected =
            [(1, Some(1)), (1, Some(1)), (2, Some(128)), (3, Some(1)), (4, None), (5, Some(1024)), (5, Some(1024))];
        assert_eq!(found, expected);
        let (report, _) = run_here(&Config { between: 0, ..Config::variable(1) }, &Hardware::default());
        let median = |class: &str| report.latency[class].p50_ns as f64;
        // The two looks at the clock take a good part of the shortest epochs.
        let found = ["1x", "128x", "1x-again", "random", "1024x"].map(median);
        let [usual, long, again, random, longest] = found;
        assert!(long > 3.0 * usual && long > 3.0 * again && longest > long && random < long, "{found:?}");
    }

    #[test]
    fn long_epochs_are_as_many_as_wanted() {
        let config = Config { timing: Timing::lasting(50_000_000), inside: 20, between: 0, ..Config::mixed(1, 20) };
        let (report, _) = run_here(&Config { slo: None, ..config }, &Hardware::default());
        let (all, long) = (report.latency["all"].count as f64, report.latency["long"].count as f64);
        assert!((0.1..0.3).contains(&(long / all)), "{long} of {all}");
        assert!(report.latency["long"].p50_ns > 3 * report.latency["short"].p50_ns);
    }
}
