//! A set of CPUs.

use core::fmt;

use lockswap_platform::{CpuList, MAX_CPUS};
use syscalls::{syscall, Errno, Sysno};

/// A set of CPUs with numbers below [`MAX_CPUS`]; all zero bytes are the empty set.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuSet([u64; MAX_CPUS / 64]);

impl CpuSet {
    /// No CPU.
    pub const EMPTY: Self = CpuSet([0; MAX_CPUS / 64]);

    /// The CPUs that the calling thread may run on; empty where the kernel does not tell.
    pub fn of_this_thread() -> Self {
        let mut set = Self::EMPTY;
        // SAFETY: the kernel writes at most that many bytes to the set.
        let _ = unsafe { syscall!(Sysno::sched_getaffinity, 0, size_of_val(&set.0), set.0.as_mut_ptr()) };
        set
    }

    /// Lets the calling thread run on these CPUs only.
    pub fn bind_this_thread(&self) -> Result<(), Errno> {
        // SAFETY: the kernel reads that many bytes of the set.
        unsafe { syscall!(Sysno::sched_setaffinity, 0, size_of_val(&self.0), self.0.as_ptr()) }.map(|_| ())
    }

    /// Adds `cpu`; a number that is too large is ignored.
    pub fn insert(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word & 1 << (cpu % 64) != 0)
    }

    /// The CPUs that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = *self;
        both.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        both
    }

    /// The CPUs that are in this set and not in the other.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = *self;
        rest.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        rest
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 != 0);
        self.0
            .iter()
            .enumerate()
            .filter(|(_, word)| **word != 0)
            .flat_map(move |(i, word)| bits(*word).map(move |b| i * 64 + b))
    }

    /// A number that differs for different sets, almost certainly (FNV-1a).
    pub fn fingerprint(&self) -> u64 {
        self.0.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl From<CpuList<'_>> for CpuSet {
    fn from(list: CpuList<'_>) -> Self {
        list.cpus().collect()
    }
}

/// As Linux writes it: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for first in self.iter().filter(|&cpu| cpu == 0 || !self.contains(cpu - 1)) {
            let last = (first..).find(|&cpu| !self.contains(cpu + 1)).unwrap_or(first);
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn sets_are_written_as_linux_writes_them() {
        for text in ["", "0", "0,1", "0-3,8", "63-65,128,4094,4095"] {
            let set = CpuList::parse(text.as_bytes()).map_or(CpuSet::EMPTY, CpuSet::from);
            assert_eq!(set.to_string(), text);
            assert_eq!(set.len(), set.iter().count());
        }
    }

    #[test]
    fn this_thread_runs_somewhere() {
        assert!(!CpuSet::of_this_thread().is_empty());
    }
}
