//! Experiments on a running program: sections of chosen objects get longer, or all other threads are held up for as
//! long as the sections should be shorter ([`lockswap_records::whatif`] says how that works, and is the layout of the
//! file that `LOCKSWAP_WHATIF` names). Only where it names one: then the table of functions holds those of
//! [`functions`].
//!
//! Each thread knows how much of what is owed it has paid, that is, for how long it was held up. It pays before it
//! takes something from another thread, and before it lets another one go on: a lock, a signal, the start of a thread.
//! So whatever one thread does to another one happens at a moment when both have paid. A thread that had to wait for
//! another one needs not pay what came to be owed meanwhile: who let it go on has.
//!
//! A section is that of a thread that holds one of the chosen objects, a rwlock only to write. What it waits for
//! meanwhile is no part of what is shortened, since a shorter section would have to wait for that, too.

mod functions;

use super::births::site_of_birth;
use super::watch::hash;
use crate::tls;
use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
pub use functions::put;
use lockswap_platform::{Native, Ns, Platform};
use lockswap_records::whatif::{Counts, Owed, Phase, Process, Shared, COUNTS, MAGIC, OWED_WORDS, WHOLE};

/// Debts below this are left until they are larger: to wait for so short a time takes as long again.
const SMALLEST_DEBT: i64 = 500;
/// Debts above this are slept away, but for about what a thread may sleep too long.
const SHORTEST_SLEEP: i64 = 200_000;
const OVERSLEEPING: i64 = 100_000;
/// A sleep lasts no longer, so that it ends soon after its phase.
const LONGEST_SLEEP: i64 = 2_000_000;

/// Null while there is no experiment. Relaxed, both: set before a second thread exists.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());

/// A thread's words for this module; all zero at its start.
pub struct Thread {
    /// The phase that the other words belong to, as [`Phase::word`] has it.
    phase: Cell<u64>,
    /// How much of what is owed in this phase it has paid, as [`Owed`] has it.
    paid: Cell<u64>,
    /// Whether it runs sections, and the share of the moment since when.
    is_running: Cell<bool>,
    since: Cell<u64>,
    /// The sections that it is in.
    sections: [Cell<Section>; 4],
    /// Whether this thread is writing these words: a signal handler that runs meanwhile takes no part.
    is_busy: Cell<bool>,
}

/// A section; what it belongs to is at the address `object`, 0: none.
#[derive(Clone, Copy)]
struct Section {
    object: usize,
    begin: Ns,
    /// The phase in which it began.
    phase: u64,
    /// How often a recursive mutex is held.
    depth: u32,
}

const NONE: Section = Section { object: 0, begin: 0, phase: 0, depth: 0 };

/// The file, and this process's part of it.
#[derive(Clone, Copy)]
struct World {
    shared: &'static Shared,
    process: &'static Process,
}

/// Takes part in the experiment of this file from now on, if a command that knows this layout made it and it has room.
///
/// # Safety
/// The process has one thread; `file` is mapped for good, all of it.
pub unsafe fn open(file: *mut Shared) -> bool {
    // SAFETY: as for this call; it is made of atomics. Relaxed: set by the command before this process began.
    let shared = unsafe { &*file };
    if shared.magic.load(Ordering::Relaxed) != MAGIC {
        return false;
    }
    let number = shared.processes.fetch_add(1, Ordering::Relaxed) as usize;
    let Some(process) = shared.processes_table.get(number) else { return false };
    SHARED.store(file, Ordering::Relaxed);
    PROCESS.store(core::ptr::from_ref(process).cast_mut(), Ordering::Relaxed);
    process.number.store(super::ring::process_now(), Ordering::Relaxed);
    true
}

fn world() -> Option<World> {
    // SAFETY: null, or a file that stays.
    unsafe {
        let shared = SHARED.load(Ordering::Relaxed).as_ref()?;
        Some(World { shared, process: PROCESS.load(Ordering::Relaxed).as_ref()? })
    }
}

