//! Unwound stacks, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::process::Place;

/// Stacks that are kept at most; what comes after has no stack.
const MOST_STACKS: usize = 200_000;

/// The number of a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StackId(u32);

impl StackId {
    /// No stack: none was copied, or there was no room for it.
    pub const NONE: Self = Self(0);
}

/// All different stacks.
pub struct Stacks {
    all: Vec<Arc<[Place]>>,
    numbers: HashMap<Arc<[Place]>, StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        Self { all: vec![Arc::from([])], numbers: HashMap::new() }
    }
}

impl Stacks {
    /// The number of a stack with these frames, the innermost first.
    pub fn number(&mut self, frames: Vec<Place>) -> StackId {
        let frames: Arc<[Place]> = frames.into();
        if frames.is_empty() {
            return StackId::NONE;
        }
        if let Some(number) = self.numbers.get(&frames) {
            return *number;
        }
        if self.all.len() > MOST_STACKS {
            return StackId::NONE;
        }
        let number = StackId(self.all.len() as u32);
        self.all.push(Arc::clone(&frames));
        self.numbers.insert(frames, number);
        number
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Those that came after the first `count`.
    pub fn since(&self, count: usize) -> &[Arc<[Place]>] {
        self.all.get(count..).unwrap_or_default()
    }

    /// Takes over those that came elsewhere, where all of these are, too; none are numbered here.
    pub fn follow(&mut self, new: Vec<Arc<[Place]>>) {
        self.all.extend(new);
    }

    /// The frames of a stack.
    pub fn frames(&self, number: StackId) -> &[Place] {
        self.all.get(number.0 as usize).map(|frames| &**frames).unwrap_or_default()
    }
}
