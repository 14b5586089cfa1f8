//! What a thread notes while it runs. It stays on the thread's own stack, so that noting disturbs no other thread.

use crate::crew::{Crew, Member};
use hdrhistogram::Histogram;
use lockswap_platform::{CoreKind, Ns, Platform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The longest time that a histogram tells from longer ones, ns.
const LONGEST: Ns = 1 << 40;

/// Digits that a histogram keeps of a time: it is exact to 1 %.
const DIGITS: u8 = 2;

/// An empty histogram of times, ns.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds that make sense")
}

/// How much is noted about each acquisition of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// That there was one.
    #[default]
    Counts,
    /// How long it waited: two looks at the clock.
    Waits,
    /// Besides, whom it came from and what passing it on took: a line of memory more that is written in each critical
    /// section, unless the simulator runs it, where noting is free.
    Handoffs,
}

/// What one thread did.
pub struct Record {
    /// The kind of CPU it ran on.
    pub kind: CoreKind,
    /// Increments of shared memory, all of them, for the check of the result.
    pub made: u64,
    /// Operations that began and ended within the measured time.
    pub ops: u64,
    /// Time in the measurement that was spent waiting for the lock, ns.
    pub waited: Ns,
    /// Times by class; the workload says what is timed and how the classes are called.
    pub times: Vec<Histogram<u64>>,
    /// The acquisitions that came from another thread.
    pub handoffs: Handoffs,
}

impl Record {
    /// Nothing yet, with times of so many classes.
    pub fn new(member: &Member<'_>, classes: usize) -> Self {
        let times = (0..classes).map(|_| histogram()).collect();
        Self { kind: member.kind, made: 0, ops: 0, waited: 0, times, handoffs: Handoffs::default() }
    }

    /// Notes a time.
    #[inline]
    pub fn time(&mut self, class: usize, ns: Ns) {
        self.times[class].saturating_record(ns);
    }
}

/// Sums over the hand-offs to one thread: acquisitions after another thread's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handoffs {
    /// All of them.
    pub count: u64,
    /// Those between CPUs of one core (or on one CPU).
    pub within_core: u64,
    /// Those between CPUs that share the last-level cache; the ones within a core are among them.
    pub within_llc: u64,
    /// Those between CPUs of one NUMA node; the ones within a cache are among them.
    pub within_node: u64,
    /// Those where the thread had asked before the one before released.
    pub awaited: u64,
    /// Time from the end of the critical section before to the begin of this one, where it was awaited, ns.
    pub passing: Ns,
    /// Time that the critical section took to touch its data, ns.
    pub touching: Ns,
}

impl Handoffs {
    /// Adds another thread's.
    pub fn add(&mut self, other: &Handoffs) {
        self.count += other.count;
        self.within_core += other.within_core;
        self.within_llc += other.within_llc;
        self.within_node += other.within_node;
        self.awaited += other.awaited;
        self.passing += other.passing;
        self.touching += other.touching;
    }
}

/// What each holder of a lock leaves for the next one; read and written by the holder only. It is no memory of the
/// platform's: a simulated machine takes no time for it.
#[derive(Default)]
#[repr(align(128))]
pub struct Baton {
    /// The thread that held the lock last, plus one.
    thread: AtomicU32,
    cpu: AtomicU32,
    left: AtomicU64,
}

/// A hand-off that has been received.
#[derive(Clone, Copy)]
pub struct Received {
    from_cpu: u32,
    cpu: u32,
    passing: Option<Ns>,
}

impl Baton {
    /// The holder has entered the critical section at the time `entered`, having asked at `asked`. What came from
    /// another thread is returned.
    #[inline]
    pub fn enter<P: Platform>(&self, member: &Member<'_>, asked: Ns, entered: Ns) -> Option<Received> {
        let me = member.number as u32 + 1;
        let (from, from_cpu) = (self.thread.load(Relaxed), self.cpu.load(Relaxed));
        let cpu = P::cpu();
        if from != me {
            self.thread.store(me, Relaxed);
        }
        if from_cpu != cpu {
            self.cpu.store(cpu, Relaxed);
        }
        let left = self.left.load(Relaxed);
        let passing = (asked < left).then(|| entered.saturating_sub(left));
        (from != me && from != 0).then_some(Received { from_cpu, cpu, passing })
    }

