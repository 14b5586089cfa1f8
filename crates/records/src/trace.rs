//! What the preload library notes while a program is traced, as `lockswap trace` reads it: one file that the command
//! makes and all processes of the program map.
//!
//!   bytes 0..4096    [`Header`]: what the command wants, what was lost, and how far the ring was written and read
//!         4096..     the ring: records, each a whole number of [`UNIT`]s long
//!
//! A record begins with a word: its [`Kind`] in the lower half, its length in units in the upper one. The word is zero
//! until the rest of the record is there, and the reader makes it zero again, with all of the record, before it moves
//! on. So a writer that dies on the way leaves a gap of zeros. Behind the word stands an [`Event`], and behind the
//! event of a [`Kind::Stack`] the copied part of a stack.
//!
//! Each thread samples: it notes some of its acquisitions and some of its waits, more seldom the faster they come. An
//! event says as its weight how many of the same sort it stands for, so that a sum of weights is an unbiased estimate
//! of the number of all of them.
//!
//! Times are nanoseconds on a clock that is the same for all processes: on x86-64 the system's monotonic one, from
//! which it may drift away by 1/10000, on aarch64 the counter's own.
//!
//! A process that is ready to be traced has made its file itself, in the folder [`FOLDER`] of its user,
//! where it is called like the process's number.
//! Behind the ring it has its tables of functions then, of which it uses the first:
//!
//!   the functions in use, mapped read-only into the process: who changes them switches tracing on or off
//!   those that trace
//!   those that do not
//!
//! Each takes [`TABLE_BYTES`], of which [`Header::functions`] addresses are in use.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// What [`Header::magic`] holds: the layout of this version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"lswtrac2");

/// Bytes that a record's length is a multiple of.
pub const UNIT: usize = 64;

/// Bytes of the ring.
pub const RING_BYTES: usize = 32 << 20;

/// Bytes of the file. It begins as zeros but for what the command sets in the header; only what is used takes room.
pub const FILE_BYTES: usize = size_of::<Header>() + RING_BYTES;

/// Bytes that a table of functions takes: a page on every machine.
pub const TABLE_BYTES: usize = 64 << 10;

/// Where the tables begin in a file that has some: in use, tracing, not tracing.
pub const TABLES: [usize; 3] = [FILE_BYTES, FILE_BYTES + TABLE_BYTES, FILE_BYTES + 2 * TABLE_BYTES];

/// Bytes of a file with tables.
pub const READY_BYTES: usize = FILE_BYTES + TABLES.len() * TABLE_BYTES;

/// The folder with the files of a user's processes that are ready to be traced begins with this; then follows the
/// user's number.
pub const FOLDER: &str = "/dev/shm/lockswap-trace.";

/// Most bytes that are copied from a stack.
pub const MOST_STACK: usize = 64 << 10;

/// The first page of the file.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`]; set by the command before a process maps the file.
    pub magic: AtomicU64,
    /// Not 0 while events are wanted. Each time that tracing is switched on it is another number.
    pub on: AtomicU32,
    /// How many bytes of a stack are copied at most, at most [`MOST_STACK`]; 0: no stacks.
    pub stack_bytes: AtomicU32,
    /// How far apart the samples of one thread should be, ns; 0: each acquisition and each wait is noted.
    pub spacing: AtomicU64,
    /// Processes that have mapped the file.
    pub processes: AtomicU64,
    /// Records that found no room, because the reader was behind.
    pub lost: AtomicU64,
    /// Noted waits during which nobody could note the holders, because too many objects were waited for.
    pub unwatched: AtomicU64,
    /// How many addresses of functions each table has; 0: the file has no tables.
    pub functions: AtomicU64,
    /// How often tracing was switched on.
    pub sessions: AtomicU64,
    /// Where the next record is written, bytes since the beginning, of which the place in the ring is the remainder.
    pub written: Line,
    /// What was read. Changed by the reader only.
    pub read: Line,
    rest: [u64; 488],
}

/// A number in a cache line of its own.
#[repr(C, align(64))]
pub struct Line(pub AtomicU64);

const _: () = assert!(size_of::<Header>() == 4096);

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Nothing: it fills the end of the ring, where a record does not fit, or the place of a record that did not come
    /// about.
    Padding = 1,
    /// A stack, copied: [`Event::begin`] is when, [`Event::stack`] its number, [`Event::length`] how many bytes
    /// follow, which lay from [`Event::sp`] upwards; [`Event::pc`] and [`Event::fp`] are the other registers. A stack
    /// of a thread that begins to wait has the flag [`BEFORE_WAIT`] and is written before it waits, so one that no
    /// event refers to yet is that of a thread that still waits.
    Stack = 2,
    /// A thread had to wait for an object, and what came of it.
    Wait = 3,
    /// A thread released an object.
    Hold = 4,
    /// A thread is about to acquire an object, and would wait for it, while it holds another one.
    Order = 5,
    /// A thread initialises an object: the first ones at each place in the program have a stack.
    Birth = 6,
}

/// What an event is about, and how.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Use {
    /// A mutex.
    Mutex = 0,
    /// A rwlock, to read.
    Read = 1,
    /// A rwlock, to write.
    Write = 2,
    /// A spinlock.
    Spin = 3,
    /// A condition variable: only waits.
    Condition = 4,
    /// A semaphore: only waits.
    Semaphore = 5,
    /// A barrier: only waits.
    Barrier = 6,
}

