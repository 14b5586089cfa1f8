//! What every lock must do, written once: the same checks run for each lock on each platform that can start threads.
//!
//! A check panics when the lock fails it.

use lockswap_platform::{Clock, Deadline, Ns, Platform};

mod mutex;
pub mod routed;
mod rwlock;
pub mod small;
pub mod system;

pub use mutex::{alone, mutex, spin, Lock};
pub use rwlock::rwlock;

/// How a platform starts threads.
pub trait Threads {
    /// Runs all bodies at the same time and returns when the last has ended.
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>);
    /// Waits until every other thread of [`Threads::run`] has come to rest, as far as the platform can tell.
    fn settle();
}

fn deadline<P: Platform>(ns: Ns) -> Deadline {
    Deadline { clock: Clock::Monotonic, at: P::now(Clock::Monotonic) + ns }
}

/// For [`Threads::run`]: `body` on `count` threads, which are numbered from 0.
fn bodies<'a>(count: usize, body: &'a (dyn Fn(usize) + Sync)) -> Vec<Box<dyn FnOnce() + Send + 'a>> {
    (0..count).map(|thread| Box::new(move || body(thread)) as Box<dyn FnOnce() + Send>).collect()
}
