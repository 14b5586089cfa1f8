//! A process that is watched. One thread reads what it notes, every few milliseconds, so that nothing is lost while
//! another one looks names up and draws.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use lockswap_trace::attach::Attached;
use lockswap_trace::live::{Live, Over, Whole};
use lockswap_trace::Session;

use super::choice::{threads, words};
use crate::trace::attached::runs;
use crate::trace::INTERVAL;

/// The process, and what was read of it.
pub struct Watched<'a> {
    process: u32,
    attached: &'a Attached,
    read: Mutex<Read<'a>>,
    is_stopped: AtomicBool,
}

struct Read<'a> {
    session: Session<'a>,
    has_ended: bool,
}

/// Why nothing more comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The process has ended.
    Ended,
    /// It runs another program.
    Replaced,
}

impl Ending {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Ending::Ended => "the process has ended",
            Ending::Replaced => "the process runs another program now (exec)",
        }
    }
}

impl<'a> Watched<'a> {
    /// A process to which this command is attached.
    pub fn new(process: u32, attached: &'a Attached) -> Self {
        let read = Read { session: Session::new(attached.shared(), false), has_ended: false };
        Self { process, attached, read: Mutex::new(read), is_stopped: AtomicBool::new(false) }
    }

    /// Reads until the process has ended, or [`Watched::stop`].
    pub fn read(&self) {
        // Relaxed: nothing else is told with it.
        while !self.is_stopped.load(Ordering::Relaxed) {
            thread::sleep(INTERVAL);
            let has_ended = !runs(self.process);
            let mut read = self.lock();
            read.session.read(self.process, has_ended);
            read.has_ended = has_ended;
            if has_ended {
                return;
            }
        }
    }

    /// Ends the reading.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the process has ended, and all was read.
    pub fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    fn lock(&self) -> MutexGuard<'_, Read<'a>> {
        // A panic ends the command.
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a watched process.
#[derive(Default)]
pub struct View {
    /// Its locks.
    pub live: Live,
    /// Why nothing more comes, if so.
    pub ending: Option<Ending>,
    command: String,
    threads: usize,
    lost: u64,
}

impl View {
    /// Looks at what has come since it was looked last.
    pub fn refresh(&mut self, watched: &Watched<'_>) {
        let is_replaced = watched.attached.is_replaced();
        let mut read = watched.lock();
        let (step, has_ended) = (read.session.step(self.live.stacks()), read.has_ended);
        // Names are looked up while the other thread reads on.
        drop(read);
        self.lost = step.lost;
        self.live.add(step);
        self.ending = match (has_ended, is_replaced) {
            (true, _) => Some(Ending::Ended),
            (_, true) => Some(Ending::Replaced),
            _ => None,
        };
        if self.ending.is_none() {
            (self.command, self.threads) = (words(watched.process), threads(watched.process));
        }
    }

    /// The process, in words.
    pub fn title(&self, process: &Watched<'_>) -> String {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        format!("process {}, {} {threads}: {}", process.process, self.threads, self.command)
    }

    /// What all locks together did in this time.
    pub fn summary(&self, over: Over) -> String {
        let Whole { waited_ns, acquisitions, objects } = self.live.whole(over);
        let seconds = self.live.length(over).as_secs_f64().max(1e-9);
        let waited = super::columns::rate(waited_ns / 1e9 / seconds);
        let acquired = lockswap_study::numbers::count(acquisitions / seconds);
        let locks = if objects == 1 { "lock" } else { "locks" };
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; {lost} records found no room: a larger --spacing brings fewer"),
        };
        format!("{objects} {locks}: {waited} s/s waited, {acquired}/s acquired{lost}")
    }
}
