//! The file in which the preload library records latencies of epochs.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use lockswap_locks::asymmetric::latency::{self, FILE_WORDS};
use lockswap_platform::CoreKind;
use serde::Serialize;

use crate::asl::time_in_words;
use crate::error::UserError;

/// A new file of no latencies; it goes away when this is dropped.
pub struct LatencyFile(tempfile::NamedTempFile);

impl LatencyFile {
    /// Makes the file in the folder for temporary files.
    pub fn create() -> Result<Self, UserError> {
        let make = || {
            let file = tempfile::Builder::new().prefix("lockswap-latencies-").tempfile()?;
            file.as_file().set_len(8 * FILE_WORDS as u64)?;
            Ok(Self(file))
        };
        make().map_err(|error: io::Error| {
            let what = format!("cannot create the file of latencies in {}: {error}", std::env::temp_dir().display());
            UserError::new(what, "set TMPDIR to a folder that you can write to")
        })
    }

    /// What makes the library of a program record here.
    pub fn variable(&self) -> (OsString, Option<OsString>) {
        ("LOCKSWAP_LATENCIES".into(), Some(self.0.path().into()))
    }

    /// Forgets what was recorded. No program may use the file.
    pub fn clear(&self) -> io::Result<()> {
        self.file().set_len(0)?;
        self.file().set_len(8 * FILE_WORDS as u64)
    }

    /// What was recorded since.
    pub fn read(&self) -> io::Result<Latencies> {
        let mut bytes = vec![0; 8 * FILE_WORDS];
        self.file().read_exact_at(&mut bytes, 0)?;
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let mut ids: Vec<i32> = latency::ids(&words).collect();
        ids.sort_unstable();
        ids.dedup();
        let of = |id: i32| [CoreKind::Big, CoreKind::Little].map(|kind| latency::Latencies::read(&words, id, kind));
        let epochs = ids.into_iter().flat_map(of).flatten().collect();
        Ok(Latencies { epochs, unrecorded: latency::unrecorded(&words) })
    }

    fn file(&self) -> &File {
        self.0.as_file()
    }
}

/// What a program's run recorded.
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
        let missed = 100.0 * self.missed as f64 / self.count.max(1) as f64;
        let [p50, p99, p999] = [self.p50_ns, self.p99_ns, self.p999_ns].map(time_in_words);
        let slo = time_in_words(self.slo_ns as f64);
        let cores = self.kind;
        format!(
            "{} on {cores} cores: {} runs, P50 {p50}, P99 {p99}, P99.9 {p999}; {missed:.2}% above {slo}",
            self.id, self.count
        )
    }
}

/// How a kind of core is called.
pub fn kind_name(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Big => "big",
        CoreKind::Little => "little",
    }
}
