//! The machines that `--machine` names.

use std::fs::DirBuilder;
use std::io::{self, IsTerminal};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use lockswap_experiment::host::{Host, NAME};
use lockswap_machine::contents;
use lockswap_sim::{Invalid, Machine};
use lockswap_study::export::OutputFile;

use super::say;
use crate::error::UserError;
use crate::picture;

/// The machine called `name`, or that of the file of that name; the one that this runs on may have to be probed.
pub fn machine(name: &str, changes: &[(String, String)]) -> Result<Machine, UserError> {
    if name == NAME {
        return Ok(Machine::parse(NAME, &probed()?, changes)?);
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        return Ok(Machine::built_in(name, changes)?);
    }
    let text = contents(name.as_ref())
        .map_err(|error| UserError::new(format!("cannot read the machine file {name}: {error}"), "check its path"))?;
    Ok(Machine::parse(name, &text, changes)?)
}

/// This machine.
pub fn here() -> Result<Host, UserError> {
    let here = lockswap_machine::Machine::here()?;
    let files = lockswap_machine::open(&lockswap_machine::root()).ok();
    Host::new(&here.topology, here.is_virtual, &files).map_err(failed)
}

/// Nothing that the user wrote is wrong.
pub fn failed(invalid: Invalid) -> UserError {
    UserError::new(invalid.what, invalid.remedy)
}

/// Makes the folder of a machine file if need be and checks that the file can be written.
pub fn prepare(path: &Path) -> Result<OutputFile, UserError> {
    if let Some(folder) = path.parent() {
        // What is wrong with it shows in the next step.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    }
    picture::prepare(path)
}

/// The file of this machine, stored or measured now and then stored.
fn probed() -> Result<String, UserError> {
    let host = here()?;
    let found = host.stored();
    if let Ok(Some(text)) = found {
        return Ok(text);
    }
    if let (Err(why), Some(path)) = (found, host.path()) {
        say(&format!("the probe in {} is not used: {why}", path.display()));
    }
    let text = measure(&host)?;
    // A sweep needs no stored file; the next one measures again.
    let write = |path: &Path| -> anyhow::Result<()> { picture::replace(&prepare(path)?, text.as_bytes()) };
    say(&match host.path().map(|path| (path, write(path))) {
        Some((path, Ok(()))) => format!("stored in {}; 'lockswap sim probe' measures again", path.display()),
        Some((_, Err(error))) => format!("not stored: {error:#}"),
        None => "not stored: set HOME or XDG_CACHE_HOME, or use 'lockswap sim probe --out FILE.toml'".into(),
    });
    Ok(text)
}

/// Measures this machine, with progress on a terminal; the file that results.
pub fn measure(host: &Host) -> Result<String, UserError> {
    let seconds = host.estimate().as_secs_f64().max(1.0);
    say(&format!("probing this machine, {}: about {seconds:.0} s", host.shape().cpus_in_words()));
    let about = lockswap_study::machine::Machine::here();
    if about.is_busy() {
        say(&format!("note: the machine is busy (load average {:.1}): an idle one is exact", about.load_average));
    }
    let progress = match io::stderr().is_terminal() {
        true => indicatif::ProgressBar::new(host.steps()),
        false => indicatif::ProgressBar::hidden(),
    };
    progress.tick();
    let text = host.measure(|| progress.inc(1)).map_err(failed)?;
    progress.finish_and_clear();
    Ok(text)
}
