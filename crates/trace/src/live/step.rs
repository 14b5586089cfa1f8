//! What a trace has noted since somebody looked last.

use std::sync::Arc;
use std::time::Duration;

use crate::gather::{Gathered, Key};
use crate::origin::Origin;
use crate::process::{Images, Place};
use crate::sums::Sums;

/// What came in some time. To take it is quick: nothing is named or sorted for it.
pub struct Step {
    /// How much time that was.
    pub length: Duration,
    /// Records that found no room, since the trace began.
    pub lost: u64,
    pub(super) parts: Vec<Part>,
    pub(super) images: Images,
    /// The stacks that are new since then.
    pub(super) stacks: Vec<Arc<[Place]>>,
}

/// What came of one object.
pub(super) struct Part {
    pub key: Key,
    pub origin: Origin,
    pub sums: Box<Sums>,
    pub waiting: Waiting,
}

/// The threads that wait at a moment, as far as they were picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub threads: u32,
    /// How long the first of them has waited.
    pub longest: Duration,
}

impl Waiting {
    pub(super) fn merge(&mut self, other: &Self) {
        self.threads += other.threads;
        self.longest = self.longest.max(other.longest);
    }
}

impl Step {
    /// Takes the sums out of all objects; `stacks` are known already.
    pub(crate) fn take(gathered: &mut Gathered, stacks: usize, length: Duration, lost: u64) -> Self {
        let Gathered { objects, threads, .. } = gathered;
        let mut parts = Vec::new();
        for (key, object) in objects {
            let mut waiting = Waiting::default();
            for wait in object.waiting.iter().filter(|wait| threads.still_does(wait)) {
                waiting.merge(&Waiting { threads: 1, longest: wait.seen.elapsed() });
            }
            if waiting.threads > 0 || !object.sums.is_empty() {
                let mut sums = std::mem::take(&mut object.sums);
                sums.settle();
                parts.push(Part { key: *key, origin: Origin::of(key, object), sums, waiting });
            }
        }
        let (images, stacks) = (gathered.processes.images.clone(), gathered.stacks.since(stacks).to_vec());
        Self { length, lost, parts, images, stacks }
    }
}
