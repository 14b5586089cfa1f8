//! How a picture is drawn, whatever it shows.

use crate::Format;

/// The narrowest picture in units; narrower ones are drawn as wide as this.
pub const LEAST_WIDTH: f64 = 320.0;
/// The widest picture in units; wider ones are drawn as wide as this.
pub const MOST_WIDTH: f64 = 4000.0;

/// How a picture is drawn: the kind of its file, its width and its colours.
///
/// Widths are in units: an SVG viewer shows one as one pixel, and a PNG has two pixels for each. Text keeps its size
/// whatever the width is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub(crate) format: Format,
    pub(crate) width: Option<f64>,
    pub(crate) theme: Theme,
}

/// The colours of paper and text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the reader's system wants it (SVG, by `prefers-color-scheme`); light in a PNG, which cannot ask.
    #[default]
    Auto,
    /// Dark text on white.
    Light,
    /// Bright text on near black.
    Dark,
}

impl Look {
    /// Draws as wide as the picture's kind is by default.
    pub fn new(format: Format) -> Self {
        Self { format, width: None, theme: Theme::Auto }
    }

    /// The same with this width, from 320 to 4000 units.
    pub fn width(self, units: f64) -> Self {
        Self { width: Some(units), ..self }
    }

    /// The same with these colours.
    pub fn theme(self, theme: Theme) -> Self {
        Self { theme, ..self }
    }

    pub(crate) fn width_or(&self, default: f64) -> f64 {
        let wanted = self.width.filter(|width| width.is_finite()).unwrap_or(default);
        wanted.clamp(LEAST_WIDTH, MOST_WIDTH).round()
    }
}

impl From<Format> for Look {
    fn from(format: Format) -> Self {
        Self::new(format)
    }
}
