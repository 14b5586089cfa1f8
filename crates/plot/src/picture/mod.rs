//! Pictures as files: SVG and PNG of the same drawing.

mod canvas;
mod chart;
mod heat_map;
mod names;
mod page;
mod rows;

pub use chart::chart;
pub use heat_map::heat_map;
pub use rows::rows;
