//! Files with pictures.

use std::path::Path;

use lockswap_plot::Format;
use lockswap_study::export::OutputFile;

use crate::error::{UserError, USAGE};

/// A picture's file, checked to be writable before anything is measured and replaced as a whole.
pub struct Picture {
    format: Format,
    file: OutputFile,
}

impl Picture {
    /// Checks the file's name and place.
    pub fn prepare(path: &Path) -> Result<Self, UserError> {
        let format = Format::of(path).map_err(|error| {
            UserError::new(error.to_string(), "name it so, for instance map.svg").with_status(USAGE)
        })?;
        Ok(Self { format, file: prepare(path)? })
    }

    /// Writes what `draw` draws in the file's format.
    pub fn write(&self, draw: impl FnOnce(Format) -> Vec<u8>) -> anyhow::Result<()> {
        replace(&self.file, &draw(self.format))
    }
}

/// Checks that a file of any sort can be written.
pub fn prepare(path: &Path) -> Result<OutputFile, UserError> {
    OutputFile::prepare(path).map_err(|error| {
        let remedy = "name a file in a folder that you can write to";
        UserError::new(format!("cannot write {}: {error}", path.display()), remedy)
    })
}

/// Replaces a file's content.
pub fn replace(file: &OutputFile, content: &[u8]) -> anyhow::Result<()> {
    use anyhow::Context;
    file.replace(content).with_context(|| format!("cannot write {}", file.path().display()))
}
