//! Queue locks: every waiter watches a word of its own.

pub mod barging;
pub mod clh;
pub mod hapax;
pub mod hemlock;
pub mod k42;
pub mod mcs;
pub mod reciprocating;
