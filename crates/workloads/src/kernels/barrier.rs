//! A barrier of a pthread mutex and a condition variable.

use super::guarded::Guarded;
use crate::pthread::{Cond, Kind, Mutex};
use std::pin::Pin;

/// Where threads wait for each other, again and again.
pub struct Barrier {
    threads: usize,
    /// How many have come, and how often all have.
    come: Guarded<Pin<Box<Mutex>>, (usize, u64)>,
    all_have: Pin<Box<Cond>>,
}

impl Barrier {
    /// A barrier for so many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, come: Guarded::new(Mutex::new(Kind::Normal), (0, 0)), all_have: Cond::new() }
    }

    /// Waits until all have come.
    pub fn wait(&self) {
        let mut mine = None;
        self.come.wait_for(&self.all_have, |(come, times)| {
            if mine.is_none() {
                mine = Some(*times);
                *come += 1;
                if *come == self.threads {
                    (*come, *times) = (0, *times + 1);
                    self.all_have.broadcast();
                }
            }
            (mine != Some(*times)).then_some(())
        });
    }
}
