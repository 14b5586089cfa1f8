//! The latencies of epochs, as the preload library keeps them for `lockswap slo`: histograms in a file that all
//! threads and processes of a program map, so that nothing has to be written at the end, whatever kind of end that is.
//!
//!   words  0..8      how many records are taken, how many epochs found none
//!          8..       for each record: what it counts, and how many threads use it
//!          then      the records: 8 words of facts, then a histogram
//!
//! A record counts one id on one kind of core, for one thread as long as there are enough; else threads share one, and
//! once all are taken, an id that comes new is not recorded but counted. All counting is atomic, so sharing needs no
//! more. Buckets are 1/32 of a power of two wide: a percentile is right within 1.6%. They reach up to 73 minutes.
//!
//! The file begins as zeros, of which [`FILE_WORDS`] words are 10 MB; only what is used takes room.

use core::sync::atomic::{AtomicU64, Ordering};
use lockswap_platform::{CoreKind, Ns};

const SUB_BITS: u32 = 5;
/// Latencies from 2^LARGEST_BITS ns on share the last bucket.
const LARGEST_BITS: u32 = 42;
/// Buckets of a histogram.
pub const BUCKETS: usize = ((LARGEST_BITS - SUB_BITS + 1) << SUB_BITS) as usize;

/// Records in the file.
const RECORDS: usize = 1024;
/// Records of one id on one kind of core before threads share them.
const MOST_PRIVATE: usize = 64;

const TAKEN: usize = 0;
const UNRECORDED: usize = 1;
const ENTRIES: usize = 8;
const FIRST_RECORD: usize = ENTRIES + 2 * RECORDS;

const MISSED: usize = 0;
const MAX: usize = 1;
const FIRST: usize = 2;
const LAST: usize = 3;
const SLO: usize = 4;
const WINDOW: usize = 5;
const HISTOGRAM: usize = 8;
/// Words of a record.
pub const RECORD_WORDS: usize = HISTOGRAM + BUCKETS;

/// Words of the file; a word is a little-endian `u64`.
pub const FILE_WORDS: usize = FIRST_RECORD + RECORDS * RECORD_WORDS;

/// The bucket that counts a latency.
#[inline]
pub fn bucket(ns: Ns) -> usize {
    let ns = ns.min((1 << LARGEST_BITS) - 1);
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    // The highest bit of the shifted value is the 33rd sub-bucket, which makes the octaves follow each other.
    ((shift as usize) << SUB_BITS) + (ns >> shift) as usize
}

/// The least latency that a bucket counts, and the first that it does not.
pub fn bounds(bucket: usize) -> (Ns, Ns) {
    let least = |bucket: usize| {
        let shift = (bucket >> SUB_BITS).saturating_sub(1);
        ((bucket - (shift << SUB_BITS)) as Ns) << shift
    };
    (least(bucket), least(bucket + 1))
}

/// What a record counts, as a word that is not 0.
fn key(id: i32, kind: CoreKind) -> u64 {
    let little = u64::from(kind == CoreKind::Little);
    1 << 63 | little << 32 | u64::from(id as u32)
}

/// The mapped file.
#[derive(Clone, Copy)]
pub struct File<'a>(&'a [AtomicU64]);

impl<'a> File<'a> {
    /// A file of [`FILE_WORDS`] words.
    pub fn new(words: &'a [AtomicU64; FILE_WORDS]) -> Self {
        File(words)
    }

    /// A record for one more thread.
    pub fn claim(self, id: i32, kind: CoreKind) -> Option<Record<'a>> {
        let key = key(id, kind);
        loop {
            // Relaxed throughout: counts are all that is shared, and atomic; a record's other words begin as zero.
            let taken = (self.0[TAKEN].load(Ordering::Relaxed) as usize).min(RECORDS);
            let of_key = || (0..taken).filter(|index| self.entry(*index).0.load(Ordering::Relaxed) == key);
            let unused = of_key().find(|index| {
                self.entry(*index).1.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            });
            if let Some(index) = unused {
                return Some(self.record(index));
            }
            if taken < RECORDS && of_key().count() < MOST_PRIVATE {
                let (found, users) = self.entry(taken);
                let mine = found.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed).is_ok();
                // Whoever comes second helps the first one, who may have been killed in between.
                let next = taken as u64 + 1;
                let _ = self.0[TAKEN].compare_exchange(taken as u64, next, Ordering::Relaxed, Ordering::Relaxed);
                if mine {
                    users.fetch_add(1, Ordering::Relaxed);
                    return Some(self.record(taken));
                }
                continue;
            }
            let shared = of_key().min_by_key(|index| self.entry(*index).1.load(Ordering::Relaxed))?;
            self.entry(shared).1.fetch_add(1, Ordering::Relaxed);
            return Some(self.record(shared));
        }
    }

    /// Counts an epoch for which there was no record.
    pub fn count_unrecorded(self) {
        self.0[UNRECORDED].fetch_add(1, Ordering::Relaxed);
    }

    fn entry(self, index: usize) -> (&'a AtomicU64, &'a AtomicU64) {
        (&self.0[ENTRIES + 2 * index], &self.0[ENTRIES + 2 * index + 1])
    }

    fn record(self, index: usize) -> Record<'a> {
        let begin = FIRST_RECORD + index * RECORD_WORDS;
        match self.0[begin..].first_chunk() {
            Some(words) => Record { users: self.entry(index).1, words },
            None => unreachable!(),
        }
    }
}

