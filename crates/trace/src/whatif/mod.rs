//! Experiments on a running program: what if the sections of a lock were longer, or shorter?
//! (`lockswap_records::whatif` says how.)

mod file;
mod places;
mod result;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockswap_records::whatif::{self, Counts, Process, Shared, OWED_WORDS, WHOLE};

pub use file::SharedFile;
pub use places::Name;
use places::Places;
pub use result::{Change, Facts, Pair, Phase, WhatIf};

/// How long a phase lasts.
pub const PHASE: Duration = Duration::from_millis(250);

/// The first part of a phase, which is not counted: threads find out that it has begun.
const SETTLING: Duration = Duration::from_millis(25);

/// How often names are looked for: until all are found, and then, since libraries may come later.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(1);

/// Counts are read again that took longer than this to read: at no one moment.
const MOMENT: Duration = Duration::from_micros(50);
const MOST_READS: usize = 10;

/// What is changed, and what measures progress, as somebody named it.
pub struct Plan {
    /// The lock whose sections are changed.
    pub target: (String, Name),
    /// The lock whose releases measure progress, if it is another one.
    pub progress: Option<(String, Name)>,
    /// How they are changed.
    pub change: Change,
}

/// An experiment, from the start of a program to its result.
pub struct Experiment<'a> {
    shared: &'a Shared,
    plan: Plan,
    places: Places,
    next_look: Instant,
    had_room: bool,
    /// The number of the phase that runs; 0: none yet.
    number: u32,
    /// When it began, whether sections are changed in it, and what had been counted when it had settled.
    begin: Instant,
    is_changed: bool,
    settled: Option<Moment>,
    /// The first phase of a pair that has ended.
    first: Option<Phase>,
    pairs: Vec<Pair>,
}

/// What has been counted until a moment.
struct Moment {
    time: Instant,
    sums: [u64; 4],
}

