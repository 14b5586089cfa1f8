//! `auto`, the default lock, and its parts: [`queue`], who comes next, and [`sleepers`], who has been set aside.

pub mod lock;
mod queue;
mod sleepers;
