//! A described machine that resembles the one that this runs on: its [shape](Shape) as a machine file can say it, what
//! single steps cost on it as a [`Probe`] measures, and the file that holds both.

mod probe;
mod shape;
mod text;

pub use probe::{line_now, Found, Probe};
pub use shape::Shape;
pub use text::Facts;
