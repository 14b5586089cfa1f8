//! What the preload library counts for `lockswap run --summary` and `--stats-json`.
//!
//! The numbers live in a file of [`FILE_WORDS`] little-endian `u64`s which the command creates, names in
//! `LOCKSWAP_STATS`, and reads after the program has ended. Every process of the program maps the same file, so the
//! numbers are sums over all of them, and survive `_exit`, `exec` and a fatal signal.
//!
//!   words 0..COUNT            one for each [`Counter`]
//!   words CALLS..             [`SHARDS`] times [`SHARD_WORDS`]: calls by [`Role`] and [`Why`]; a CPU adds to its own shard
//!   words CHILDREN..          [`MOST_CHILDREN`] times [`CHILD_WORDS`]: programs that were started plainly
//!   words RULES..             [`MOST_RULES`] and one: mutexes by the rule of a profile that gave them their lock
//!
//! A child's record is a word with its [`Plain`] plus 1, then the beginning of its path, ended by a zero byte.

/// One counter; its discriminant is its index in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Mutexes that ran on the chosen lock.
    Mutex,
    /// Condition variables replaced.
    Cond,
    /// Read-write locks replaced.
    RwLock,
    /// Spinlocks replaced.
    Spin,
    /// Robust mutexes left to glibc.
    Robust,
    /// Priority-inheriting mutexes left to glibc.
    Pi,
    /// Priority-protected mutexes left to glibc.
    Protect,
    /// Process-shared objects of any type left to glibc.
    Pshared,
    /// Threads started, the main thread of each process included.
    Threads,
    /// Processes that loaded the library.
    Processes,
    /// Processes that loaded the library, which replaced nothing there: a checker's, or not the one that was asked
    /// for.
    Aside,
    /// Ends of epochs without a start.
    EpochsNotStarted,
    /// Starts of epochs without an end.
    EpochsNotEnded,
    /// Epochs that were ignored: too many of them, or an impossible percentile.
    EpochsIgnored,
    /// Programs started plainly: more than there are records for.
    Children,
}

/// Number of counters in the file.
pub const COUNT: usize = Counter::Children as usize + 1;

/// What a call was made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Called {
    /// An acquisition of a mutex: lock, try, timed.
    Mutex,
    /// A wait on a condition variable, a signal or a broadcast.
    Cond,
    /// An acquisition of a read-write lock.
    RwLock,
    /// An acquisition of a spinlock.
    Spin,
}

impl Called {
    /// All of them, by index.
    pub const ALL: [Called; 4] = [Called::Mutex, Called::Cond, Called::RwLock, Called::Spin];
}

/// Who answered a call, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Why {
    /// A lock of lockswap's.
    Ours,
    /// glibc: a robust mutex.
    Robust,
    /// glibc: a priority-inheriting mutex.
    Pi,
    /// glibc: a priority-protected mutex.
    Protect,
    /// glibc: a process-shared object.
    Pshared,
    /// glibc: its own lock was chosen.
    Chosen,
}

impl Why {
    /// All of them, by index.
    pub const ALL: [Why; 6] = [Why::Ours, Why::Robust, Why::Pi, Why::Protect, Why::Pshared, Why::Chosen];
}

/// Parts of the count of calls, so that CPUs do not wait for each other.
pub const SHARDS: usize = 64;
/// Words of a shard: whole cache lines.
pub const SHARD_WORDS: usize = (Called::ALL.len() * Why::ALL.len()).next_multiple_of(8);
/// The first shard.
pub const CALLS: usize = COUNT.next_multiple_of(8);

/// The word of a shard that counts these calls.
pub const fn call(called: Called, why: Why) -> usize {
    called as usize * Why::ALL.len() + why as usize
}

/// Why a program that was started runs without the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Plain {
    /// It is statically linked.
    Static,
    /// Its C library is musl, or another one that is not glibc.
    OtherLibrary,
    /// Its glibc is older than 2.34.
    OldGlibc,
    /// It is for another kind of CPU, 32-bit programs included.
    OtherMachine,
}

impl Plain {
    /// All of them, by number.
    pub const ALL: [Plain; 4] = [Plain::Static, Plain::OtherLibrary, Plain::OldGlibc, Plain::OtherMachine];
}

/// Records of children.
pub const MOST_CHILDREN: usize = 16;
/// Words of a record.
pub const CHILD_WORDS: usize = 32;
/// The first record.
pub const CHILDREN: usize = CALLS + SHARDS * SHARD_WORDS;

/// Rules of a profile.
pub const MOST_RULES: usize = 256;
/// The first of the words that count mutexes by the rule that gave them their lock; the last one counts those to which
/// none applied.
pub const RULES: usize = CHILDREN + MOST_CHILDREN * CHILD_WORDS;

/// Number of words in the file.
pub const FILE_WORDS: usize = RULES + MOST_RULES + 1;
/// Size of the file in bytes.
pub const FILE_BYTES: usize = FILE_WORDS * 8;
