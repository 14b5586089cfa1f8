//! Conditional stores under loom, and what settles them.
//!
//! Each thread has a mutex, which it holds from the look to the store. Who settles acquires and releases those of all
//! other threads, one after the other: a store that has begun has happened before, and whoever looks later sees all
//! that was before. Stores of different threads are not ordered by this. It is an execution of the hardware's where
//! each CPU is interrupted before a look or after a store; that a store which has begun is aborted, and refuses
//! although the flag is clear, is seen in the explorer only.

use super::awaits;
use super::threads::virtual_cpu;
use loom::sync::{Mutex, MutexGuard};

/// Loom has room for no more threads.
const MOST_THREADS: usize = 5;

loom::lazy_static! {
    static ref SEQUENCES: Vec<Mutex<()>> = (0..MOST_THREADS).map(|_| Mutex::new(())).collect();
}

/// An execution begins.
pub fn make() {
    assert_eq!(SEQUENCES.len(), MOST_THREADS);
}

fn of_thread(index: usize) -> MutexGuard<'static, ()> {
    // SAFETY: loom keeps it for the whole execution, and nothing outlives that.
    let mutex: &'static Mutex<()> = unsafe { &*std::ptr::from_ref(&SEQUENCES[index]) };
    mutex.lock().expect("loom ends an execution in which a thread panics")
}

/// The calling thread looks, and stores, until the result is dropped.
pub fn begin() -> MutexGuard<'static, ()> {
    of_thread(virtual_cpu() as usize)
}

/// Waits for each other thread's present store.
pub fn settle() {
    let here = virtual_cpu() as usize;
    (0..awaits::threads()).filter(|index| *index != here).for_each(|index| drop(of_thread(index)));
}
