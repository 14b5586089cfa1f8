//! `auto`, the default for mutexes, and its parts: `looks`, how waiters look at the lock, `batches`, whether they let
//! others go first, `queue`, who comes next, `seat`, whether the one that competes has a CPU, `route`, the lock's way
//! from CPU to CPU, `sleepers`, who has been set aside, `waits`, how often threads wait for conditions, `release`, what a
//! holder does that cannot just store, and `bounds`, what limits all of that.

mod batches;
pub mod bounds;
pub mod lock;
mod looks;
mod queue;
mod release;
mod route;
mod seat;
mod sleepers;
mod waits;
