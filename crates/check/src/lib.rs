//! Proof of the locks: the same source as on hardware, on machines that go through all executions.

pub mod explore;
pub mod mutation;
pub mod runner;
pub mod subjects;
pub mod weak;
