//! The file of an experiment on a running program (`lockswap trace --delay`, `--shorten`): the command says in it what
//! is changed at the moment, and the preload library counts there.
//!
//! An experiment takes turns: in each *phase* sections of the chosen objects are either as they are, or longer by
//! [`Shared::delay`], or treated as if they were shorter by a share of their length. The file has room for the
//! programs that the command starts, one after the other: each that loads the library takes one [`Process`]. Children
//! of a fork stay with that of their parent, whose addresses they have.
//!
//! **Virtual time.** Nobody can make a section shorter. But all other threads can be held up for as long as it should
//! have been shorter (Curtsinger and Berger, "Coz: finding code that counts with causal profiling", SOSP 2015, section
//! 3.4). So while a thread runs a section for a time t, others come to owe `share` times t, and a phase lasted as much
//! less than the clock says as they came to owe. What they owe is a sum over the sections that have ended and those
//! that run, which goes on while they run; [`Process::owed`] holds it in a single word so that it can be read as a
//! whole.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What [`Shared::magic`] holds: the layout of this version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"lswwhat1");

/// Programs that the file has room for.
pub const MOST_PROCESSES: usize = 32;

/// Variables, or places where objects are initialised, that one name can stand for.
pub const MOST_PLACES: usize = 16;

/// Different places of a program where objects are initialised that are remembered.
pub const MOST_BIRTHS: usize = 1024;

/// Words for what is owed: a phase uses the one that its number says, so that what comes late from an earlier one is
/// lost.
pub const OWED_WORDS: usize = 64;

/// Sets of counts: a thread uses the one that its number says.
pub const COUNTS: usize = 64;

/// A share of 1, as [`Phase::share`] has it.
pub const WHOLE: u32 = 1 << 16;

/// The whole file. It begins as zeros but for the magic number.
#[repr(C, align(64))]
pub struct Shared {
    /// [`MAGIC`]; set by the command before a program maps the file.
    pub magic: AtomicU64,
    /// The [`Phase`], as [`Phase::word`] has it; 0: the experiment has not begun, or it has ended.
    pub phase: AtomicU64,
    /// How much longer each section is in this phase, ns.
    pub delay: AtomicU64,
    /// Programs that have taken a [`Process`], or wanted one.
    pub processes: AtomicU32,
    /// What threads counted.
    pub counts: [Counts; COUNTS],
    /// The programs.
    pub processes_table: [Process; MOST_PROCESSES],
}

/// Bytes of the file.
pub const FILE_BYTES: usize = size_of::<Shared>();

/// A phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Its number, from 1.
    pub number: u32,
    /// How much of their length sections are to lack, in parts of [`WHOLE`].
    pub share: u32,
}

impl Phase {
    /// No experiment.
    pub const NONE: Phase = Phase { number: 0, share: 0 };

    /// As one word.
    pub fn word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.share)
    }

    /// From one word.
    pub fn of(word: u64) -> Phase {
        Phase { number: (word >> 32) as u32, share: word as u32 }
    }
}

/// Counts of some threads. They only grow.
#[repr(C, align(64))]
pub struct Counts {
    /// Sections that have ended.
    pub sections: AtomicU64,
    /// How long they were, ns.
    pub length: AtomicU64,
    /// Releases of the objects whose releases measure progress, where these are others.
    pub releases: AtomicU64,
    /// What others came to owe by them, ns.
    pub shortened: AtomicU64,
}

/// A program.
#[repr(C, align(64))]
pub struct Process {
    /// Its process, by the number that the kernel gave it; 0: none yet.
    pub number: AtomicU32,
    /// The objects whose sections are changed.
    pub target: Objects,
    /// Those whose releases measure progress; none: the sections themselves do.
    pub measure: Objects,
    /// Where it has initialised objects: the return addresses of these calls, each at or behind the place that its
    /// hash says; 0: none.
    pub births: [AtomicU64; MOST_BIRTHS],
    /// What is owed, see [`Owed`].
    pub owed: [Line; OWED_WORDS],
}

/// A number in a cache line of its own.
#[repr(C, align(64))]
pub struct Line(pub AtomicU64);

/// Some objects of a program, chosen by the command.
#[repr(C, align(64))]
pub struct Objects {
    /// How many of the ranges are in use.
    pub ranges: AtomicU32,
    /// How many of the births are in use.
    pub births: AtomicU32,
    /// Objects whose addresses lie in one of these ranges: from the first number to below the second.
    pub range: [[AtomicU64; 2]; MOST_PLACES],
    /// Objects that were initialised by a call that returned here.
    pub birth: [AtomicU64; MOST_PLACES],
}