/// A thread's share of a record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    users: &'a AtomicU64,
    words: &'a [AtomicU64; RECORD_WORDS],
}

/// One run of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// When it began, ns.
    pub start: Ns,
    /// How long it took, ns.
    pub latency: Ns,
    /// What it should have taken at most, ns.
    pub slo: Ns,
    /// The thread's window afterwards, ns.
    pub window: Ns,
}

impl Record<'_> {
    /// Counts a run.
    #[inline]
    pub fn count(&self, run: Run) {
        // Relaxed throughout, as in `claim`. Where threads share a record, what is not added up is one of theirs.
        let word = |index: usize| &self.words[index];
        self.words[HISTOGRAM + bucket(run.latency)].fetch_add(1, Ordering::Relaxed);
        if run.latency > run.slo {
            word(MISSED).fetch_add(1, Ordering::Relaxed);
        }
        if run.latency > word(MAX).load(Ordering::Relaxed) {
            word(MAX).fetch_max(run.latency, Ordering::Relaxed);
        }
        if word(FIRST).load(Ordering::Relaxed) == 0 {
            word(FIRST).store(run.start.max(1), Ordering::Relaxed);
        }
        word(LAST).store(run.start + run.latency, Ordering::Relaxed);
        word(SLO).store(run.slo, Ordering::Relaxed);
        word(WINDOW).store(run.window, Ordering::Relaxed);
    }

    /// Leaves the record to another thread.
    pub fn release(&self) {
        // The child of a fork releases what its parent has claimed, too.
        let less = |users: u64| users.checked_sub(1);
        let _ = self.users.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// What the file says about one id on one kind of core, all records taken together.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    /// The epoch's id.
    pub id: i32,
    /// The kind of core that it ended on.
    pub kind: CoreKind,
    /// Runs by bucket.
    pub histogram: [u64; BUCKETS],
    /// Runs that took longer than their SLO.
    pub missed: u64,
    /// The longest, ns.
    pub max: Ns,
    /// When the first began, ns on a clock that all processes share.
    pub first: Ns,
    /// When the last ended.
    pub last: Ns,
    /// An SLO that the program, or the user, has set, ns.
    pub slo: Ns,
    /// The longest reorder window of a thread, ns.
    pub window: Ns,
}

impl Latencies {
    /// What the `words` of a file say about `id` on `kind`; `None` if nothing.
    pub fn read(words: &[u64], id: i32, kind: CoreKind) -> Option<Latencies> {
        let none = Latencies {
            id,
            kind,
            histogram: [0; BUCKETS],
            missed: 0,
            max: 0,
            first: Ns::MAX,
            last: 0,
            slo: 0,
            window: 0,
        };
        let mut all: Option<Latencies> = None;
        for (_, record) in records(words).filter(|(found, _)| *found == key(id, kind)) {
            let all = all.get_or_insert_with(|| none.clone());
            // Saturating: the program that runs may have written anything.
            let counts = all.histogram.iter_mut().zip(&record[HISTOGRAM..]);
            counts.for_each(|(sum, count)| *sum = sum.saturating_add(*count));
            all.missed = all.missed.saturating_add(record[MISSED]);
            all.max = all.max.max(record[MAX]);
            if record[FIRST] != 0 {
                all.first = all.first.min(record[FIRST]);
            }
            all.last = all.last.max(record[LAST]);
            all.slo = record[SLO];
            all.window = all.window.max(record[WINDOW]);
        }
        all.filter(|all| all.count() > 0)
    }

