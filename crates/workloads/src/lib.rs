//! Benchmark bodies: [`counter`], [`kv`], [`ncs`], [`epochs`], [`shares`], [`bursts`], [`phases`], [`readers`],
//! [`locktorture`] and [`calls`]. They print nothing and check their own results. See `docs/workloads.md`. [`condvar`]
//! needs condition variables, and so hardware.
//!
//! A body is generic over the [platform](lockswap_platform::Platform), over the lock, and over the [crew](crew::Crew)
//! that provides threads and measures time: it runs on hardware and on a simulated machine. Memory that critical
//! sections touch is made of the platform's atomics, work is [`compute`](lockswap_platform::Platform::compute) and
//! [`keep_busy`](lockswap_platform::Platform::keep_busy); everything else takes no simulated time.
//!
//! On hardware the locks are pthread objects, reached through the dynamic symbol table, so that a preloaded library
//! interposes them as in any other program, or locks of the catalogue [called directly](direct). What threads
//! synchronise with besides comes from `std`, which on Linux calls no pthread lock function.

pub mod affinity;
mod avl;
pub mod bursts;
pub mod calls;
pub mod condvar;
pub mod counter;
pub mod crew;
pub mod direct;
pub mod directly;
pub mod epochs;
pub mod hardware;
pub mod invalid;
pub mod kernels;
pub mod kv;
mod lines;
pub mod little;
pub mod locktorture;
pub mod micro;
pub mod ncs;
pub mod phases;
pub mod price;
pub mod pthread;
mod random;
pub mod readers;
pub mod record;
pub mod report;
mod section;
pub mod shares;
pub mod sweep;
pub mod torture;
pub mod workload;

use std::ops::Deref;

/// A mutual-exclusion lock as the workloads use it.
///
/// The workloads keep their shared data in relaxed atomics, so an implementation that does not exclude makes their
/// result check fail; it cannot cause undefined behaviour.
pub trait Mutex: Sync {
    /// What a thread brings along to its acquisitions.
    type Thread;
    /// The calling thread's own.
    fn thread(&self) -> Self::Thread;
    /// Waits until the calling thread holds the lock; it holds no other one.
    fn lock(&self, me: &mut Self::Thread);
    /// Releases the lock, which the calling thread holds.
    fn unlock(&self, me: &mut Self::Thread);
}

/// A read-write lock as the workloads use it.
pub trait ReadWrite: Sync {
    /// Waits until the calling thread shares the lock.
    fn read(&self);
    /// Gives up what `read` acquired.
    fn unlock_read(&self);
    /// Waits until the calling thread holds the lock alone.
    fn write(&self);
    /// Gives up what `write` acquired.
    fn unlock_write(&self);
}

/// What points at a read-write lock is one.
impl<L: Deref<Target: ReadWrite> + Sync> ReadWrite for L {
    fn read(&self) {
        (**self).read();
    }
    fn unlock_read(&self) {
        (**self).unlock_read();
    }
    fn write(&self) {
        (**self).write();
    }
    fn unlock_write(&self) {
        (**self).unlock_write();
    }
}
