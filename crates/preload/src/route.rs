//! The route for the locks that travel through the CPUs: the one that the user names, else the one that was measured and
//! stored on this machine, else one along the topology. In any case through the process's own CPUs only, as far as they are
//! known when it starts.

use core::ffi::CStr;
use core::fmt;

use lockswap_platform::{rank_of, set_route, CpuList, Native, Platform, MAX_CPUS};
use lockswap_topology::files::{beginning, Folder};
use lockswap_topology::order::Order;
use lockswap_topology::places::Settings;
use lockswap_topology::stored::{self, Identity, HEAD_BYTES};
use lockswap_topology::topology::{Topology, Wanted};
use syscalls::Errno;

use crate::boot::{complain, map, unmap, Environment, Lossy};

const PATH_BYTES: usize = 512;

/// Where the route comes from; shown with the route itself.
pub enum Chosen {
    /// From the user.
    Declared,
    /// From the file that `lockswap topo` stored.
    Stored,
    /// From the topology.
    Topology,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "route ";
        for rank in 0..Native::ranks() {
            for cpu in (0..MAX_CPUS as u32).filter(|cpu| rank_of(*cpu) == Some(rank)) {
                write!(f, "{separator}{cpu}")?;
                separator = ",";
            }
        }
        f.write_str(match self {
            Chosen::Declared => ", as LOCKSWAP_ROUTE says",
            Chosen::Stored => ", as lockswap topo has stored it",
            Chosen::Topology => ", along the topology",
        })
    }
}

/// Chooses the route and tells [`Native`]; `declared` is what the user names. A file that is there but of no use is ignored;
/// if `verbose`, a line says so.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn choose(
    environment: &Environment,
    declared: Option<CpuList<'_>>,
    settings: &Settings,
    verbose: bool,
) -> Chosen {
    let own = settings.allowed;
    // CPUs that the list leaves out come last.
    let follow = |list: CpuList<'_>| set_route(list.cpus().filter(|cpu| own.contains(*cpu)).chain(own.iter()));
    if let Some(list) = declared {
        follow(list);
        return Chosen::Declared;
    }
    // Without the folder the CPUs are visited in their order, and nothing that was stored is this machine's.
    // SAFETY: as for this call.
    let folder = Folder::open(unsafe { environment.get("LOCKSWAP_SYSFS") }.unwrap_or(c"/sys")).ok();
    // SAFETY: as for this call.
    if unsafe { with_stored(environment, Identity::of(&folder), verbose, follow) } {
        return Chosen::Stored;
    }
    let memory = map(size_of::<Topology>());
    // SAFETY: the memory is large enough, aligned to a page, ours alone, and all zero bytes are a topology.
    let topology = unsafe { &mut *memory.cast::<Topology>() };
    topology.read(&folder, Some(&own), Wanted { all_groups: true, kinds: false });
    settings.apply(topology);
    set_route(Order::along(topology, &own).iter().chain(own.iter()));
    // SAFETY: from `map`; `topology` is used no more.
    unsafe { unmap(memory, size_of::<Topology>()) };
    Chosen::Topology
}

/// Gives the stored route to `follow` and returns whether there is one.
///
/// # Safety
/// As for [`choose`].
unsafe fn with_stored(
    environment: &Environment,
    machine: Identity,
    verbose: bool,
    follow: impl FnOnce(CpuList<'_>),
) -> bool {
    // SAFETY: as for this call.
    let variable = |name| unsafe { environment.get(name) }.map(CStr::to_bytes);
    let mut path = [0; PATH_BYTES];
    let [file, cache, home] = ["LOCKSWAP_ROUTE_FILE", "XDG_CACHE_HOME", "HOME"].map(variable);
    let Some(path) = stored::path(&mut path, file, cache, home, machine) else { return false };
    let memory = map(HEAD_BYTES);
    // SAFETY: so many bytes, ours alone.
    let buffer = unsafe { core::slice::from_raw_parts_mut(memory.cast::<u8>(), HEAD_BYTES) };
    let ignored = |why: fmt::Arguments<'_>| {
        if verbose {
            complain(format_args!("the route in {} is ignored: {why}", Lossy(path.to_bytes())));
        }
    };
    let found = match beginning(path, buffer).map(|head| stored::route(head, machine)) {
        Ok(Ok(route)) => {
            follow(route);
            true
        }
        Ok(Err(why)) => {
            ignored(format_args!("{why}"));
            false
        }
        // Nothing was measured here.
        Err(Errno::ENOENT | Errno::ENOTDIR) => false,
        Err(error) => {
            ignored(format_args!("it cannot be read (error {})", error.into_raw()));
            false
        }
    };
    // SAFETY: from `map`; the buffer is used no more.
    unsafe { unmap(memory, HEAD_BYTES) };
    found
}
