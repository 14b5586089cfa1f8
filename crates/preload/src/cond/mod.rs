//! `pthread_cond_t` of our own: a list of waiters, each with its own semaphore on its stack.
//!
//!   bytes  0..8   a lock for the list
//!          8..16  first waiter
//!         16..24  last waiter
//!         24..28  the generation (see `crate::generation`)
//!         28..32  0   (glibc 2.41 and later: bit 0 of this word says process-shared)
//!         32..36  the clock of timed waits
//!         36..40  0   (glibc before 2.41: bit 0 of this word says process-shared)

mod list;
mod wait;
mod waiter;

use crate::counters::count;
use crate::functions::{ACTIVE, REAL};
use crate::{deadline, generation};
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use libc::{clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};
use lockswap_locks::flat::futex::Futex;
use lockswap_platform::{Native, Platform};
use lockswap_records::counters::{Counter, Why};
use wait::wait_any;
use waiter::{Until, Waiter, BROADCAST, NEVER, SIGNALLED};

#[repr(C)]
struct Cond {
    list_lock: Futex<Native>,
    first: AtomicPtr<Waiter>,
    last: Cell<*mut Waiter>,
    mark: AtomicU32,
    shared_since_2_41: AtomicU32,
    clock: Cell<clockid_t>,
    shared_before_2_41: AtomicU32,
}

const _: () = assert!(size_of::<Cond>() <= size_of::<pthread_cond_t>());
const _: () = assert!(core::mem::offset_of!(Cond, shared_since_2_41) == 28);
const _: () = assert!(core::mem::offset_of!(Cond, shared_before_2_41) == 36);

/// In glibc's word with the process-shared bit: timed waits use the monotonic clock.
const GLIBC_MONOTONIC: u32 = 2;

impl Cond {
    /// # Safety
    /// `cond` points at a condition variable.
    unsafe fn of<'a>(cond: *mut pthread_cond_t) -> &'a Cond {
        // SAFETY: as for this call; the cells are accessed under the list's lock.
        unsafe { &*cond.cast() }
    }

    /// glibc's flags if the condition variable is process-shared, and therefore glibc's.
    #[inline(always)]
    fn glibc_flags(&self) -> Option<u32> {
        // Relaxed, both: set by glibc when the object was made, and by us while the process has one thread.
        let is_new = HAS_NEW_LAYOUT.load(Ordering::Relaxed);
        let word = if is_new { &self.shared_since_2_41 } else { &self.shared_before_2_41 }.load(Ordering::Relaxed);
        (word & 1 != 0).then_some(word)
    }

    /// Whether the condition variable is ours; if so, it is of the current generation when this returns.
    #[inline(always)]
    fn adopt(&self) -> bool {
        if self.glibc_flags().is_some() {
            return false;
        }
        // ORDER(adopt): Acquire pairs with the Release in `replace_mark`.
        if self.mark.load(Ordering::Acquire) != generation::mark() {
            generation::adopt(self);
        }
        true
    }
}

/// Who answers a call on the condition variable.
///
/// # Safety
/// `cond` is the program's.
pub unsafe fn who_answers(cond: *mut pthread_cond_t) -> Why {
    // SAFETY: as for this call.
    if unsafe { Cond::of(cond) }.glibc_flags().is_some() {
        Why::Pshared
    } else if ARE_REPLACED.load(Ordering::Relaxed) {
        Why::Ours
    } else {
        Why::Chosen
    }
}

/// Whether condition variables are ours. Relaxed: set while the process has one thread.
static ARE_REPLACED: AtomicBool = AtomicBool::new(false);

/// Whether glibc keeps its flags where it does since 2.41; what was there before became a part of a counter. Set at
/// start.
static HAS_NEW_LAYOUT: AtomicBool = AtomicBool::new(false);

/// Learns from two objects that glibc has made where it marks those that are process-shared; whether that is known.
pub fn learn_layout(private: &pthread_cond_t, shared: &pthread_cond_t) -> bool {
    // SAFETY: initialised condition variables.
    let [private, shared] = [private, shared].map(|object| unsafe { Cond::of(core::ptr::from_ref(object).cast_mut()) });
    [false, true].into_iter().any(|is_new| {
        HAS_NEW_LAYOUT.store(is_new, Ordering::Relaxed);
        private.glibc_flags().is_none() && shared.glibc_flags().is_some()
    })
}

