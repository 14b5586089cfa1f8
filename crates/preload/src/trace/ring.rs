//! The file of a trace: the ring that records go to.

use super::stack::STACK_NUMBER;
use crate::sandbox;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use lockswap_platform::Ns;
use lockswap_records::trace::{record_bytes, room, Event, Header, Kind, Room, MAGIC, MOST_STACK, RING_BYTES, UNIT};
use syscalls::{syscall, Sysno};

/// The mapped file, of which the header is the beginning.
#[repr(transparent)]
pub struct Ring(Header);

/// Null while nothing is traced. Relaxed: set before a second thread exists.
static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());

/// The number of this process. Relaxed: set while it has one thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the ring is accessible. Relaxed: who misses it makes it accessible once more.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// More threads than this make each thread note less.
const FULL_RATE: u32 = 4;

/// Writes to this file from now on, if a command that knows this layout made it.
///
/// # Safety
/// The process has one thread; `file` is mapped for good, all of it.
pub unsafe fn open(file: *mut Header) -> bool {
    // SAFETY: as for this call; a header is made of atomics, and a ring has no further fields. Relaxed: set by the
    // command before this process began.
    let ring = unsafe { &*file.cast::<Ring>() };
    if ring.0.magic.load(Ordering::Relaxed) != MAGIC {
        return false;
    }
    RING.store(file.cast(), Ordering::Relaxed);
    ring.enter_child();
    true
}

/// The file that is written to.
#[inline]
pub fn get() -> Option<&'static Ring> {
    // SAFETY: null, or a file that stays.
    unsafe { RING.load(Ordering::Relaxed).as_ref() }
}

/// The number of this process.
pub fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// The number of this process, as the kernel has it now.
pub fn process_now() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall!(Sysno::getpid) }.unwrap_or(0) as u32
}

impl Ring {
    /// Which switching on of tracing this is; 0: it is off.
    pub fn session(&self) -> u32 {
        // Relaxed: a setting.
        self.0.on.load(Ordering::Relaxed)
    }

    /// Whether records may be written, to a ring that was not accessible until now if need be.
    pub fn is_open(&self) -> bool {
        IS_OPEN.load(Ordering::Relaxed) || self.open_now()
    }

    #[cold]
    fn open_now(&self) -> bool {
        let ring = core::ptr::from_ref(self).addr() + size_of::<Header>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: whole pages of the file, and nobody relies on their being inaccessible.
        let is_open = sandbox::is_free() && unsafe { syscall!(Sysno::mprotect, ring, RING_BYTES, access) }.is_ok();
        IS_OPEN.store(is_open, Ordering::Relaxed);
        is_open
    }

    /// Counts a process that begins.
    pub fn enter_child(&self) {
        PROCESS.store(process_now(), Ordering::Relaxed);
        // Relaxed: a statistic.
        self.0.processes.fetch_add(1, Ordering::Relaxed);
    }

    /// How far apart the samples of a thread should be where so many threads note some, ns.
    pub fn spacing(&self, threads: u32) -> Ns {
        // Relaxed: a setting.
        self.0.spacing.load(Ordering::Relaxed) * Ns::from(threads.max(FULL_RATE)) / Ns::from(FULL_RATE)
    }

    /// How many bytes of a stack are copied at most.
    pub fn stack_bytes(&self) -> usize {
        // Relaxed: a setting.
        (self.0.stack_bytes.load(Ordering::Relaxed) as usize).min(MOST_STACK)
    }

    /// Counts a wait whose object nobody could watch.
    pub fn count_unwatched(&self) {
        // Relaxed: a statistic.
        self.0.unwatched.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a record without a stack.
    pub fn write(&self, kind: Kind, event: &Event) {
        if let Some(record) = self.reserve(record_bytes(0)) {
            record.publish(kind, event);
        }
    }

    /// Room for a record of so many bytes, a multiple of [`UNIT`], which are zeros; nothing where the reader is
    /// behind.
    pub fn reserve(&self, bytes: usize) -> Option<Record> {
        let header = &self.0;
        // Relaxed: the exchange below finds out whether it is still true.
        let mut written = header.written.0.load(Ordering::Relaxed);
        loop {
            // ORDER(ring): Acquire pairs with the reader's Release: it has made zeros of what it read.
            let padding = match room(written, header.read.0.load(Ordering::Acquire), bytes) {
                Room::After(padding) => padding,
                Room::Nowhere => {
                    // Relaxed: a statistic.
                    header.lost.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Room::Outdated => {
                    // Relaxed: the reader looked here before its Release, so this is no older than what it saw.
                    written = header.written.0.load(Ordering::Relaxed);
                    continue;
                }
            };
            let end = written + (padding + bytes) as u64;
            // Relaxed: who has reserved a place says so by the word at its beginning only.
            match header.written.0.compare_exchange_weak(written, end, Ordering::Relaxed, Ordering::Relaxed) {
                Err(now) => written = now,
                Ok(_) => {
                    if padding > 0 {
                        self.at(written, padding).publish(Kind::Padding, &Event::default());
                    }
                    return Some(self.at(written + padding as u64, bytes));
                }
            }
        }
    }

    /// The record at this distance from the beginning, of so many bytes.
    fn at(&self, distance: u64, bytes: usize) -> Record {
        let start = core::ptr::from_ref(self).cast_mut().cast::<u8>();
        // SAFETY: inside the ring, which follows the header and is mapped.
        let start = unsafe { start.add(size_of::<Header>() + (distance % RING_BYTES as u64) as usize) };
        Record { start, bytes, number: distance + STACK_NUMBER }
    }
}

/// A record that is being written.
pub struct Record {
    start: *mut u8,
    bytes: usize,
    /// A number that no other record of the file has; not 0.
    pub number: u64,
}

impl Record {
    /// Where its stack goes.
    pub fn stack(&self) -> *mut u8 {
        // SAFETY: inside the record.
        unsafe { self.start.add(size_of::<u64>() + size_of::<Event>()) }
    }

    /// Lets the reader have it.
    pub fn publish(self, kind: Kind, event: &Event) {
        // SAFETY: inside the record, which is this thread's until the word is stored, and aligned to a unit. A record
        // that is one unit long is padding, which nobody reads but for its word.
        unsafe {
            if self.bytes > UNIT {
                self.start.add(size_of::<u64>()).cast::<Event>().write(*event);
            }
            let word = ((self.bytes / UNIT) as u64) << 32 | kind as u64;
            // ORDER(ring): Release pairs with the reader's Acquire: the rest of the record is there.
            (*self.start.cast::<AtomicU64>()).store(word, Ordering::Release);
        }
    }
}
