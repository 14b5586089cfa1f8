//! Core kinds: which CPUs are fast and which are slow.
//!
//! Several files of sysfs tell, each on some machines only. The first one counts by which the CPUs differ:
//!
//! 1. `devices/cpu_core/cpus` and `devices/cpu_atom/cpus`: Intel's hybrid processors; others may have the files,
//!    empty;
//! 2. `cpu_capacity` of each CPU: the scheduler's own measure, right on Arm;
//! 3. `cpufreq/amd_pstate_highest_perf`, else `acpi_cppc/highest_perf`: what the firmware thinks each core can reach;
//! 4. `cpufreq/cpuinfo_max_freq`: the highest clock rate.
//!
//! Cores of one kind differ a little, too: firmware ranks the better ones of equal cores higher (3), and lets them run
//! a little faster (4). CPUs are of different classes only where a gap in the sorted values says so.

use core::fmt;

use lockswap_platform::CoreKind;

use crate::cpuset::CpuSet;
use crate::files::{Files, Reader};
use crate::topology::Topology;

/// A value this many percent of the next lower one begins another class. Ranks of equal AMD cores go up in steps of 3
/// to 5 %; dense and full Zen cores, E- and P-cores, and the clusters of phones lie 18 % and more apart.
const GAP_PERCENT: u64 = 115;
/// The same for what was measured, which other programs disturb.
const MEASURED_GAP_PERCENT: u64 = 125;

/// What told the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// Nothing: all CPUs count as alike.
    None,
    /// Intel's lists of core types.
    CoreTypes,
    /// The capacity that the scheduler uses.
    Capacity,
    /// The highest performance as amd-pstate knows it.
    AmdPstate,
    /// The highest performance in the firmware's tables.
    Cppc,
    /// The highest clock rate.
    MaxFrequency,
    /// The user, with `LOCKSWAP_BIG`.
    Declared,
    /// A timed loop on each CPU.
    Measured,
}

impl Source {
    /// The file, or what else it was.
    pub const fn name(self) -> &'static str {
        match self {
            Source::None => "none",
            Source::CoreTypes => "cpu_core/cpus and cpu_atom/cpus",
            Source::Capacity => "cpu_capacity",
            Source::AmdPstate => "cpufreq/amd_pstate_highest_perf",
            Source::Cppc => "acpi_cppc/highest_perf",
            Source::MaxFrequency => "cpufreq/cpuinfo_max_freq",
            Source::Declared => "LOCKSWAP_BIG",
            Source::Measured => "a timed loop on each CPU",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The classes of CPUs that a source tells apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    source: Source,
    classes: u8,
    /// Classes below this number are big.
    big_classes: u8,
}

impl Kinds {
    pub(crate) const UNKNOWN: Self = Kinds { source: Source::None, classes: 0, big_classes: 0 };
}

impl Topology {
    /// What told the kinds; [`Source::None`] if nothing did.
    pub fn kinds_source(&self) -> Source {
        self.kinds.source
    }

    /// The number of classes of speed, at least 1.
    pub fn classes(&self) -> usize {
        usize::from(self.kinds.classes).max(1)
    }

    /// The class of `cpu`: 0 for the fastest.
    pub fn class(&self, cpu: usize) -> usize {
        self.cpus.get(cpu).map_or(0, |cpu| cpu.class.into())
    }

    /// The kind of `cpu`. Of more than two classes those above the largest step are big.
    pub fn kind(&self, cpu: usize) -> CoreKind {
        if self.kinds.classes == 0 || self.class(cpu) < self.kinds.big_classes.into() {
            CoreKind::Big
        } else {
            CoreKind::Little
        }
    }

    /// How fast `cpu` is in the unit of the source; `None` where the source gives no numbers.
    pub fn speed(&self, cpu: usize) -> Option<u32> {
        self.cpus.get(cpu).map(|cpu| cpu.speed).filter(|speed| *speed != 0)
    }

    /// Makes the CPUs in `big` big and all others little, also those that are offline.
    pub fn declare_big(&mut self, big: &CpuSet) {
        self.set_two_classes(Source::Declared, |cpu| big.contains(cpu));
    }

