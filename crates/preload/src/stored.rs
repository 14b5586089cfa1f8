//! What `lockswap topo --measure` has stored about this machine, read when a program starts.

use core::ffi::CStr;
use core::fmt;

use lockswap_platform::CpuList;
use lockswap_topology::files::beginning;
use lockswap_topology::stored::{self, Facts, Identity, HEAD_BYTES};
use syscalls::Errno;

use crate::environment::Environment;
use crate::memory;
use crate::message::{complain, Lossy};

const PATH_BYTES: usize = 512;

/// Gives the route and the facts to `found` and returns whether there are any. A file that is there but of no use is
/// ignored; if `verbose`, a line says so.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn with(
    environment: &Environment,
    machine: Identity,
    verbose: bool,
    found: impl FnOnce(CpuList<'_>, Facts<'_>),
) -> bool {
    // SAFETY: as for this call.
    let variable = |name| unsafe { environment.get(name) }.map(CStr::to_bytes);
    let mut path = [0; PATH_BYTES];
    let [file, cache, home] = ["LOCKSWAP_ROUTE_FILE", "XDG_CACHE_HOME", "HOME"].map(variable);
    let Some(path) = stored::path(&mut path, file, cache, home, machine) else { return false };
    let ignored = |why: fmt::Arguments<'_>| {
        if verbose {
            complain(format_args!("what is stored in {} is ignored: {why}", Lossy(path.to_bytes())));
        }
    };
    let read = |buffer: &mut [u8; HEAD_BYTES]| match beginning(path, buffer)
        .map(|head| (stored::route(head, machine), stored::facts(head)))
    {
        Ok((Ok(route), facts)) => {
            found(route, facts);
            true
        }
        Ok((Err(why), _)) => {
            ignored(format_args!("{why}"));
            false
        }
        // Nothing was measured here.
        Err(Errno::ENOENT | Errno::ENOTDIR) => false,
        Err(error) => {
            ignored(format_args!("it cannot be read (error {})", error.into_raw()));
            false
        }
    };
    // SAFETY: bytes.
    unsafe { memory::with_zeroed(read) }.unwrap_or(false)
}
