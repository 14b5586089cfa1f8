//! How pictures look, and files that are written as a whole.

use std::path::Path;

use lockswap_plot::{Format, Look, Theme};
use lockswap_study::export::OutputFile;

use crate::error::{UserError, USAGE};

/// Arguments about how pictures look.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LookArgs {
    /// Width of pictures in pixels, 320 to 4000; a PNG has twice as many, for sharp text [default: as the picture
    /// needs]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(320..=4000), global = true)]
    picture_width: Option<u32>,
    /// Paper of pictures: light, dark, or auto, which follows the reader's settings in an SVG and is light in a PNG
    #[arg(long, value_name = "PAPER", default_value = "auto", hide_default_value = true, global = true)]
    picture_paper: Paper,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Paper {
    #[default]
    Auto,
    Light,
    Dark,
}

impl LookArgs {
    /// The look of a picture in a file of this format.
    pub fn of(&self, format: Format) -> Look {
        let theme = match self.picture_paper {
            Paper::Auto => Theme::Auto,
            Paper::Light => Theme::Light,
            Paper::Dark => Theme::Dark,
        };
        let look = Look::new(format).theme(theme);
        self.picture_width.map_or(look, |width| look.width(f64::from(width)))
    }
}

/// What made a picture, in a line: this version, what else there is to say, and the command.
pub fn footer(facts: &[String]) -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let command = shell_words::join(std::iter::once("lockswap".to_owned()).chain(words));
    let version = concat!("lockswap ", env!("CARGO_PKG_VERSION")).to_owned();
    let facts: Vec<String> = std::iter::once(version).chain(facts.iter().cloned()).collect();
    format!("{}: {}", facts.join(", "), command)
}

/// A picture's file, checked to be writable before anything is measured and replaced as a whole.
pub struct Picture {
    format: Format,
    file: OutputFile,
}

impl Picture {
    /// Checks the file's name and place.
    pub fn prepare(path: &Path) -> Result<Self, UserError> {
        let format = Format::of(path).map_err(|error| {
            UserError::new(error.to_string(), "name it so, for instance curve.svg").with_status(USAGE)
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
