//! One run on hardware: a workload on a lock of the catalogue that is called directly, in a process of its own.

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{bail, Context};
use lockswap_experiment::hardware::child;
use lockswap_locks::{for_each_lock, RawLock, RawRwLock};
use lockswap_platform::{Native, Ns};
use lockswap_workloads::direct::{Direct, DirectRw};
use lockswap_workloads::hardware::{Hardware, Seat};
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{counter, kv, ncs, readers};
use serde::{Deserialize, Serialize};

use crate::terminal;

/// A run to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub workload: Workload,
    pub lock: String,
    /// Thread i is pinned to the i-th, and again from the first.
    pub cpus: Vec<usize>,
}

impl Run {
    /// Makes it in a child, which takes about `time`.
    pub fn make(&self, time: Ns) -> anyhow::Result<Report> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.arg(child::VALIDATE).arg(serde_json::to_string(self)?);
        let text = child::answer(command, Duration::from_nanos(time))?;
        serde_json::from_slice(&text).context("the measuring process printed something else than its numbers")
    }
}

/// A lock on lines of its own, as in the simulation.
#[repr(align(128))]
struct Apart<T>(T);

/// The measuring process: makes the run that `text` describes and prints one line of JSON.
pub fn measure(text: &str) -> anyhow::Result<ExitCode> {
    let run: Run = serde_json::from_str(text).context("no run")?;
    let seats = run.cpus.iter().map(|&cpu| Seat { cpu, pace: 1.0 }).collect();
    let crew = Hardware { seats, places: crate::bench::look_around()?, ..Hardware::default() };
    let report = on_lock(&run, &crew).with_context(|| format!("no lock '{}'", run.lock))??;
    terminal::print(&format!("{}\n", serde_json::to_string(&report)?))?;
    Ok(ExitCode::SUCCESS)
}

/// `None` if there is no such lock.
fn on_lock(run: &Run, crew: &Hardware) -> Option<anyhow::Result<Report>> {
    macro_rules! dispatch {
        (mutex { $($mutex:literal => $lock:path,)* } rwlock { $($rwlock:literal => $rw:path,)* } spin { $($spins:tt)* }) => {
            match (run.workload.wants_rwlocks(), run.lock.as_str()) {
                $((false, $mutex) => {
                    use $lock as Lock;
                    Some(on_mutex::<Lock<Native>>(&run.workload, crew))
                })*
                $((true, $rwlock) => {
                    use $rw as Lock;
                    Some(on_rwlock::<Lock<Native>>(&run.workload, crew))
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

fn on_mutex<L: RawLock<Native>>(workload: &Workload, crew: &Hardware) -> anyhow::Result<Report> {
    let lock = Box::new(Apart(Direct::<Native, L>::new()));
    Ok(match workload {
        Workload::Counter(config) => counter::run::<Native, _>(config, crew, &lock.0),
        Workload::Kv(config) => kv::run::<Native, _>(config, crew, &lock.0),
        Workload::Ncs(config) => ncs::run::<Native, _>(config, crew, &lock.0),
        Workload::Epochs(_) | Workload::Readers(_) => bail!("not a workload of mutexes that can be called directly"),
    })
}

fn on_rwlock<L: RawRwLock<Native>>(workload: &Workload, crew: &Hardware) -> anyhow::Result<Report> {
    let Workload::Readers(config) = workload else { bail!("not a workload of read-write locks") };
    let lock = Box::new(Apart(DirectRw::<Native, L>::new()));
    Ok(readers::run::<Native, _>(config, crew, &lock.0))
}
