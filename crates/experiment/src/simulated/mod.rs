//! Sweeps on simulated machines: a workload on several locks, numbers of threads and values of its keys.
//!
//! - [`plan`] is what is to be run; [`run_each`] runs it, on all CPUs of the host.
//! - [`points`] are the medians over the seeds, and the ratios to the baseline.
//! - [`output`] gives tables, Markdown, HTML, CSV and JSON, [`draw`] pictures.

pub mod draw;
pub mod output;
pub mod plan;
pub mod points;

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

/// Makes all runs, on all CPUs of the host; results are in the order of the jobs. `starting` is told of each run, on the
/// thread that makes it; `look` sees what there is after each run and every now and then.
///
/// # Errors
/// What `look` returns; nothing new is begun then.
pub fn run_each<E>(
    jobs: &[Job<'_>],
    starting: impl Fn(&Job<'_>) + Sync,
    mut look: impl FnMut(&[Option<Row>]) -> Result<(), E>,
) -> Result<Vec<Option<Row>>, E> {
    let next = AtomicUsize::new(0);
    let mut rows: Vec<Option<Row>> = jobs.iter().map(|_| None).collect();
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len().max(1));
    std::thread::scope(|scope| {
        let (sender, finished) = mpsc::channel();
        for _ in 0..workers {
            let (next, starting, sender) = (&next, &starting, sender.clone());
            scope.spawn(move || loop {
                // Relaxed: each job is taken once; the channel publishes the results.
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(index) else { break };
                starting(job);
                let (lock, threads) = (job.lock.to_owned(), job.workload.threads() as u32);
                let row = Row { lock, threads, workload: job.workload.clone(), seed: job.seed, outcome: job.run() };
                if sender.send((index, row)).is_err() {
                    break;
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
