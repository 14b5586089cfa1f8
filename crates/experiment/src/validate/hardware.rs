//! One run on hardware: a workload on a lock of the catalogue that is called directly.

use crate::hardware::child::{self, Environment};
use lockswap_platform::Ns;
use lockswap_workloads::crew::Place;
use lockswap_workloads::directly;
use lockswap_workloads::hardware::{Hardware, Seat};
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
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

impl Run {
    /// Makes it, in this process; `places` are the CPUs' by number, as far as they are known.
    ///
    /// # Errors
    /// There is no such lock, or it has no such workload.
    pub fn make(&self, places: Vec<Place>) -> Result<Report, String> {
        let seats = self.cpus.iter().map(|&cpu| Seat { cpu, pace: 1.0 }).collect();
        let crew = Hardware { seats, places, ..Hardware::default() };
        directly::run(&self.workload, &self.lock, &crew)
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
