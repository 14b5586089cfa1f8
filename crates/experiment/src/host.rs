//! The machine `host`: the one that this runs on, as a probe found it. The file lies beside the one of
//! `lockswap topo --measure`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockswap_machine::contents;
use lockswap_machine::files::Files;
use lockswap_machine::stored::{self, Identity};
use lockswap_machine::topology::Topology;
use lockswap_sim::host::{Facts, Found, Probe, Shape};
use lockswap_sim::{Invalid, Machine};

/// What the machine is called.
pub const NAME: &str = "host";

/// This machine, and where its file lies.
pub struct Host {
    probe: Probe,
    facts: Facts,
    path: Option<PathBuf>,
}

impl Host {
    /// The machine of this topology, of which the CPUs that the process may use; `files` are its `/sys`.
    ///
    /// # Errors
    /// It is none that a machine file can describe.
    pub fn new(topology: &Topology, is_virtual: bool, files: &impl Files) -> Result<Self, Invalid> {
        let identity = Identity::of(files);
        let shape = Shape::of(topology)?;
        let about = lockswap_study::machine::Machine::here();
        let key = format!("machine {identity}, CPUs {}", topology.allowed());
        let mut remarks = vec![format!("probed on {}, load average before: {:.1}", today(), about.load_average)];
        if is_virtual {
            remarks.push("a virtual machine: once it is moved to other CPUs, the latencies hold no more".into());
        }
        let path = stored::path_here(identity).map(|path| {
            let mut name = OsString::from(path);
            name.push(".toml");
            name.into()
        });
        Ok(Self { probe: Probe::new(shape, files), facts: Facts { name: about.cpu_model, key, remarks }, path })
    }

    /// How its CPUs lie.
    pub fn shape(&self) -> &Shape {
        self.probe.shape()
    }

    /// Where its file lies, whether it is there or not; `None` if the environment names no folder for it.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The stored file's text, if it is one of this machine.
    ///
    /// # Errors
    /// What is wrong with one that is there, in words.
    pub fn stored(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.path else { return Ok(None) };
        let text = match contents(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let head = self.facts.head(self.shape());
        if !text.starts_with(&head) {
            let same_kind = text.lines().next() == head.lines().next();
            return Err(if same_kind { "other CPUs, or another machine" } else { "not a probe's file" }.into());
        }
        match Machine::parse(NAME, &text, &[]) {
            Ok(_) => Ok(Some(text)),
            Err(invalid) => Err(format!("damaged: {}", invalid.what.lines().next().unwrap_or_default())),
        }
    }

    /// How long measuring takes, about.
    pub fn estimate(&self) -> Duration {
        self.probe.estimate()
    }

    /// In how many steps it measures.
    pub fn steps(&self) -> u64 {
        self.probe.steps()
    }

    /// Measures; `done` is called after each step. The file that results.
    ///
    /// # Errors
    /// Something could not be measured, or makes no machine.
    pub fn measure(&self, done: impl FnMut()) -> Result<String, Invalid> {
        self.file(&self.probe.run(done)?)
    }

    /// Measures everything once.
    ///
    /// # Errors
    /// Something could not be measured.
    pub fn pass(&self) -> Result<Found, Invalid> {
        self.probe.pass()
    }

    /// The machine file that says what was measured.
    ///
    /// # Errors
    /// It makes no machine: what was measured on a machine that is too strange would be refused later, without a word
    /// on why.
    pub fn file(&self, found: &Found) -> Result<String, Invalid> {
        let text = self.probe.file(found, &self.facts);
        Machine::parse(NAME, &text, &[])?;
        Ok(text)
    }
}

/// The date, UTC.
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date so many days after the first of January 1970.
fn date(mut day: u64) -> String {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        // date -u -d @N
        for (seconds, expected) in [
            (0u64, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (1_798_761_599, "2026-12-31"),
            (1_798_761_600, "2027-01-01"),
        ] {
            assert_eq!(date(seconds / 86_400), expected);
        }
    }
}
