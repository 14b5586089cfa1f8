//! System calls that take spinlocks of the Linux kernel: `lock1`, `lock2`, `open1` and `open2` of will-it-scale
//! (github.com/antonblanchard/will-it-scale), as CNA's paper measured them (Dice, Kogan: EuroSys 2019, section 7.2.2).
//!
//! A thread computes, takes a lock, writes some lines of memory and computes inside, and so on, section after section;
//! one round is one turn of the benchmark's loop. Sections under one lock share their lines.
//!
//! *Which locks are taken* is table 1 of the paper, and how often and for what `fs/locks.c`, `fs/file.c` and
//! `lib/lockref.c` of Linux 6.1 say. *How many lines a section writes* is counted there. *How long the steps are*
//! nobody has published: a call outside its sections takes about half a microsecond, a section as long as some tens of
//! instructions. These are guesses, which were made before anything was simulated.
//!
//! Deviations: a lock lies alone in its lines, where the kernel has it beside the data; `lockref` always takes its
//! lock, where the kernel first tries up to a hundred exchanges of lock and count together.

use crate::crew::{gather, Crew, Member, Phase, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::record::{Baton, Detail, Record};
use crate::report::Report;
use crate::section;
use crate::Mutex;
use lockswap_platform::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run; the lists have an entry for each section of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CallsConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// The number of the lock that the section takes, from 0.
    pub locks: Vec<usize>,
    /// Steps that a thread computes before it wants the lock.
    pub before: Vec<u64>,
    /// Lines that the section writes.
    pub lines: Vec<usize>,
    /// Steps that the holder computes.
    pub inside: Vec<u64>,
    /// What is noted.
    pub detail: Detail,
}

/// Steps of a call outside its critical sections: about half a microsecond at 2.3 GHz. A guess.
const CALL: u64 = 200;

/// A section: its lock, the steps before it, the lines it writes, the steps inside.
type Section = (usize, u64, usize, u64);

/// `alloc_fd` under `file_lock`: the number that is next, with the lock; the word of the bit map; the list of files.
/// It looks for a bit, and sets it.
const fn alloc_fd(before: u64) -> Section {
    (0, before, 3, 15)
}

/// `close_fd` under `file_lock`: the same lines.
const fn close_fd(before: u64) -> Section {
    (0, before, 3, 10)
}

/// A count of references to the directory that all files are in goes up or down.
const fn count_reference(before: u64) -> Section {
    (1, before, 1, 2)
}

/// `posix_lock_inode` under `flc_lock`: the list's head, two lines of the entry that is there, two of the one that
/// takes its place or is freed.
const fn change_list(before: u64) -> Section {
    (0, before, 5, 30)
}

impl Config {
    fn of(threads: usize, sections: &[Section]) -> Self {
        let timing = Timing::lasting(200_000_000);
        let column = |steps: fn(&Section) -> u64| sections.iter().map(steps).collect();
        Self {
            threads,
            timing,
            locks: sections.iter().map(|section| section.0).collect(),
            before: column(|section| section.1),
            lines: sections.iter().map(|section| section.2).collect(),
            inside: column(|section| section.3),
            detail: Detail::Handoffs,
        }
    }

    /// Locks and unlocks a file of the thread's own. After it has set the lock, `fcntl_setlk` looks under `file_lock`,
    /// which all threads of a process share, whether the file is still open: it reads only.
    pub fn lock1(threads: usize) -> Self {
        Self::of(threads, &[(0, 2 * CALL, 0, 4)])
    }

    /// The same with one file: `flc_lock` guards its list of locks, in either call, and `file_lock` as in
    /// [`Config::lock1`].
    pub fn lock2(threads: usize) -> Self {
        Self::of(threads, &[change_list(CALL / 2), (1, CALL / 2, 0, 4), change_list(CALL)])
    }

    /// Opens and closes a file of the thread's own, all of them in one directory.
    pub fn open1(threads: usize) -> Self {
        let sections = [alloc_fd(CALL / 2), count_reference(CALL), count_reference(CALL / 2), close_fd(CALL)];
        Self::of(threads, &sections)
    }

    /// The same with a directory for each thread.
    pub fn open2(threads: usize) -> Self {
        Self::of(threads, &[alloc_fd(CALL / 2), close_fd(5 * CALL / 2)])
    }