/// Remembers where objects are initialised, so that the command can find out what these places are called.
pub fn note_birth(site: usize) {
    /// Places that are looked at.
    const LOOKS: usize = 32;
    let Some(World { process, .. }) = world() else { return };
    let first = hash(site);
    let places = (first..first + LOOKS).filter_map(|place| process.births.get(place % process.births.len()));
    for place in places {
        // Relaxed: an address, and nothing belongs to it.
        match place.compare_exchange(0, site as u64, Ordering::Relaxed, Ordering::Relaxed) {
            Err(other) if other != site as u64 => {}
            _ => return,
        }
    }
}

/// A thread has begun, which owes nothing yet.
pub fn thread_begins() {
    let Some(world) = world() else { return };
    let thread = &tls::thread().whatif;
    thread.alone(|| {
        let owed = world.owed(thread.phase.get(), Native::instant());
        thread.paid.set(owed);
    });
}

/// A thread ends: those who wait for its end rely on its having paid.
pub fn thread_end() {
    if world().is_some() {
        tls::thread().whatif.meet();
    }
}

/// In the child of a fork: what it runs is its parent's section.
pub fn enter_child() {
    let thread = &tls::thread().whatif;
    thread.is_running.set(false);
    thread.sections.iter().for_each(|section| section.set(NONE));
}

/// The share of a time that is owed for it in a phase.
#[inline(always)]
fn share_of(phase: u64, time: Ns) -> u64 {
    ((u128::from(time) * u128::from(Phase::of(phase).share)) / u128::from(WHOLE)) as u64
}

impl World {
    fn phase(self) -> u64 {
        // Relaxed: a setting, and all that belongs to it is in the same word.
        self.shared.phase.load(Ordering::Relaxed)
    }

