//! The counters that the preload library keeps for `lockswap run --summary` and `--stats-json`.
//!
//! They live in a file of [`COUNT`] little-endian `u64`s which the command creates, names in `LOCKSWAP_STATS`, and reads
//! after the program has ended. Every process of the program maps the same file, so the numbers are sums over all of
//! them, and survive `_exit`, `exec` and a fatal signal.

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
    /// Ends of epochs without a start.
    EpochsNotStarted,
    /// Starts of epochs without an end.
    EpochsNotEnded,
    /// Epochs that were ignored: too many of them, or an impossible percentile.
    EpochsIgnored,
}

/// Number of counters in the file.
pub const COUNT: usize = Counter::EpochsIgnored as usize + 1;

/// Size of the file in bytes.
pub const FILE_BYTES: usize = COUNT * 8;
