//! What the end-to-end tests share: the built command, the compiled drivers, Debian packages, bounded runs of programs,
//! and the loop over all locks.

mod build;
mod locks;
mod memcache;
mod packages;
mod process;
mod skip;

pub use build::{driver, driver_cpp, lockswap, program, scratch_dir};
pub use locks::{compare, each_lock, ids, variants, Program, Variant, Which};
pub use memcache::{free_port, load_memcached};
pub use packages::{file, library, need};
pub use process::{run_with_timeout, start, stop, Outcome};
pub use skip::{say, skip};
