//! Small programs that stand for lock-bound ones of SPLASH-2 and PARSEC: a ray tracer and a volume renderer that take
//! their work from task queues, a deduplicating pipeline, and clustering of a stream, which goes from barrier to
//! barrier. They are written from the descriptions of the algorithms ("The SPLASH-2 Programs", ISCA 1995; "The PARSEC
//! Benchmark Suite", PACT 2008), do a fixed amount of work, and check what comes out.
//!
//! Their locks are pthread mutexes and condition variables, which a preloaded library replaces. In the renderers, and
//! for the table of the pipeline, locks of the catalogue can be [called directly](crate::direct) instead.

mod barrier;
mod cluster;
mod dedup;
mod guarded;
mod raytrace;
mod tasks;
mod vector;
mod volume;

use crate::direct::{choose, Direct};
use crate::pthread;
use crate::Mutex;
use lockswap_locks::for_each_lock;
use lockswap_locks::registry::Role;
use lockswap_platform::Native;
use std::ops::Deref;

/// The kernels by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The ray tracer.
    Raytrace,
    /// The volume renderer.
    Volume,
    /// The deduplicating pipeline.
    Dedup,
    /// Clustering of a stream.
    Cluster,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 4] = [Kernel::Raytrace, Kernel::Volume, Kernel::Dedup, Kernel::Cluster];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Raytrace => "raytrace",
            Kernel::Volume => "volume",
            Kernel::Dedup => "dedup",
            Kernel::Cluster => "cluster",
        }
    }
}

/// How much a kernel does, and how.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Threads that share the work, at least 1; `dedup` has two more, which read and write.
    pub threads: usize,
    /// How many times the work that takes some tenths of a second.
    pub scale: u32,
}

/// Runs a kernel on pthread mutexes; says what it has done.
///
/// # Panics
/// If a lock does not exclude.
pub fn run(kernel: Kernel, config: Config) -> String {
    let make = || pthread::Mutex::new(pthread::Kind::Normal);
    match kernel {
        Kernel::Cluster => cluster::run(config),
        kernel => on_locks(kernel, config, make),
    }
}

/// Runs a kernel on a mutex lock of the catalogue, which is called directly; `None` if there is none of that name, or
/// the kernel needs condition variables throughout, which only pthread mutexes have.
///
/// # Panics
/// If the lock does not exclude.
pub fn run_directly(kernel: Kernel, lock: &str, config: Config) -> Option<String> {
    if kernel == Kernel::Cluster {
        return None;
    }
    macro_rules! dispatch {
        (mutex { $($id:literal => $lock:path,)* } rwlock { $($rwlocks:tt)* } spin { $($spins:tt)* }) => {
            match choose(Role::Mutex, lock)? {
                $($id => {
                    use $lock as Lock;
                    Some(on_locks(kernel, config, || Box::new(Direct::<Native, Lock<Native>>::new())))
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

/// Runs a kernel other than `cluster` on locks that `make` makes.
fn on_locks<H: Deref<Target: Mutex> + Send + Sync>(kernel: Kernel, config: Config, make: impl Fn() -> H) -> String {
    match kernel {
        Kernel::Raytrace => raytrace::run(config, make),
        Kernel::Volume => volume::run(config, make),
        _ => dedup::run(config, make),
    }
}

/// Runs `body` on so many threads, which are numbered from 0; compiled once, not for each lock.
fn on_threads(threads: usize, body: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || body(thread));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_does_the_same_work_on_any_number_of_threads() {
        for kernel in Kernel::ALL {
            let done = [1, 3].map(|threads| run(kernel, Config { threads, scale: 1 }));
            assert_eq!(done[0], done[1], "{}", kernel.name());
        }
    }
}
