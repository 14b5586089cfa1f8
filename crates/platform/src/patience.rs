//! How a wait without end goes on, on hardware and on the simulated machine: it spins, then yields, then naps.
//!
//! A yield lets the thread run that this one waits for, if there are more threads than CPUs. Without the naps a waiter
//! of real-time priority would keep a holder of lower priority off the CPU for ever. They must be rare: a queue hands
//! the lock to a waiter that naps, all others wait for it, and come to nap as well. So they begin later than any
//! queue's turn. But a yield of a real-time thread lets only threads of its own priority run, so that one naps soon.
//!
//! On hardware, where thousands of threads may wait, only 32 for each CPU yield, the others nap at once, and naps
//! become longer the more threads nap (`native/crowd.rs`).

use crate::Ns;

/// Pause instructions before a waiter yields: about 20 us on the machines this was tuned on, an order of magnitude
/// more than a hand-off between CPUs and two orders less than a scheduler slice.
pub const SPIN_ROUNDS: u32 = 1_000;
/// Yielding before it naps, ns: longer than a thousand waiters take for 50 us each.
pub const NAP_AFTER: Ns = 50_000_000;
/// The same for a real-time thread: a holder of lower priority on its CPU cannot release the lock before that. Two
/// threads that wake each other 400 times (`lockswap run --lock mcs_spin -- driver realtime_fifo_cond`) took 10.5 s
/// with the time above, and take 0.23 s with this one.
pub const NAP_AFTER_IN_REAL_TIME: Ns = 1_000_000;
/// The first nap, ns; each further one is twice as long.
pub const SHORTEST_NAP: Ns = 20_000;
/// The longest nap, ns: bounds the CPU time of a waiter whose holder sleeps, and the delay of its hand-off.
pub const LONGEST_NAP: Ns = 500_000;
