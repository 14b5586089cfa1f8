//! The machine as a tree, and what locks make of it in words.

use std::fmt::Write;

use lockswap_platform::{CoreKind, FEWEST_ENTRIES};

use crate::cpuset::CpuSet;
use crate::data::kind_name;
use crate::kept::RouteHere;
use crate::kinds::Source;
use crate::machine::Machine;
use crate::topology::{Group, Topology};

/// By what a set of CPUs falls into parts.
#[derive(Clone, Copy, PartialEq)]
enum Split {
    By(Group),
    Class,
}

/// A set of CPUs, what its CPUs have in common that those of its parent have not, and its parts.
struct Branch {
    labels: Vec<String>,
    cpus: CpuSet,
    /// What the parts differ by, if there are any.
    split: Option<Split>,
    parts: Vec<Branch>,
}

/// Draws the whole machine, in lines of at most `width` columns as far as that is possible.
pub fn draw(machine: &Machine, route: &RouteHere, width: usize) -> String {
    let splits = splits(machine);
    let mut root = Branch::new(machine, *machine.topology.online(), &splits);
    root.labels.insert(0, "machine".into());
    let mut rows = Vec::new();
    root.rows("", "", &mut rows);
    let column = rows.iter().map(|(tree, _)| tree.chars().count()).max().unwrap_or(0) + 2;
    let mut text = heading(machine);
    for (tree, cells) in rows {
        let more = if tree.ends_with("LLC") || tree.ends_with("module") || tree.ends_with("core") {
            tree.chars().map(|c| if c == '│' { '│' } else { ' ' }).collect()
        } else {
            String::new()
        };
        fold(&mut text, &tree, &more, column, width, &cells);
    }
    text + "\n" + &facts(machine, route, width)
}

/// What the CPUs of this machine fall into, the fewest parts first.
fn splits(machine: &Machine) -> Vec<Split> {
    let topology = &machine.topology;
    let cores = machine.groups(Group::Core).len();
    let mut splits: Vec<(usize, Split)> = [Group::Package, Group::Node, Group::Die, Group::Llc]
        .into_iter()
        .filter(|group| match group {
            Group::Llc => topology.caches_are_shared(),
            // Where each package is one die, dies say nothing.
            Group::Die => machine.groups(Group::Die).len() != machine.groups(Group::Package).len(),
            _ => true,
        })
        .map(|group| (machine.groups(group).len(), Split::By(group)))
        .collect();
    if topology.classes() > 1 {
        splits.push((topology.classes(), Split::Class));
    }
    let modules = machine.groups(Group::Module).len();
    if modules < cores && modules > machine.groups(Group::Llc).len() {
        splits.push((modules, Split::By(Group::Module)));
    }
    if matches!(Threads::of(machine), Threads::Irregular) {
        splits.push((cores, Split::By(Group::Core)));
    }
    splits.retain(|(parts, _)| *parts > 0);
    splits.sort_by_key(|(parts, _)| *parts);
    splits.into_iter().map(|(_, split)| split).collect()
}

impl Branch {
    fn new(machine: &Machine, cpus: CpuSet, splits: &[Split]) -> Self {
        let mut branch = Branch { labels: Vec::new(), cpus, split: None, parts: Vec::new() };
        for (i, &split) in splits.iter().enumerate() {
            let parts = parts(&machine.topology, split, &cpus);
            // A module or core that is one of many only by name: its own row would say nothing.
            let tiny =
                split == Split::By(Group::Module) && parts.iter().all(|part| is_one_core(&machine.topology, part));
            match parts.len() {
                0 => {}
                1 => branch.labels.extend(label(machine, split, &cpus)),
                _ if tiny => {}
                _ => {
                    branch.split = Some(split);
                    branch.parts = parts.into_iter().map(|part| Branch::new(machine, part, &splits[i + 1..])).collect();
                    for part in &mut branch.parts {
                        part.labels.splice(0..0, label(machine, split, &part.cpus));
                    }
                    break;
                }
            }
        }
        branch
    }

    /// The rows: the tree with its labels, and the lists of CPUs to the right of it.
    fn rows(&self, first: &str, rest: &str, rows: &mut Vec<(String, Vec<String>)>) {
        rows.push((format!("{first}{}", self.labels.join(", ")), vec![self.cpus.to_string()]));
        let small = matches!(self.split, Some(Split::By(Group::Llc | Group::Module | Group::Core)));
        if small && self.parts.iter().all(|part| part.parts.is_empty() && part.labels == self.parts[0].labels) {
            let label = self.parts[0].labels.join(", ");
            rows.push((format!("{rest}└─ {label}"), self.parts.iter().map(|part| part.cpus.to_string()).collect()));
            return;
        }
        for (i, part) in self.parts.iter().enumerate() {
            let (branch, below) = if i + 1 < self.parts.len() { ("├─ ", "│  ") } else { ("└─ ", "   ") };
            part.rows(&format!("{rest}{branch}"), &format!("{rest}{below}"), rows);
        }
    }
}

