//! Where latencies are recorded, if they are: in the file that `LOCKSWAP_LATENCIES` names.

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use lockswap_platform::CoreKind;
use lockswap_records::latency::{File, Record, Run, FILE_WORDS};

/// The file; null while none are recorded.
static FILE: AtomicPtr<[AtomicU64; FILE_WORDS]> = AtomicPtr::new(null_mut());

/// Records latencies in `file` from now on.
///
/// # Safety
/// `file` stays mapped and writable.
pub unsafe fn set_latencies(file: *mut [AtomicU64; FILE_WORDS]) {
    // Relaxed, here and below: set before a second thread exists.
    FILE.store(file, Ordering::Relaxed);
}

#[inline(always)]
fn file() -> Option<File<'static>> {
    // SAFETY: null, or as `set_latencies` says.
    unsafe { FILE.load(Ordering::Relaxed).as_ref() }.map(File::new)
}

/// Whether latencies are recorded.
#[inline(always)]
pub fn is_recording() -> bool {
    !FILE.load(Ordering::Relaxed).is_null()
}

/// One thread's records of an id, on big and on little cores; all zero before it has any.
#[derive(Clone, Default)]
pub struct Records([Cell<Option<Record<'static>>>; 2]);

impl Records {
    /// Counts a run, if runs are recorded.
    #[inline(always)]
    pub fn count(&self, id: c_int, kind: CoreKind, run: Run) {
        if let Some(file) = file() {
            match self.0[kind as usize].get() {
                Some(record) => record.count(run),
                None => self.count_first(file, id, kind, run),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn count_first(&self, file: File<'static>, id: c_int, kind: CoreKind, run: Run) {
        let record = file.claim(id, kind);
        self.0[kind as usize].set(record);
        match record {
            Some(record) => record.count(run),
            None => file.count_unrecorded(),
        }
    }

    /// Leaves the records to other threads.
    pub fn release(&self) {
        self.0.iter().filter_map(Cell::take).for_each(|record| record.release());
    }
}
