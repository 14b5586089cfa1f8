//! How locks would do with the sections and the threads of one mutex, on the simulated machine.

use lockswap_experiment::simulated::{run_each, Row};
use lockswap_locks::registry::PTHREAD;
use lockswap_platform::Ns;
use lockswap_sim::{Invalid, Job, Machine, Workload};
use lockswap_study::descriptive;
use lockswap_workloads::{crew::Timing, shares};

use crate::suspect::Suspect;

/// Threads that are simulated at most: more make no other lock the best, but take longer.
const MOST_THREADS: u64 = 64;

/// Sections and pauses vary by so many percent, so that threads do not go round in step.
const SPREAD: u32 = 50;

/// Sections that all threads together should get through.
const SECTIONS: f64 = 10_000.0;

/// Virtual time of a run, ns.
const SHORTEST: Ns = 1_000_000;
const LONGEST: Ns = 100_000_000;

/// With more threads than CPUs a run holds some of the slices that the scheduler gives.
const SHORTEST_CROWDED: Ns = 50_000_000;

/// Seeds of each lock: the same for all.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The workload of `shares`, with the threads, the sections and the think time of a mutex.
///
/// # Errors
/// The simulator takes no such workload.
pub fn workload(suspect: &Suspect, cpus: usize) -> Result<Workload, Invalid> {
    let threads = suspect.threads.clamp(2, MOST_THREADS) as usize;
    let hold = (suspect.hold_p50_ns as Ns).max(1);
    let think = suspect.think_ns as Ns;
    // The lock can be what limits them, or their own number.
    let per_section = (hold as f64).max((hold + think) as f64 / threads as f64);
    let shortest = if threads > cpus { SHORTEST_CROWDED } else { SHORTEST };
    let duration = ((SECTIONS * per_section) as Ns).clamp(shortest, LONGEST);
    let timing = Timing::lasting(duration);
    let config =
        shares::Config { timing, lengths: vec![hold], pause: think, spread: SPREAD, ..shares::Config::toy(threads) };
    let workload = Workload::Shares(config);
    workload.check()?;
    Ok(workload)
}

/// The throughput of each of these locks next to `pthread`'s: the median over the seeds. A lock that stops has none.
/// `look` sees how many runs there are and how many have been made.
///
/// # Errors
/// What `look` returns; nothing new is begun then.
pub fn throughputs<E>(
    workload: &Workload,
    locks: &[&str],
    machine: &Machine,
    mut look: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<Vec<(String, f64)>, E> {
    let all: Vec<&str> = std::iter::once(PTHREAD).chain(locks.iter().copied()).collect();
    let jobs: Vec<Job<'_>> =
        all.iter().flat_map(|lock| SEEDS.map(|seed| Job { machine, workload: workload.clone(), lock, seed })).collect();
    let rows = run_each(&jobs, |_| (), |rows| look(jobs.len(), rows.iter().flatten().count()))?;
    Ok(next_to_pthread(&all, &rows))
}

/// The medians of the throughputs, next to that of the first lock.
fn next_to_pthread(locks: &[&str], rows: &[Option<Row>]) -> Vec<(String, f64)> {
    let median = |lock: &str| {
        let own = rows.iter().flatten().filter(|row| row.lock == lock);
        let found: Vec<f64> = own.filter_map(|row| Some(row.outcome.as_ref().ok()?.report.throughput)).collect();
        // A lock that stopped with one of the seeds is none to recommend.
        descriptive::median(&found).filter(|_| found.len() == SEEDS.len())
    };
    let Some(base) = locks.first().and_then(|lock| median(lock)).filter(|base| *base > 0.0) else { return Vec::new() };
    locks.iter().filter_map(|lock| Some(((*lock).to_owned(), median(lock)? / base))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspect::suspects;
    use crate::tests::{lock, report};

    #[test]
    fn the_simulator_runs_the_sections_of_a_mutex() {
        let suspect = suspects(&report(vec![lock("m", "mutex", 5e9)], 10_000_000_000)).remove(0);
        let suspect = Suspect { threads: 8, hold_p50_ns: 300.0, think_ns: 100.0, ..suspect };
        let machine = Machine::built_in("xeon-e5-2699v3", &[]).unwrap();
        let workload = workload(&suspect, machine.cpu_count()).unwrap();
        assert_eq!((workload.threads(), workload.timing().duration), (8, 3_000_000));
        let mut made = 0;
        let found = throughputs::<()>(&workload, &["mcs_spin", "no-such-lock"], &machine, |all, done| {
            assert_eq!(all, 9);
            made = done;
            Ok(())
        });
        let found = found.unwrap();
        assert_eq!((made, found.len()), (9, 2));
        assert_eq!(found[0], ("pthread".to_owned(), 1.0));
        // Eight threads on 18 cores that hand a short section on without a sleep.
        assert!(found[1].0 == "mcs_spin" && found[1].1 > 1.0, "{found:?}");
        assert_eq!(throughputs(&workload, &[], &machine, |_, _| Err("no more")), Err("no more"));
    }

    #[test]
    fn a_workload_is_as_long_as_its_sections_take_within_bounds() {
        let suspect = suspects(&report(vec![lock("m", "mutex", 5e9)], 10_000_000_000)).remove(0);
        let duration = |threads, hold_p50_ns, think_ns| {
            let suspect = Suspect { threads, hold_p50_ns, think_ns, ..suspect.clone() };
            workload(&suspect, 4).unwrap().timing().duration
        };
        assert_eq!(duration(2, 10.0, 10.0), SHORTEST);
        assert_eq!(duration(2, 1e3, 3e3), 20_000_000);
        assert_eq!(duration(2, 1e6, 0.0), LONGEST);
        assert_eq!(duration(8, 10.0, 10.0), SHORTEST_CROWDED);
    }
}
