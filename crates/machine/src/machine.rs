//! A machine as it was read, with what the user says about it.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lockswap_platform::{CpuList, Place, TopologyOverride};

use crate::captured::Captured;
use crate::cpuset::CpuSet;
use crate::files::Files;
use crate::kinds::Source;
use crate::places::{choose, find, is_open, Level, Reason, Settings};
use crate::stored::{self, Identity};
use crate::topology::{Group, Topology};
use crate::{cgroup, contents};

/// What is needed of a folder for it to describe a machine.
pub const CPUS: &str = "devices/system/cpu";

/// Why there is no machine to speak of.
#[derive(Clone, Debug)]
pub enum Error {
    /// The folder or file describes none.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// What is wrong, in a line.
        why: String,
    },
    /// A variable of the environment cannot be used.
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        text: String,
        /// What it must be, in words.
        form: String,
    },
    /// `LOCKSWAP_BIG` names none of the CPUs that are online.
    NoBig {
        /// The CPUs that it names, as Linux writes them.
        big: String,
        /// The CPUs that are online.
        online: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { path, why } => write!(f, "cannot read a machine from {}: {why}", path.display()),
            Error::Setting { name, text, form } => write!(f, "{name}={text} is not {form}"),
            Error::NoBig { big, online } => {
                write!(f, "LOCKSWAP_BIG={big} names none of the CPUs {online}: all of them would be little")
            }
        }
    }
}

impl std::error::Error for Error {}

/// A machine and what locks make of it.
pub struct Machine {
    /// Where it was read from.
    pub source: PathBuf,
    /// Whether it is the one that this runs on.
    pub is_here: bool,
    /// Whether it runs in a virtual machine, as far as that can be seen.
    pub is_virtual: bool,
    /// What was read, and declared.
    pub topology: Box<Topology>,
    /// The CPUs of the process's control group, if one confines it.
    pub cgroup: Option<CpuSet>,
    /// The level of locality for NUMA locks.
    pub level: Level,
    /// Why it is that one.
    pub reason: Reason,
    /// What locks are told about each online CPU.
    pub places: Vec<(usize, Place)>,
}

impl Machine {
    /// The machine that this runs on.
    pub fn here() -> Result<Self, Error> {
        let source = root();
        let folder = crate::open(&source).map_err(|error| cannot_read(&source, &error.to_string()))?;
        let affinity = CpuSet::of_this_thread();
        let membership = fs::read_to_string("/proc/self/cgroup").ok();
        Self::read(source, true, &folder, Some(affinity), membership.as_deref())
    }

    /// The machine that a folder or a file describes.
    pub fn described_in(path: &Path) -> Result<Self, Error> {
        let found = fs::metadata(path).map_err(|error| cannot_read(path, &error.to_string()))?;
        if !found.is_dir() {
            let text = contents(path).map_err(|error| cannot_read(path, &error.to_string()))?;
            let files = Captured::parse(&text).map_err(|error| cannot_read(path, &error))?;
            return Self::read(path.to_owned(), false, &files, None, None);
        }
        let folders = [path.to_owned(), path.join("sys")];
        let Some(source) = folders.into_iter().find(|folder| folder.join(CPUS).is_dir()) else {
            return Err(cannot_read(path, &format!("it holds neither {CPUS} nor sys/{CPUS}")));
        };
        let folder = crate::open(&source).map_err(|error| cannot_read(&source, &error.to_string()))?;
        Self::read(source, false, &folder, None, None)
    }

    fn read(
        source: PathBuf,
        is_here: bool,
        files: &impl Files,
        affinity: Option<CpuSet>,
        membership: Option<&str>,
    ) -> Result<Self, Error> {
        let cgroup = cgroup::cpus(files, membership);
        let allowed = match (&affinity, &cgroup) {
            (Some(affinity), Some(group)) if !affinity.and(group).is_empty() => Some(affinity.and(group)),
            (affinity, group) => affinity.or(*group),
        };
        let settings = settings()?;
        let mut topology = crate::read(files, allowed.as_ref());
        if topology.online().is_empty() {
            return Err(cannot_read(&source, &format!("{CPUS}/online names no CPU")));
        }
        if topology.allowed().is_empty() {
            let cpus = allowed.unwrap_or(CpuSet::EMPTY);
            return Err(cannot_read(&source, &format!("of the CPUs that may be used ({cpus}) none is online")));
        }
        let online = topology.online();
        if let Some(big) = settings.big.filter(|big| is_here && big.and(online).is_empty()) {
            return Err(Error::NoBig { big: big.to_string(), online: online.to_string() });
        }
        settings.apply(&mut topology);
        let (level, reason) = match is_here {
            true => judge(files, &mut topology, &settings),
            false => choose(&topology, settings.level, None),
        };
        let mut places = Vec::new();
        find(&topology, level, |cpu, place| {
            if topology.online().contains(cpu) {
                places.push((cpu, place));
            }
        });
        Ok(Self { source, is_here, is_virtual: is_here && is_virtual(), topology, cgroup, level, reason, places })
    }

