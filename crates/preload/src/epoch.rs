//! The epochs that a program marks (LibASL, algorithm 2): which one each thread is in, and how long it may stand back there.
//!
//!   thread's words --> Epochs [ depth | frames: id, start | table ]
//!                                                           |
//!                        slots of the thread: id --> [ window | descriptor ]--> one descriptor per id: percentile, SLO
//!
//! `lockswap_epoch_start` pushes a frame, `lockswap_epoch_end` pops it, takes the latency and updates the window of the
//! thread's slot for the id. Both touch only memory of the thread, which was mapped at its first epoch, and read the clock
//! only where somebody wants to know: on little cores, and where latencies are recorded in the file that
//! `LOCKSWAP_LATENCIES` names. The innermost epoch's window counts for a lock (paper, section 3.4).
//!
//! | what a program may do                        | what happens                                                       |
//! |----------------------------------------------|--------------------------------------------------------------------|
//! | end an outer epoch before an inner one       | the inner one is dropped without an update, and counted            |
//! | end an epoch that it has not started         | nothing; counted                                                   |
//! | nest deeper than [`DEPTH`]                   | the outermost epoch is forgotten, and counted                      |
//! | use more than [`MOST_IDS`] ids               | further ids stand back for no time; their ends are counted         |
//! | start on a big core and end on a little one  | no update: the thread did not stand back for all of it             |
//! | start on a little core and end on a big one  | no update (paper, line 21)                                         |
//! | end a thread inside an epoch                 | nothing                                                            |
//! | begin many threads, each for a few epochs    | a new thread goes on with the window of the one that ended last    |
//! | use epochs in a signal handler               | works; a handler that interrupts the table's growth is ignored     |
//! | fork                                         | the child goes on with the forking thread's epochs                 |