fn parts(topology: &Topology, split: Split, cpus: &CpuSet) -> Vec<CpuSet> {
    let mut parts = std::collections::BTreeMap::new();
    for cpu in cpus.iter() {
        let key = match split {
            Split::By(group) => topology.group(group, cpu),
            Split::Class => Some(topology.class(cpu)),
        };
        parts.entry(key).or_insert(CpuSet::EMPTY).insert(cpu);
    }
    parts.into_values().collect()
}

fn is_one_core(topology: &Topology, cpus: &CpuSet) -> bool {
    let core = |cpu| topology.group(Group::Core, cpu);
    cpus.first().is_some_and(|first| cpus.iter().all(|cpu| core(cpu).is_some() && core(cpu) == core(first)))
}

/// What all of `cpus` have in common; nothing where that is not known.
fn label(machine: &Machine, split: Split, cpus: &CpuSet) -> Option<String> {
    let topology = &machine.topology;
    let cpu = cpus.first()?;
    let Split::By(group) = split else {
        let speed = topology.speed(cpu).filter(|_| topology.classes() > 2);
        let kind = kind_name(topology.kind(cpu));
        return Some(speed.map_or(kind.into(), |speed| format!("{kind} ({speed})")));
    };
    let number = topology.group(group, cpu)?;
    Some(match group {
        Group::Node if !topology.has_memory(number) => format!("node {number} (no memory)"),
        Group::Node => format!("node {number}"),
        Group::Package | Group::Die => {
            let rank = machine.groups(group).iter().position(|(other, _)| *other == number)?;
            format!("{} {rank}", group.name())
        }
        Group::Llc | Group::Module | Group::Core => group.name().into(),
    })
}

/// How the threads of a core are numbered.
enum Threads {
    One,
    /// Cores with several threads: how many threads, and the difference between their numbers.
    Regular {
        threads: usize,
        apart: usize,
        all: bool,
    },
    Irregular,
}

impl Threads {
    fn of(machine: &Machine) -> Self {
        let cores = machine.groups(Group::Core);
        let shape = |cpus: &CpuSet| {
            let numbers: Vec<usize> = cpus.iter().collect();
            let apart = numbers[1] - numbers[0];
            numbers.windows(2).all(|pair| pair[1] - pair[0] == apart).then_some((numbers.len(), apart))
        };
        let shared: Vec<_> = cores.iter().filter(|(_, cpus)| cpus.len() > 1).map(|(_, cpus)| shape(cpus)).collect();
        match shared.first() {
            None => Threads::One,
            Some(Some((threads, apart))) if shared.iter().all(|shape| shape == &shared[0]) => {
                Threads::Regular { threads: *threads, apart: *apart, all: shared.len() == cores.len() }
            }
            _ => Threads::Irregular,
        }
    }
}

fn heading(machine: &Machine) -> String {
    let count = |group: Group, one: &str, many: &str| match machine.groups(group).len() {
        0 => String::new(),
        1 => format!(", 1 {one}"),
        n => format!(", {n} {many}"),
    };
    let cpus = machine.topology.online().len();
    let caches = machine.topology.caches_are_shared();
    let mut text = format!("{cpus} {}", if cpus == 1 { "CPU" } else { "CPUs" });
    text += &count(Group::Core, "core", "cores");
    if caches {
        text += &count(Group::Llc, "last-level cache (LLC)", "last-level caches (LLC)");
    }
    text += &count(Group::Node, "NUMA node", "NUMA nodes");
    text += &count(Group::Package, "package", "packages");
    text += &match Threads::of(machine) {
        Threads::Regular { threads, apart, all } => {
            let which = if all { "each core has" } else { "some cores have" };
            let next = if threads > 2 { format!("N, N+{apart} and so on") } else { format!("N and N+{apart}") };
            format!("\n{which} {threads} threads (SMT): {next} are one core")
        }
        Threads::One | Threads::Irregular => String::new(),
    };
    text + &format!("\nread from {}\n\n", machine.source.display())
}

/// Appends `cells` behind `tree`; the lines after the first begin with `more`.
fn fold(text: &mut String, tree: &str, more: &str, column: usize, width: usize, cells: &[String]) {
    let mut line = format!("{tree:<column$}");
    let mut is_empty = true;
    for cell in cells {
        if !is_empty && line.chars().count() + 2 + cell.len() > width {
            *text += line.trim_end();
            text.push('\n');
            line = format!("{more:<column$}");
            is_empty = true;
        }
        if !is_empty {
            line += "  ";
        }
        line += cell;
        is_empty = false;
    }
    *text += line.trim_end();
    text.push('\n');
}

