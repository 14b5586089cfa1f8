//! The search with a bound on preemptions: all executions within it, depth first.
//!
//! No execution is left out here because it differs from another one in the order of independent steps only: the other
//! one may need more preemptions than the bound allows, and would not be seen either.

use super::execution::{Stop, MOST_THREADS};

/// Options of a decision that is replayed.
const UNKNOWN: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Decision {
    taken: u16,
    options: u16,
}

pub struct Bounded {
    decisions: Vec<Decision>,
    depth: usize,
    most_preemptions: u32,
    preemptions: u32,
}

impl Bounded {
    pub fn new(most_preemptions: u32) -> Self {
        Bounded { decisions: Vec::new(), depth: 0, most_preemptions, preemptions: 0 }
    }

    /// One execution; the number of options is learnt on the way.
    pub fn replay(most_preemptions: u32, choices: &[u16]) -> Self {
        let decisions = choices.iter().map(|taken| Decision { taken: *taken, options: UNKNOWN }).collect();
        Bounded { decisions, ..Bounded::new(most_preemptions) }
    }

    pub fn restart(&mut self) {
        self.depth = 0;
        self.preemptions = 0;
    }

    /// One of `options` alternatives.
    #[inline]
    pub fn decide(&mut self, options: usize) -> Result<usize, Stop> {
        if options == 1 {
            return Ok(0);
        }
        if self.depth == self.decisions.len() {
            self.decisions.push(Decision { taken: 0, options: options as u16 });
        }
        let decision = &mut self.decisions[self.depth];
        if decision.options == UNKNOWN {
            decision.options = options as u16;
        }
        assert_eq!(decision.options as usize, options, "the scenario is not deterministic");
        let taken = decision.taken as usize;
        self.depth += 1;
        if taken >= options {
            return Err(Stop::Failed(format!("choice {} of the replay does not exist", self.depth)));
        }
        Ok(taken)
    }

    /// The thread that runs next, out of the set `enabled`: the current one if it can, the others by number.
    #[inline]
    pub fn choose(&mut self, enabled: u16, current: usize) -> Result<usize, Stop> {
        let first = going_on(enabled, current);
        if first != 0 && (first == enabled || self.preemptions >= self.most_preemptions) {
            return Ok(current);
        }
        let mut taken = self.decide(enabled.count_ones() as usize)?;
        if first != 0 {
            if taken == 0 {
                return Ok(current);
            }
            self.preemptions += 1;
            taken -= 1;
        }
        let mut others = enabled & !first;
        (0..taken).for_each(|_| others &= others - 1);
        Ok(others.trailing_zeros() as usize)
    }

    /// Moves on to the next execution; false if there is none.
    pub fn next_execution(&mut self) -> bool {
        while let Some(last) = self.decisions.last_mut() {
            if last.taken + 1 < last.options {
                last.taken += 1;
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    pub fn choices(&self) -> Vec<u16> {
        self.decisions[..self.depth].iter().map(|decision| decision.taken).collect()
    }
}

/// The set of the current thread if it can go on.
fn going_on(enabled: u16, current: usize) -> u16 {
    if current < MOST_THREADS {
        enabled & 1 << current
    } else {
        0
    }
}

/// The number that [`Bounded::choose`] gives a thread; nothing where there is no choice.
pub fn number_of_option(enabled: u16, current: usize, thread: usize) -> Option<u16> {
    let first = going_on(enabled, current);
    let before = (enabled & !first) & ((1 << thread) - 1);
    let number = if first == 1 << thread { 0 } else { first.count_ones() + before.count_ones() };
    (enabled.count_ones() > 1).then_some(number as u16)
}
