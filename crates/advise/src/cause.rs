//! What holds a program up where no lock will help, and what would help instead.

use lockswap_study::model::Usage;
use lockswap_trace::Report;
use serde::Serialize;

use crate::suspect::{active_ns, suspects, Kind, Suspect, LEAST_WEIGHT};

/// A mutex that is held for this share of the run is always held: whatever a lock does, a program can get through its
/// sections hardly more than 10 % faster.
const ALWAYS_HELD: f64 = 0.9;

/// Sections of this length hardly get shorter by where a lock passes them on, ns. Shorter ones can: what they touch
/// then stays in a cache.
const LONG_SECTION_NS: f64 = 10_000.0;

/// Waiters are overtaken if one in a hundred waits this many times as long as it would if all were served in order.
const OVERTAKEN: f64 = 10.0;

/// From this share of the waiting on, it matters that other code waits than the code that holds the lock.
const OTHER_CODE: f64 = 0.1;

/// From this share on, what is read is read by many at a time, or could be.
const MOSTLY_READ: f64 = 0.9;

/// From this share on, the CPUs are busy.
const BUSY: f64 = 0.85;

/// A program that gives up its CPU less often in a second than this does not sleep much.
const FEW_SLEEPS: f64 = 100.0;

/// A run as a whole.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// From start to end, seconds.
    pub wall_s: f64,
    /// CPU time, seconds.
    pub cpu_s: f64,
    /// CPUs that it may use.
    pub cpus: usize,
    /// Threads that were seen at locks.
    pub threads: u64,
    /// How many of them were not idle, on average.
    pub active: f64,
    /// The share of the threads' time in which they waited for mutexes, read-write locks and spinlocks.
    pub waited: f64,
    /// How often a thread gave up its CPU in a second.
    pub sleeps: f64,
    /// How often one did so for a pthread object, as far as that is known.
    pub known_sleeps: f64,
    /// Events that were noted.
    pub noted: u64,
}

impl Run {
    /// The run of which this is the trace; `wall_s`, `usage` and `cpus` are as they were measured.
    pub fn of(report: &Report, wall_s: f64, usage: &Usage, cpus: usize) -> Self {
        let active = active_ns(report);
        let waited: f64 = report.objects.iter().map(|object| object.wait.total_ns).sum();
        let slept: f64 = report.all().map(|object| object.slept * object.wait.count).sum();
        let wall = wall_s.max(1e-9);
        Self {
            wall_s,
            cpu_s: usage.cpu_s(),
            cpus,
            threads: report.notes.threads,
            active: active / (report.duration_ns as f64).max(1.0),
            waited: (waited / active).min(1.0),
            sleeps: usage.voluntary_switches as f64 / wall,
            known_sleeps: slept / wall,
            noted: report.notes.waits + report.notes.holds,
        }
    }
}

/// Something that keeps a program from being faster, which no lock changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// No pthread lock was used.
    NoLocks,
    /// Threads hardly wait for locks.
    LightLocks {
        /// The share of their time in which they do.
        share: f64,
    },
    /// The sections of a lock are what the program consists of.
    LongSection {
        /// The lock.
        name: String,
        /// The share of the run in which it was held.
        held: f64,
        /// Mean length of a section, ns.
        mean_ns: f64,
        /// The code that held it while others waited, and its share of that.
        holder: Option<(String, f64)>,
    },
    /// A read-write lock that hardly anybody writes under.
    MostlyRead {
        /// The lock.
        name: String,
        /// The share of acquisitions that were to read.
        reads: f64,
    },
    /// A read-write lock that is often written under.
    OftenWritten {
        /// The lock.
        name: String,
        /// The share of acquisitions that were to read.
        reads: f64,
    },
    /// Memory is allocated while others wait, or the lock is the allocator's own.
    Allocator {
        /// The lock.
        name: String,
        /// The function of the allocator, or its library.
        place: String,
    },
    /// Threads wait for a spinlock.
    Spinlock {
        /// The lock.
        name: String,
        /// The share of the threads' time in which they do.
        share: f64,
    },
    /// The CPUs are busy.
    Computes {
        /// The share of the CPUs' time that the program used.
        share: f64,
    },
    /// Threads wait for conditions: for work, or for each other.
    Conditions {
        /// For what they waited longest.
        name: String,
        /// Where.
        place: Option<String>,
        /// How long they waited for all, as a share of the threads' time.
        share: f64,
    },
    /// Threads sleep, but not for pthread objects.
    SleepsElsewhere {
        /// How often in a second.
        sleeps: f64,
        /// How often for pthread objects.
        known: f64,
    },
}

