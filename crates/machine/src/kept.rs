//! The file that keeps what was measured on this machine, for the programs that are started later.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use lockswap_platform::CpuList;

use crate::contents;
use crate::cpuset::CpuSet;
use crate::machine::{declared_route, root, Error, Machine};
use crate::matrix::Matrix;
use crate::order::Order;
use crate::route::Route;
use crate::steps::steps;
use crate::stored::{self, Facts, Identity};

/// The file of this machine.
#[derive(Clone, Debug)]
pub struct Kept {
    path: PathBuf,
    machine: Identity,
}

/// The route that RON locks take here, and where it comes from.
#[derive(Clone, Debug)]
pub struct RouteHere {
    /// The CPUs that this process may use, in order.
    pub cpus: Vec<usize>,
    /// Who says so.
    pub origin: Origin,
    /// A file that is there but of no use, and why, in one line.
    pub ignored: Option<String>,
}

/// Where a route comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// `LOCKSWAP_ROUTE`.
    Declared,
    /// This file.
    Stored(PathBuf),
    /// The topology: nothing was measured.
    Topology,
}

impl Kept {
    /// Where it lies, whether it is there or not. `None` if the environment names no folder for it.
    pub fn here() -> Option<Self> {
        let folder = crate::open(&root()).ok();
        let machine = Identity::of(&folder);
        Some(Self { path: stored::path_here(machine)?, machine })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder that it is to lie in, for this user alone, if it is not there. What goes wrong shows when the
    /// file is written.
    pub fn make_folder(&self) {
        if let Some(folder) = self.path.parent() {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
    }

    /// The content for what was measured; `machine` has the speeds that were measured, too, and `processor` is its
    /// processor's name. `big` are the CPUs that a timed loop found fast, if it found slower ones.
    pub fn content(
        &self,
        processor: &str,
        machine: &Machine,
        route: &Route,
        matrix: &Matrix,
        big: Option<&CpuSet>,
    ) -> String {
        let name = format!("{processor}, CPUs {}", machine.topology.present());
        let big = big.map(CpuSet::to_string);
        let big = big.as_deref().and_then(|big| CpuList::parse(big.as_bytes()));
        stored::file(self.machine, &name, route, matrix, &Facts { steps: steps(&machine.topology, matrix), big })
    }

    fn read(&self) -> Result<Option<Vec<usize>>, String> {
        let text = match contents(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(stored::Unusable::NotOne.to_string()),
            Err(error) => return Err(error.to_string()),
        };
        let head = &text.as_bytes()[..text.len().min(stored::HEAD_BYTES)];
        stored::route(head, self.machine).map(|route| Some(route.cpus().collect())).map_err(|why| why.to_string())
    }
}

impl RouteHere {
    /// That of a machine; only the one that this runs on has any that was declared or stored.
    pub fn of(machine: &Machine) -> Result<Self, Error> {
        let own = machine.topology.allowed();
        let mut route = Self {
            cpus: Order::along(&machine.topology, own).iter().collect(),
            origin: Origin::Topology,
            ignored: None,
        };
        if !machine.is_here {
            return Ok(route);
        }
        if let Some(declared) = declared_route()? {
            let (known, unknown): (Vec<usize>, Vec<usize>) = declared.iter().partition(|cpu| own.contains(**cpu));
            if !unknown.is_empty() {
                let which = format!("LOCKSWAP_ROUTE names CPUs that this process may not use: {}", listed(&unknown));
                route.ignored = Some(match known.is_empty() {
                    true => format!("LOCKSWAP_ROUTE is ignored, for it names none of the CPUs {own}"),
                    false => which,
                });
            }
            if known.is_empty() {
                return Ok(route);
            }
            return Ok(Self { cpus: through(own, declared), origin: Origin::Declared, ..route });
        }
        let Some(kept) = Kept::here() else { return Ok(route) };
        match kept.read() {
            Ok(Some(stored)) => route = Self { cpus: through(own, stored), origin: Origin::Stored(kept.path), ..route },
            Ok(None) => {}
            Err(why) => route.ignored = Some(format!("the route in {} is ignored: {why}", kept.path.display())),
        }
        Ok(route)
    }

    /// In a line; a long route is cut off.
    pub fn words(&self) -> String {
        let shown: Vec<String> = self.cpus.iter().take(LONGEST).map(usize::to_string).collect();
        let more = if self.cpus.len() > LONGEST { ",..." } else { "" };
        let origin = match &self.origin {
            Origin::Declared => "as LOCKSWAP_ROUTE says".into(),
            Origin::Stored(path) => format!("measured, from {}", path.display()),
            Origin::Topology => "along the topology".into(),
        };
        format!("{}{more} for RON locks: {origin}", shown.join(","))
    }
}

fn listed(cpus: &[usize]) -> CpuSet {
    cpus.iter().copied().collect()
}

/// CPUs of a route after which it is cut off.
const LONGEST: usize = 16;

/// The CPUs of `own` in the order of a list; those that it leaves out come last.
fn through(own: &CpuSet, list: Vec<usize>) -> Vec<usize> {
    let mut seen = CpuSet::EMPTY;
    let mut is_new = |cpu: &usize| {
        let new = own.contains(*cpu) && !seen.contains(*cpu);
        seen.insert(*cpu);
        new
    };
    list.into_iter().chain(own.iter()).filter(|cpu| is_new(cpu)).collect()
}
