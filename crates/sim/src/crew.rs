//! Virtual threads as a workload's crew.

use crate::engine::{self, schedule, Stuck, Totals};
use crate::machine::{Machine, Ps};
use crate::platform;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use lockswap_platform::{CoreKind, Ns};
use lockswap_workloads::crew::{Crew, Member, Place, Signal, Timing};
use std::cell::Cell;
use std::sync::Mutex;

/// Stack of a whole workload, bytes.
const STACK_BYTES: usize = 1 << 20;

/// Virtual time after the end of a measurement within which all threads must have come to their ends.
const LIMIT: Ns = 100_000_000_000;

/// Threads of a described machine.
pub struct Simulated<'a> {
    machine: &'a Machine,
    seed: u64,
    totals: Mutex<Totals>,
}

impl<'a> Simulated<'a> {
    /// Threads of `machine`; all chance is a function of `seed`.
    pub fn new(machine: &'a Machine, seed: u64) -> Self {
        Simulated { machine, seed, totals: Mutex::new(Totals::default()) }
    }

    /// What the runs have taken so far.
    pub fn totals(&self) -> Totals {
        *self.totals.lock().expect("no thread panicked")
    }
}

thread_local! {
    static OUTER: Cell<*const Yielder<(), Stuck>> = const { Cell::new(std::ptr::null()) };
}

/// Runs `workload`, which runs on a [`Simulated`] crew. What a workload that cannot end owns is leaked.
pub fn attempt<R>(workload: impl FnOnce() -> R) -> Result<R, Stuck> {
    let stack = DefaultStack::new(STACK_BYTES).expect("memory for a coroutine's stack");
    let before = OUTER.get();
    // SAFETY: the coroutine ends, or is reset without running any more, before this function returns.
    let mut coroutine = unsafe {
        Coroutine::with_stack_unchecked(stack, |yielder: &Yielder<(), Stuck>, ()| {
            OUTER.set(yielder);
            workload()
        })
    };
    let result = match coroutine.resume(()) {
        CoroutineResult::Return(result) => Ok(result),
        CoroutineResult::Yield(stuck) => {
            // SAFETY: it leaks what it owns.
            unsafe { coroutine.force_reset() };
            Err(stuck)
        }
    };
    OUTER.set(before);
    result
}

impl Crew for Simulated<'_> {
    fn run(&self, threads: usize, timing: Timing, body: &(dyn Fn(&Member<'_>) + Sync)) -> Ns {
        platform::reset();
        let (signal, seed, start) = (Signal::default(), self.seed, self.machine.costs.start);
        let bodies = (0..threads)
            .map(|number| {
                let cpu = self.machine.order[number % self.machine.order.len()];
                let kind = &self.machine.kinds[self.machine.cpus[cpu as usize].kind as usize];
                let kind = if kind.little { CoreKind::Little } else { CoreKind::Big };
                let signal = &signal;
                Box::new(move || {
                    schedule::sleep(number as Ps * start + Ps::from(engine::choose(start as u32)));
                    body(&Member { number, pace: 1.0, kind, signal, seed });
                }) as Box<dyn FnOnce() + '_>
            })
            .collect();
        let begin = self.machine.costs.timer_slack + (threads + 1) as Ps * start + timing.warm_up * 1000;
        let end = begin + timing.duration * 1000;
        let (alarms, limit) = ([begin, end], end + LIMIT * 1000);
        match engine::run(self.machine, self.seed, (alarms, limit), &|| signal.advance(engine::time() / 1000), bodies) {
            Ok(totals) => *self.totals.lock().expect("no thread panicked") = totals,
            Err(stuck) => {
                // SAFETY: `attempt` has set it, and its coroutine runs.
                unsafe { OUTER.get().as_ref() }.expect("simulations run inside `attempt`").suspend(stuck);
                unreachable!("the workload is over");
            }
        }
        timing.duration
    }

    fn place(&self, cpu: u32) -> Place {
        let cpu = self.machine.cpus[cpu as usize];
        let llc = if self.machine.llc_is_node { cpu.node } else { cpu.cluster };
        Place { core: cpu.core, llc, node: cpu.node }
    }

    fn be_nice(&self, nice: u32) {
        platform::set_nice(nice);
    }
}
