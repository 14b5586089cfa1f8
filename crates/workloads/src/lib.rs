//! Benchmark bodies. They print nothing, check their own results, and reach the pthread functions through the dynamic
//! symbol table, so that a preloaded library interposes them as in any other program.
//!
//! What they synchronise with besides the lock under test (start and stop of threads) comes from `std`, which on Linux
//! calls no pthread lock function: only the measured object runs on the swapped lock.

pub mod affinity;
mod avl;
pub mod direct;
pub mod kv;
pub mod micro;
pub mod oversub;
pub mod pthread;
mod random;
pub mod torture;

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