    /// How many locks there are.
    pub fn lock_count(&self) -> usize {
        self.locks.iter().max().map_or(0, |last| last + 1)
    }

    /// Number and lock of each section.
    fn sections(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.locks.iter().copied().enumerate()
    }

    /// Lines under this lock.
    fn lines_of(&self, lock: usize) -> usize {
        self.sections().filter(|section| section.1 == lock).map(|section| self.lines[section.0]).max().unwrap_or(0)
    }
}

/// What all threads of a run share.
struct Shared<'a, P: Platform, M> {
    crew: &'a dyn Crew,
    mutexes: &'a [M],
    batons: Vec<Baton>,
    lines: Vec<Box<[Line<P>]>>,
    config: &'a Config,
}

impl<P: Platform, M: Mutex> Shared<'_, P, M> {
    /// One round of a thread.
    fn round(&self, me: &mut [M::Thread], member: &Member<'_>, seen: Phase, record: &mut Record) {
        let config = self.config;
        for (section, lock) in config.sections() {
            P::compute(member.paced(config.before[section]));
            let touches = config.lines[section] as u64;
            let mutex = (&self.mutexes[lock], &mut me[lock]);
            let noted = section::acquire::<P, M>(mutex, member, (config.detail, &self.batons[lock]), || {
                touch(&self.lines[lock], touches);
                P::compute(member.paced(config.inside[section]));
            });
            record.made += touches;
            record.waited += noted.measured;
            if config.detail >= Detail::Waits && (seen == Phase::Measure || noted.measured > 0) {
                record.time(0, noted.waited);
            }
            if seen == Phase::Measure {
                noted.count(self.crew, record);
            }
        }
    }
}

/// Runs the workload on `config.lock_count()` mutexes. The times are waits for a lock.
///
/// # Panics
/// If an increment was lost, which means that a lock did not exclude; if there are no threads, or too few mutexes.
pub fn run<P: Platform, M: Mutex>(config: &Config, crew: &dyn Crew, mutexes: &[M]) -> Report {
    let batons = mutexes.iter().map(|_| Baton::default()).collect();
    let lines = (0..mutexes.len()).map(|lock| lines::<P>(config.lines_of(lock))).collect();
    let shared = Shared { crew, mutexes, batons, lines, config };
    let about = section::about(config.detail);
    let (records, elapsed) = gather(crew, config.threads, config.timing, |member| {
        let mut me: Vec<_> = mutexes.iter().map(Mutex::thread).collect();
        let mut record = Record::new(member, about.classes.len());
        loop {
            let seen = member.signal.phase();
            if seen == Phase::Stop {
                return record;
            }
            shared.round(&mut me, member, seen, &mut record);
            record.ops += u64::from(seen == Phase::Measure && member.signal.phase() == Phase::Measure);
        }
    });
    check(&records, shared.lines.iter().flatten());
    Report::new(&records, elapsed, section::about(config.detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::pthread::Mutex as PthreadMutex;
    use lockswap_platform::Native;

    fn run_here(config: Config) -> Report {
        let config = Config { timing: Timing::lasting(50_000_000), ..config };
        run::<Native, PthreadMutex>(&config, &Hardware::default(), &PthreadMutex::array(config.lock_count()))
    }

    #[test]
    fn a_round_goes_through_all_sections() {
        for (config, sections) in
            [(Config::lock1(2), 1), (Config::lock2(2), 3), (Config::open1(2), 4), (Config::open2(2), 2)]
        {
            let report = run_here(config);
            let per_round = report.latency["all"].count as f64 / report.ops as f64;
            assert!(report.ops > 100 && (per_round - f64::from(sections)).abs() < 0.1, "{sections}: {per_round}");
        }
    }

    #[test]
    fn a_round_is_as_long_as_its_steps() {
        let [short, long] = [1, 20].map(|times| {
            let config = Config::open1(1);
            run_here(Config { before: config.before.iter().map(|steps| steps * times).collect(), ..config }).ops
        });
        assert!(long < short / 5, "{short} rounds, {long} with 20 times the steps");
    }

    #[test]
    fn sections_of_one_lock_share_its_lines() {
        let config = Config::open1(1);
        assert_eq!((config.lock_count(), config.lines_of(0), config.lines_of(1)), (2, 3, 1));
        assert_eq!(Config { lines: vec![0, 7, 0, 2], ..config }.lines_of(0), 2);
    }
}
