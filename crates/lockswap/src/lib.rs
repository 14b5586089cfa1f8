//! What a program can tell lockswap: its epochs, and which lock each of its mutexes is to have ([`choose_lock`]).
//!
//! Epochs are stretches of code, a request for instance, that should take no longer than a target.
//!
//! Under `lockswap run --lock asl`, threads on big cores may overtake those on little cores at the program's locks as
//! far as the targets allow (LibASL, PPoPP 2022). Without lockswap the marks do nothing, and cost a nanosecond. Signal
//! handlers may mark epochs.
//!
//! ```
//! use std::time::Duration;
//!
//! fn handle_request() {
//!     let _epoch = lockswap::epoch(5, Duration::from_micros(50));
//!     // locks are taken and released here; the epoch ends with the scope
//! }
//! # handle_request();
//! ```

use std::ffi::{c_char, c_int, CStr};
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

type Start = unsafe extern "C" fn(c_int);
type End = unsafe extern "C" fn(c_int, u64);
type Choose = unsafe extern "C" fn(*mut libc::pthread_mutex_t, *const c_char) -> c_int;
type Percentile = unsafe extern "C" fn(c_int, f64);

/// A function of the preload library: null without the library, and before [`LOOK_UP`] has run.
struct Function {
    name: &'static CStr,
    address: AtomicPtr<()>,
}

impl Function {
    const fn new(name: &'static CStr) -> Self {
        Function { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline(always)]
    fn get(&self) -> Option<*mut ()> {
        // Relaxed: code, which is there as long as the program; written before other code of this object runs.
        let address = self.address.load(Ordering::Relaxed);
        (!address.is_null()).then_some(address)
    }
}

static START: Function = Function::new(c"lockswap_epoch_start");
static END: Function = Function::new(c"lockswap_epoch_end");
static CHOOSE: Function = Function::new(c"lockswap_mutex_choose");
static PERCENTILE: Function = Function::new(c"lockswap_epoch_percentile");

/// Looks the functions up before other code of the program or shared object that this is linked into runs, and never
/// later: `dlsym` allocates memory to describe what it has not found, which a mark in a signal handler must not do.
#[cfg(target_os = "linux")]
#[used]
#[link_section = ".init_array.00101"]
static LOOK_UP: extern "C" fn() = {
    extern "C" fn look_up() {
        for function in [&START, &END, &CHOOSE, &PERCENTILE] {
            // SAFETY: a C string.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, function.name.as_ptr()) };
            if found.is_null() {
                // SAFETY: removes the message of the failed look-up, which the program would take for its own.
                unsafe { libc::dlerror() };
            }
            function.address.store(found.cast(), Ordering::Relaxed);
        }
    }
    look_up
};

/// An epoch that the calling thread is in; it ends when this is dropped.
#[must_use = "the epoch ends when this is dropped"]
#[derive(Debug)]
pub struct Epoch {
    id: c_int,
    slo_ns: u64,
    /// The library keeps epochs for each thread, so this must not go to another one.
    of_this_thread: PhantomData<*mut ()>,
}

/// Begins an epoch. `id` is the program's name for this sort of epoch; it should not take longer than `slo` at the
/// 99th percentile. Epochs may be nested; the innermost one counts.
#[inline]
pub fn epoch(id: c_int, slo: Duration) -> Epoch {
    if let Some(start) = START.get() {
        // SAFETY: the preload library's function of this name has this type, and may be called anywhere.
        unsafe { mem::transmute::<*mut (), Start>(start)(id) };
    }
    let slo_ns = slo.as_nanos().try_into().unwrap_or(u64::MAX);
    Epoch { id, slo_ns, of_this_thread: PhantomData }
}

impl Drop for Epoch {
    #[inline]
    fn drop(&mut self) {
        if let Some(end) = END.get() {
            // SAFETY: as in `epoch`.
            unsafe { mem::transmute::<*mut (), End>(end)(self.id, self.slo_ns) };
        }
    }
}

/// Sets the percentile that the SLO of the epochs `id` is meant for, in all threads: from 50 to 99.9999; 99 by
/// default.
pub fn set_percentile(id: c_int, percentile: f64) {
    if let Some(set) = PERCENTILE.get() {
        // SAFETY: as in `epoch`.
        unsafe { mem::transmute::<*mut (), Percentile>(set)(id, percentile) };
    }
}

/// Gives a mutex this lock, written as for `lockswap run --lock`, where the program was started with a profile that
/// names it (`lockswap run --profile`, docs/profile.md).
///
/// # Errors
/// `EINVAL` if there is no such lock, if the profile does not name it, or if the mutex is robust, shared, or knows
/// priorities; `EBUSY` if it is held; `ENOSYS` without lockswap. Nothing has changed then.
///
/// # Safety
/// `mutex` points at an initialised mutex, which no other thread uses meanwhile.
pub unsafe fn choose_lock(mutex: *mut libc::pthread_mutex_t, lock: &CStr) -> io::Result<()> {
    let result = match CHOOSE.get() {
        // SAFETY: the preload library's function of this name has this type; the mutex is as the caller says.
        Some(choose) => unsafe { mem::transmute::<*mut (), Choose>(choose)(mutex, lock.as_ptr()) },
        None => libc::ENOSYS,
    };
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether the preload library is there, so that epochs mean something.
pub fn is_preloaded() -> bool {
    START.get().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_nothing_happens() {
        let outer = epoch(1, Duration::MAX);
        {
            let _inner = epoch(-1, Duration::ZERO);
        }
        drop(outer);
        set_percentile(1, f64::NAN);
        assert!(!is_preloaded());
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        // SAFETY: a mutex of this function.
        let chosen = unsafe { choose_lock(&mut mutex, c"cna") };
        assert_eq!(chosen.unwrap_err().raw_os_error(), Some(libc::ENOSYS));
    }
}
