//! `pthread_spinlock_t`: one word, in glibc's encoding. There is no room to mark an object, so process-shared
//! spinlocks are replaced as well; they stay compatible with a process that runs without this library. For the same
//! reason the instructions are atomic even while the process has one thread.

use crate::counters::count;
use crate::functions::ACTIVE;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};
use lockswap_locks::TryLock;
use lockswap_platform::Native;
use lockswap_records::counters::{Counter, Why};

/// The lock `L` in the place of a spinlock.
struct InPlace<L>(PhantomData<L>);

impl<L: TryLock<Native, Ctx = ()>> InPlace<L> {
    /// # Safety
    /// `spin` is the program's.
    unsafe fn of<'a>(spin: *mut c_int) -> &'a L {
        const { assert!(size_of::<L>() == size_of::<c_int>() && align_of::<L>() == align_of::<c_int>()) };
        // SAFETY: as for this call.
        unsafe { &*spin.cast() }
    }

    unsafe extern "C-unwind" fn init(spin: *mut c_int, _pshared: c_int) -> c_int {
        // SAFETY: the program's memory.
        unsafe { spin.cast::<L>().write(L::new()) };
        count(Counter::Spin);
        0
    }

    unsafe extern "C-unwind" fn destroy(_spin: *mut c_int) -> c_int {
        0
    }

    unsafe extern "C-unwind" fn lock(spin: *mut c_int) -> c_int {
        // SAFETY: the program's spinlock.
        unsafe { Self::of(spin).lock(&()) };
        0
    }

    unsafe extern "C-unwind" fn trylock(spin: *mut c_int) -> c_int {
        // SAFETY: the program's spinlock.
        if unsafe { Self::of(spin).try_lock(&()) } {
            0
        } else {
            libc::EBUSY
        }
    }

    unsafe extern "C-unwind" fn unlock(spin: *mut c_int) -> c_int {
        // SAFETY: the program's spinlock.
        unsafe { Self::of(spin).unlock(&()) };
        0
    }
}

/// Who answers a call on a spinlock.
///
/// # Safety
/// None: all are treated alike.
pub unsafe fn who_answers(_: *mut c_int) -> Why {
    if ARE_REPLACED.load(Ordering::Relaxed) {
        Why::Ours
    } else {
        Why::Chosen
    }
}

/// Whether spinlocks run on the chosen lock. Relaxed: set while the process has one thread.
static ARE_REPLACED: AtomicBool = AtomicBool::new(false);

/// Makes spinlocks run on the lock `L`.
pub fn install<L: TryLock<Native, Ctx = ()>>() {
    ARE_REPLACED.store(true, Ordering::Relaxed);
    ACTIVE.pthread_spin_init.set(InPlace::<L>::init);
    ACTIVE.pthread_spin_destroy.set(InPlace::<L>::destroy);
    ACTIVE.pthread_spin_lock.set(InPlace::<L>::lock);
    ACTIVE.pthread_spin_trylock.set(InPlace::<L>::trylock);
    ACTIVE.pthread_spin_unlock.set(InPlace::<L>::unlock);
}
