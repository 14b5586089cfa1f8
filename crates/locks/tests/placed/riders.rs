//! Threads that know when they began to wait.

use super::{soon_asleep, Place, Placed, SOMEWHERE};
use lockswap_conformance::routed::Places;
use lockswap_conformance::small::Stage;
use lockswap_conformance::system::{Crew, System};
use lockswap_conformance::Threads;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

const MOST_RIDERS: usize = 16;
/// When each thread of [`Riders`] came to rest, 0 if it has not.
static SINCE: [AtomicU64; MOST_RIDERS] = [const { AtomicU64::new(0) }; MOST_RIDERS];
static MOMENT: AtomicU64 = AtomicU64::new(0);

/// Threads that know when they began to wait; one [`Threads::run`] at a time.
pub struct Riders;

impl Riders {
    /// The calling thread has found that it has to wait.
    pub fn begins_to_wait() {
        if let Some(index) = INDEX.get().filter(|index| SINCE[*index].load(Ordering::SeqCst) == 0) {
            SINCE[index].store(Riders::moment(), Ordering::SeqCst);
        }
    }
}

impl Threads for Riders {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        soon_asleep();
        let crew = Crew::default();
        std::thread::scope(|scope| {
            for (index, body) in bodies.into_iter().enumerate() {
                scope.spawn(crew.member(move || {
                    INDEX.set(Some(index));
                    // The others would wait for ever for the lock that this one holds.
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err() {
                        std::process::abort();
                    }
                }));
            }
        });
    }

    fn settle() {
        System::settle();
    }
}

impl Stage for Riders {
    const SEES_WAITS: bool = true;
    fn gone(_: *const u8, _: usize) {}
    fn moment() -> u64 {
        MOMENT.fetch_add(1, Ordering::SeqCst) + 1
    }
    fn forget_wait() {
        INDEX.get().into_iter().for_each(|index| SINCE[index].store(0, Ordering::SeqCst));
    }
    fn waits_since(thread: usize) -> Option<u64> {
        Some(SINCE[thread].load(Ordering::SeqCst)).filter(|since| *since != 0)
    }
}

impl Places for Riders {
    fn move_to(rank: u32) {
        Placed::move_to(Place { rank, ..SOMEWHERE });
    }
}
