//! Thread cancellation: glibc's cleanup handlers, and threads that may be cancelled at any instruction.

use crate::functions::{ACTIVE, REAL};
use crate::{generation, pool};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

const PTHREAD_CANCEL_DEFERRED: c_int = 0;
const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

/// glibc's `struct _pthread_cleanup_buffer`.
#[repr(C)]
pub struct CleanupBuffer {
    routine: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut CleanupBuffer,
}

extern "C-unwind" {
    fn _pthread_cleanup_push(
        buffer: *mut CleanupBuffer,
        routine: extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut CleanupBuffer, execute: c_int);
    fn pthread_testcancel();
}

/// Memory for a cleanup handler; it must stay in place between [`push`] and [`pop`].
pub type Cleanup = MaybeUninit<CleanupBuffer>;

/// Makes glibc call `routine(argument)` if this thread is cancelled before [`pop`].
///
/// # Safety
/// `buffer` and what `argument` points at stay in place in the caller's frame until [`pop`].
pub unsafe extern "C-unwind" fn push(
    buffer: &mut Cleanup,
    routine: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
) {
    // SAFETY: as for this call.
    unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), routine, argument) }
}

/// Removes the handler.
///
/// # Safety
/// `buffer` is the one pushed last.
pub unsafe extern "C-unwind" fn pop(buffer: &mut Cleanup) {
    // SAFETY: as for this call.
    unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) }
}

/// Ends the thread here if it has been cancelled.
pub extern "C-unwind" fn test() {
    // SAFETY: no frame of this library holds anything.
    unsafe { pthread_testcancel() }
}

/// Whether any thread ever asked to be cancelled asynchronously. Such a thread must not wait in a queue: it may vanish
/// from there.
static ASYNCHRONOUS_SEEN: AtomicBool = AtomicBool::new(false);

/// `pthread_setcanceltype`
///
/// # Safety
/// As for glibc's.
unsafe extern "C-unwind" fn setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    if kind == PTHREAD_CANCEL_ASYNCHRONOUS {
        if !ASYNCHRONOUS_SEEN.swap(true, Ordering::Relaxed) {
            generation::disable_fast_path();
        }
        // The release of what the thread holds must not be cut short either.
        pool::forget_holding();
    }
    // SAFETY: as for this call.
    unsafe { REAL.pthread_setcanceltype.get()(kind, old) }
}

/// Lets the calling thread be cancelled at cancellation points only. Returns whether that is a change, for
/// [`undo_defer`].
pub extern "C-unwind" fn defer() -> bool {
    // Relaxed: a thread that has set its own type sees its own store.
    if !ASYNCHRONOUS_SEEN.load(Ordering::Relaxed) {
        return false;
    }
    let mut kind = PTHREAD_CANCEL_DEFERRED;
    // SAFETY: a valid type and a place for the old one.
    unsafe { REAL.pthread_setcanceltype.get()(PTHREAD_CANCEL_DEFERRED, &mut kind) };
    kind == PTHREAD_CANCEL_ASYNCHRONOUS
}

/// Undoes what [`defer`] changed; the thread ends here if it has been cancelled since.
pub extern "C-unwind" fn undo_defer(changed: bool) {
    if changed {
        let mut ignored = 0;
        // SAFETY: as in `defer`.
        unsafe { REAL.pthread_setcanceltype.get()(PTHREAD_CANCEL_ASYNCHRONOUS, &mut ignored) };
    }
}

/// Notices threads that ask to be cancelled at any instruction.
pub fn install() {
    ACTIVE.pthread_setcanceltype.set(setcanceltype);
}
