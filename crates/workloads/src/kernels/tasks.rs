//! Tasks that threads share: each thread has a queue of its own and takes from the others' when that is empty, as in
//! the renderers of SPLASH-2.

use super::guarded::{Guarded, Own};
use crate::Mutex;
use std::ops::{Deref, Range};

/// A queue for each thread; a task is a number.
pub struct Tasks<H> {
    queues: Vec<Guarded<H, Range<usize>>>,
}

impl<H: Deref<Target: Mutex>> Tasks<H> {
    /// The tasks from 0 to `count`, in equal shares of neighbouring ones.
    pub fn new(threads: usize, count: usize, make: impl Fn() -> H) -> Self {
        let share = |thread: usize| thread * count / threads..(thread + 1) * count / threads;
        Self { queues: (0..threads).map(|thread| Guarded::new(make(), share(thread))).collect() }
    }

    /// What a thread needs to take tasks.
    pub fn own(&self) -> Own<H> {
        self.queues[0].own()
    }

    /// A task for this thread; nothing when all have been taken.
    pub fn take(&self, thread: usize, own: &mut Own<H>) -> Option<usize> {
        let (before, after) = self.queues.split_at(thread);
        after.iter().chain(before).find_map(|queue| queue.with(own, Iterator::next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pthread::{Kind, Mutex};

    #[test]
    fn each_task_is_taken_once_and_own_ones_first() {
        let tasks = Tasks::new(3, 8, || Mutex::new(Kind::Normal));
        let taken: Vec<usize> = std::iter::from_fn(|| tasks.take(1, &mut ())).collect();
        assert_eq!(taken, [2, 3, 4, 5, 6, 7, 0, 1]);
        assert_eq!(tasks.take(0, &mut ()), None);
    }
}