    /// The same for what was measured, where no source told the kinds; nothing changes if all or no online CPUs are
    /// big.
    pub fn fall_back_to_measured(&mut self, big: &CpuSet) {
        let bigs = self.online().and(big).len();
        if self.kinds.source == Source::None && (1..self.online().len()).contains(&bigs) {
            self.set_two_classes(Source::Measured, |cpu| big.contains(cpu));
        }
    }

    /// Sorts the CPUs into classes by numbers that are higher for faster ones. Returns whether there are several
    /// classes; nothing changes if not, or if a CPU has no number.
    pub fn set_speeds(&mut self, source: Source, mut speed: impl FnMut(usize) -> Option<u32>) -> bool {
        let online = *self.online();
        let complete = online.iter().all(|cpu| {
            self.cpus[cpu].speed = speed(cpu).unwrap_or(0);
            self.cpus[cpu].speed != 0
        });
        let kinds = if complete { self.sort_into_classes(source) } else { Kinds::UNKNOWN };
        if kinds.classes > 1 {
            self.kinds = kinds;
        } else {
            online.iter().for_each(|cpu| self.cpus[cpu].speed = 0);
        }
        kinds.classes > 1
    }

    /// Gives each CPU a class by its speed; no CPU has none.
    fn sort_into_classes(&mut self, source: Source) -> Kinds {
        let online = *self.online();
        let gap = if source == Source::Measured { MEASURED_GAP_PERCENT } else { GAP_PERCENT };
        let fastest = online.iter().map(|cpu| self.cpus[cpu].speed).max().unwrap_or(0);
        let (mut value, mut class, mut largest_step) = (fastest, 0, 0);
        let mut kinds = Kinds { source, classes: 1, big_classes: 1 };
        loop {
            for cpu in online.iter() {
                let cpu = &mut self.cpus[cpu];
                if cpu.speed == value {
                    cpu.class = class;
                }
            }
            let slower = online.iter().map(|cpu| self.cpus[cpu].speed).filter(|speed| *speed < value);
            let Some(next) = slower.max() else { break };
            let step = u64::from(value) * 100 / u64::from(next);
            if step >= gap {
                class += 1;
                kinds.classes = class + 1;
                if step > largest_step {
                    (largest_step, kinds.big_classes) = (step, class);
                }
            }
            value = next;
        }
        kinds
    }

    pub(crate) fn read_kinds<F: Files>(&mut self, reader: &mut Reader<'_, F>) {
        if self.read_core_types(reader) {
            return;
        }
        let sources = [
            (Source::Capacity, "cpu_capacity"),
            (Source::AmdPstate, "cpufreq/amd_pstate_highest_perf"),
            (Source::Cppc, "acpi_cppc/highest_perf"),
            (Source::MaxFrequency, "cpufreq/cpuinfo_max_freq"),
        ];
        for (source, file) in sources {
            // Stops at the first CPU without the file.
            if self.set_speeds(source, |cpu| reader.number(format_args!("devices/system/cpu/cpu{cpu}/{file}"))) {
                return;
            }
        }
    }

    fn read_core_types<F: Files>(&mut self, reader: &mut Reader<'_, F>) -> bool {
        let mut list = |kind: &str| {
            let of_devices = reader.list(format_args!("devices/cpu_{kind}/cpus")).map(CpuSet::from);
            of_devices
                .or_else(|| reader.list(format_args!("bus/event_source/devices/cpu_{kind}/cpus")).map(CpuSet::from))
        };
        let (Some(core), Some(atom)) = (list("core"), list("atom")) else { return false };
        let online = *self.online();
        // A process, and a machine with CPUs offline, may have one kind only.
        if core.and(&online).is_empty() || atom.and(&online).is_empty() {
            return false;
        }
        self.set_two_classes(Source::CoreTypes, |cpu| core.contains(cpu));
        true
    }

    fn set_two_classes(&mut self, source: Source, is_big: impl Fn(usize) -> bool) {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            cpu.class = u8::from(!is_big(number));
            cpu.speed = 0;
        }
        self.kinds = Kinds { source, classes: 2, big_classes: 1 };
    }
}