/// Whether no lock can make the program faster through this one: it is always held, its sections do not depend on how
/// it passes them on, and neither does which of them the program gets through.
pub fn is_settled(suspect: &Suspect) -> bool {
    let in_order_ns = suspect.threads as f64 * suspect.hold_mean_ns;
    let is_overtaken = suspect.wait_p99_ns >= OVERTAKEN * in_order_ns;
    let starves_some = is_overtaken && suspect.waits_elsewhere >= OTHER_CODE;
    // Readers hold a lock together.
    let is_mutex = suspect.kind == Kind::Mutex;
    is_mutex && suspect.held_share >= ALWAYS_HELD && suspect.hold_mean_ns >= LONG_SECTION_NS && !starves_some
}

/// What is known of one lock that no other lock changes.
pub fn of_lock(suspect: &Suspect) -> Vec<Cause> {
    let name = || suspect.called();
    let mut found = Vec::new();
    if let Some(place) = allocator(suspect) {
        found.push(Cause::Allocator { name: name(), place });
    }
    match suspect.read_share {
        Some(reads) if reads >= MOSTLY_READ => found.push(Cause::MostlyRead { name: name(), reads }),
        Some(reads) => found.push(Cause::OftenWritten { name: name(), reads }),
        None if suspect.held_share >= 0.5 => found.push(Cause::LongSection {
            name: name(),
            held: suspect.held_share,
            mean_ns: suspect.hold_mean_ns,
            holder: suspect.worst_place().map(|(place, share)| (place.to_owned(), share)),
        }),
        None => {}
    }
    found
}

/// What holds the program up besides locks.
pub fn of_run(run: &Run, report: &Report) -> Vec<Cause> {
    let mut found = Vec::new();
    if report.notes.holds == 0 && report.notes.waits == 0 {
        found.push(Cause::NoLocks);
    } else {
        found.push(Cause::LightLocks { share: run.waited });
    }
    let spinlocks = suspects(report).into_iter().filter(|suspect| suspect.kind == Kind::Spinlock);
    let heavy = spinlocks.filter(|suspect| suspect.weight >= LEAST_WEIGHT);
    found.extend(heavy.map(|suspect| Cause::Spinlock { name: suspect.called(), share: suspect.weight }));
    let used = run.cpu_s / (run.wall_s * run.cpus as f64).max(1e-9);
    if used >= BUSY {
        found.push(Cause::Computes { share: used.min(1.0) });
        return found;
    }
    let conditions: f64 = report.conditions.iter().map(|condition| condition.wait.total_ns).sum();
    let share = conditions / (report.thread_time_ns as f64).max(1.0);
    if let Some(first) = report.conditions.first().filter(|_| share >= 0.2) {
        let place = first.waiters.first().and_then(|stack| stack.place()).map(|frame| frame.words());
        found.push(Cause::Conditions { name: first.called(), place, share: share.min(1.0) });
    }
    if run.sleeps >= FEW_SLEEPS && run.known_sleeps < run.sleeps / 2.0 {
        found.push(Cause::SleepsElsewhere { sleeps: run.sleeps, known: run.known_sleeps });
    }
    found
}

/// Functions of allocators; those of C++ and of jemalloc and tcmalloc begin so, too.
const ALLOCATES: [&str; 14] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "operator new",
    "operator delete",
    "_int_malloc",
    "_int_free",
    "__libc_malloc",
    "__libc_free",
    "je_",
    "tc_",
    "arena_",
    "mi_",
];

/// Libraries that are allocators.
const ALLOCATORS: [&str; 5] = ["jemalloc", "tcmalloc", "mimalloc", "hoard", "snmalloc"];

