//! How fast a CPU is: its kind, and what the other hardware threads of its core do.

use super::{Engine, Load, Thread};
use crate::machine::Ps;

impl Engine {
    /// A cost of the own cache, on the current CPU.
    #[inline]
    pub fn access(&self, cost: Ps) -> Ps {
        let Thread { core, kind, .. } = self.threads[self.current as usize];
        self.beside_sibling(core, (cost * self.machine.kinds[kind as usize].access) >> 10)
    }

    /// A cost of computing, on the current CPU.
    #[inline]
    pub fn compute(&self, cost: Ps) -> Ps {
        let Thread { core, kind, .. } = self.threads[self.current as usize];
        self.beside_sibling(core, (cost * self.machine.kinds[kind as usize].compute) >> 10)
    }

    #[inline]
    fn beside_sibling(&self, core: u32, cost: Ps) -> Ps {
        if !self.machine.has_siblings {
            return cost;
        }
        let (busy, spinning) = self.loads[core as usize];
        let costs = &self.machine.costs;
        if busy > 1 {
            (cost * costs.sibling_busy) >> 10
        } else if spinning > 0 {
            (cost * costs.sibling_spinning) >> 10
        } else {
            cost
        }
    }

    /// Changes what counts as the load of a thread on its core.
    pub fn set_load(&mut self, thread: usize, load: Load) {
        let before = std::mem::replace(&mut self.threads[thread].load, load);
        let core = &mut self.loads[self.threads[thread].core as usize];
        match before {
            Load::None => {}
            Load::Busy => core.0 -= 1,
            Load::Spinning => core.1 -= 1,
        }
        match load {
            Load::None => {}
            Load::Busy => core.0 += 1,
            Load::Spinning => core.1 += 1,
        }
    }
}
