//! The epochs that a program marks (LibASL, algorithm 2): which one each thread is in, and how long it may stand back
//! there.
//!
//!   thread's words --> Epochs [ depth | frames: id, start | table ]
//!                                                           |
//!                        slots of the thread: id --> [ window | descriptor ]--> one descriptor per id: percentile,
//!                        SLO
//!
//! `lockswap_epoch_start` pushes a frame, `lockswap_epoch_end` pops it, takes the latency and updates the window of
//! the thread's slot for the id. Both touch only memory of the thread, which was mapped at its first epoch, and read
//! the clock only where somebody wants to know: on little cores, and where latencies are recorded in the file that
//! `LOCKSWAP_LATENCIES` names. The innermost epoch's window counts for a lock (paper, section 3.4).
//!
//! | what a program may do                        | what happens                                                       |
//! |----------------------------------------------|--------------------------------------------------------------------|
//! | end an outer epoch before an inner one       | the inner one is dropped without an update, and counted            |
//! | end an epoch that it has not started         | nothing; counted                                                   |
//! | nest deeper than [`DEPTH`]                   | the outermost epoch is forgotten, and counted                      |
//! | use more than 65,536 ids                     | further ids stand back for no time; their ends are counted         |
//! | start on a big core and end on a little one  | no update: the thread did not stand back for all of it             |
//! | start on a little core and end on a big one  | no update (paper, line 21)                                         |
//! | end a thread inside an epoch                 | nothing                                                            |
//! | use epochs in a thread that `pthread_create` | they are ignored, and counted                                      |
//! | has not started, or after its function's end |                                                                    |
//! | begin many threads, each for a few epochs    | a new thread goes on with the window of the one that ended last    |
//! | use epochs in a signal handler               | works; a handler that interrupts the table's growth is ignored     |
//! | fork                                         | the child goes on with the forking thread's epochs                 |

mod ids;
mod records;
mod slots;

pub use ids::set_slos;
pub use records::set_latencies;

use crate::counters::count;
use crate::tls::{self, Keeps, Thread};
use crate::{boot, memory};
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{compiler_fence, Ordering};
use lockswap_locks::asymmetric::epoch::Share;
use lockswap_platform::{window, CoreKind, Native, Ns, Platform};
use lockswap_records::counters::Counter;
use records::is_recording;
use slots::{Slot, Slots};

/// Epochs that a thread can be in at once.
const DEPTH: usize = 64;

/// An epoch that a thread is in.
#[derive(Clone, Copy)]
struct Frame {
    id: c_int,
    kind: CoreKind,
    /// 0 if nobody wants to know how long it takes.
    start: Ns,
}

/// The epochs of one thread.
pub struct Epochs {
    depth: Cell<usize>,
    slots: Slots,
    frames: [Cell<Frame>; DEPTH],
}

/// # Safety
/// As for any function: it may be called anywhere, with any id.
#[no_mangle]
pub unsafe extern "C" fn lockswap_epoch_start(id: c_int) {
    let thread = tls::thread();
    // SAFETY: null, or this thread's memory.
    match unsafe { thread.epochs.get().as_ref() } {
        Some(epochs) => epochs.start(id),
        None => start_first(thread, id),
    }
}

/// # Safety
/// As for any function: it may be called anywhere, with any id.
#[no_mangle]
pub unsafe extern "C" fn lockswap_epoch_end(id: c_int, slo: u64) {
    // SAFETY: null, or this thread's memory.
    match unsafe { tls::thread().epochs.get().as_ref() } {
        Some(epochs) => epochs.end(id, slo),
        None => not_started(),
    }
}

/// Sets the percentile that an epoch's SLO is meant for, 50 to 99.9999.
///
/// # Safety
/// As for any function: it may be called anywhere, with any id.
#[no_mangle]
pub unsafe extern "C" fn lockswap_epoch_percentile(id: c_int, percentile: f64) {
    match Share::missing_from(percentile).zip(ids::descriptor(id)) {
        Some((misses, descriptor)) => descriptor.set_misses(misses),
        None => count(Counter::EpochsIgnored),
    }
}

