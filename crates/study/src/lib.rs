//! Runs a program on one lock after another and says what the difference is worth.
//!
//! - [`runner`] runs one program once: wall time, time-out, output; [`service`] a server under load; with a [`window`]
//!   only a part of the run counts.
//! - [`execute`] carries a [`plan`] out: runs interleaved on each of several locks; every raw sample is kept.
//! - [`model`] is what a comparison consists of; it is also the JSON that is exported.
//! - [`descriptive`] has medians, [`stats`] intervals of paired rounds, [`unpaired`] those of other samples, and
//!   [`summary`] verdicts; [`problems`] says which runs count. [`columns`], [`notes`] and [`numbers`] say it in words.
//! - [`export`] writes JSON, CSV and pages ([`page`]), atomically; [`draw`] makes pictures.
//! - [`survey`] keeps the runs of many programs in a database, and computes the tables of a study from them.
//! - [`slo`] runs a program with one latency target after another.
//! - [`calls`], [`latencies`] and [`run_summary`] read what the preload library counted in a run.
//! - [`machine`] describes the machine that the numbers belong to.

#![forbid(unsafe_code)]

pub mod calls;
pub mod columns;
pub mod counting;
pub mod descriptive;
pub mod draw;
pub mod execute;
pub mod export;
pub mod latencies;
pub mod machine;
pub mod mapped;
pub mod metric;
pub mod model;
pub mod notes;
pub mod numbers;
pub mod page;
pub mod plan;
pub mod problems;
pub mod run_summary;
pub mod runner;
pub mod service;
pub mod slo;
pub mod stats;
pub mod summary;
pub mod survey;
mod tail;
pub mod unpaired;
pub mod window;
