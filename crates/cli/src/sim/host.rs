//! The machine `host`: the one that this runs on, as a probe found it. The file lies beside the one of
//! `lockswap topo --measure`.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use lockswap_machine::contents;
use lockswap_machine::stored::{self, Identity};
use lockswap_sim::host::{Facts, Found, Probe, Shape};
use lockswap_sim::{Invalid, Machine};
use lockswap_study::export::OutputFile;

use crate::error::UserError;
use crate::picture;

/// What the machine is called.
pub const NAME: &str = "host";

/// This machine, and where its file lies.
pub struct Host {
    probe: Probe,
    facts: Facts,
    path: Option<PathBuf>,
}

impl Host {
    /// Looks at the CPUs that this process may use.
    pub fn here() -> Result<Self, UserError> {
        let here = lockswap_machine::Machine::here()?;
        let files = lockswap_machine::open(&lockswap_machine::root()).ok();
        let identity = Identity::of(&files);
        let shape = Shape::of(&here.topology).map_err(failed)?;
        let about = lockswap_study::machine::Machine::here();
        let key = format!("machine {identity}, CPUs {}", here.topology.allowed());
        let mut remarks = vec![format!("probed on {}, load average before: {:.1}", today(), about.load_average)];
        if here.is_virtual {
            remarks.push("a virtual machine: once it is moved to other CPUs, the latencies hold no more".into());
        }
        let path = stored::path_here(identity).map(|path| {
            let mut name = OsString::from(path);
            name.push(".toml");
            name.into()
        });
        Ok(Self { probe: Probe::new(shape, &files), facts: Facts { name: about.cpu_model, key, remarks }, path })
    }

    /// How its CPUs lie.
    pub fn shape(&self) -> &Shape {
        self.probe.shape()
    }

    /// Where its file lies, whether it is there or not; `None` if the environment names no folder for it.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Makes the folder if need be and checks that the file can be written.
    pub fn prepare(path: &Path) -> Result<OutputFile, UserError> {
        if let Some(folder) = path.parent() {
            // What is wrong with it shows in the next step.
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        picture::prepare(path)
    }

    /// The stored file's text, if it is one of this machine; what is wrong with one that is there, in words.
    fn stored(&self) -> Result<Option<String>, String> {
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

    /// Measures, with progress on a terminal; the file that results.
    pub fn measure(&self) -> Result<String, UserError> {
        say(&format!(
            "probing this machine, {}: about {:.0} s",
            self.shape().cpus_in_words(),
            self.probe.estimate().as_secs_f64().max(1.0)
        ));
        let about = lockswap_study::machine::Machine::here();
        if about.is_busy() {
            say(&format!("note: the machine is busy (load average {:.1}): an idle one is exact", about.load_average));
        }
        let progress = match io::stderr().is_terminal() {
            true => indicatif::ProgressBar::new(self.probe.steps()),
            false => indicatif::ProgressBar::hidden(),
        };
        progress.tick();
        let found = self.probe.run(|| progress.inc(1)).map_err(failed)?;
        progress.finish_and_clear();
        self.file(&found)
    }

    /// Measures everything once.
    pub fn pass(&self) -> Result<Found, UserError> {
        self.probe.pass().map_err(failed)
    }

    /// The machine file that says what was measured.
    pub fn file(&self, found: &Found) -> Result<String, UserError> {
        let text = self.probe.file(found, &self.facts);
        // What was measured on a machine that is too strange would be refused later, without a word on why.
        Machine::parse(NAME, &text, &[]).map_err(failed)?;
        Ok(text)
    }
}

/// The machine file of this machine, stored or measured now and then stored.
pub fn machine(changes: &[(String, String)]) -> Result<Machine, UserError> {
    let host = Host::here()?;
    let text = match host.stored() {
        Ok(Some(text)) => text,
        found => {
            let path = host.path.as_deref();
            if let (Err(why), Some(path)) = (found, path) {
                say(&format!("the probe in {} is not used: {why}", path.display()));
            }
            let text = host.measure()?;
            // A sweep needs no stored file; the next one measures again.
            let write =
                |path: &Path| -> anyhow::Result<()> { picture::replace(&Host::prepare(path)?, text.as_bytes()) };
            say(&match path.map(|path| (path, write(path))) {
                Some((path, Ok(()))) => format!("stored in {}; 'lockswap sim probe' measures again", path.display()),
                Some((_, Err(error))) => format!("not stored: {error:#}"),
                None => "not stored: set HOME or XDG_CACHE_HOME, or use 'lockswap sim probe --out FILE.toml'".into(),
            });
            text
        }
    };
    Ok(Machine::parse(NAME, &text, changes)?)
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

fn failed(invalid: Invalid) -> UserError {
    UserError::new(invalid.what, invalid.remedy)
}

/// Prints a line on stderr, which may be closed.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
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
