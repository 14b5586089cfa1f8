//! The route for the locks that travel through the CPUs: the one that the user names, else the one that was measured
//! and stored on this machine, else one along the topology. In any case through the process's own CPUs only, as far as
//! they are known when it starts.

use core::fmt;

use lockswap_platform::{rank_of, set_route, CpuList, Native, Platform, MAX_CPUS};
use lockswap_topology::files::Folder;
use lockswap_topology::order::Order;
use lockswap_topology::places::Settings;
use lockswap_topology::stored::Identity;
use lockswap_topology::topology::{Topology, Wanted};

use crate::environment::Environment;
use crate::memory;
use crate::stored;

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

/// Chooses the route and tells [`Native`]; `declared` is what the user names. A file that is there but of no use is
/// ignored; if `verbose`, a line says so. Where neither the user nor a file has one, it is made from the topology if it
/// `is_needed`; else there is none, and nothing is returned.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn choose(
    environment: &Environment,
    declared: Option<CpuList<'_>>,
    settings: &Settings,
    verbose: bool,
    is_needed: bool,
) -> Option<Chosen> {
    let own = settings.allowed;
    // CPUs that the list leaves out come last.
    let follow = |list: CpuList<'_>| set_route(list.cpus().filter(|cpu| own.contains(*cpu)).chain(own.iter()));
    if let Some(list) = declared {
        follow(list);
        return Some(Chosen::Declared);
    }
    // Without the folder the CPUs are visited in their order, and nothing that was stored is this machine's.
    // SAFETY: as for this call.
    let folder = Folder::open(unsafe { environment.get("LOCKSWAP_SYSFS") }.unwrap_or(c"/sys")).ok();
    // SAFETY: as for this call.
    if unsafe { stored::with(environment, Identity::of(&folder), verbose, |route, _| follow(route)) } {
        return Some(Chosen::Stored);
    }
    if !is_needed {
        return None;
    }
    let along_topology = |topology: &mut Topology| {
        topology.read(&folder, Some(&own), Wanted { all_groups: true, kinds: false });
        settings.apply(topology);
        set_route(Order::along(topology, &own).iter().chain(own.iter()));
    };
    // Without memory for that the CPUs are visited in their order.
    // SAFETY: all zero bytes are a topology.
    if unsafe { memory::with_zeroed(along_topology) }.is_none() {
        set_route(own.iter());
    }
    Some(Chosen::Topology)
}
