//! What the preload library counts in a run of a program.

use std::ffi::OsString;
use std::fs::File;
use std::io;

use lockswap_records::counters::FILE_BYTES;
use tempfile::NamedTempFile;

use crate::latencies::{Latencies, LatencyFile};
use crate::mapped;

/// The files for counters and for the latencies of epochs.
pub struct Counting {
    counters: NamedTempFile,
    latencies: io::Result<LatencyFile>,
}

impl Counting {
    /// Makes the files. Without that of latencies, which is much larger, the rest is counted all the same.
    pub fn begin() -> io::Result<Self> {
        let counters = mapped::create("lockswap-stats-", FILE_BYTES)?;
        Ok(Self { counters, latencies: LatencyFile::create() })
    }

    /// Why the latencies of epochs are not recorded, if they are not.
    pub fn without_latencies(&self) -> Option<&io::Error> {
        self.latencies.as_ref().err()
    }

    /// What makes the library count here.
    pub fn variables(&self) -> impl Iterator<Item = (OsString, Option<OsString>)> {
        let counters = ("LOCKSWAP_STATS".into(), Some(self.counters.path().into()));
        std::iter::once(counters).chain(self.latencies.as_ref().ok().map(LatencyFile::variable))
    }

    /// The file of counters.
    pub fn counters(&self) -> &File {
        self.counters.as_file()
    }

    /// The latencies recorded so far.
    pub fn latencies(&self) -> io::Result<Latencies> {
        self.latencies.as_ref().map_or_else(|_| Ok(Latencies::default()), LatencyFile::read)
    }
}
