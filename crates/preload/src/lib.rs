//! liblockswap.so: the pthread lock functions on a lock of the user's choice, for unmodified programs.
//!
//! - [`functions`] lists every function that is replaced, and sends each call through a table;
//! - [`boot`] fills the table: from the [`environment`], before any other constructor runs, unless there is a reason
//!   to stand [`aside`]; [`layout`] tries out where glibc keeps what we read in its objects;
//! - [`mutex`], [`cond`], [`rwlock`], [`spin`] and [`c11`] are the functions;
//! - [`epoch`] keeps the epochs of LibASL, which a program marks itself;
//! - [`generation`] marks objects as seen, and repairs them in the child of a fork;
//! - [`machine`] finds out which CPUs are near each other and which are big, for locks that ask;
//! - [`outside`] keeps the locks that are too large for a pthread object;
//! - [`profile`] gives each mutex a lock, where a user asks for that;
//! - [`pool`] provides queue nodes, [`tls`] the few words that each thread has, [`threads`] sees threads begin and
//!   end;
//! - [`trace`] notes waits and holds while the program is traced;
//! - [`memory`] and [`message`] do what an allocator and `std` would.
//!
//! The library uses no `std`, no allocator and no lock of glibc's, since all of those call what it replaces.
#![no_std]

mod aside;
mod boot;
mod c11;
mod calls;
mod cancel;
mod cond;
mod counters;
mod deadline;
mod environment;
mod epoch;
mod exec;
mod functions;
mod generation;
mod layout;
mod machine;
mod memory;
mod message;
mod mutex;
mod outside;
mod pool;
mod profile;
mod rare_lock;
mod realtime;
mod route;
mod rwlock;
mod sandbox;
mod spin;
mod stored;
mod threads;
mod tls;
mod trace;
mod versions;

#[cfg(panic = "unwind")]
compile_error!("without `std` nothing can unwind: build this library with `--profile preload`");

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    message::die(format_args!("internal error, please report: {info}"))
}

/// Stack frames of this library clean up nothing, so whoever unwinds through one (a cancelled thread) goes on.
#[no_mangle]
extern "C" fn rust_eh_personality() -> libc::c_int {
    const URC_CONTINUE_UNWIND: libc::c_int = 8;
    URC_CONTINUE_UNWIND
}
