//! Sweeps on simulated machines: a workload on several locks, numbers of threads and values of its keys.
//!
//! - [`plan`] is what is to be run; [`run_each`] runs it, on all CPUs of the host.
//! - [`points`] are the medians over the seeds, and the ratios to the baseline.
//! - [`output`] gives tables, Markdown, HTML, CSV and JSON, [`draw`] pictures.

pub mod draw;
pub mod output;
pub mod plan;
pub mod points;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockswap_sim::{Failure, Finished, Job, Workload};

/// One run, and what became of it.
pub struct Row {
    /// The lock's id.
    pub lock: String,
    /// How many threads.
    pub threads: u32,
    /// What they did.
    pub workload: Workload,
    /// The seed of all chance.
    pub seed: u64,
    /// What the run gave, or why it gave nothing.
    pub outcome: Result<Finished, Failure>,
}

/// How often somebody looks whether the user wants no more.
const LOOK: Duration = Duration::from_millis(100);

/// Makes all runs, on all CPUs of the host; results are in the order of the jobs. `starting` is told of each run, on
/// the thread that makes it; `look` sees what there is after each run and every now and then.
///
/// # Errors
/// What `look` returns; nothing new is begun then.
pub fn run_each<E>(
    jobs: &[Job<'_>],
    starting: impl Fn(&Job<'_>) + Sync,
    look: impl FnMut(&[Option<Row>]) -> Result<(), E>,
) -> Result<Vec<Option<Row>>, E> {
    run_more(jobs, Vec::new(), starting, look)
}

/// The same, but the first runs have been made: `rows` is what they gave.
///
/// # Errors
/// As above.
pub fn run_more<E>(
    jobs: &[Job<'_>],
    mut rows: Vec<Option<Row>>,
    starting: impl Fn(&Job<'_>) + Sync,
    mut look: impl FnMut(&[Option<Row>]) -> Result<(), E>,
) -> Result<Vec<Option<Row>>, E> {
    let order = longest_first(jobs, rows.len());
    let next = AtomicUsize::new(0);
    rows.resize_with(jobs.len(), || None);
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(order.len().max(1));
    std::thread::scope(|scope| {
        let (sender, finished) = mpsc::channel();
        for _ in 0..workers {
            let (order, next, starting, sender) = (&order, &next, &starting, sender.clone());
            scope.spawn(move || {
                // Relaxed: each job is taken once; the channel publishes the results.
                while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let job = &jobs[index];
                    starting(job);
                    let (lock, threads) = (job.lock.to_owned(), job.workload.threads() as u32);
                    let row = Row { lock, threads, workload: job.workload.clone(), seed: job.seed, outcome: job.run() };
                    if sender.send((index, row)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match finished.recv_timeout(LOOK) {
                Ok((index, row)) => rows[index] = Some(row),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            look(&rows)?;
        }
    })?;
    Ok(rows)
}

/// The jobs behind the first `made` ones in the order in which they are begun: those that simulate the longest time
/// first, and of these the ones with the most threads, so that no CPU waits for a long one in the end.
fn longest_first(jobs: &[Job<'_>], made: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (made..jobs.len()).collect();
    order.sort_by_key(|index| {
        let workload = &jobs[*index].workload;
        Reverse((workload.timing().duration, workload.threads()))
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_sim::Machine;

    #[test]
    fn long_runs_are_begun_first_and_results_keep_the_order_of_the_jobs() {
        let machine = Machine::built_in("apple-m1", &[]).unwrap();
        let job = |threads: usize, duration: u64| {
            let workload = Workload::named("counter").unwrap().with(threads, duration);
            Job { machine: &machine, workload, lock: "ticket", seed: 1 }
        };
        let jobs = [job(1, 1_000), job(2, 3_000), job(3, 2_000), job(4, 3_000), job(5, 1_000), job(6, 1_000)];
        assert_eq!(longest_first(&jobs, 0), [3, 1, 2, 5, 4, 0]);
        assert_eq!(longest_first(&jobs, 2), [3, 2, 5, 4]);
        let rows = run_each::<()>(&jobs[..2], |_| (), |_| Ok(())).unwrap();
        let rows = run_more::<()>(&jobs, rows, |job| assert!(job.workload.threads() > 2), |_| Ok(())).unwrap();
        let threads: Vec<u32> = rows.into_iter().map(|row| row.unwrap().threads).collect();
        assert_eq!(threads, [1, 2, 3, 4, 5, 6]);
    }
}