    /// The word for what is owed in a phase.
    ///
    /// Relaxed, all its uses: what a thread came to owe others before it let one of them go on, that one sees, since
    /// the lock or what else it was orders both.
    fn word(self, phase: u64) -> &'static AtomicU64 {
        &self.process.owed[Phase::of(phase).number as usize % OWED_WORDS].0
    }

    /// What is owed at a time.
    fn owed(self, phase: u64, now: Ns) -> u64 {
        Owed::of(self.word(phase).load(Ordering::Relaxed)).sum(share_of(phase, now))
    }

    fn counts(self) -> &'static Counts {
        &self.shared.counts[tls::identity() as usize % COUNTS]
    }

    /// Whether sections of this object are changed.
    #[inline(always)]
    fn is_target(self, object: usize) -> bool {
        self.process.target.has(object, || site_of_birth(object))
    }

    /// Counts a release, if those of this object are counted.
    #[inline(always)]
    fn count_release(self, object: usize) {
        if self.process.measure.has(object, || site_of_birth(object)) {
            // Relaxed: a statistic.
            self.counts().releases.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Thread {
    /// Runs `body`, which writes this thread's words, in the phase of now, unless that is what was interrupted.
    #[inline(always)]
    fn alone<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        let phase = world()?.phase();
        if self.is_busy.replace(true) {
            return None;
        }
        if self.phase.replace(phase) != phase {
            // Nothing is owed from one phase to the next. What came to be owed since this one began is, also by those
            // who have not called anything since.
            self.paid.set(0);
            self.is_running.set(false);
        }
        let result = body();
        self.is_busy.set(false);
        Some(result)
    }

    /// Pays, before this thread does something that concerns others; what is owed then. Until [`Thread::go_on`] it
    /// runs no section.
    #[inline(always)]
    fn meet(&self) -> Option<u64> {
        let world = world()?;
        self.alone(|| {
            let phase = self.phase.get();
            if self.is_running.take() {
                let shortened = share_of(phase, Native::instant()).saturating_sub(self.since.get());
                world.word(phase).fetch_add(Owed::end(self.since.get() + shortened), Ordering::Relaxed);
                self.paid.set(self.paid.get().wrapping_add(Owed::sum_of(shortened)));
                world.counts().shortened.fetch_add(shortened, Ordering::Relaxed);
            }
            loop {
                let word = Owed::of(world.word(phase).load(Ordering::Relaxed));
                // Without sections that run, no time is needed.
                let now = if word.is_still() { 0 } else { Native::instant() };
                let owed = word.sum(share_of(phase, now));
                let debt = Owed::difference(owed, self.paid.get());
                if debt < SMALLEST_DEBT || world.phase() != phase {
                    return owed;
                }
                self.pay(debt);
            }
        })
    }

    /// Waits for about this long, and pays by that.
    #[cold]
    #[inline(never)]
    fn pay(&self, debt: i64) {
        let begin = Native::instant();
        if debt > SHORTEST_SLEEP {
            Native::sleep((debt - OVERSLEEPING).min(LONGEST_SLEEP) as Ns);
        } else {
            spin_until(begin + debt as Ns);
        }
        let waited = Native::instant().saturating_sub(begin);
        self.paid.set(self.paid.get().wrapping_add(Owed::sum_of(waited)));
    }

    /// Goes on after what began with [`Thread::meet`], which returned `before`, unless a phase or a signal handler
    /// came between. What came to be owed meanwhile the thread need not pay, if it `was_let` go on by another one.
    /// `acquired`: an object that it holds since, which may be recursive.
    #[inline(always)]
    fn go_on(&self, before: Option<u64>, was_let: bool, acquired: Option<(usize, bool)>) {
        let (Some(world), Some(before)) = (world(), before) else { return };
        let phase = self.phase.get();
        self.alone(|| {
            let (is_same, phase) = (phase == self.phase.get(), self.phase.get());
            if was_let && is_same {
                let word = Owed::of(world.word(phase).load(Ordering::Relaxed));
                let now = if word.is_still() { 0 } else { Native::instant() };
                let waited_for = word.sum(share_of(phase, now)).wrapping_sub(before);
                self.paid.set(self.paid.get().wrapping_add(waited_for));
            }
            if let Some((object, is_recursive)) = acquired.filter(|(object, _)| world.is_target(*object)) {
                self.begin_section(object, is_recursive);
            }
            let is_inside = |section: &Cell<Section>| section.get().object != 0 && section.get().phase == phase;
            if Phase::of(phase) != Phase::NONE && self.sections.iter().any(is_inside) {
                let now = share_of(phase, Native::instant());
                world.word(phase).fetch_add(Owed::begin(now), Ordering::Relaxed);
                self.since.set(now);
                self.is_running.set(true);
            }
        });
    }

    fn begin_section(&self, object: usize, is_recursive: bool) {
        let find = |object: usize| self.sections.iter().find(|section| section.get().object == object);
        if let Some(again) = find(object).filter(|_| is_recursive) {
            again.set(Section { depth: again.get().depth + 1, ..again.get() });
            return;
        }
        // One that this thread has already, of a mutex that is not recursive, was ended by another thread.
        let oldest = || self.sections.iter().min_by_key(|section| section.get().begin);
        if let Some(place) = find(object).or_else(|| find(0)).or_else(oldest) {
            place.set(Section { object, begin: Native::instant(), phase: self.phase.get(), depth: 1 });
        }
    }

    /// Ends the section of an object that this thread is about to release; whether there was one.
    #[inline(always)]
    fn end_section(&self, object: usize) -> bool {
        let Some(place) = self.sections.iter().find(|section| section.get().object == object) else { return false };
        self.alone(|| self.end_section_at(place));
        true
    }

    fn end_section_at(&self, place: &Cell<Section>) {
        let (Some(world), section) = (world(), place.get()) else { return };
        if section.depth > 1 {
            place.set(Section { depth: section.depth - 1, ..section });
            return;
        }
        place.set(NONE);
        let now = Native::instant();
        let counts = world.counts();
        // Relaxed: statistics, and a setting.
        counts.sections.fetch_add(1, Ordering::Relaxed);
        counts.length.fetch_add(now.saturating_sub(section.begin), Ordering::Relaxed);
        spin_until(now + world.shared.delay.load(Ordering::Relaxed));
    }
}

fn spin_until(end: Ns) {
    while Native::instant() < end {
        Native::relax(1);
    }
}