impl Objects {
    /// Whether an object is among them; `birth` says where it was initialised.
    #[inline(always)]
    pub fn has(&self, object: usize, birth: impl FnOnce() -> u64) -> bool {
        // ORDER(objects): Acquire pairs with the Release in `add`: so many are there.
        let ranges = self.ranges.load(Ordering::Acquire) as usize;
        let is_within = |[begin, end]: &[AtomicU64; 2]| {
            // Relaxed: never changed once it is there.
            (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&(object as u64))
        };
        if self.range.iter().take(ranges).any(is_within) {
            return true;
        }
        // ORDER(objects): as above.
        let births = self.births.load(Ordering::Acquire) as usize;
        if births == 0 {
            return false;
        }
        let birth = birth();
        // Relaxed: as above.
        birth != 0 && self.birth.iter().take(births).any(|one| one.load(Ordering::Relaxed) == birth)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        // Relaxed: the command's own numbers, or a hint.
        self.ranges.load(Ordering::Relaxed) == 0 && self.births.load(Ordering::Relaxed) == 0
    }

    /// Adds the objects of a range, once; whether there was room. Only the command adds.
    pub fn add_range(&self, begin: u64, end: u64) -> bool {
        // Relaxed, all but the last: nobody else changes them.
        let number = self.ranges.load(Ordering::Relaxed) as usize;
        let is_it = |range: &[AtomicU64; 2]| range.each_ref().map(|word| word.load(Ordering::Relaxed)) == [begin, end];
        if self.range.iter().take(number).any(is_it) {
            return true;
        }
        let Some(range) = self.range.get(number) else { return false };
        range[0].store(begin, Ordering::Relaxed);
        range[1].store(end, Ordering::Relaxed);
        // ORDER(objects): Release pairs with the Acquires in `has`: the range is there.
        self.ranges.store(number as u32 + 1, Ordering::Release);
        true
    }

    /// Adds the objects that were initialised by a call that returned to `site`, once; whether there was room.
    pub fn add_birth(&self, site: u64) -> bool {
        // Relaxed: as in `add_range`.
        let number = self.births.load(Ordering::Relaxed) as usize;
        if self.birth.iter().take(number).any(|birth| birth.load(Ordering::Relaxed) == site) {
            return true;
        }
        let Some(birth) = self.birth.get(number) else { return false };
        birth.store(site, Ordering::Relaxed);
        // ORDER(objects): as in `add_range`.
        self.births.store(number as u32 + 1, Ordering::Release);
        true
    }
}

/// What the other threads have come to owe in a phase: a sum of two parts, in one word.
///
/// The lower [`Owed::BITS`] bits hold how many threads run a section. The others hold what is owed by those that have
/// ended, less the share of the moments at which those began that run: with n that run, and s(t) the share of a time
/// t, the sum at the time t is this number plus n times s(t). It is taken modulo 2^48 ns, 78 hours, which is no matter
/// for differences.
#[derive(Clone, Copy, Debug)]
pub struct Owed(u64);

impl Owed {
    /// Bits of the number of threads.
    pub const BITS: u32 = 16;

    /// What a word holds.
    pub fn of(word: u64) -> Owed {
        Owed(word)
    }

    /// Whether the sum does not change with time.
    #[inline(always)]
    pub fn is_still(self) -> bool {
        self.0 & ((1 << Self::BITS) - 1) == 0
    }

    /// The sum at a time, of which `shared` is the share. Sums have [`Owed::BITS`] bits behind the point, which are
    /// zeros.
    #[inline(always)]
    pub fn sum(self, shared: u64) -> u64 {
        let running = self.0 & ((1 << Self::BITS) - 1);
        (self.0 - running).wrapping_add(running.wrapping_mul(shared) << Self::BITS)
    }

    /// What a thread adds to the word that begins to run a section at a time of which `shared` is the share.
    #[inline(always)]
    pub fn begin(shared: u64) -> u64 {
        Self::sum_of(shared).wrapping_neg().wrapping_add(1)
    }

    /// What it adds when it ends to.
    #[inline(always)]
    pub fn end(shared: u64) -> u64 {
        Self::sum_of(shared).wrapping_sub(1)
    }

    /// A time as a sum has it.
    #[inline(always)]
    pub fn sum_of(time: u64) -> u64 {
        time << Self::BITS
    }

    /// The time by which one sum lies above another one, ns.
    #[inline(always)]
    pub fn difference(above: u64, below: u64) -> i64 {
        (above.wrapping_sub(below) as i64) >> Self::BITS
    }
}
