//! The explorer's machine as scenarios know it, with the mutant that is to be caught.

use crate::mutation::{self, Wait};
use lockswap_conformance::routed::Places;
use lockswap_conformance::small::Stage;
use lockswap_conformance::Threads;
use lockswap_sim::explore::{self, Faults, Omission};
use std::panic::Location;

/// The machine of the explorer.
pub type Explore = explore::Explore<Mutated>;

/// What the mutant leaves out.
pub struct Mutated;

impl Faults for Mutated {
    fn leaves_out(what: Omission, at: &'static Location<'static>) -> bool {
        let wait = match what {
            Omission::Spin => Wait::Spin,
            Omission::Unpark => Wait::Unpark,
            Omission::Settle => Wait::Settle,
            Omission::Look => Wait::Look,
        };
        mutation::skips(wait, at)
    }
}

/// Virtual threads.
pub struct Virtual;

impl Threads for Virtual {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        explore::run(bodies);
    }

    fn settle() {
        explore::settle();
    }
}

impl Stage for Virtual {
    const SEES_WAITS: bool = true;

    fn gone(start: *const u8, bytes: usize) {
        explore::gone(start.addr(), bytes);
    }

    fn order() {
        explore::order();
    }

    fn moment() -> u64 {
        explore::moment()
    }

    fn forget_wait() {
        explore::forget_wait();
    }

    fn waits_since(thread: usize) -> Option<u64> {
        explore::waits_since(thread)
    }
}

impl Places for Virtual {
    fn move_to(rank: u32) {
        explore::move_to(rank);
    }
}