#[cold]
#[inline(never)]
fn start_first(thread: &Thread, id: c_int) {
    boot::initialise(core::ptr::null());
    // A thread whose end goes unseen would leave its memory behind.
    let memory = if thread.keeps.get() == Keeps::Nothing { None } else { memory::map(size_of::<Epochs>()) };
    let Some(memory) = memory else { return count(Counter::EpochsIgnored) };
    let memory = memory.cast::<Epochs>();
    // SAFETY: new memory; all zero are valid `Epochs`, with slots to be prepared.
    let epochs = unsafe { &*memory };
    epochs.slots.prepare();
    compiler_fence(Ordering::SeqCst);
    thread.epochs.set(memory);
    epochs.start(id);
}

#[cold]
#[inline(never)]
fn not_started() {
    count(Counter::EpochsNotStarted);
}

impl Epochs {
    #[inline(always)]
    fn start(&self, id: c_int) {
        let depth = self.depth.get();
        let Some(frame) = self.frames.get(depth) else { return self.start_deep(id) };
        self.depth.set(depth + 1);
        // A signal handler that comes between the two uses the frames above.
        compiler_fence(Ordering::SeqCst);
        let kind = Native::kind();
        let is_timed = kind == CoreKind::Little || is_recording();
        let start = if is_timed { Native::instant().max(1) } else { 0 };
        frame.set(Frame { id, kind, start });
    }

    #[inline(always)]
    fn end(&self, id: c_int, slo: Ns) {
        let depth = self.depth.get();
        let begun = match self.frames.get(depth.wrapping_sub(1)).map(Cell::get) {
            Some(frame) if frame.id == id => frame,
            _ => return self.end_outer(id, slo),
        };
        compiler_fence(Ordering::SeqCst);
        self.depth.set(depth - 1);
        if begun.start == 0 {
            return;
        }
        let kind = Native::kind();
        if kind == CoreKind::Little || is_recording() {
            let latency = Native::instant().saturating_sub(begun.start);
            match self.slots.find(id) {
                Some(slot) => slot.end(begun, kind, latency, slo),
                None => self.end_first(begun, kind, latency, slo),
            }
        }
    }

    /// Ends the innermost epoch of this id, if there is one, after dropping those inside it.
    #[cold]
    #[inline(never)]
    fn end_outer(&self, id: c_int, slo: Ns) {
        let depth = self.depth.get();
        match self.frames[..depth].iter().rposition(|frame| frame.get().id == id) {
            None => not_started(),
            Some(found) => {
                (found + 1..depth).for_each(|_| count(Counter::EpochsNotEnded));
                self.depth.set(found + 1);
                self.end(id, slo);
            }
        }
    }

    /// Starts an epoch in the place of the outermost one.
    #[cold]
    #[inline(never)]
    fn start_deep(&self, id: c_int) {
        count(Counter::EpochsNotEnded);
        for (frame, next) in self.frames.iter().zip(&self.frames[1..]) {
            frame.set(next.get());
        }
        self.depth.set(DEPTH - 1);
        self.start(id);
    }

    #[cold]
    #[inline(never)]
    fn end_first(&self, begun: Frame, kind: CoreKind, latency: Ns, slo: Ns) {
        match self.slots.make(begun.id) {
            Some(slot) => slot.end(begun, kind, latency, slo),
            None => count(Counter::EpochsIgnored),
        }
    }

    /// The window of the innermost epoch, if there is one.
    fn window(&self) -> Option<Ns> {
        let id = self.frames[self.depth.get().checked_sub(1)?].get().id;
        // An epoch that cannot be remembered does not stand back: its latency would go unseen.
        Some(self.slots.find(id).or_else(|| self.slots.make(id)).map_or(0, Slot::window))
    }
}

/// Makes locks ask for the epoch's window.
pub fn install() {
    window::set_of_epoch(|| {
        // SAFETY: null, or this thread's memory.
        unsafe { tls::thread().epochs.get().as_ref() }.and_then(Epochs::window)
    });
}

/// Gives back the memory of a thread that ends, and leaves its windows to the next one.
pub fn thread_end(thread: &Thread) {
    let epochs = thread.epochs.replace(null_mut());
    if !epochs.is_null() {
        // SAFETY: this thread's own memory, which nothing refers to any more.
        unsafe {
            (*epochs).slots.release();
            memory::unmap(epochs.cast(), size_of::<Epochs>());
        }
    }
}
