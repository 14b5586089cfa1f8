//! `auto`, the default for mutexes, and its parts: `queue`, who comes next, and `sleepers`, who has been set
//! aside.

pub mod lock;
mod queue;
mod seat;
mod sleepers;
