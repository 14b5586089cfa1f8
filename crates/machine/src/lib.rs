//! What the machine is like: its topology, the kinds of its cores, the time a cache line takes from one core to another,
//! and the shortest round trip through them.
//!
//! What the preload library needs, too, is in `lockswap-topology`; its modules are here under the same names.
//! - [`captured`] is a folder such as `/sys` kept in a text;
//! - [`cgroup`] reads to which CPUs a control group confines a process;
//! - [`probe`] measures the latency between each two CPUs, [`matrix`] holds it, [`route`] finds the shortest round trip in
//!   it, and [`stored`] keeps both in a file;
//! - [`costs`] measures what single steps cost, for a described machine that resembles this one.

pub mod captured;
pub mod cgroup;
pub mod costs;
pub mod matrix;
pub mod probe;
pub mod route;
pub mod speed;
pub mod steps;
pub mod stored;

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use lockswap_topology::{cpuset, files, kinds, order, places, shared, topology};

use cpuset::CpuSet;
use files::{Files, Folder};
use topology::{Topology, Wanted};

/// Everything that `files` say about a machine; `allowed` are the CPUs that the process may use, `None` if all.
pub fn read(files: &impl Files, allowed: Option<&CpuSet>) -> Box<Topology> {
    let mut topology = Box::new(Topology::UNKNOWN);
    topology.read(files, allowed, Wanted::ALL);
    topology
}

/// The beginning of what somebody else wrote, fit to be part of an error's line.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let beginning: String = text.chars().take(LONGEST).collect();
    let more = if beginning.len() < text.len() { "..." } else { "" };
    format!("{}{more}", beginning.escape_debug())
}

/// Opens the folder at `path`.
pub fn open(path: &Path) -> io::Result<Folder> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    Folder::open(&path).map_err(|error| io::Error::from_raw_os_error(error.into_raw()))
}