impl Moment {
    fn now(shared: &Shared) -> Self {
        let read = || {
            // Relaxed: statistics.
            let sum = |of: fn(&Counts) -> &AtomicU64| {
                shared.counts.iter().map(|counts| of(counts).load(Ordering::Relaxed)).sum()
            };
            let before = Instant::now();
            let sums = [sum(|c| &c.sections), sum(|c| &c.length), sum(|c| &c.releases), sum(|c| &c.shortened)];
            (before.elapsed(), Moment { time: before, sums })
        };
        let mut best = read();
        for _ in 1..MOST_READS {
            if best.0 <= MOMENT {
                break;
            }
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    fn since(&self, begin: &Self, measures_sections: bool) -> Phase {
        let [sections, sections_ns, releases, shortened_ns] =
            [0, 1, 2, 3].map(|index| self.sums[index].saturating_sub(begin.sums[index]));
        Phase {
            duration_ns: self.time.duration_since(begin.time).as_nanos() as u64,
            shortened_ns,
            sections,
            sections_ns,
            progress: if measures_sections { sections } else { releases },
        }
    }
}

impl<'a> Experiment<'a> {
    /// An experiment on the programs that have this file.
    pub fn new(file: &'a SharedFile, plan: Plan) -> Self {
        let now = Instant::now();
        Self {
            shared: file.get(),
            plan,
            places: Places::default(),
            next_look: now,
            had_room: true,
            number: 0,
            begin: now,
            is_changed: false,
            settled: None,
            first: None,
            pairs: Vec::new(),
        }
    }

    fn processes(&self) -> &'a [Process] {
        // Relaxed: one that takes its place now is seen later.
        let number = self.shared.processes.load(Ordering::Relaxed) as usize;
        self.shared.processes_table.get(..number).unwrap_or(&self.shared.processes_table)
    }

    /// Whether all that was named is there, in one program at least.
    fn has_found(&self) -> bool {
        let has_progress = |process: &Process| self.plan.progress.is_none() || !process.measure.is_empty();
        self.processes().iter().any(|process| !process.target.is_empty()) && self.processes().iter().any(has_progress)
    }

    fn look(&mut self) {
        for process in self.processes() {
            self.places.look_at(process);
            self.had_room &= self.places.add(process, &self.plan.target.1, &process.target);
            if let Some((_, name)) = &self.plan.progress {
                self.had_room &= self.places.add(process, name, &process.measure);
            }
        }
        self.next_look = Instant::now() + if self.has_found() { LATER } else { SOON };
    }

    /// Does what has to be done now; to be called every few milliseconds while the program runs.
    pub fn step(&mut self) {
        let now = Instant::now();
        if now >= self.next_look {
            self.look();
        }
        if self.number == 0 {
            if self.has_found() {
                self.next_phase();
            }
            return;
        }
        match &self.settled {
            None if now - self.begin >= SETTLING => self.settled = Some(Moment::now(self.shared)),
            Some(settled) if now - self.begin >= PHASE => {
                let phase = Moment::now(self.shared).since(settled, self.plan.progress.is_none());
                self.end_phase(phase);
                self.next_phase();
            }
            _ => {}
        }
    }

    fn end_phase(&mut self, phase: Phase) {
        match self.first.take() {
            None => self.first = Some(phase),
            Some(first) => {
                let (as_it_is, changed) = if self.is_changed { (first, phase) } else { (phase, first) };
                self.pairs.push(Pair { as_it_is, changed });
            }
        }
    }

    /// Begins the next phase: of two that are a pair the second one is what the first one was not.
    fn next_phase(&mut self) {
        self.number += 1;
        self.is_changed = if self.first.is_some() { !self.is_changed } else { fastrand::bool() };
        let (mut delay, mut share) = (0, 0);
        match self.plan.change {
            _ if !self.is_changed => {}
            Change::DelayNs(ns) => delay = ns,
            Change::ShortenPercent(percent) => share = (percent / 100.0 * f64::from(WHOLE)).round() as u32,
        }
        // Relaxed, all: a thread that sees them late, or one of them earlier than the other, does so while the phase
        // settles.
        for process in self.processes() {
            process.owed[self.number as usize % OWED_WORDS].0.store(0, Ordering::Relaxed);
        }
        self.shared.delay.store(delay, Ordering::Relaxed);
        let phase = whatif::Phase { number: self.number, share };
        self.shared.phase.store(phase.word(), Ordering::Relaxed);
        self.begin = Instant::now();
        self.settled = None;
    }

    /// Ends the experiment: the program runs on as it is.
    pub fn stop(&self) {
        // Relaxed: as in `next_phase`.
        self.shared.delay.store(0, Ordering::Relaxed);
        self.shared.phase.store(whatif::Phase::NONE.word(), Ordering::Relaxed);
    }

    /// What was found.
    pub fn result(&self, command: Vec<String>, locks: Vec<String>) -> WhatIf {
        let (lock, target) = &self.plan.target;
        let mut problems = Vec::new();
        if self.processes().is_empty() {
            problems.push("The program did not load the library, or ended before it could".to_owned());
        }
        let mut check = |name: &str, parsed: &Name, is_found: bool| {
            if !is_found {
                let like = self.places.like(parsed);
                problems.push(format!(
                    "{name} was not found: no variable has this name, and no function of this name \
                    initialised a lock; {like}{}'lockswap trace' shows names",
                    if like.is_empty() { "" } else { " " }
                ));
            }
        };
        check(lock, target, self.processes().iter().any(|process| !process.target.is_empty()));
        if let Some((name, progress)) = self.plan.progress.as_ref().filter(|(name, _)| name != lock) {
            check(name, progress, self.processes().iter().any(|process| !process.measure.is_empty()));
        }
        if !self.had_room {
            problems.push("A name stood for more places than there is room for; the first ones were taken".to_owned());
        }
        let sections = Moment::now(self.shared).sums[0];
        let progress = self.plan.progress.as_ref().map_or(lock, |(name, _)| name).clone();
        let lock = lock.clone();
        let change = self.plan.change;
        WhatIf::new(Facts { command, locks, lock, progress, change, sections, problems }, &self.pairs)
    }
}
