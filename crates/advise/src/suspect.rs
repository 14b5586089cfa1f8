//! Which locks of a traced program matter: those for which its threads wait a good part of their time.

use lockswap_study::numbers::{count, percent, time_in_words};
use lockswap_trace::report::{Identity, ObjectReport, Report, StackReport, Times};
use serde::Serialize;

/// A lock for which threads wait less than this share of their time is not worth an experiment: without any wait at
/// all the program would be faster by no more than that.
pub const LEAST_WEIGHT: f64 = 0.02;

/// So many locks get one of their own at most: each costs runs of the program, and few programs have more that
/// matter.
pub const MOST_SUSPECTS: usize = 3;

/// Stacks of holders that are kept.
const HOLDERS: usize = 3;

/// Frames of such a stack that are kept.
const FRAMES: usize = 4;

/// What a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A read-write lock.
    RwLock,
    /// A spinlock.
    Spinlock,
}

impl Kind {
    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::RwLock => "rwlock",
            Kind::Spinlock => "spinlock",
        }
    }

    fn of(used: &str) -> Option<Self> {
        match used {
            "mutex" => Some(Kind::Mutex),
            "rwlock, read" | "rwlock, write" => Some(Kind::RwLock),
            "spinlock" => Some(Kind::Spinlock),
            _ => None,
        }
    }
}

/// A lock, or several of one name, that threads wait for. Sums and shares are estimated from a sample, as in the
/// trace.
#[derive(Clone, Debug, Serialize)]
pub struct Suspect {
    /// Its name, as in the trace.
    pub name: String,
    /// The program or library in which it lies, if it is static.
    pub module: Option<String>,
    /// What it is known by.
    pub identity: Identity,
    /// What it is.
    pub kind: Kind,
    /// How many locks have this name.
    pub objects: u64,
    /// The share of the threads' time in which they waited for it; time in which they waited for conditions does not
    /// count.
    pub weight: f64,
    /// How long threads waited for it, all together, ns.
    pub waited_ns: f64,
    /// How often it was acquired.
    pub acquisitions: f64,
    /// The share of the acquisitions that were to read, for a read-write lock.
    pub read_share: Option<f64>,
    /// The share of the run in which it was held; of one of them, where there are several.
    pub held_share: f64,
    /// How long it was held: half of the holds were no longer, ns.
    pub hold_p50_ns: f64,
    /// The mean, ns.
    pub hold_mean_ns: f64,
    /// 99 % of the waits were no longer, ns.
    pub wait_p99_ns: f64,
    /// The longest wait that was noted, ns.
    pub wait_max_ns: u64,
    /// Mean time from a thread's release until the same thread wants it again, ns.
    pub think_ns: f64,
    /// The most threads that were seen using one of them.
    pub threads: u64,
    /// The most that waited at once, as far as samples show.
    pub longest_queue: u32,
    /// The share of the holds in which the holder gave up its CPU.
    pub holder_slept: f64,
    /// The code that let others wait longest, that first.
    pub holders: Vec<Holder>,
    /// The share of the waiting that was done by other functions than the first of these.
    pub waits_elsewhere: f64,
}

/// Code that held a lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holder {
    /// Its share of what others waited.
    pub share: f64,
    /// Its functions, the innermost first.
    pub frames: Vec<String>,
}

impl Suspect {
    /// Its name with what it lies in and how many there are.
    pub fn called(&self) -> String {
        let module = self.module.as_ref().map(|module| format!(" in {module}")).unwrap_or_default();
        match self.objects {
            1 => format!("{}{module}", self.name),
            many => format!("{}{module} ({many} of them)", self.name),
        }
    }

    /// What is known of it, in a line.
    pub fn words(&self) -> String {
        let reads = self.read_share.map(|share| format!(", {} of that to read", percent(share))).unwrap_or_default();
        format!(
            "{} threads waited for it {} of their time; acquired {} times{reads}, held {} (p50), {} of the run in all; \
             {} between two acquisitions of a thread; at most {} waited at once",
            self.threads,
            percent(self.weight),
            count(self.acquisitions),
            time_in_words(self.hold_p50_ns),
            percent(self.held_share),
            time_in_words(self.think_ns),
            self.longest_queue
        )
    }

    /// The function that let others wait longest, and its share of that.
    pub fn worst_place(&self) -> Option<(&str, f64)> {
        let worst = self.holders.first()?;
        Some((worst.frames.first()?, worst.share))
    }
}