    /// The groups of one sort: their numbers and online CPUs, in the order of the numbers.
    pub fn groups(&self, group: Group) -> Vec<(usize, CpuSet)> {
        let cpus = self.topology.online().iter();
        collect(cpus.filter_map(|cpu| Some((self.topology.group(group, cpu)?, cpu))))
    }

    /// The locality groups that the process can use: their numbers and CPUs.
    pub fn locality_groups(&self) -> Vec<(usize, CpuSet)> {
        self.usable_groups(Place::group)
    }

    /// The groups that locks with a level for each of the machine's have, as far as the process can use them: the
    /// innermost ones, and those in which they lie, if the machine has any between them and itself.
    pub fn hierarchy(&self) -> [Vec<(usize, CpuSet)>; 2] {
        let inner = |place: Place| Some(place.hierarchy()?.inner);
        let outer = |place: Place| place.hierarchy()?.outer;
        [self.usable_groups(inner), self.usable_groups(outer)]
    }

    fn usable_groups(&self, group: impl Fn(Place) -> Option<u32>) -> Vec<(usize, CpuSet)> {
        let usable = self.places.iter().filter(|(cpu, _)| self.topology.allowed().contains(*cpu));
        collect(usable.filter_map(|(cpu, place)| Some((group(*place)? as usize, *cpu))))
    }

    /// What the system does not show, or shows in a way that cannot be true.
    pub fn not_visible(&self) -> Vec<&'static str> {
        let none = |group| self.topology.online().iter().all(|cpu| self.topology.group(group, cpu).is_none());
        let mut missing = Vec::new();
        let groups = [(Group::Core, "cores"), (Group::Package, "packages"), (Group::Node, "NUMA nodes")];
        missing.extend(groups.into_iter().filter(|(group, _)| none(*group)).map(|(_, name)| name));
        if none(Group::Llc) {
            missing.push("caches");
        } else if !self.topology.caches_are_shared() && self.groups(Group::Core).len() > 1 {
            missing.push("caches that cores share");
        }
        missing
    }
}

/// The level of this machine, and why. What was measured and stored counts where the system does not tell.
pub fn judge(files: &impl Files, topology: &mut Topology, settings: &Settings) -> (Level, Reason) {
    let no_kinds = topology.kinds_source() == Source::None && topology.online().len() > 1;
    let wanted = no_kinds || is_open(topology, settings.level);
    let stored = wanted.then(|| stored::load(Identity::of(files))).flatten().unwrap_or_default();
    let facts = stored::facts(stored.as_bytes());
    if let Some(big) = facts.big {
        topology.fall_back_to_measured(&big.into());
    }
    choose(topology, settings.level, facts.steps)
}

/// Whether the processor says that a hypervisor runs below; only x86 has such a flag.
fn is_virtual() -> bool {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"))
}

/// Sorts pairs of group and CPU into groups.
fn collect(pairs: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, CpuSet)> {
    let mut groups = std::collections::BTreeMap::new();
    for (group, cpu) in pairs {
        groups.entry(group).or_insert(CpuSet::EMPTY).insert(cpu);
    }
    groups.into_iter().collect()
}

/// The folder that describes this machine.
pub fn root() -> PathBuf {
    variable("LOCKSWAP_SYSFS").map_or_else(|| "/sys".into(), PathBuf::from)
}

/// What the environment says about the machine; the CPUs are those of this process.
pub fn settings() -> Result<Settings, Error> {
    let levels = || Level::ALL.map(Level::name).join(", ");
    Ok(Settings {
        level: parse("LOCKSWAP_LEVEL", Level::parse, || format!("a level of locality; use one of: {}", levels()))?,
        nodes: parse("LOCKSWAP_TOPOLOGY", TopologyOverride::parse, || "NODESxCPUS, for instance 2x1".into())?,
        big: parse(
            "LOCKSWAP_BIG",
            |text| CpuList::parse(text).map(CpuSet::from),
            || "a list of CPUs, for instance 0-3,8".into(),
        )?,
        allowed: CpuSet::of_this_thread(),
    })
}

/// The route that the environment declares.
pub fn declared_route() -> Result<Option<Vec<usize>>, Error> {
    let form = || "a list of CPUs, for instance 0-3,8".into();
    parse("LOCKSWAP_ROUTE", |text| CpuList::parse(text).map(|list| list.cpus().collect()), form)
}

fn parse<T>(
    name: &'static str,
    parse: impl Fn(&[u8]) -> Option<T>,
    form: impl Fn() -> String,
) -> Result<Option<T>, Error> {
    let Some(text) = variable(name) else { return Ok(None) };
    let wrong = || Error::Setting { name, text: text.to_string_lossy().into_owned(), form: form() };
    parse(text.as_bytes()).map(Some).ok_or_else(wrong)
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|text| !text.is_empty())
}

fn cannot_read(path: &Path, why: &str) -> Error {
    Error::Unreadable { path: path.to_owned(), why: why.to_owned() }
}
