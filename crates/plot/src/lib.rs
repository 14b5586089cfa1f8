//! Charts and heat maps: for the terminal, as SVG and as PNG.
//!
//! - [`Chart`] is what a chart shows: named series of points, two axes, reference lines, shaded zones, marked points.
//! - [`Rows`] are values with names, one below the other: ratios to a baseline with their intervals, or bars.
//! - [`HeatMap`] is a square or a table of values, for instance the latency between each two CPUs.
//! - [`Format`] follows from a file's name, and a [`Look`] adds the width and the colours (for light or dark paper);
//!   `render` gives the bytes of the file, and whoever writes it does so atomically
//!   (`lockswap_study::export::OutputFile`).
//! - `terminal` draws the same in plain Unicode, as wide as it is told.
//!
//! Pictures look alike everywhere: the font is part of the program. Colours are told apart by colour-blind readers,
//! and series by the shapes of their points, too.
//!
//! ```
//! use lockswap_plot::{Axis, Chart, Format, Mark, Series};
//! let mut chart = Chart::new("Throughput", Axis::log("threads"), Axis::linear("M ops/s").from_zero());
//! chart.series.push(Series::new("mcs", [(1.0, 9.1), (2.0, 4.2), (4.0, 4.1)]));
//! chart.series.push(Series::new("ticket", [(1.0, 9.5), (2.0, 4.4), (4.0, 1.7)]).with_band([(2.0, 4.0, 4.9)]));
//! chart.marks.push(Mark::new(2.0, 4.4, "the knee"));
//! print!("{}", chart.terminal(80));
//! let svg: Vec<u8> = chart.render(Format::of("throughput.svg".as_ref()).unwrap());
//! assert!(svg.starts_with(b"<svg"));
//! ```

#![forbid(unsafe_code)]

mod chart;
mod format;
mod heat_map;
mod look;
mod picture;
mod rows;
mod scale;
mod terminal;

pub use chart::{cdf, exceedance, Axis, Chart, Mark, Reference, Series, Shape, Zone};
pub use format::{Format, UnknownFormat};
pub use heat_map::{Groups, HeatMap};
pub use look::{Look, Theme};
pub use rows::{Emphasis, Row, Rows};