/// The time of the program's threads that they did not spend waiting for conditions, ns: what waits for locks are a
/// share of.
pub fn active_ns(report: &Report) -> f64 {
    let idle: f64 = report.conditions.iter().map(|condition| condition.wait.total_ns).sum();
    let waited: f64 = report.objects.iter().map(|object| object.wait.total_ns).sum();
    // Sums are estimates: the waits can come out longer than the threads lived.
    (report.thread_time_ns as f64 - idle).max(waited).max(1.0)
}

/// All locks that threads waited for, those first for which they waited longest.
pub fn suspects(report: &Report) -> Vec<Suspect> {
    let mut found: Vec<Suspect> = Vec::new();
    let mut rest: Vec<&ObjectReport> = report.objects.iter().filter(|object| object.wait.noted > 0).collect();
    while !rest.is_empty() {
        let first = rest.remove(0);
        let Some(kind) = Kind::of(first.used) else { continue };
        // A rwlock is listed once for each of its uses.
        let is_same = |other: &&ObjectReport| {
            Kind::of(other.used) == Some(kind) && (&other.name, &other.module) == (&first.name, &first.module)
        };
        rest.retain(|other| !is_same(other));
        let uses: Vec<&ObjectReport> = report.objects.iter().filter(is_same).collect();
        found.push(suspect(kind, &uses, report));
    }
    found.sort_by(|a, b| b.waited_ns.total_cmp(&a.waited_ns));
    found
}

/// Those of them that get a lock of their own.
pub fn worth_it(suspects: &[Suspect]) -> Vec<&Suspect> {
    let heavy = suspects.iter().filter(|suspect| suspect.weight >= LEAST_WEIGHT && suspect.kind != Kind::Spinlock);
    heavy.take(MOST_SUSPECTS).collect()
}

/// What the uses of one lock say together.
fn suspect(kind: Kind, uses: &[&ObjectReport], report: &Report) -> Suspect {
    let first = uses[0];
    let sum = |of: &dyn Fn(&ObjectReport) -> f64| uses.iter().map(|object| of(object)).sum::<f64>();
    // A median of both uses is not known: that of the one that is more frequent stands for both.
    let main = |of: fn(&ObjectReport) -> &Times| {
        uses.iter().map(|object| of(object)).max_by(|a, b| a.count.total_cmp(&b.count)).copied().unwrap_or_default()
    };
    let waited_ns = sum(&|object| object.wait.total_ns);
    let acquisitions = sum(&|object| object.acquisitions.value);
    let held = sum(&|object| object.hold.total_ns);
    let objects = uses.iter().map(|object| object.objects).max().unwrap_or(1).max(1);
    let reads: f64 =
        uses.iter().filter(|object| object.used.ends_with("read")).map(|object| object.acquisitions.value).sum();
    let share_of_holds =
        |of: fn(&ObjectReport) -> f64| sum(&|object| of(object) * object.hold.count) / sum(&|o| o.hold.count).max(1.0);
    let charged = sum(&|object| object.charged_ns);
    let run = (report.duration_ns as f64 * objects as f64).max(1.0);
    Suspect {
        name: first.name.clone(),
        module: first.module.clone(),
        identity: first.identity.clone(),
        kind,
        objects,
        weight: waited_ns / active_ns(report),
        waited_ns,
        acquisitions,
        read_share: (kind == Kind::RwLock && acquisitions > 0.0).then(|| reads / acquisitions),
        held_share: (held / run).min(1.0),
        hold_p50_ns: main(|object| &object.hold).p50_ns,
        hold_mean_ns: if acquisitions > 0.0 { held / acquisitions } else { 0.0 },
        wait_p99_ns: uses.iter().map(|object| object.wait.p99_ns).fold(0.0, f64::max),
        wait_max_ns: uses.iter().map(|object| object.wait.max_ns).max().unwrap_or_default(),
        think_ns: think(uses),
        threads: uses.iter().map(|object| object.users).max().unwrap_or_default(),
        longest_queue: uses.iter().map(|object| object.longest_queue).max().unwrap_or_default(),
        holder_slept: share_of_holds(|object| object.holder_slept),
        holders: holders(uses, charged),
        waits_elsewhere: waits_elsewhere(uses),
    }
}

/// Between a release of a thread and its next acquisition, whichever use that is: with two uses, the rates add up.
fn think(uses: &[&ObjectReport]) -> f64 {
    let rates: f64 = uses.iter().filter(|object| object.think_ns > 0.0).map(|object| 1.0 / object.think_ns).sum();
    if rates > 0.0 {
        1.0 / rates
    } else {
        0.0
    }
}

