//! Measures what single steps cost on the machine that this runs on.

use std::collections::BTreeMap;
use std::time::Duration;

use lockswap_machine::costs::{contended, core, lines, memory, siblings, system, Samples};
use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::files::Files;
use lockswap_machine::probe::ProbeError;
use lockswap_machine::speed;

use super::shape::{Level, Shape};
use super::text::Facts;
use crate::machine::Invalid;

/// How often everything is measured: a moment in which others use the CPUs then spoils some samples of each cost only.
const PASSES: usize = 5;
/// Pairs of CPUs that stand for all pairs of one level.
const PAIRS: usize = 6;
/// More nodes than this are not measured pair by pair.
const MOST_NODES: usize = 16;

/// What to measure.
pub struct Probe {
    shape: Shape,
    caches: Option<memory::Caches>,
    /// The CPU that is measured by itself.
    cpu: usize,
    /// One on another core, whose threads it wakes.
    other: Option<usize>,
    siblings: Option<(usize, usize)>,
    /// Pairs of CPUs of different cores by what they have in common.
    pairs: Vec<(Between, usize, usize)>,
}

/// Which latency a pair of CPUs shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Between {
    Cores(Level),
    /// Between these two nodes of three or more.
    Nodes(usize, usize),
}

/// What some passes have measured.
#[derive(Clone, Default)]
pub struct Found {
    pub(super) core: core::Costs,
    pub(super) lines: BTreeMap<Between, lines::Costs>,
    /// Exchanges to a look of the nearest core.
    pub(super) exchanges: Samples,
    pub(super) memory: memory::Costs,
    pub(super) siblings: siblings::Costs,
    pub(super) system: system::Costs,
    /// A CPU and its speed, 1024 for the fastest; nothing where all are of one kind.
    pub(super) speeds: speed::Speeds,
}

impl Found {
    /// Adds what other passes have measured.
    pub fn extend(&mut self, others: Self) {
        self.core.extend(others.core);
        for (between, costs) in others.lines {
            self.lines.entry(between).or_default().extend(costs);
        }
        self.exchanges.extend(others.exchanges);
        self.memory.extend(others.memory);
        self.siblings.extend(others.siblings);
        self.system.extend(others.system);
        self.speeds.extend(others.speeds);
    }

    /// The lines between the cores that are nearest to each other.
    pub(super) fn nearest(&self) -> Option<&lines::Costs> {
        self.lines.iter().find(|(between, _)| **between != Between::Cores(Level::Core)).map(|(_, costs)| costs)
    }
}

impl Probe {
    /// A probe of the CPUs of `shape`, on the machine whose `/sys` is `files`.
    pub fn new(shape: Shape, files: &impl Files) -> Self {
        // The last core of the fastest kind: the first CPU serves most interrupts.
        let fastest = |core: &&super::shape::Core| shape.kinds[core.kind].class == 0;
        let own = shape.cores.iter().rev().find(fastest).or(shape.cores.last());
        let cpu = own.map_or(0, |core| core.cpus[0]);
        let others = shape.cores.iter().filter(|core| own.is_some_and(|own| own.cpus != core.cpus));
        let nearest = others.min_by_key(|core| own.map(|own| shape.level(own, core)));
        let siblings = shape.cores.iter().rev().find(|core| core.cpus.len() > 1);
        let siblings = siblings.map(|core| (core.cpus[0], core.cpus[1]));
        let other = nearest.map(|core| core.cpus[0]).or(siblings.map(|siblings| siblings.1));
        let caches = memory::Caches::of(files, cpu);
        Probe { pairs: pairs(&shape), shape, caches, cpu, other, siblings }
    }

    /// About how long [`Probe::run`] takes where nobody else uses the CPUs.
    pub fn estimate(&self) -> Duration {
        let pass = Duration::from_millis(450) + Duration::from_millis(15) * self.pairs.len() as u32;
        let kinds = if self.several_kinds() { speed::estimate(&self.representatives()) } else { Duration::ZERO };
        (pass + kinds) * PASSES as u32
    }

    /// Calls of `done` that [`Probe::run`] makes.
    pub fn steps(&self) -> u64 {
        PASSES as u64
    }

    /// The shape of what is measured.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Measures everything several times; `done` is called after each.
    pub fn run(&self, mut done: impl FnMut()) -> Result<Found, Invalid> {
        let mut found = Found::default();
        for _ in 0..PASSES {
            found.extend(self.pass()?);
            done();
        }
        Ok(found)
    }

