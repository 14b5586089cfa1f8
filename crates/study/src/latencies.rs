//! The file in which the preload library records latencies of epochs.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use lockswap_platform::{CoreKind, LONGEST_DURATION};
use lockswap_records::latency::{self, FILE_WORDS};
use serde::Serialize;
use tempfile::TempPath;

use crate::mapped;
use crate::numbers::time_in_words;

const PREFIX: &str = "lockswap-latencies-";

const BYTES: usize = 8 * FILE_WORDS;

/// A file of latencies; it goes away when this is dropped.
pub struct LatencyFile {
    file: File,
    path: TempPath,
}

impl LatencyFile {
    /// Makes the file, without latencies.
    pub fn create() -> io::Result<Self> {
        let (file, path) = mapped::create(PREFIX, BYTES)?.into_parts();
        Ok(Self { file, path })
    }

    /// What makes the library of a program record here.
    pub fn variable(&self) -> (OsString, Option<OsString>) {
        ("LOCKSWAP_LATENCIES".into(), Some(self.path.as_os_str().to_owned()))
    }

    /// Puts a file without latencies in the place of this one. A process that still records has the old one.
    pub fn renew(&mut self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        self.file = mapped::create_in(folder, PREFIX, BYTES)?.persist(&self.path)?;
        Ok(())
    }

    /// What was recorded since.
    pub fn read(&self) -> io::Result<Latencies> {
        let mut bytes = vec![0; BYTES];
        self.file.read_exact_at(&mut bytes, 0)?;
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let mut ids: Vec<i32> = latency::ids(&words).collect();
        ids.sort_unstable();
        ids.dedup();
        let of = |id: i32| [CoreKind::Big, CoreKind::Little].map(|kind| latency::Latencies::read(&words, id, kind));
        let epochs = ids.into_iter().flat_map(of).flatten().collect();
        Ok(Latencies { epochs, unrecorded: latency::unrecorded(&words) })
    }
}

/// What a program's run recorded.
#[derive(Default)]
pub struct Latencies {
    /// Ordered by id, big cores first.
    pub epochs: Vec<latency::Latencies>,
    /// Epochs without a record.
    pub unrecorded: u64,
}

/// An id on one kind of core, in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The epoch's id.
    pub id: i32,
    /// `big` or `little`.
    pub kind: &'static str,
    /// How often it ran.
    pub count: u64,
    /// How often it took longer than its SLO.
    pub missed: u64,
    /// The SLO that counted last, ns.
    pub slo_ns: u64,
    /// Half of the runs took no longer, ns.
    pub p50_ns: f64,
    /// 99% of the runs took no longer, ns.
    pub p99_ns: f64,
    /// 99.9% of the runs took no longer, ns.
    pub p999_ns: f64,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Figures {
    /// The figures of what was recorded.
    pub fn of(latencies: &latency::Latencies) -> Self {
        Self {
            id: latencies.id,
            kind: kind_name(latencies.kind),
            count: latencies.count(),
            missed: latencies.missed,
            slo_ns: latencies.slo,
            p50_ns: latencies.percentile(0.5),
            p99_ns: latencies.percentile(0.99),
            p999_ns: latencies.percentile(0.999),
            max_ns: latencies.max,
        }
    }

    /// In one line.
    pub fn words(&self) -> String {
        let Self { id, kind, count, .. } = self;
        let [p50, p99, p999] = [self.p50_ns, self.p99_ns, self.p999_ns].map(time_in_words);
        let missed = match self.slo_ns {
            slo if slo >= LONGEST_DURATION => "no target".into(),
            slo => {
                let missed = 100.0 * self.missed as f64 / self.count.max(1) as f64;
                format!("{missed:.2}% above {}", time_in_words(slo as f64))
            }
        };
        format!("{id} on {kind} cores: {count} runs, P50 {p50}, P99 {p99}, P99.9 {p999}; {missed}")
    }
}

/// A line for each of the epochs, ordered as they are; of more than `most`, those that ran most.
pub fn lines(epochs: &[Figures], most: usize) -> Vec<String> {
    let mut counts: Vec<u64> = epochs.iter().map(|epoch| epoch.count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let least = counts.get(most.saturating_sub(1)).copied().unwrap_or_default();
    let shown: Vec<String> = epochs.iter().filter(|e| e.count >= least).take(most).map(Figures::words).collect();
    let left_out = epochs.len() - shown.len();
    let more = (left_out > 0).then(|| format!("and {left_out} more that ran less often"));
    shown.into_iter().chain(more).collect()
}

/// How a kind of core is called.
pub fn kind_name(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Big => "big",
        CoreKind::Little => "little",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(id: i32, count: u64, slo_ns: u64) -> Figures {
        let (p50_ns, p99_ns, p999_ns) = (1_000.0, 12_000.0, 40_000.0);
        Figures { id, kind: "little", count, missed: count / 100, slo_ns, p50_ns, p99_ns, p999_ns, max_ns: 50_000 }
    }

    #[test]
    fn an_epoch_is_a_line() {
        assert_eq!(
            figures(5, 1_000, 50_000).words(),
            "5 on little cores: 1000 runs, P50 1.00 us, P99 12.0 us, P99.9 40.0 us; 1.00% above 50.0 us"
        );
        assert!(figures(5, 1_000, u64::MAX).words().ends_with("; no target"));
    }

    #[test]
    fn of_many_epochs_those_that_ran_most_are_shown() {
        let epochs: Vec<Figures> = (0..30).map(|id| figures(id, 10 + (id as u64 * 7) % 30, 1)).collect();
        assert_eq!(lines(&epochs[..5], 20).len(), 5);
        let shown = lines(&epochs, 20);
        assert_eq!((shown.len(), shown[20].as_str()), (21, "and 10 more that ran less often"));
        assert!(shown[0].starts_with("2 on") && shown[1].starts_with("3 on"), "by id: {shown:?}");
    }
}
