//! Load control: waiters that only add traffic are set aside.

pub mod gcr;
pub mod malthusian;
pub mod mcs_timepub;