fn facts(machine: &Machine, route: &RouteHere, width: usize) -> String {
    const COLUMN: usize = 11;
    let topology = &machine.topology;
    let mut text = String::new();
    let mut fact = |name: &str, words: String| {
        let cells: Vec<String> = words.split(' ').map(Into::into).collect();
        // Words, not lists: single blanks.
        let mut line = format!("{name:<COLUMN$}");
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 && line.chars().count() + 1 + cell.chars().count() > width {
                let _ = writeln!(text, "{line}");
                line = " ".repeat(COLUMN);
            } else if i > 0 {
                line.push(' ');
            }
            line += cell;
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let offline = topology.present().without(topology.online());
    if !offline.is_empty() {
        fact("offline", format!("CPUs {offline}"));
    }
    let who = if machine.is_here { "this process" } else { "a process there" };
    let mut usable = if topology.allowed() == topology.online() {
        format!("{who} may use all CPUs")
    } else {
        format!(
            "{who} may use {} of {} CPUs: {}",
            topology.allowed().len(),
            topology.online().len(),
            topology.allowed()
        )
    };
    if let Some(group) = machine.cgroup.filter(|group| !topology.online().without(group).is_empty()) {
        usable += &format!(" (its control group: {group})");
    }
    fact("usable", usable);
    fact("kinds", kinds(topology));
    fact("level", format!("{} for NUMA locks: {}", machine.level.name(), machine.reason));
    fact("groups", groups(machine));
    if let Some(levels) = levels(machine) {
        fact("levels", levels);
    }
    fact("route", route.words());
    let missing = machine.not_visible();
    if !missing.is_empty() {
        fact("not shown", format!("{}: the system does not tell", missing.join(", ")));
    }
    if machine.is_virtual {
        fact("virtual", "this is a virtual machine: the real one may be built otherwise".into());
    }
    text + &distances(topology)
}

/// What these groups are, if they are all that the machine has of one sort.
fn sort(machine: &Machine, groups: &[(usize, CpuSet)]) -> Option<&'static str> {
    let sorts = [(Group::Node, "nodes"), (Group::Llc, "last-level caches"), (Group::Package, "packages")];
    let are = |sort| {
        let all = machine.groups(sort);
        all.len() == groups.len() && all.iter().all(|(_, cpus)| groups.iter().any(|(_, group)| group == cpus))
    };
    sorts.into_iter().find(|(sort, _)| are(*sort)).map(|(_, name)| name)
}

/// The levels of locks that have one for each of the machine's, where there is more than the machine itself.
fn levels(machine: &Machine) -> Option<String> {
    let [inner, outer] = machine.hierarchy();
    let of = |groups: &[_]| format!("{} {}", groups.len(), sort(machine, groups).unwrap_or("groups"));
    match (inner.len(), outer.len()) {
        (0 | 1, _) => None,
        (_, 0 | 1) => Some(format!("2 for hmcs and ahmcs: {} in the machine", of(&inner))),
        _ => Some(format!("3 for hmcs and ahmcs: {} in {} in the machine", of(&inner), of(&outer))),
    }
}

/// The locality groups that the process can use.
fn groups(machine: &Machine) -> String {
    let groups = machine.locality_groups();
    let words = match (groups.len(), sort(machine, &groups)) {
        (1, _) => return "one: all usable CPUs are near each other".into(),
        (n, Some(sort)) => format!("{n}: the {sort}"),
        (n, None) => {
            format!("{n}: {}", groups.iter().map(|(_, cpus)| cpus.to_string()).collect::<Vec<_>>().join(" | "))
        }
    };
    match groups.len() {
        n if n > FEWEST_ENTRIES as usize => {
            words + &format!("; most locks with an entry per group have {FEWEST_ENTRIES}, which neighbours share")
        }
        _ => words,
    }
}

fn kinds(topology: &Topology) -> String {
    if topology.kinds_source() == Source::None {
        return "all CPUs count as alike: no source tells them apart".into();
    }
    let of = |kind| -> CpuSet { topology.online().iter().filter(|&cpu| topology.kind(cpu) == kind).collect() };
    let (big, little) = (of(CoreKind::Big), of(CoreKind::Little));
    format!("big {big}; little {little} (from {})", topology.kinds_source())
}

/// The table of distances between nodes, if there are several.
fn distances(topology: &Topology) -> String {
    let nodes: Vec<usize> = topology.nodes().collect();
    if nodes.len() < 2 {
        return String::new();
    }
    let mut text = "\ndistances between nodes, as the firmware gives them\n    ".to_owned();
    nodes.iter().for_each(|node| text += &format!("{node:>5}"));
    for &from in &nodes {
        text += &format!("\n{from:>4}");
        for &to in &nodes {
            let distance = topology.distance(from, to).map_or("-".into(), |distance| distance.to_string());
            text += &format!("{distance:>5}");
        }
    }
    text + "\n"
}
