//! Stores that depend on a look, and the interrupts that make the two one moment
//! ([`lockswap_platform::Platform::settle`]).
//!
//! A thread that is interrupted or loses its CPU between the look and the store refuses, as on hardware.

use super::access::{begin_to_store, load, wait_for_stores};
use super::{compute, engine, pass, settle, Engine, NOBODY};
use crate::machine::Ps;
use crate::word::Place;
use std::panic::Location;

/// Stores `value` in `word` if `flag` is 0, and the thread has been on its CPU since it began; whether it has.
pub fn store_unless(flag: Place, word: Place, value: u64) -> bool {
    settle();
    let interruptions = engine().me().interruptions;
    if load(flag, Location::caller()) != 0 {
        return false;
    }
    settle();
    if engine().me().interruptions != interruptions {
        return false;
    }
    begin_to_store(word, value, Location::caller());
    true
}

/// Interrupts all CPUs that run threads; returns when all that threads have stored before is visible.
pub fn interrupt_all() {
    settle();
    wait_for_stores();
    let alone = engine().machine.costs.settle;
    compute(alone);
    let engine = engine();
    let stored: Vec<u64> = engine.threads.iter().map(|thread| thread.served + thread.stores.len() as u64).collect();
    let others = engine.interrupt_others();
    if let Some(further) = others.checked_sub(1) {
        let costs = &engine.machine.costs;
        pass(costs.interrupt + Ps::from(further) * costs.interrupt_each);
    }
    // An interrupt empties the store buffer of its CPU.
    while self::engine().threads.iter().zip(&stored).any(|(thread, stored)| thread.served < *stored) {
        let pause = self::engine().machine.costs.pause;
        pass(pause);
    }
}

impl Engine {
    /// Takes their CPUs from all other threads for a moment; how many.
    fn interrupt_others(&mut self) -> u32 {
        let (own, time) = (self.me().cpu, self.machine.costs.interrupted);
        let mut others = 0;
        for cpu in (0..self.cpus.len() as u32).filter(|cpu| *cpu != own) {
            let thread = self.thread_on(cpu);
            if thread != NOBODY {
                self.interrupt(thread, time);
                others += 1;
            }
        }
        others
    }
}
