//! Functions that a symbol can lead to directly, without the table of active functions.
//!
//! A program calls `pthread_mutex_lock` through a pointer that the dynamic linker has set, and that function jumps to
//! the active one through a pointer of the table: a second jump, which takes nearly a tenth of the time of an
//! uncontended lock and unlock. Whoever writes this library to a file and knows which lock the program will run on can
//! save it: where the file says at which address `pthread_mutex_lock` lies, it writes that of the lock's own function.
//! [`DIRECT`] tells where those are.
//!
//! Such a function is also called when something else is active: before the library has read its environment, while
//! the program has one thread, where it is traced or its calls are counted, or where it runs on another lock after
//! all. So it first looks whether the table holds what it stands for itself, and else jumps through the table.

use super::pthread;
use core::ffi::c_int;
use libc::pthread_mutex_t;
use lockswap_locks::for_each_lock;
use lockswap_platform::{Native, Single};

/// One of the functions.
pub type Function = unsafe extern "C-unwind" fn(*mut pthread_mutex_t) -> c_int;

/// The functions of a lock. Read from the file by `crates/cli/build/direct.rs`, which knows this layout.
#[repr(C)]
pub struct Direct {
    /// The id of the lock, filled up with zero bytes.
    id: [u8; 32],
    /// `pthread_mutex_lock`, `pthread_mutex_trylock`, `pthread_mutex_unlock`
    functions: [Function; 3],
}

impl Direct {
    const fn new(id: &str, functions: [Function; 3]) -> Self {
        let mut bytes = [0; 32];
        let (start, _) = bytes.split_at_mut(id.len());
        start.copy_from_slice(id.as_bytes());
        Self { id: bytes, functions }
    }
}

macro_rules! table {
    (
        mutex { $($id:literal => $lock:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        /// Those of each lock for mutexes.
        #[export_name = "lockswap_direct"]
        pub static DIRECT: [Direct; [$($id),*].len()] = [$({
            use $lock as Lock;
            Direct::new($id, pthread::direct::<Lock<Native>, Lock<Single>>())
        },)*];
    };
}

for_each_lock!(table);
