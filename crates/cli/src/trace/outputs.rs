//! The files that `lockswap trace` writes.

use std::io::{self, Write};
use std::path::PathBuf;

use lockswap_study::export::OutputFile;
use lockswap_trace::export::{render, Form, Side, ENDINGS};
use lockswap_trace::{Gathered, Report};

use crate::error::{UserError, USAGE};

/// All files that the user wants.
pub struct Outputs(Vec<(Form, OutputFile)>);

impl Outputs {
    /// Checks names and places before the program starts.
    pub fn prepare(paths: &[PathBuf]) -> Result<Self, UserError> {
        let mut files: Vec<(Form, OutputFile)> = Vec::new();
        for path in paths {
            let form = Form::of(path).ok_or_else(|| {
                let what = format!("--export {}: the ending of the name does not say in which form", path.display());
                let endings: Vec<&str> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
                UserError::new(what, format!("end it in one of {}", endings.join(", "))).with_status(USAGE)
            })?;
            let file = OutputFile::prepare(path).map_err(|error| {
                let remedy = "name a file in a folder that you can write to; the program was not started";
                UserError::new(format!("cannot write {}: {error}", path.display()), remedy)
            })?;
            if !file.is_stream() && files.iter().any(|(_, other)| other.path() == file.path()) {
                let what = format!("two exports go to {}", path.display());
                return Err(UserError::new(what, "give each a file of its own").with_status(USAGE));
            }
            files.push((form, file));
        }
        Ok(Self(files))
    }

    /// Whether single events have to be kept.
    pub fn want_spans(&self) -> bool {
        self.0.iter().any(|(form, _)| *form == Form::Firefox)
    }

    /// Writes all of them; says on stderr what could not be written.
    pub fn write(&mut self, side: Side, report: &Report, gathered: &Gathered) {
        for (form, file) in &self.0 {
            if let Err(error) = render(*form, side, report, gathered).and_then(|content| file.replace(&content)) {
                // Stderr may be closed.
                let _ = writeln!(io::stderr(), "error: cannot write {}: {error}", file.path().display());
            }
        }
    }
}