use crate::boot;
use crate::counters::count;
use crate::tls::{self, Thread};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{compiler_fence, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use lockswap_locks::asymmetric::epoch::{Share, Target, Window};
use lockswap_locks::asymmetric::latency::{File, Record, Run, FILE_WORDS};
use lockswap_locks::counters::Counter;
use lockswap_platform::{parse_duration, window, CoreKind, Native, Ns, Platform};

/// Epochs that a thread can be in at once.
const DEPTH: usize = 64;
/// Ids that a process can use; 4 MiB of address space are reserved for them at the first epoch.
const MOST_IDS: usize = 65_536;
/// Slots that a thread has at first; it gets twice as many whenever more than half of them are in use.
const FIRST_SLOTS: usize = 16;

/// What the whole process knows about an id.
#[repr(align(64))]
struct Descriptor {
    id: c_int,
    /// See [`Share::to_bits`].
    misses: AtomicU32,
    /// An SLO from outside plus one; 0 where the program's own counts.
    slo: AtomicU64,
    /// The window that the last thread to end has left plus one; 0 where there is none.
    window: AtomicU64,
    next: *const Descriptor,
}

/// An epoch that a thread is in.
#[derive(Clone, Copy)]
struct Frame {
    id: c_int,
    kind: CoreKind,
    /// 0 if nobody wants to know how long it takes.
    start: Ns,
}

/// One thread's part of an id; all zero while it is free.
#[derive(Clone)]
struct Slot {
    id: c_int,
    window: Cell<Window>,
    /// Null while the slot is free.
    descriptor: *const Descriptor,
    /// Where latencies on big and on little cores are recorded, once they are.
    records: [Cell<Option<Record<'static>>>; 2],
}

/// The epochs of one thread.
pub struct Epochs {
    depth: Cell<usize>,
    /// Whether the thread is changing its table; a signal handler leaves it alone then.
    busy: Cell<bool>,
    /// log2 of the number of slots.
    bits: Cell<u32>,
    used: Cell<usize>,
    slots: Cell<*mut Slot>,
    frames: [Cell<Frame>; DEPTH],
    first_slots: [Slot; FIRST_SLOTS],
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
    match (Share::missing_from(percentile), descriptor(id)) {
        // Relaxed: whoever ends an epoch meanwhile uses the one or the other.
        (Some(misses), Some(descriptor)) => descriptor.misses.store(misses.to_bits(), Ordering::Relaxed),
        _ => count(Counter::EpochsIgnored),
    }
}

#[cold]
#[inline(never)]
fn start_first(thread: &Thread, id: c_int) {
    boot::initialise(core::ptr::null());
    let Some(memory) = boot::try_map(size_of::<Epochs>()) else {
        return count(Counter::EpochsIgnored);
    };
    let epochs = memory.cast::<Epochs>();
    // SAFETY: new memory; all zero are valid `Epochs` but for the table.
    let epochs = unsafe { &*epochs };
    epochs.bits.set(FIRST_SLOTS.ilog2());
    epochs.slots.set(epochs.first_slots.as_ptr().cast_mut());
    thread.epochs.set(core::ptr::from_ref(epochs).cast_mut());
    boot::at_thread_end(thread);
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
        let mut depth = self.depth.get();
        if depth == DEPTH {
            depth = self.forget_outermost();
        }
        self.depth.set(depth + 1);
        // A signal handler that comes between the two uses the frames above.
        compiler_fence(Ordering::SeqCst);
        let kind = Native::kind();
        let is_timed = kind == CoreKind::Little || latencies().is_some();
        let start = if is_timed { Native::instant().max(1) } else { 0 };
        self.frames[depth].set(Frame { id, kind, start });
    }

    #[inline(always)]
    fn end(&self, id: c_int, slo: u64) {
        let mut depth = self.depth.get();
        if depth == 0 || self.frames[depth - 1].get().id != id {
            match self.leave_to(id) {
                Some(found) => depth = found,
                None => return not_started(),
            }
        }
        let begun = self.frames[depth - 1].get();
        compiler_fence(Ordering::SeqCst);
        self.depth.set(depth - 1);
        let kind = Native::kind();
        if begun.start != 0 && (kind == CoreKind::Little || latencies().is_some()) {
            let latency = Native::instant().saturating_sub(begun.start);
            match self.find(id) {
                Some(slot) => slot.end(begun, kind, latency, slo),
                None => self.end_first(begun, kind, latency, slo),
            }
        }
    }

    /// Drops the epochs inside the innermost one of this id; the depth with that one, or `None` if there is none.
    #[cold]
    #[inline(never)]
    fn leave_to(&self, id: c_int) -> Option<usize> {
        let depth = self.depth.get();
        let found = self.frames[..depth].iter().rposition(|frame| frame.get().id == id)? + 1;
        (found..depth).for_each(|_| count(Counter::EpochsNotEnded));
        Some(found)
    }

    #[cold]
    #[inline(never)]
    fn forget_outermost(&self) -> usize {
        count(Counter::EpochsNotEnded);
        for (frame, next) in self.frames.iter().zip(&self.frames[1..]) {
            frame.set(next.get());
        }
        DEPTH - 1
    }

    #[cold]
    #[inline(never)]
    fn end_first(&self, begun: Frame, kind: CoreKind, latency: Ns, slo: Ns) {
        match self.make(begun.id) {
            Some(slot) => slot.end(begun, kind, latency, slo),
            None => count(Counter::EpochsIgnored),
        }
    }

    /// The window of the innermost epoch, if there is one.
    fn window(&self) -> Option<Ns> {
        let id = self.frames[self.depth.get().checked_sub(1)?].get().id;
        // An epoch that cannot be remembered does not stand back: its latency would go unseen.
        Some(self.find(id).or_else(|| self.make(id)).map_or(0, |slot| slot.window.get().get()))
    }

    /// The slot of this id, or the free one where it belongs.
    #[inline(always)]
    fn probe(&self, id: c_int) -> &Slot {
        let bits = self.bits.get();
        // Fibonacci hashing: consecutive ids, and ids with a regular distance, spread over the table.
        let mut index = (id as u32).wrapping_mul(0x9E37_79B9) >> (32 - bits);
        loop {
            // SAFETY: the table has 2^bits slots, and more than half of them are free.
            let slot = unsafe { &*self.slots.get().add(index as usize) };
            if slot.id == id || slot.descriptor.is_null() {
                return slot;
            }
            index = (index + 1) & ((1 << bits) - 1);
        }
    }

    #[inline(always)]
    fn find(&self, id: c_int) -> Option<&Slot> {
        let slot = self.probe(id);
        (!slot.descriptor.is_null()).then_some(slot)
    }

    /// Makes a slot for an id that has none.
    #[cold]
    fn make(&self, id: c_int) -> Option<&Slot> {
        if self.busy.replace(true) {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        let made = descriptor(id).filter(|_| self.make_room()).map(|descriptor| {
            let free = core::ptr::from_ref(self.probe(id)).cast_mut();
            // Relaxed: a hint.
            let left = descriptor.window.load(Ordering::Relaxed);
            let window = left.checked_sub(1).map_or(Window::NEW, Window::resume);
            // SAFETY: a free slot of this thread's, which it alone uses.
            unsafe {
                free.write(Slot { id, window: Cell::new(window), descriptor, records: Default::default() });
                self.used.set(self.used.get() + 1);
                &*free
            }
        });
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        made
    }

    /// Makes sure that more than half of the table is free with one slot more; whether that is so.
    fn make_room(&self) -> bool {
        let bits = self.bits.get();
        if self.used.get() < 1 << (bits - 1) {
            return true;
        }
        let Some(memory) = boot::try_map(size_of::<Slot>() << (bits + 1)) else { return false };
        let (old, bytes) = (self.slots.replace(memory.cast()), size_of::<Slot>() << bits);
        self.bits.set(bits + 1);
        // SAFETY: the old table, which nobody uses any more; the new one is all zero, and large enough.
        unsafe {
            for slot in core::slice::from_raw_parts(old, 1 << bits) {
                if !slot.descriptor.is_null() {
                    core::ptr::from_ref(self.probe(slot.id)).cast_mut().write(slot.clone());
                }
            }
            if old.cast_const() != self.first_slots.as_ptr() {
                boot::unmap(old.cast(), bytes);
            }
        }
        true
    }
}

impl Slot {
    #[inline(always)]
    fn end(&self, begun: Frame, kind: CoreKind, latency: Ns, slo: Ns) {
        // SAFETY: not null, as the slot is in use; descriptors live for ever.
        let descriptor = unsafe { &*self.descriptor };
        // Relaxed, both: settings, which may change at any time.
        let slo = descriptor.slo.load(Ordering::Relaxed).checked_sub(1).unwrap_or(slo);
        if kind == CoreKind::Little && begun.kind == CoreKind::Little {
            let misses = Share::from_bits(descriptor.misses.load(Ordering::Relaxed));
            let mut window = self.window.get();
            window.update(latency, Target { slo, misses, longest: window::longest() });
            self.window.set(window);
        }
        if let Some(file) = latencies() {
            let run = Run { start: begun.start, latency, slo, window: self.window.get().get() };
            match self.records[kind as usize].get() {
                Some(record) => record.count(run),
                None => self.record_first(file, kind, run),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn record_first(&self, file: File<'static>, kind: CoreKind, run: Run) {
        let record = file.claim(self.id, kind);
        self.records[kind as usize].set(record);
        match record {
            Some(record) => record.count(run),
            None => file.count_unrecorded(),
        }
    }
}

/// The file of latencies; null while none are recorded.
static LATENCIES: AtomicPtr<[AtomicU64; FILE_WORDS]> = AtomicPtr::new(null_mut());

/// Records latencies in `file` from now on.
///
/// # Safety
/// `file` stays mapped and writable.
pub unsafe fn set_latencies(file: *mut [AtomicU64; FILE_WORDS]) {
    // Relaxed, here and below: set before a second thread exists.
    LATENCIES.store(file, Ordering::Relaxed);
}

#[inline(always)]
fn latencies() -> Option<File<'static>> {
    // SAFETY: null, or as `set_latencies` says.
    unsafe { LATENCIES.load(Ordering::Relaxed).as_ref() }.map(File::new)
}

/// The descriptors, used from the first on, and how many are taken.
static DESCRIPTORS: AtomicPtr<Descriptor> = AtomicPtr::new(null_mut());
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Descriptors by id; the newest of a bucket first.
static BUCKETS: [AtomicPtr<Descriptor>; 1024] = [const { AtomicPtr::new(null_mut()) }; 1024];

/// The descriptor of an id, made if there is none; `None` if there are too many. Needs no lock, so that a fork, and a
/// signal handler, may come at any time.
fn descriptor(id: c_int) -> Option<&'static Descriptor> {
    let bucket = &BUCKETS[id as u32 as usize % BUCKETS.len()];
    // ORDER(descriptor): Acquire, here and in the exchange, pairs with the Release of the exchange; its fields.
    let mut head = bucket.load(Ordering::Acquire);
    let mut own: Option<*mut Descriptor> = None;
    loop {
        let mut next = head.cast_const();
        // SAFETY: null, or a descriptor, which lives for ever and does not change its id and its next.
        while let Some(found) = unsafe { next.as_ref() } {
            if found.id == id {
                // What was taken in vain, because another thread came first, stays unused.
                return Some(found);
            }
            next = found.next;
        }
        let new = match own {
            Some(new) => new,
            None => take_descriptor()?,
        };
        own = Some(new);
        // SAFETY: this thread's own until the exchange; all zero else.
        unsafe {
            (&raw mut (*new).id).write(id);
            (&raw mut (*new).next).write(head);
        }
        match bucket.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => return Some(unsafe { &*new }),
            Err(found) => head = found,
        }
    }
}

fn take_descriptor() -> Option<*mut Descriptor> {
    const BYTES: usize = MOST_IDS * size_of::<Descriptor>();
    // Relaxed, all: the memory is zero for whoever learns its address, and each descriptor is one thread's.
    let mut all = DESCRIPTORS.load(Ordering::Relaxed);
    if all.is_null() {
        all = boot::try_map(BYTES)?.cast();
        if let Err(first) = DESCRIPTORS.compare_exchange(null_mut(), all, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: mapped above, and nobody has seen it.
            unsafe { boot::unmap(all.cast::<c_void>(), BYTES) };
            all = first;
        }
    }
    let taken =
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| (taken < MOST_IDS).then_some(taken + 1));
    Some(all.wrapping_add(taken.ok()?))
}

/// Sets SLOs as `5=50us,7=1ms` lists them, whatever the program says; whether that is such a list.
pub fn set_slos(list: &str) -> bool {
    list.split(',').all(|entry| {
        let parsed = entry.split_once('=').and_then(|(id, slo)| Some((id.parse().ok()?, parse_duration(slo)?)));
        let descriptor = parsed.and_then(|(id, slo)| Some((descriptor(id)?, slo)));
        descriptor.map(|(descriptor, slo)| descriptor.slo.store(slo + 1, Ordering::Relaxed)).is_some()
    })
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
    if epochs.is_null() {
        return;
    }
    // SAFETY: this thread's own memory, which nothing refers to any more.
    unsafe {
        let (slots, count) = ((*epochs).slots.get(), 1 << (*epochs).bits.get());
        for slot in core::slice::from_raw_parts(slots, count) {
            let Some(descriptor) = slot.descriptor.as_ref() else { continue };
            slot.records.iter().filter_map(Cell::take).for_each(|record| record.release());
            if slot.window.get().has_run() {
                descriptor.window.store(slot.window.get().get() + 1, Ordering::Relaxed);
            }
        }
        if slots.cast_const() != (*epochs).first_slots.as_ptr() {
            boot::unmap(slots.cast(), size_of::<Slot>() * count);
        }
        boot::unmap(epochs.cast(), size_of::<Epochs>());
    }
}