    /// Number of runs.
    pub fn count(&self) -> u64 {
        self.histogram.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The latency, in ns, that a share of the runs (0.99 for the 99th percentile) did not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let rank = share * self.count() as f64;
        let mut below = 0.0;
        for (index, count) in self.histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (least, end) = bounds(index);
            let inside = *count as f64;
            if below + inside >= rank {
                // Whole numbers of ns: a bucket that is one wide holds nothing but its own.
                let width = (end - least - 1) as f64;
                return (least as f64 + width * (rank - below) / inside).min(self.max as f64);
            }
            below += inside;
        }
        self.max as f64
    }
}

/// The records in use with their keys.
fn records(words: &[u64]) -> impl Iterator<Item = (u64, &[u64])> {
    let taken = words.get(TAKEN).map_or(0, |taken| (*taken as usize).min(RECORDS));
    (0..taken).filter_map(move |index| {
        let begin = FIRST_RECORD + index * RECORD_WORDS;
        Some((*words.get(ENTRIES + 2 * index)?, words.get(begin..begin + RECORD_WORDS)?))
    })
}

/// The ids in the `words` of a file, each at least once.
pub fn ids(words: &[u64]) -> impl Iterator<Item = i32> + '_ {
    records(words).map(|(key, _)| key as u32 as i32)
}

/// How many epochs the `words` of a file do not contain, because there were too many ids.
pub fn unrecorded(words: &[u64]) -> u64 {
    words.get(UNRECORDED).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::thread;
    use std::vec::Vec;

    fn file() -> Box<[AtomicU64; FILE_WORDS]> {
        (0..FILE_WORDS).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>().try_into().unwrap()
    }

    fn words(file: &[AtomicU64]) -> Vec<u64> {
        file.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    fn run(latency: Ns) -> Run {
        Run { start: 1_000, latency, slo: 500, window: 0 }
    }

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut end = 0;
        for index in 0..BUCKETS {
            let (least, next) = bounds(index);
            assert_eq!(least, end, "bucket {index}");
            assert_eq!((bucket(least), bucket(next - 1)), (index, index));
            assert!((next - least) as f64 <= (least as f64 / 32.0).max(1.0), "bucket {index}");
            end = next;
        }
        assert_eq!(end, 1 << LARGEST_BITS);
        assert_eq!(bucket(Ns::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_right_within_two_percent() {
        let file = file();
        let record = File::new(&file).claim(5, CoreKind::Little).unwrap();
        (1..=100_000).for_each(|latency| record.count(run(latency)));
        let words = words(&*file);
        let all = Latencies::read(&words, 5, CoreKind::Little).unwrap();
        for share in [0.01, 0.5, 0.99, 0.999, 1.0] {
            let (found, exact) = (all.percentile(share), share * 100_000.0);
            assert!((found / exact - 1.0).abs() < 0.02, "{share}: {found}");
        }
        assert_eq!((all.count(), all.missed, all.max), (100_000, 99_500, 100_000));
        assert_eq!((all.first, all.last), (1_000, 101_000));
        assert_eq!(Latencies::read(&words, 5, CoreKind::Big), None);
        assert_eq!(ids(&words).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn threads_have_records_of_their_own_until_they_share() {
        let file = file();
        let table = File::new(&file);
        let first = table.claim(-7, CoreKind::Big).unwrap();
        first.release();
        let again = table.claim(-7, CoreKind::Big).unwrap();
        assert!(core::ptr::eq(first.words, again.words), "a released record is used again");
        let other = table.claim(-7, CoreKind::Little).unwrap();
        assert!(!core::ptr::eq(other.words, again.words));
        thread::scope(|scope| {
            for _ in 0..2 * MOST_PRIVATE {
                scope.spawn(|| {
                    let record = table.claim(3, CoreKind::Big).unwrap();
                    (0..1_000).for_each(|_| record.count(run(100)));
                });
            }
        });
        assert_eq!(Latencies::read(&words(&*file), 3, CoreKind::Big).unwrap().count(), 2_000 * MOST_PRIVATE as u64);
    }

    #[test]
    fn a_full_file_refuses_new_ids_and_shares_old_ones() {
        let file = file();
        let table = File::new(&file);
        for id in 0..RECORDS as i32 {
            assert!(table.claim(id, CoreKind::Big).is_some());
        }
        assert!(table.claim(-1, CoreKind::Big).is_none());
        assert!(table.claim(1, CoreKind::Big).is_some());
        table.count_unrecorded();
        assert_eq!(unrecorded(&words(&*file)), 1);
    }

    #[test]
    fn nonsense_in_the_file_is_read_as_nothing() {
        assert_eq!(ids(&[u64::MAX; 40]).count(), 0);
        assert_eq!(ids(&[]).count(), 0);
        assert_eq!(unrecorded(&[]), 0);
    }
}