    /// The machine file that says what was measured.
    pub fn file(&self, found: &Found, facts: &Facts) -> String {
        super::text::file(&self.shape, found, facts)
    }

    /// Measures everything once.
    pub fn pass(&self) -> Result<Found, Invalid> {
        let mut found = Found::default();
        self.measure(&mut found).map_err(refused)?;
        if self.several_kinds() {
            let speeds = speed::measure(&self.representatives(), || ());
            found.speeds = speeds.map_err(|error| Invalid {
                what: format!("cannot time a loop on each kind of CPU: {error}"),
                remedy: "leave that CPU out with taskset".into(),
            })?;
        }
        Ok(found)
    }

    fn measure(&self, found: &mut Found) -> Result<(), ProbeError> {
        core::measure(self.cpu, &mut found.core)?;
        for (between, one, other) in &self.pairs {
            let costs = found.lines.entry(*between).or_default();
            lines::measure(*one, *other, costs)?;
            lines::measure(*other, *one, costs)?;
        }
        if let Some(caches) = self.caches {
            memory::measure(self.cpu, caches, &mut found.memory)?;
        }
        system::measure(self.cpu, &mut found.system)?;
        if let Some(other) = self.other {
            system::measure_wake(self.cpu, other, &mut found.system)?;
            contended::measure(self.cpu, other, &mut found.exchanges)?;
        }
        if let Some((one, other)) = self.siblings {
            siblings::measure(one, other, &mut found.siblings)?;
        }
        Ok(())
    }

    fn several_kinds(&self) -> bool {
        self.shape.kinds.iter().any(|kind| kind.class > 0)
    }

    /// A CPU of each kind.
    fn representatives(&self) -> CpuSet {
        let of = |kind| self.shape.cores.iter().find(|core| core.kind == kind).map(|core| core.cpus[0]);
        (0..self.shape.kinds.len()).filter_map(of).collect()
    }
}

/// The median latency of a modified line now, ns, between the first two cores that share most; `None` on a single
/// core. It takes some ms.
pub fn line_now(shape: &Shape) -> Option<f64> {
    let pairs = pairs(shape);
    let (_, one, other) = pairs.iter().find(|pair| pair.0 != Between::Cores(Level::Core))?;
    let mut costs = lines::Costs::default();
    lines::measure(*one, *other, &mut costs).ok()?;
    costs.line.median()
}

/// Pairs of CPUs to measure: some of each level, spread over the machine.
fn pairs(shape: &Shape) -> Vec<(Between, usize, usize)> {
    let nodes = shape.sockets * shape.nodes_per_socket;
    let by_node = (3..=MOST_NODES).contains(&nodes);
    let mut all: BTreeMap<Between, Vec<(usize, usize)>> = BTreeMap::new();
    for (number, one) in shape.cores.iter().enumerate() {
        for other in &shape.cores[..number] {
            let between = match shape.level(one, other) {
                Level::Socket | Level::Machine if by_node => Between::Nodes(other.node, one.node),
                level => Between::Cores(level),
            };
            all.entry(between).or_default().push((other.cpus[0], one.cpus[0]));
        }
        if let [first, second, ..] = one.cpus[..] {
            all.entry(Between::Cores(Level::Core)).or_default().push((first, second));
        }
    }
    let some = |(between, pairs): (Between, Vec<(usize, usize)>)| {
        let wanted = if matches!(between, Between::Nodes(..)) { 1 } else { PAIRS };
        let step = pairs.len().div_ceil(wanted).max(1);
        pairs.into_iter().step_by(step).map(move |(one, other)| (between, one, other)).collect::<Vec<_>>()
    };
    all.into_iter().flat_map(some).collect()
}

fn refused(error: ProbeError) -> Invalid {
    let remedy = match &error {
        ProbeError::NoThread(_) => "raise the limit of processes or memory (ulimit -u, ulimit -v)",
        ProbeError::Refused(..) => "leave this CPU out with taskset, for instance 'taskset -c 0-3 lockswap sim probe'",
        ProbeError::Silent(..) => "leave one of them out with taskset, or stop what keeps them busy",
    };
    Invalid { what: format!("cannot measure this machine: {error}"), remedy: remedy.into() }
}