    /// The holder ends the critical section at the time `now`.
    #[inline]
    pub fn leave(&self, now: Ns) {
        self.left.store(now, Relaxed);
    }
}

impl Handoffs {
    /// Counts a hand-off after which the data was touched for `touching` ns.
    #[inline]
    pub fn note(&mut self, crew: &dyn Crew, received: Received, touching: Ns) {
        let (from, here) = (crew.place(received.from_cpu), crew.place(received.cpu));
        let core = from.core == here.core;
        let llc = core || from.llc == here.llc;
        let node = llc || from.node == here.node;
        self.count += 1;
        self.within_core += u64::from(core);
        self.within_llc += u64::from(llc);
        self.within_node += u64::from(node);
        if let Some(passing) = received.passing {
            self.awaited += 1;
            self.passing += passing;
        }
        self.touching += touching;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::{Place, Signal, Timing};
    use lockswap_platform::Native;

    struct FourCpus;
    impl Crew for FourCpus {
        fn run(&self, _: usize, _: Timing, _: &(dyn Fn(&Member<'_>) + Sync)) -> Ns {
            0
        }
        fn place(&self, cpu: u32) -> Place {
            Place { core: cpu / 2, llc: cpu / 4, node: cpu / 8 }
        }
        fn be_nice(&self, _: u32) {}
    }

    #[test]
    fn hand_offs_are_counted_by_distance_and_timed_where_awaited() {
        let mut handoffs = Handoffs::default();
        let from = |from_cpu, passing| Received { from_cpu, cpu: 0, passing };
        handoffs.note(&FourCpus, from(0, None), 7);
        handoffs.note(&FourCpus, from(1, Some(30)), 5);
        handoffs.note(&FourCpus, from(3, Some(50)), 0);
        handoffs.note(&FourCpus, from(5, None), 0);
        handoffs.note(&FourCpus, from(9, None), 0);
        let expected =
            Handoffs { count: 5, within_core: 2, within_llc: 3, within_node: 4, awaited: 2, passing: 80, touching: 12 };
        assert_eq!(handoffs, expected);
        let mut sum = expected;
        sum.add(&handoffs);
        assert_eq!((sum.count, sum.passing, sum.within_node), (10, 160, 8));
    }

    #[test]
    fn the_baton_tells_who_waited_and_for_how_long() {
        let (baton, signal) = (Baton::default(), Signal::default());
        let member = |number| Member { number, pace: 1.0, kind: CoreKind::Big, signal: &signal, seed: 1 };
        assert!(baton.enter::<Native>(&member(0), 10, 11).is_none(), "nobody held it before");
        baton.leave(20);
        assert!(baton.enter::<Native>(&member(0), 21, 22).is_none(), "the same thread");
        baton.leave(30);
        let awaited = baton.enter::<Native>(&member(1), 25, 34).expect("a hand-off");
        assert_eq!(awaited.passing, Some(4));
        baton.leave(40);
        let late = baton.enter::<Native>(&member(0), 45, 50).expect("a hand-off");
        assert_eq!(late.passing, None, "it asked after the release");
    }

    #[test]
    fn times_are_exact_to_a_hundredth() {
        let mut times = histogram();
        (1..=100_000u64).for_each(|n| times.saturating_record(n * 10));
        for (quantile, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.999, 999_000.0)] {
            let found = times.value_at_quantile(quantile) as f64;
            assert!((found / exact - 1.0).abs() <= 0.01, "{quantile}: {found}");
        }
        times.saturating_record(u64::MAX);
    }
}
