//! What the end-to-end tests share: the built command, the compiled drivers, Debian packages, bounded runs of
//! programs, and the loop over all locks.

mod build;
mod locks;
mod memcache;
mod packages;
mod process;
mod server;
mod skip;

pub use build::{cached, driver, driver_cpp, lockswap, or_skip, preload, program, program_with, scratch_dir};
pub use locks::{compare, compare_on, each_lock, ids, variants, Program, Variant, Which};
pub use memcache::{free_port, load_memcached};
pub use packages::{file, library, need};
pub use process::{run_with_timeout, start, stop, Outcome};
pub use server::Server;
pub use skip::{say, skip};
