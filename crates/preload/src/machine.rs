//! What locks are told about the CPUs: from the file that `lockswap run` keeps up to date, else read from `/sys` when
//! the program starts. Only for a lock that asks, and never later: a program may forbid itself to open files.

use core::ffi::CStr;
use core::fmt;

use lockswap_locks::info::Asks;
use lockswap_platform::{set_place, use_places, Clock, Native, Ns, Platform, TopologyOverride};
use lockswap_topology::cpuset::CpuSet;
use lockswap_topology::files::Folder;
use lockswap_topology::kinds::Source;
use lockswap_topology::places::{choose, find, is_open, Level, Reason, Settings, Summary};
use lockswap_topology::shared::{Shared, FILE_BYTES};
use lockswap_topology::stored::Identity;
use lockswap_topology::topology::{Topology, Wanted};
use syscalls::{syscall, Errno, Sysno};

use crate::environment::Environment;
use crate::memory;
use crate::message::{die, Lossy};
use crate::stored;

/// What was learnt, in words for the user.
pub enum Learnt {
    /// From the file of `lockswap run`.
    Shared(&'static Shared),
    /// From `/sys`.
    Read { level: Level, reason: Reason, kinds: Option<Source>, summary: Summary, took: Ns },
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Learnt::Shared(shared) => write!(f, "{}; kept up to date by lockswap run", shared.said()),
            Learnt::Read { level, reason, kinds, summary, took } => {
                write!(f, "level {} ({reason}): {summary}", level.name())?;
                if let Some(source) = kinds {
                    write!(f, ", kinds from {source}")?;
                }
                write!(f, "; read in {} us", took / 1000)
            }
        }
    }
}

/// Learns what locks ask; nothing if they ask nothing, or if there is no memory: then all CPUs count as alike.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn learn(environment: &Environment, settings: &Settings, asks: Asks) -> Option<Learnt> {
    // SAFETY: as for this call.
    unsafe {
        if !asks.any_place() {
            return None;
        }
        let shared = environment.get("LOCKSWAP_MACHINE").and_then(|path| map_shared(path).ok());
        if let Some(shared) = shared {
            if let Some(places) = shared.places_for(settings.fingerprint()) {
                use_places(places);
                return Some(Learnt::Shared(shared));
            }
        }
        let root = environment.get("LOCKSWAP_SYSFS").unwrap_or(c"/sys");
        memory::with_zeroed(|topology| read(environment, root, settings, asks, topology))
    }
}

/// What the environment says about the machine; settings of the wrong form end the process.
///
/// # Safety
/// `environment` is the process's own.
pub unsafe fn settings(environment: &Environment) -> Settings {
    // SAFETY: as for this call.
    unsafe {
        let level = environment.get("LOCKSWAP_LEVEL").map(|name| {
            let [node, llc, kind] = Level::ALL.map(Level::name);
            Level::parse(name.to_bytes()).unwrap_or_else(|| {
                let name = Lossy(name.to_bytes());
                die(format_args!(
                    "LOCKSWAP_LEVEL={name} names no level of locality; choose one of: {node} {llc} {kind}"
                ))
            })
        });
        let nodes = environment.get("LOCKSWAP_TOPOLOGY").map(|text| {
            TopologyOverride::parse(text.to_bytes()).unwrap_or_else(|| {
                let text = Lossy(text.to_bytes());
                die(format_args!("LOCKSWAP_TOPOLOGY={text} is not NODESxCPUS, for instance 2x1"))
            })
        });
        let big = environment.cpus("LOCKSWAP_BIG").map(CpuSet::from);
        Settings { level, nodes, big, allowed: CpuSet::of_this_thread() }
    }
}

/// Reads the machine into `topology`, and tells [`Native`].
///
/// # Safety
/// As for [`learn`].
unsafe fn read(
    environment: &Environment,
    root: &CStr,
    settings: &Settings,
    asks: Asks,
    topology: &mut Topology,
) -> Learnt {
    let start = Native::now(Clock::Monotonic);
    let kinds = asks.kind || settings.level == Some(Level::CoreKind);
    // Without the folder all CPUs of the process count as alike.
    let folder = Folder::open(root).ok();
    let wanted = Wanted { all_groups: false, kinds: kinds && settings.big.is_none() };
    topology.read(&folder, Some(&settings.allowed), wanted);
    settings.apply(topology);
    let mut steps = None;
    let no_kinds = kinds && topology.kinds_source() == Source::None && settings.allowed.len() > 1;
    if no_kinds || asks.locality && is_open(topology, settings.level) {
        // SAFETY: as for this call. What is of no use is the route's to complain about.
        unsafe {
            stored::with(environment, Identity::of(&folder), false, |_, facts| {
                steps = facts.steps;
                if let Some(big) = facts.big.filter(|_| no_kinds) {
                    topology.fall_back_to_measured(&big.into());
                }
            });
        }
    }
    let (level, reason) = choose(topology, settings.level, steps);
    let summary = find(topology, level, set_place);
    let kinds = kinds.then(|| topology.kinds_source());
    Learnt::Read { level, reason, kinds, summary, took: Native::now(Clock::Monotonic) - start }
}

/// Maps the file at `path`, which is made so that it cannot shrink.
fn map_shared(path: &CStr) -> Result<&'static Shared, Errno> {
    // Not blocking: the path may have come to name a pipe.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a C string, the mapping is new, as long as the type, and never removed.
    unsafe {
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags)?;
        let mapping = match syscall!(Sysno::lseek, file, 0, libc::SEEK_END) {
            Ok(FILE_BYTES) => syscall!(Sysno::mmap, 0, FILE_BYTES, libc::PROT_READ, libc::MAP_SHARED, file, 0),
            Ok(_) => Err(Errno::EINVAL),
            Err(error) => Err(error),
        };
        let _ = syscall!(Sysno::close, file);
        Ok(&*(mapping? as *const Shared))
    }
}