/// The stacks that let others wait, those first that did so longest.
fn holding<'a>(uses: &[&'a ObjectReport]) -> Vec<&'a StackReport> {
    let stacks = uses.iter().flat_map(|object| &object.holders);
    let mut stacks: Vec<&StackReport> = stacks.filter(|stack| stack.waited_ns > 0.0).collect();
    stacks.sort_by(|a, b| b.waited_ns.total_cmp(&a.waited_ns));
    stacks
}

/// See [`Suspect::waits_elsewhere`].
fn waits_elsewhere(uses: &[&ObjectReport]) -> f64 {
    let function = |stack: &StackReport| stack.place().map(|frame| frame.function.clone());
    let worst = holding(uses).first().and_then(|stack| function(stack));
    let waiters = || uses.iter().flat_map(|object| &object.waiters);
    let waited = |stack: &StackReport| stack.waited_ns;
    let elsewhere: f64 = waiters().filter(|stack| function(stack) != worst).map(waited).sum();
    elsewhere / waiters().map(waited).sum::<f64>().max(1.0)
}

fn holders(uses: &[&ObjectReport], charged: f64) -> Vec<Holder> {
    let stacks = holding(uses);
    let holder = |stack: &StackReport| Holder {
        share: (stack.waited_ns / charged.max(1.0)).min(1.0),
        frames: stack.own_frames().iter().take(FRAMES).map(|frame| frame.words()).collect(),
    };
    stacks.into_iter().map(holder).filter(|holder| !holder.frames.is_empty()).take(HOLDERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{lock, report};
    use lockswap_trace::names::Frame;

    #[test]
    fn what_threads_wait_for_longest_matters_and_the_cold_do_not() {
        let mut locks = vec![lock("hot", "mutex", 3e9), lock("warm", "mutex", 1e9)];
        locks.extend((0..1_000).map(|number| lock(&format!("cold{number}"), "mutex", 1e5)));
        let report = report(locks, 10_000_000_000);
        let all = suspects(&report);
        assert_eq!(all.len(), 1_002);
        let names: Vec<&str> = worth_it(&all).iter().map(|suspect| suspect.name.as_str()).collect();
        assert_eq!(names, ["hot", "warm"]);
        assert!((all[0].weight - 0.3).abs() < 1e-9, "{}", all[0].weight);
    }

    #[test]
    fn at_most_three_get_a_lock_of_their_own() {
        let report = report((0..5).map(|n| lock(&format!("l{n}"), "mutex", 1e9)).collect(), 10_000_000_000);
        assert_eq!(worth_it(&suspects(&report)).len(), MOST_SUSPECTS);
    }

    #[test]
    fn threads_that_wait_for_work_dilute_nothing() {
        let mut report = report(vec![lock("hot", "mutex", 1e8)], 10_000_000_000);
        assert!(worth_it(&suspects(&report)).is_empty());
        report.conditions = vec![lock("work", "condition variable", 9e9)];
        let all = suspects(&report);
        assert!((all[0].weight - 0.1).abs() < 1e-9 && worth_it(&all).len() == 1, "{}", all[0].weight);
    }

    #[test]
    fn the_two_uses_of_a_rwlock_are_one_lock() {
        let report = report(vec![lock("r", "rwlock, read", 1e9), lock("r", "rwlock, write", 2e9)], 10_000_000_000);
        let all = suspects(&report);
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!((one.kind, one.waited_ns, one.read_share), (Kind::RwLock, 3e9, Some(0.5)));
        assert_eq!(one.acquisitions, 20_000.0);
    }

    #[test]
    fn code_that_waits_for_other_code_is_told_from_code_that_waits_for_itself() {
        let stack = |function: &str, waited_ns| {
            let frames = vec![Frame { function: function.into(), ..Frame::default() }];
            StackReport { frames, waited_ns, ..StackReport::default() }
        };
        let mut object = lock("m", "mutex", 5e9);
        object.holders = vec![stack("enter", 1e9), stack("report", 3e9)];
        object.waiters = vec![stack("report", 3e9), stack("enter", 1e9)];
        let elsewhere =
            |object: &ObjectReport| suspects(&report(vec![object.clone()], 10_000_000_000)).remove(0).waits_elsewhere;
        assert_eq!(elsewhere(&object), 0.25);
        object.waiters.truncate(1);
        assert_eq!(elsewhere(&object), 0.0);
        object.waiters.clear();
        assert_eq!(elsewhere(&object), 0.0);
    }

    #[test]
    fn spinlocks_are_named_but_get_none() {
        let report = report(vec![lock("s", "spinlock", 5e9)], 10_000_000_000);
        assert_eq!((suspects(&report).len(), worth_it(&suspects(&report)).len()), (1, 0));
    }
}
