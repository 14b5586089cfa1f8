//! A trace, from the start of a program to its report.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::gather::Gathered;
use crate::live::Step;
use crate::report::{Facts, Notes, Report};
use crate::ring::Reader;
use crate::shared::{Settings, SharedFile};

/// Reads while a program runs.
pub struct Session<'a> {
    shared: &'a SharedFile,
    reader: Reader<'a>,
    stack: Vec<u64>,
    /// What was read.
    pub gathered: Gathered,
    /// Processes that had mapped the file when it was looked at last.
    processes: u64,
    /// When the last step was taken.
    stepped: Instant,
}

impl<'a> Session<'a> {
    /// Reads this file. `keeps_spans`: events are kept for a time line.
    pub fn new(shared: &'a SharedFile, keeps_spans: bool) -> Self {
        let reader = Reader::new(shared.header(), shared.ring());
        Self {
            shared,
            reader,
            stack: Vec::new(),
            gathered: Gathered::new(keeps_spans),
            processes: 0,
            stepped: Instant::now(),
        }
    }

    /// Reads what has come; whether there was anything. `program`: the process that was started. When it has `ended`,
    /// nobody is waited for who has taken room for a record.
    pub fn read(&mut self, program: u32, ended: bool) -> bool {
        // Relaxed: the number says that a process began; what it has mapped is asked of the kernel.
        let processes = self.shared.header().processes.load(Ordering::Relaxed);
        if processes != self.processes {
            // Before it can end: one whose records come later is looked at then.
            self.gathered.processes.look_at(program);
            self.processes = processes;
        }
        let mut any = false;
        while let Some((kind, event)) = self.reader.next(ended, &mut self.stack) {
            self.gathered.take(kind, &event, &self.stack);
            any = true;
        }
        any
    }

    /// Ends the trace: what the program does from now on is not noted.
    pub fn stop(&self) {
        // Relaxed: threads may see it late.
        self.shared.header().on.store(0, Ordering::Relaxed);
    }

    /// Whether any process has traced.
    pub fn has_begun(&self) -> bool {
        self.processes > 0
    }

    /// What came since the step before this one, for somebody who knows so many stacks. A report that comes later has
    /// none of it.
    pub fn step(&mut self, stacks: usize) -> Step {
        let length = self.stepped.elapsed();
        self.stepped += length;
        let lost = self.shared.header().lost.load(Ordering::Relaxed);
        Step::take(&mut self.gathered, stacks, length, lost)
    }

    /// What was found until now.
    pub fn report(&self, command: Vec<String>, locks: Vec<String>, settings: Settings) -> Report {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let header = self.shared.header();
        let notes = Notes {
            spacing_ns: settings.spacing_ns,
            processes: count(&header.processes),
            lost: count(&header.lost),
            unwatched: count(&header.unwatched),
            unfinished: self.reader.skipped,
            ..Notes::default()
        };
        Report::new(&self.gathered, Facts { command, locks, notes })
    }
}
