//! Threads whose critical sections differ in length: who gets how much of a lock's time (Patel, Yang, Arulraj, A. and
//! R. Arpaci-Dusseau, Swift: Scheduler-Cooperative Locks, EuroSys 2020).
//!
//! Thread i is of class i modulo the number of classes. Class by class, critical sections have lengths of their own,
//! and threads a nice value of their own, which a scheduler-cooperative lock takes for a claim to more or less of the
//! time. Holders keep busy for the length of the section, as do threads between two sections: on hardware by the
//! clock, so that a section is no longer on a slower CPU.

use crate::crew::{gather, Crew, Member, Phase, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::record::Record;
use crate::report::{jain_of, About, LockTime, Report};
use crate::section::now;
use crate::Mutex;
use lockswap_platform::{weight_of_nice, Ns, Platform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SharesConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Lengths of the critical sections, ns: a class of threads for each.
    pub lengths: Vec<Ns>,
    /// Length of the non-critical sections, ns.
    pub pause: Ns,
    /// Both sorts of lengths are drawn anew each time, and differ by up to so many percent from those above.
    pub spread: u32,
    /// Nice values of the threads, class by class, and again from the first.
    pub nice: Vec<u32>,
}

impl Config {
    /// The toy example: of two threads that always want the lock, one has critical sections ten times as long.
    pub fn toy(threads: usize) -> Self {
        let timing = Timing::lasting(500_000_000);
        Self { threads, timing, lengths: vec![10_000, 1_000], pause: 0, spread: 0, nice: vec![0] }
    }

    /// As in a key-value store with one lock: writers with longer sections next to readers with shorter ones, of
    /// lengths that vary, and some work outside.
    pub fn store(threads: usize) -> Self {
        Self { lengths: vec![6_000, 1_000], pause: 1_000, spread: 50, ..Self::toy(threads) }
    }

    fn class(&self, thread: usize) -> usize {
        thread % self.lengths.len()
    }

    fn nice(&self, class: usize) -> u32 {
        self.nice[class % self.nice.len()]
    }

    /// What tells a class apart; classes that are alike count as one.
    fn name(&self, class: usize) -> String {
        let ns = self.lengths[class];
        let length = if ns.is_multiple_of(1000) { format!("{}us", ns / 1000) } else { format!("{ns}ns") };
        match self.nice(class) {
            _ if self.nice.iter().all(|nice| *nice == 0) => length,
            nice => format!("{length} nice {nice}"),
        }
    }
}

/// One thread's lock time.
struct Held {
    class: usize,
    ns: Ns,
}

/// Runs the workload on `mutex`. The times are waits for the lock.
///
/// # Panics
/// If an increment was lost, which means that the lock did not exclude; if there are no threads or no classes.
pub fn run<P: Platform, M: Mutex>(config: &Config, crew: &dyn Crew, mutex: &M) -> Report {
    let shared = lines::<P>(1);
    let (noted, elapsed) = gather(crew, config.threads, config.timing, |member| {
        let class = config.class(member.number);
        crew.be_nice(config.nice(class));
        let (record, ns) = work::<P, M>(config, config.lengths[class], member, (mutex, &shared));
        (record, Held { class, ns })
    });
    let (records, held): (Vec<_>, Vec<_>) = noted.into_iter().unzip();
    check(&records, &shared);
    let report = Report::new(&records, elapsed, About { timed: "wait", classes: &[""], waits: true, handoffs: false });
    Report { lock_time: Some(lock_time(config, &held, elapsed)), ..report }
}

/// What one thread does: what it noted, and how much of the measured time it held the lock.
fn work<P: Platform, M: Mutex>(
    config: &Config,
    inside: Ns,
    member: &Member<'_>,
    (mutex, shared): (&M, &[Line<P>]),
) -> (Record, Ns) {
    let mut me = mutex.thread();
    let mut record = Record::new(member, 1);
    let mut random = member.random();
    let mut length = |ns: Ns| {
        let percent = 100 - config.spread + random.below(2 * config.spread + 1);
        member.paced(ns * u64::from(percent) / 100)
    };
    let mut held = 0;
    loop {
        let seen = member.signal.phase();
        if seen == Phase::Stop {
            return (record, held);
        }
        let (inside, pause) = (length(inside), length(config.pause));
        let asked = now::<P>();
        mutex.lock(&mut me);
        let entered = now::<P>();
        touch(shared, 1);
        P::keep_busy(inside);
        let waited = member.signal.measured(asked, entered);
        held += member.signal.measured(entered, now::<P>());
        mutex.unlock(&mut me);
        record.made += 1;
        record.waited += waited;
        if seen == Phase::Measure || waited > 0 {
            record.time(0, entered - asked);
        }
        record.ops += u64::from(seen == Phase::Measure && member.signal.phase() == Phase::Measure);
        if pause > 0 {
            P::keep_busy(pause);
        }
    }
}

fn lock_time(config: &Config, held: &[Held], elapsed: Ns) -> LockTime {
    let all: Ns = held.iter().map(|thread| thread.ns).sum();
    let mut shares = BTreeMap::new();
    for thread in held {
        *shares.entry(config.name(thread.class)).or_default() += thread.ns as f64 / all.max(1) as f64;
    }
    let claim = |thread: &Held| f64::from(weight_of_nice(config.nice(thread.class) as i32));
    let by_claim = held.iter().map(|thread| thread.ns as f64 / claim(thread));
    LockTime { jain: jain_of(by_claim), held: all as f64 / (elapsed as f64).max(1.0), shares }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::pthread::{Kind, Mutex as PthreadMutex};
    use lockswap_platform::Native;

    fn held(threads: &[(usize, Ns)]) -> Vec<Held> {
        threads.iter().map(|&(class, ns)| Held { class, ns }).collect()
    }

    #[test]
    fn shares_by_hand() {
        let even = lock_time(&Config::toy(4), &held(&[(0, 10), (1, 10), (0, 10), (1, 10)]), 80);
        assert_eq!((even.jain, even.held), (1.0, 0.5));
        assert_eq!(even.shares.into_iter().collect::<Vec<_>>(), [("10us".into(), 0.5), ("1us".into(), 0.5)]);
        let nice = Config { nice: vec![0, 5], lengths: vec![1500, 1500], ..Config::toy(2) };
        let weighted = lock_time(&nice, &held(&[(0, 1024), (1, 335)]), 1359);
        assert!(weighted.jain > 0.999_9, "{}", weighted.jain);
        assert_eq!(weighted.shares.keys().collect::<Vec<_>>(), ["1500ns nice 0", "1500ns nice 5"]);
        let equal = lock_time(&nice, &held(&[(0, 500), (1, 500)]), 1000);
        assert!(equal.jain < 0.8, "{}", equal.jain);
        let alike = Config { nice: vec![0], ..nice };
        assert_eq!(lock_time(&alike, &held(&[(0, 1), (1, 3)]), 4).shares["1500ns"], 1.0);
    }

    #[test]
    fn a_thread_alone_holds_the_lock_for_as_long_as_its_sections_take() {
        let mutex = PthreadMutex::new(Kind::Normal);
        let config = Config { timing: Timing::lasting(20_000_000), nice: vec![3], ..Config::toy(1) };
        let report = run::<Native, _>(&config, &Hardware::default(), &*mutex);
        let lock_time = report.lock_time.expect("measured");
        assert!(report.ops > 0 && lock_time.held <= 1.0, "{lock_time:?}");
        assert_eq!((lock_time.jain, lock_time.shares["10us nice 3"]), (1.0, 1.0));
    }
}
