//! What the virtual threads do: acquire one lock, work inside, work outside.

use crate::engine::Stuck;
use crate::machine::Machine;
use crate::{engine, platform, Sim, Totals};
use lockswap_locks::line::Line;
use lockswap_locks::{Context, RawLock};
use lockswap_platform::{Clock, DataCell, Deadline, Ns, Platform};

/// One run.
#[derive(Clone, Debug)]
pub struct Config {
    pub threads: u32,
    /// Virtual time that is measured, after a warm-up of a tenth of it.
    pub duration: Ns,
    pub seed: u64,
    /// Lines that are read and written inside.
    pub lines: u32,
    /// Time between two acquisitions, give or take 15 %.
    pub outside: Ns,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Acquisitions of each thread in the measured time.
    pub per_thread: Vec<u64>,
    pub totals: Totals,
    /// Host CPU time of the run, ns.
    pub elapsed: Ns,
}

#[repr(align(64))]
struct Apart<T>(T);

/// A queue node from the heap, on a line of its own.
type Node<C> = Box<Apart<C>>;

/// Runs the body on a lock.
pub fn run<L: RawLock<Sim>>(machine: &Machine, config: &Config) -> Result<Outcome, Stuck> {
    let lock = Box::new(Line(Apart(L::new())));
    let data: Vec<Line<<Sim as Platform>::Data<u64>>> = (0..config.lines).map(|_| Line(DataCell::new(0))).collect();
    let begin = config.duration / 10;
    let end = begin + config.duration;
    let mut counts = vec![0u64; config.threads as usize];
    let bodies = counts
        .iter_mut()
        .map(|count| {
            let (lock, data) = (&lock.0 .0, &data);
            Box::new(move || {
                let mut nodes: Vec<Node<L::Ctx>> = vec![Box::new(Apart(L::Ctx::new()))];
                loop {
                    let free = nodes.iter().position(|node| node.0.is_reusable()).unwrap_or_else(|| {
                        nodes.push(Box::new(Apart(L::Ctx::new())));
                        nodes.len() - 1
                    });
                    let cx = &nodes[free].0;
                    // SAFETY: `cx` is reusable and this thread's.
                    unsafe { lock.lock(cx) };
                    for line in data {
                        // SAFETY: the lock is held.
                        unsafe { line.with_mut(|value| *value += 1) };
                    }
                    // SAFETY: acquired above.
                    unsafe { lock.unlock(cx) };
                    let now = engine::time() / 1000;
                    if now >= end {
                        break;
                    }
                    *count += u64::from(now >= begin);
                    if config.outside > 0 {
                        let share = 85 + u64::from(Sim::choose(31));
                        let until = Deadline {
                            clock: Clock::Monotonic,
                            at: Sim::now(Clock::Monotonic) + config.outside * share / 100,
                        };
                        Sim::spin_map_until(until, || None::<()>);
                    }
                }
                // The next owner may still look at a node.
                std::mem::forget(nodes);
            }) as Box<dyn FnOnce()>
        })
        .collect();
    let started = cpu_time();
    let totals = platform::run(machine, config.seed, end + 1_000_000_000, bodies)?;
    let elapsed = cpu_time() - started;
    // SAFETY: nobody runs.
    let inside = data.first().map(|line| unsafe { line.with(|value| *value) });
    let all: u64 = counts.iter().sum();
    assert!(inside.is_none_or(|inside| inside >= all));
    Ok(Outcome { per_thread: counts, totals, elapsed })
}

/// CPU time of this thread of the host, ns.
fn cpu_time() -> Ns {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}