impl Use {
    /// All uses, by number.
    pub const ALL: [Use; 7] =
        [Use::Mutex, Use::Read, Use::Write, Use::Spin, Use::Condition, Use::Semaphore, Use::Barrier];

    /// Whether a thread holds it after its wait, so that there is somebody whom others wait for.
    pub const fn has_holder(self) -> bool {
        matches!(self, Use::Mutex | Use::Read | Use::Write | Use::Spin)
    }
}

/// The acquisition failed or the wait ended without what was waited for, for instance by its deadline.
pub const FAILED: u8 = 1;
/// The waiter slept, at least once.
pub const SLEPT: u8 = 2;
/// The length of a hold is not known: another thread released the object, or it is held still.
pub const ENDLESS: u8 = 4;
/// A stack is that of a thread that is about to wait.
pub const BEFORE_WAIT: u8 = 8;

/// An event; which fields it has says its kind, the others are 0.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Event {
    /// The process.
    pub process: u32,
    /// The thread, by the number that the kernel gave it.
    pub thread: u32,
    /// The address of the object in the process.
    pub object: u64,
    /// Where the object was initialised: the return address of that call; 0: statically, or nobody saw it.
    pub birth: u64,
    /// When the wait or the hold began, ns.
    pub begin: u64,
    /// How long it lasted, ns.
    pub length: u64,
    /// The number of the stack record of this event, unique in the file; 0: there is none. That of a wait was copied
    /// before it, that of a hold after the release.
    pub stack: u64,
    /// A hold: time that waiters spent since the release before, times their weight, ns. An order: the address of the
    /// object that the thread holds.
    pub charged: u64,
    /// A wait: how long before its end the object was released, ns; meaningful if `other` is not 0. An order: the
    /// `birth` of the object that the thread holds.
    pub handed: u64,
    /// How many such events this one stands for. 0: a hold that was noted because somebody waited, and is no sample of
    /// all holds.
    pub weight: u32,
    /// A wait: the thread that released the object before it ended; 0: not known.
    pub other: u32,
    /// The CPU on which the wait or the hold ended.
    pub cpu: u16,
    /// A wait: the CPU where the object was released.
    pub other_cpu: u16,
    /// A hold: how many were waiting when it ended, by their weights.
    pub waiters: u32,
    /// A hold: how often its thread gave up its CPU meanwhile, and how often it lost it.
    pub slept: u16,
    /// See above.
    pub preempted: u16,
    /// The number of a [`Use`].
    pub used: u8,
    /// [`FAILED`], [`SLEPT`], [`ENDLESS`], [`BEFORE_WAIT`].
    pub flags: u8,
    /// An order: the number of the [`Use`] of the object that the thread holds.
    pub held_used: u8,
    /// Zero.
    pub rest: u8,
    /// A stack: its registers: the instruction pointer, the stack pointer, the frame pointer; on aarch64 the link
    /// register besides.
    pub pc: u64,
    /// See above.
    pub sp: u64,
    /// See above.
    pub fp: u64,
    /// See above.
    pub lr: u64,
}

const _: () = assert!(size_of::<u64>() + size_of::<Event>() == 2 * UNIT);

/// Bytes of a record with this many bytes of stack.
pub const fn record_bytes(stack: usize) -> usize {
    (size_of::<u64>() + size_of::<Event>() + stack).next_multiple_of(UNIT)
}

/// Where a record finds room in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Behind so many bytes of padding, which fill the rest of the ring where the record is too long for it.
    After(usize),
    /// Nowhere: the reader is behind.
    Nowhere,
    /// Nobody knows: the reader is ahead of `written`, so others have written since a thread has looked there.
    Outdated,
}

/// Where a record of so many bytes finds room in a ring that was `written` and `read` so far.
pub fn room(written: u64, read: u64, bytes: usize) -> Room {
    let Some(unread) = written.checked_sub(read) else { return Room::Outdated };
    let rest = RING_BYTES - (written % RING_BYTES as u64) as usize;
    let padding = if bytes > rest { rest } else { 0 };
    if unread + (padding + bytes) as u64 > RING_BYTES as u64 {
        return Room::Nowhere;
    }
    Room::After(padding)
}

#[cfg(test)]
mod tests {
    use super::{room, Room, RING_BYTES, UNIT};

    #[test]
    fn records_find_room_up_to_the_reader_and_do_not_cross_the_end_of_the_ring() {
        let ring = RING_BYTES as u64;
        assert_eq!(room(0, 0, UNIT), Room::After(0));
        assert_eq!(room(7 * ring, 6 * ring, UNIT), Room::Nowhere);
        assert_eq!(room(7 * ring - 64, 6 * ring, UNIT), Room::After(0));
        assert_eq!(room(7 * ring - 64, 6 * ring, 2 * UNIT), Room::Nowhere);
        assert_eq!(room(7 * ring - 64, 6 * ring + 128, 2 * UNIT), Room::After(64));
    }

    /// A thread looks how far the ring was written and loses its CPU. Meanwhile others write, and all is read.
    #[test]
    fn a_reader_that_is_ahead_is_none_that_is_behind() {
        assert_eq!(room(640, 704, UNIT), Room::Outdated);
        assert_eq!(room(640, 640, UNIT), Room::After(0));
    }
}
