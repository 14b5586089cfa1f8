//! What to do about the locks of a program: `lockswap advise` without the program that is run.
//!
//! - [`suspect`] finds the locks that matter in the report of a trace, [`cause`] what holds a program up that no lock
//!   changes.
//! - [`candidate`] says which locks are worth trying for one, [`simulated`] asks the simulator in which order.
//! - [`choice`] and [`profile`] are a lock for each mutex; [`budget`] says how many runs fit into the time there is.
//! - [`trial`] makes the experiments, with the plans and the statistics of `lockswap compare`.
//! - [`answer`] is the answer in sentences, [`advice`] all that was found.

#![forbid(unsafe_code)]

pub mod advice;
pub mod answer;
pub mod budget;
pub mod candidate;
pub mod cause;
mod cause_words;
pub mod choice;
pub mod profile;
pub mod simulated;
pub mod suspect;
pub mod trial;

#[cfg(test)]
mod tests;
