//! One run on hardware: a workload on a lock of the catalogue that is called directly.

use crate::hardware::child::{self, Environment};
use crate::simulated::plan::role;
use lockswap_locks::{for_each_lock, RawLock, RawRwLock};
use lockswap_platform::{Native, Ns};
use lockswap_workloads::crew::Place;
use lockswap_workloads::direct::{choose, Direct, DirectRw};
use lockswap_workloads::hardware::{Hardware, Seat};
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{bursts, counter, kv, locktorture, ncs, phases, readers};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::time::Duration;

/// A run to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What the threads do.
    pub workload: Workload,
    /// The lock, perhaps with parameters.
    pub lock: String,
    /// Thread i is pinned to the i-th, and again from the first.
    pub cpus: Vec<usize>,
}

/// A lock on lines of its own, as in the simulation.
#[repr(align(128))]
struct Apart<T>(T);

impl Run {
    /// Makes it, in this process; `places` are the CPUs' by number, as far as they are known.
    ///
    /// # Errors
    /// There is no such lock, or it has no such workload.
    pub fn make(&self, places: Vec<Place>) -> Result<Report, String> {
        let seats = self.cpus.iter().map(|&cpu| Seat { cpu, pace: 1.0 }).collect();
        let crew = Hardware { seats, places, ..Hardware::default() };
        on_lock(self, &crew).ok_or_else(|| format!("no lock '{}'", self.lock))?
    }

    /// Makes it in a child of `program` that runs in `environment`, which takes about `time`.
    ///
    /// # Errors
    /// The child cannot be started, fails, hangs, or prints something else than its numbers.
    pub fn measured(&self, program: &Path, environment: &Environment, time: Ns) -> io::Result<Report> {
        let mut command = child::command(program, child::VALIDATE, environment);
        command.arg(serde_json::to_string(self)?);
        child::numbers(command, Duration::from_nanos(time))
    }
}

/// `None` if there is no such lock.
fn on_lock(run: &Run, crew: &Hardware) -> Option<Result<Report, String>> {
    macro_rules! dispatch {
        (mutex { $($mutex:literal => $lock:path,)* } rwlock { $($rwlock:literal => $rw:path,)* } spin { $($spins:tt)* }) => {
            match (run.workload.wants_rwlocks(), choose(role(&run.workload), &run.lock)?) {
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

fn on_mutex<L: RawLock<Native>>(workload: &Workload, crew: &Hardware) -> Result<Report, String> {
    let lock = Box::new(Apart(Direct::<Native, L>::new()));
    Ok(match workload {
        Workload::Counter(config) => counter::run::<Native, _>(config, crew, &lock.0),
        Workload::Kv(config) => kv::run::<Native, _>(config, crew, &lock.0),
        Workload::Ncs(config) => ncs::run::<Native, _>(config, crew, &lock.0),
        Workload::Bursts(config) => bursts::run::<Native, _>(config, crew, &lock.0),
        Workload::Phases(config) => phases::run::<Native, _>(config, crew, &lock.0),
        Workload::Locktorture(config) => locktorture::run::<Native, _>(config, crew, &lock.0),
        Workload::Epochs(_) | Workload::Shares(_) | Workload::Readers(_) | Workload::Calls(_) => {
            return Err("not a workload of mutexes that can be called directly".into());
        }
    })
}

fn on_rwlock<L: RawRwLock<Native>>(workload: &Workload, crew: &Hardware) -> Result<Report, String> {
    let Workload::Readers(config) = workload else {
        return Err("not a workload of read-write locks".into());
    };
    let lock = Box::new(Apart(DirectRw::<Native, L>::new()));
    Ok(readers::run::<Native, _>(config, crew, &lock.0))
}
