//! What the machine is like: its topology, the kinds of its cores, the time a cache line takes from one core to
//! another, and the shortest round trip through them.
//!
//! What the preload library needs, too, is in `lockswap-topology`; its modules are here under the same names.
//! - [`captured`] is a folder such as `/sys` kept in a text;
//! - [`cgroup`] reads to which CPUs a control group confines a process;
//! - [`probe`] measures the latency between each two CPUs, [`matrix`] holds it, [`route`] finds the shortest round
//!   trip in it, and [`stored`] keeps both in a file;
//! - [`Machine`] is a machine with what locks make of it, read from a folder or a file, [`tree`] draws it, [`kept`] is
//!   the file that keeps what was measured on it, and [`Data`] is all of that as data;
//! - [`costs`] measures what single steps cost, for a described machine that resembles this one.

pub mod captured;
pub mod cgroup;
pub mod costs;
mod data;
pub mod kept;
mod machine;
pub mod matrix;
pub mod probe;
pub mod route;
pub mod speed;
pub mod steps;
pub mod stored;
pub mod tree;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use data::Data;
pub use kept::{Kept, RouteHere};
pub use lockswap_topology::{cpuset, files, kinds, order, places, shared, topology};
pub use machine::{declared_route, judge, root, settings, Error, Machine, CPUS};

use cpuset::CpuSet;
use files::{Files, Folder};
use topology::{Topology, Wanted};

/// Everything that `files` say about a machine; `allowed` are the CPUs that the process may use, `None` if all.
pub fn read(files: &impl Files, allowed: Option<&CpuSet>) -> Box<Topology> {
    let mut topology = Box::new(Topology::UNKNOWN);
    topology.read(files, allowed, Wanted::ALL);
    topology
}

/// The content of a file that somebody names, which may be a device or a pipe without an end: more than 64 MiB are an
/// error.
pub fn contents(path: &Path) -> io::Result<String> {
    const MOST_BYTES: u64 = 64 << 20;
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {} MiB", MOST_BYTES >> 20))),
        false => Ok(text),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_an_end_is_not_read_to_the_end() {
        let error = contents(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 64 MiB");
        assert_eq!(contents(Path::new("/dev/null")).unwrap(), "");
    }
}