impl generation::Object for Cond {
    fn mark(&self) -> u32 {
        // ORDER(adopt): as in `adopt`.
        self.mark.load(Ordering::Acquire)
    }

    fn replace_mark(&self, old: u32, new: u32) -> bool {
        // ORDER(adopt): Release pairs with the Acquire of everybody's first look.
        self.mark.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn count(&self) {
        count(Counter::Cond);
    }

    fn is_held(&self) -> bool {
        false
    }

    unsafe fn forget_waiters(&self, _held: bool) {
        // SAFETY: as for this call; the waiters, if any, are in another process.
        unsafe { (&raw const self.list_lock).cast_mut().write_bytes(0, 1) };
        self.first.store(null_mut(), Ordering::Relaxed);
        self.last.set(null_mut());
    }
}

extern "C-unwind" {
    fn pthread_condattr_getpshared(attr: *const pthread_condattr_t, pshared: *mut c_int) -> c_int;
    fn pthread_condattr_getclock(attr: *const pthread_condattr_t, clock: *mut clockid_t) -> c_int;
}

unsafe extern "C-unwind" fn wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { wait_any(cond, mutex, NEVER) }
}

unsafe extern "C-unwind" fn clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        if let Err(error) = deadline::clock(clock).and_then(|clock| deadline::deadline(clock, abstime)) {
            return error;
        }
        wait_any(cond, mutex, Until { clock, abstime })
    }
}

unsafe extern "C-unwind" fn timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        let ours = Cond::of(cond);
        let clock = match ours.glibc_flags() {
            Some(flags) if flags & GLIBC_MONOTONIC != 0 => libc::CLOCK_MONOTONIC,
            Some(_) => libc::CLOCK_REALTIME,
            None => ours.clock.get(),
        };
        clockwait(cond, mutex, clock, abstime)
    }
}

unsafe extern "C-unwind" fn signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's condition variable.
    unsafe {
        let ours = Cond::of(cond);
        if !ours.adopt() {
            return REAL.pthread_cond_signal.get()(cond);
        }
        ours.wake(SIGNALLED);
        0
    }
}

unsafe extern "C-unwind" fn broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's condition variable.
    unsafe {
        let ours = Cond::of(cond);
        if !ours.adopt() {
            return REAL.pthread_cond_broadcast.get()(cond);
        }
        ours.wake(BROADCAST);
        0
    }
}

unsafe extern "C-unwind" fn init(cond: *mut pthread_cond_t, attr: *const pthread_condattr_t) -> c_int {
    // SAFETY: the program's memory and attribute.
    unsafe {
        let result = REAL.pthread_cond_init.get()(cond, attr);
        if result != 0 {
            return result;
        }
        let (mut pshared, mut clock) = (libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_REALTIME);
        if !attr.is_null() {
            pthread_condattr_getpshared(attr, &mut pshared);
            pthread_condattr_getclock(attr, &mut clock);
        }
        if pshared != libc::PTHREAD_PROCESS_PRIVATE {
            count(Counter::Pshared);
            return 0;
        }
        cond.cast::<u8>().write_bytes(0, size_of::<pthread_cond_t>());
        let ours = Cond::of(cond);
        ours.clock.set(clock);
        // Relaxed: nobody else may use the condition variable before this returns.
        ours.mark.store(generation::mark(), Ordering::Relaxed);
        count(Counter::Cond);
        0
    }
}

/// Waits, as glibc does, until no waiter looks at the condition variable any more: those that time out right now.
unsafe extern "C-unwind" fn destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's condition variable.
    unsafe {
        let ours = Cond::of(cond);
        if !ours.adopt() {
            return REAL.pthread_cond_destroy.get()(cond);
        }
        Native::spin_map(|| ours.with_list(|| ours.first().is_null()).then_some(()));
        0
    }
}

/// Makes condition variables ours.
pub fn install() {
    ARE_REPLACED.store(true, Ordering::Relaxed);
    ACTIVE.pthread_cond_init.set(init);
    ACTIVE.pthread_cond_destroy.set(destroy);
    ACTIVE.pthread_cond_wait.set(wait);
    ACTIVE.pthread_cond_timedwait.set(timedwait);
    ACTIVE.pthread_cond_clockwait.set(clockwait);
    ACTIVE.pthread_cond_signal.set(signal);
    ACTIVE.pthread_cond_broadcast.set(broadcast);
}
