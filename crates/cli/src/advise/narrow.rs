//! Which locks are tried for a mutex, with the simulator of this machine.

use std::time::Duration;

use lockswap_advise::candidate::{is_crowded, narrowed, pool, Candidate, Place, MOST_CANDIDATES};
use lockswap_advise::simulated::{throughputs, workload};
use lockswap_advise::suspect::{Kind, Suspect};
use lockswap_experiment::host::NAME;
use lockswap_machine::topology::Group;
use lockswap_study::runner::Interrupt;

use super::seen::Seen;
use crate::sim::host;
use crate::terminal::{self, say};

/// What of this machine decides which locks can be right.
pub fn place() -> Place {
    let here = lockswap_machine::Machine::here().ok();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(topology) = here.map(|here| here.topology) else {
        return Place { cpus, has_nodes: false, has_kinds: false };
    };
    let mut nodes: Vec<Option<usize>> = topology.allowed().iter().map(|cpu| topology.group(Group::Node, cpu)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    Place { cpus, has_nodes: nodes.len() > 1, has_kinds: topology.classes() > 1 }
}

/// The locks that are tried for one that threads wait for; nothing after an interruption. Without a simulation, or
/// where it says nothing, rules alone decide.
pub fn candidates(
    suspect: &Suspect,
    seen: &Seen,
    place: Place,
    simulates: bool,
    left: Duration,
    interrupt: &Interrupt,
) -> Option<Vec<Candidate>> {
    let pool = pool(suspect, place, seen.run.active);
    let simulated = match simulates && suspect.kind == Kind::Mutex {
        true => simulate(suspect, &pool, is_crowded(suspect, place, seen.run.active), left, interrupt)?,
        false => Vec::new(),
    };
    Some(narrowed(suspect, &pool, &simulated, MOST_CANDIDATES))
}

/// The simulator takes no more than this part of the time that is left.
const SIMULATING: u32 = 10;

/// Why no run is begun any more.
enum Enough {
    Interrupted,
    Time,
}

fn simulate(
    suspect: &Suspect,
    pool: &[&str],
    crowded: bool,
    left: Duration,
    interrupt: &Interrupt,
) -> Option<Vec<(String, f64)>> {
    // Waits that spin then end in naps, as those of the library do.
    let changes = crowded.then(|| ("scheduler.patience".to_owned(), "true".to_owned()));
    let machine = match host::machine(NAME, changes.as_slice()) {
        Ok(machine) => machine,
        Err(error) => {
            say(&format!("note: this machine is not simulated: {error}; rules alone choose what is tried"));
            return Some(Vec::new());
        }
    };
    let Ok(workload) = workload(suspect, machine.cpu_count()) else { return Some(Vec::new()) };
    let begin = std::time::Instant::now();
    let bar = terminal::bar(0);
    bar.set_message(format!("simulating {}", suspect.name));
    let found = throughputs(&workload, pool, &machine, |all, made| {
        bar.set_length(all as u64);
        bar.set_position(made as u64);
        match () {
            () if interrupt.signal().is_some() => Err(Enough::Interrupted),
            () if begin.elapsed() > left / SIMULATING => Err(Enough::Time),
            () => Ok(()),
        }
    });
    bar.finish_and_clear();
    match found {
        Ok(found) => Some(found),
        Err(Enough::Interrupted) => None,
        Err(Enough::Time) => {
            say(&format!("note: the simulation of {} took too long; rules alone choose what is tried", suspect.name));
            Some(Vec::new())
        }
    }
}
