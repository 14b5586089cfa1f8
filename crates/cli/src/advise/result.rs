//! What is printed and written at the end.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use lockswap_advise::advice::Advice;
use lockswap_advise::choice::Target;
use lockswap_advise::profile::Rule;
use lockswap_experiment::host::today;
use lockswap_study::export::{Format, OutputFile};

use super::experiment::Tried;
use super::seen::Seen;
use crate::compare::words;
use crate::error::{UserError, USAGE};
use crate::outputs::{Outputs, Print, Wanted};
use crate::picture;
use crate::terminal::{self, say};

/// Refuses a form that these results do not have.
pub fn check_format(format: Print) -> Result<(), UserError> {
    match format {
        Print::Csv => {
            Err(UserError::new("--format csv: these results have no such form", "use json or md").with_status(USAGE))
        }
        _ => Ok(()),
    }
}

/// The file for the profile, which must not be there yet unless `force` says so.
pub fn prepare(path: &Path, force: bool) -> Result<OutputFile, UserError> {
    if !force && path.exists() {
        let what = format!("{} is there already; nothing was run", path.display());
        return Err(UserError::new(what, "--force replaces it, -o PROFILE.toml names another file").with_status(USAGE));
    }
    OutputFile::prepare(path).map_err(|error| {
        let what = format!("cannot write {}: {error}", path.display());
        UserError::new(what, "name a file in a folder that you can write to; nothing was run")
    })
}

/// The text of the profile, if what helps is one.
pub fn profile(tried: &Tried, seen: &Seen, command: &[String]) -> Option<String> {
    let choices = tried.answer.choices.as_ref()?;
    choices.profile()?;
    let machine = tried.trials.first().map(|trial| trial.comparison.machine.words()).unwrap_or_default();
    let about = vec![
        format!("Written by lockswap advise {} on {} for", env!("CARGO_PKG_VERSION"), today()),
        format!("  {}", command.join(" ")),
        format!("on {machine}."),
        tried.answer.sentences.first().cloned().unwrap_or_default(),
    ];
    let of_rule = |rule: &Rule| -> Vec<String> {
        let is_its = |target: &Target| matches!(target, Target::Mutex(condition) if *condition == rule.condition);
        let trial = tried.trials.iter().find(|trial| is_its(&trial.target));
        let lock = trial.and_then(|trial| seen.locks.iter().find(|lock| lock.called() == trial.name));
        lock.map(|lock| format!("{}: {}", lock.called(), lock.words())).into_iter().collect()
    };
    Some(choices.text(about, of_rule))
}

/// The command that runs the program with what helps.
pub fn run_with(tried: &Tried, file: &Path, command: &[OsString]) -> Option<String> {
    let options = tried.answer.choices.as_ref()?.options(&file.display().to_string());
    let parts = ["lockswap".to_owned(), "run".to_owned()].into_iter().chain(options).chain(["--".to_owned()]);
    Some(shell_words::join(parts.chain(words(command))))
}

/// Prints and writes everything.
pub fn tell(advice: &Advice, outputs: &mut Outputs, format: Print, out: &OutputFile) -> anyhow::Result<ExitCode> {
    outputs.write(true, |wanted| match wanted {
        Wanted::Data(format) => render(format, advice),
        Wanted::Picture(look) => {
            let picture = advice.picture(picture::footer(&[]), look);
            picture.ok_or_else(|| io::Error::other("nothing was tried that could be drawn"))
        }
    });
    match format.data() {
        None => terminal::print(&text(advice))?,
        Some(format) => terminal::print_data(&String::from_utf8_lossy(&render(format, advice)?))?,
    }
    let mut written = outputs.tell();
    if let Some(profile) = &advice.profile {
        match out.replace(profile.as_bytes()) {
            Ok(()) => say(&format!("the profile is in {}", out.path().display())),
            Err(error) => {
                say(&format!("error: cannot write {}: {error}", out.path().display()));
                written = false;
            }
        }
    }
    Ok(if written { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// For a terminal: the tables first, the answer at the end, where the eye is.
fn text(advice: &Advice) -> String {
    let mut page = advice.page();
    let answer = std::mem::take(&mut page.conclusion);
    let tables = terminal::page_words(&page);
    let width = terminal::width().map_or(100, usize::from);
    let sentences: String = answer.iter().map(|sentence| terminal::wrapped(sentence, width)).collect();
    format!("{}\n{sentences}", tables.trim_start_matches('\n'))
}

fn render(format: Format, advice: &Advice) -> io::Result<Vec<u8>> {
    Ok(match format {
        Format::Json => serde_json::to_vec_pretty(advice).map(|mut text| {
            text.push(b'\n');
            text
        })?,
        Format::Markdown => advice.page().markdown().into_bytes(),
        Format::Html => advice.page().html().into_bytes(),
        Format::Csv => return Err(io::Error::other("these results have no such form")),
    })
}
