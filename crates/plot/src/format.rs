//! The kind of a picture's file.

use std::fmt;
use std::path::{Path, PathBuf};

/// The kind of a picture's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vectors, for web pages and papers.
    Svg,
    /// Pixels: two for each unit of the width, so that text is sharp.
    Png,
}

impl Format {
    /// The format that the file name's extension (`.svg` or `.png`, in any case) asks for.
    pub fn of(file: &Path) -> Result<Self, UnknownFormat> {
        let extension = file.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        match extension.as_deref() {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            _ => Err(UnknownFormat(file.to_owned())),
        }
    }
}

/// A file name that ends neither in `.svg` nor in `.png`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(PathBuf);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: a picture's file name ends in .svg or .png", self.0.display())
    }
}

impl std::error::Error for UnknownFormat {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_tells_the_format() {
        assert_eq!(Format::of(Path::new("a/b.SVG")), Ok(Format::Svg));
        assert_eq!(Format::of(Path::new("b.tar.png")), Ok(Format::Png));
        for other in ["b.pdf", "svg", "b", ".png", ""] {
            let error = Format::of(Path::new(other)).unwrap_err().to_string();
            assert!(error.starts_with(other) && error.contains(".svg or .png"), "{error}");
        }
    }
}