/// The allocator that a lock is about, if it is.
fn allocator(suspect: &Suspect) -> Option<String> {
    let own = suspect.module.as_ref().filter(|module| ALLOCATORS.iter().any(|name| module.contains(name)));
    if let Some(library) = own {
        return Some(library.clone());
    }
    let is_whole = |name: &str| name.ends_with('_') || name.contains(' ');
    let allocates = |frame: &str| {
        let function = frame.split([' ', '(']).next().unwrap_or_default();
        ALLOCATES.iter().any(|name| if is_whole(name) { frame.starts_with(name) } else { function == *name })
    };
    let worst = suspect.holders.first().filter(|holder| holder.share >= 0.3)?;
    worst.frames.iter().find(|frame| allocates(frame)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspect::Holder;
    use crate::tests::{lock, report};

    fn usage(cpu_s: f64, sleeps: u64) -> Usage {
        Usage { user_s: cpu_s, voluntary_switches: sleeps, ..Usage::default() }
    }

    #[test]
    fn a_program_that_computes_is_told_so() {
        let report = report(vec![lock("m", "mutex", 1e7)], 10_000_000_000);
        let run = Run::of(&report, 2.5, &usage(4.9, 10), 2);
        let causes = of_run(&run, &report);
        assert_eq!(causes[0], Cause::LightLocks { share: 0.001 });
        assert!(matches!(causes[1], Cause::Computes { share } if (share - 0.98).abs() < 1e-9), "{causes:?}");
    }

    #[test]
    fn a_spinlock_that_threads_wait_for_is_named() {
        let report = report(vec![lock("s", "spinlock", 5e9)], 10_000_000_000);
        let causes = of_run(&Run::of(&report, 2.5, &usage(1.0, 0), 2), &report);
        assert!(matches!(&causes[1], Cause::Spinlock { share: 0.5, name } if name.contains('s')), "{causes:?}");
    }

    #[test]
    fn sleep_that_no_lock_explains_is_elsewhere() {
        let report = report(vec![lock("m", "mutex", 1e7)], 10_000_000_000);
        let causes = of_run(&Run::of(&report, 2.5, &usage(1.0, 50_000), 2), &report);
        // 1,000 waits of which half slept.
        assert_eq!(causes[1], Cause::SleepsElsewhere { sleeps: 20_000.0, known: 200.0 });
        let causes = of_run(&Run::of(&report, 2.5, &usage(1.0, 700), 2), &report);
        assert_eq!(causes.len(), 1, "{causes:?}");
    }

    #[test]
    fn no_lock_at_all_and_idle_threads_are_told_apart() {
        let mut empty = report(Vec::new(), 10_000_000_000);
        assert_eq!(of_run(&Run::of(&empty, 2.5, &usage(1.0, 0), 2), &empty), [Cause::NoLocks]);
        empty.notes.holds = 5;
        empty.conditions = vec![lock("work", "condition variable", 8e9)];
        let causes = of_run(&Run::of(&empty, 2.5, &usage(1.0, 0), 2), &empty);
        assert!(matches!(&causes[1], Cause::Conditions { name, share, .. } if name.contains("work") && *share == 0.8));
    }

    #[test]
    fn a_mutex_that_is_always_held_for_long_is_settled_and_its_holder_named() {
        let mut object = lock("m", "mutex", 5e9);
        object.hold.total_ns = 2.45e9;
        let report = report(vec![object], 10_000_000_000);
        let mut suspect = suspects(&report).remove(0);
        suspect.holders = vec![Holder { share: 0.7, frames: vec!["slow (a.c:3)".into()] }];
        assert!(is_settled(&suspect), "{suspect:?}");
        let [Cause::LongSection { holder, .. }] = &of_lock(&suspect)[..] else { panic!() };
        assert_eq!(holder.as_ref().unwrap().0, "slow (a.c:3)");
        assert!(of_lock(&suspect)[0].words().contains("slow (a.c:3)"));
        assert!(
            !is_settled(&Suspect { hold_mean_ns: 100.0, ..suspect.clone() }),
            "a lock can make short sections shorter"
        );
        assert!(!is_settled(&Suspect { held_share: 0.7, ..suspect.clone() }));
        // Four threads, a section of a quarter of a millisecond, and half of the waiting is done by other code.
        let mixed = |wait_p99_ns| Suspect { wait_p99_ns, waits_elsewhere: 0.5, ..suspect.clone() };
        assert!(is_settled(&mixed(9e6)) && !is_settled(&mixed(11e6)), "another order may be better");
        assert!(is_settled(&Suspect { waits_elsewhere: 0.0, ..mixed(11e6) }), "all sections are alike");
        assert!(!is_settled(&Suspect { kind: Kind::RwLock, ..suspect }), "readers hold it together");
    }

    #[test]
    fn allocators_and_reader_writer_ratios_are_recognised() {
        let of = |used, frame: &str| {
            let report = report(vec![lock("m", used, 5e9)], 10_000_000_000);
            let mut suspect = suspects(&report).remove(0);
            suspect.holders = vec![Holder { share: 0.7, frames: vec![frame.into(), "main (a.c:3)".into()] }];
            of_lock(&suspect)
        };
        assert!(matches!(&of("mutex", "operator new(unsigned long)")[0], Cause::Allocator { .. }));
        assert!(matches!(&of("mutex", "malloc (malloc.c:3)")[0], Cause::Allocator { .. }));
        assert!(of("mutex", "malloc_trim_all (x.c:3)").is_empty());
        assert!(matches!(of("rwlock, read", "get")[0], Cause::MostlyRead { reads: 1.0, .. }));
        assert!(matches!(of("rwlock, write", "put")[0], Cause::OftenWritten { reads: 0.0, .. }));
    }
}
