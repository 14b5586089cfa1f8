//! Lines that no CPU's own cache has: those of the last-level cache, and those of memory.
//!
//! A thread follows addresses through a buffer, in random order: larger than what the CPU has for itself and smaller
//! than the last-level cache, or much larger than that. It goes through one group of pages after the other, so that
//! few of the steps need a new translation, and yet too many pages for prefetchers to keep track of.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use super::{each, on, Samples};
use crate::files::{Files, Reader};
use crate::probe::ProbeError;

const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Words of a line, of which the first is used.
const WORDS: usize = LINE_BYTES / size_of::<u32>();
/// Every second line of a page is visited, since some CPUs fetch lines in pairs.
const VISITED: usize = PAGE_BYTES / LINE_BYTES / 2;
/// Pages of a group.
const GROUP: usize = 48;
/// Steps in a sample.
const STEPS: u32 = 1_000;
/// Samples of each sort that one call adds.
const ROUNDS: usize = 30;
/// More than this is never taken, and not more than an eighth of what is free.
const LARGEST: u64 = 128 << 20;
const SHARE_OF_FREE: u64 = 8;

/// Data caches of one CPU, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// The largest one below the last level; the first level where there is only one.
    pub own: u64,
    /// That of the last level.
    pub last: u64,
}

impl Caches {
    /// What a machine shows about the caches of `cpu`; `None` where it shows none.
    pub fn of(files: &impl Files, cpu: usize) -> Option<Self> {
        let mut reader = Reader::new(files);
        let mut found: Vec<(u32, u64)> = Vec::new();
        for index in 0..16 {
            let file = |name: &str| format!("devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
            let Some(level) = reader.number(format_args!("{}", file("level"))) else { break };
            if reader.text(format_args!("{}", file("type"))) == Some("Instruction") {
                continue;
            }
            let size = reader.text(format_args!("{}", file("size"))).and_then(bytes);
            found.extend(size.map(|size| (level, size)));
        }
        found.sort_unstable();
        let last = found.pop()?.1;
        Some(Caches { own: found.pop().map_or(last, |cache| cache.1), last })
    }
}

/// Larger caches, 1 TiB, are none.
const LARGEST_CACHE: u64 = 1 << 40;

/// Reads `512K` and `32M`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('M') {
        Some(number) => (number, 1 << 20),
        None => (text.strip_suffix('K').unwrap_or(text), 1 << 10),
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| (1..=LARGEST_CACHE).contains(bytes))
}

/// Costs in ns.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// A line of the last-level cache that no CPU's own cache has.
    pub last_level: Samples,
    /// A line of memory.
    pub memory: Samples,
}

impl Costs {
    /// Adds all samples of `others`.
    pub fn extend(&mut self, others: Self) {
        self.last_level.extend(others.last_level);
        self.memory.extend(others.memory);
    }
}

/// Adds samples taken on `cpu`, which has these caches. There are none where memory is too scarce, or all caches
/// alike.
pub fn measure(cpu: usize, caches: Caches, costs: &mut Costs) -> Result<(), ProbeError> {
    let most = LARGEST.min(free_memory() / SHARE_OF_FREE);
    let between = (4 * caches.own).min(caches.last / 2);
    let beyond = (4 * caches.last).min(most);
    on(cpu, || {
        if between > caches.own && between <= most {
            walk(between, &mut costs.last_level);
        }
        if beyond >= 2 * caches.last {
            walk(beyond, &mut costs.memory);
        }
    })
}

/// Adds samples of a walk through a buffer of so many bytes.
fn walk(bytes: u64, samples: &mut Samples) {
    let pages = (bytes as usize / PAGE_BYTES).max(1);
    let mut random = fastrand::Rng::with_seed(1);
    let mut order: Vec<usize> = (0..pages).collect();
    random.shuffle(&mut order);
    let mut next = vec![0u32; pages * PAGE_BYTES / size_of::<u32>()];
    let (mut first, mut last) = (None, 0);
    for pages in order.chunks(GROUP) {
        let lines_of = |page: &usize| page * VISITED..(page + 1) * VISITED;
        let mut lines: Vec<usize> = pages.iter().flat_map(lines_of).collect();
        random.shuffle(&mut lines);
        for line in lines {
            let word = 2 * line * WORDS;
            next[last] = word as u32;
            last = word;
            first.get_or_insert(word);
        }
    }
    let mut word = first.unwrap_or(0);
    next[last] = word as u32;
    if bytes <= LARGEST / 4 {
        // Once around, so that the cache has it.
        (0..pages * VISITED).for_each(|_| word = next[word] as usize);
    }
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..STEPS).for_each(|_| word = next[word] as usize);
        samples.push(each(start, STEPS));
    }
    black_box(word);
}

/// Memory that this process can still get, bytes, as far as the system tells.
fn free_memory() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let available = read("/proc/meminfo").lines().find_map(|line| {
        let kib = line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?;
        kib.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let number = |path: &str| read(path).trim().parse::<u64>().ok();
    let limits = [
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ];
    let group = limits.iter().filter_map(|(limit, used)| Some(number(limit)?.saturating_sub(number(used)?))).min();
    available.unwrap_or(0).min(group.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captured::Captured;

    #[test]
    fn caches_are_read_by_level() {
        let mut files = Captured::default();
        assert_eq!(Caches::of(&files, 0), None);
        for (index, level, kind, size) in [(0, 1, "Data", "32K"), (1, 1, "Instruction", "64K"), (2, 2, "Unified", "1M")]
        {
            let folder = format!("devices/system/cpu/cpu0/cache/index{index}");
            files.set(format!("{folder}/level"), level);
            files.set(format!("{folder}/type"), kind);
            files.set(format!("{folder}/size"), size);
        }
        assert_eq!(Caches::of(&files, 0), Some(Caches { own: 32 << 10, last: 1 << 20 }));
    }

    #[test]
    fn memory_is_free_here() {
        assert!(free_memory() > 1 << 20);
    }
}
