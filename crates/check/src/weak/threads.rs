//! The threads of a scenario, as threads of loom's.

use super::{awaits, memory};
use lockswap_conformance::small::Stage;
use lockswap_conformance::Threads;
use std::cell::Cell;

loom::thread_local! {
    static THREAD: Cell<u32> = Cell::new(0);
}

/// The number of the calling thread, and of the CPU that it runs on.
pub fn virtual_cpu() -> u32 {
    THREAD.with(Cell::get)
}

/// Loom's threads; the last body runs on the thread that starts the others.
pub struct Modelled;

impl Threads for Modelled {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        awaits::begin(bodies.len());
        let mut threads: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(index, body)| {
                // SAFETY: all threads are joined before this function returns; loom ends a failed execution as a
                // whole.
                let body: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(body) };
                (index as u32, body)
            })
            .collect();
        let last = threads.pop();
        let handles: Vec<_> = threads
            .into_iter()
            .map(|(index, body)| {
                loom::thread::spawn(move || {
                    THREAD.with(|thread| thread.set(index));
                    body();
                    awaits::note_thread_end();
                })
            })
            .collect();
        if let Some((index, body)) = last {
            THREAD.with(|thread| thread.set(index));
            body();
            awaits::note_thread_end();
        }
        for handle in handles {
            handle.join().expect("loom reports panics itself");
        }
        THREAD.with(|thread| thread.set(0));
        awaits::begin(1);
    }

    fn settle() {
        loom::thread::yield_now();
    }
}

impl Stage for Modelled {
    const SEES_WAITS: bool = false;
    fn enough() {
        loom::skip_branch();
    }
    fn sleep_soundly() {
        awaits::sleep_soundly();
    }
    fn gone(start: *const u8, bytes: usize) {
        memory::end(start.addr(), bytes);
    }
    fn moment() -> u64 {
        0
    }
    fn forget_wait() {}
    fn waits_since(_: usize) -> Option<u64> {
        None
    }
}
