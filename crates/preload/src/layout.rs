//! Where glibc keeps what we read in its objects. It is not documented and has changed before (2.41 moved the bit of a
//! process-shared condition variable), so it is tried out at start: glibc makes an object of each sort, and the bits
//! must be where we look. Objects of a role whose bits are elsewhere are left to glibc, all of them.

use crate::functions::REAL;
use crate::{cond, mutex, rwlock};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use libc::{pthread_mutexattr_t, pthread_rwlockattr_t};

/// The roles whose objects are as we know them.
#[derive(Clone, Copy)]
pub struct Known {
    /// `pthread_mutex_t`
    pub mutex: bool,
    /// `pthread_cond_t`
    pub cond: bool,
    /// `pthread_rwlock_t`
    pub rwlock: bool,
}

extern "C" {
    fn pthread_mutexattr_setprotocol(attr: *mut pthread_mutexattr_t, protocol: c_int) -> c_int;
    fn pthread_mutexattr_setrobust(attr: *mut pthread_mutexattr_t, robust: c_int) -> c_int;
    fn pthread_rwlockattr_setkind_np(attr: *mut pthread_rwlockattr_t, kind: c_int) -> c_int;
}

/// glibc's values.
const PTHREAD_MUTEX_ADAPTIVE_NP: c_int = 3;
const PTHREAD_MUTEX_ROBUST: c_int = 1;
const PTHREAD_PRIO_INHERIT: c_int = 1;
const PTHREAD_PRIO_PROTECT: c_int = 2;
const PREFER_WRITER_NONRECURSIVE: c_int = 2;

/// Tries it out.
pub fn probe() -> Known {
    Known { mutex: knows_mutex(), cond: knows_cond(), rwlock: knows_rwlock() }
}

/// An object that glibc has made with an attribute that `set` has changed; nothing if either was refused.
macro_rules! made {
    ($init:ident, $attr_init:ident, $attr_destroy:ident, |$attr:ident| $set:expr) => {{
        // SAFETY: an attribute and an object of our own, used as POSIX has it; they need no destruction.
        unsafe {
            let mut attr = MaybeUninit::zeroed();
            let mut object = MaybeUninit::zeroed();
            let $attr = attr.as_mut_ptr();
            libc::$attr_init($attr);
            let done = $set == 0 && REAL.$init.get()(object.as_mut_ptr(), $attr) == 0;
            libc::$attr_destroy($attr);
            done.then(|| object.assume_init())
        }
    }};
}

fn knows_mutex() -> bool {
    type Set = unsafe extern "C" fn(*mut pthread_mutexattr_t, c_int) -> c_int;
    let kinds: [(u32, Set, c_int); 8] = [
        (mutex::NORMAL, libc::pthread_mutexattr_settype, libc::PTHREAD_MUTEX_NORMAL),
        (mutex::RECURSIVE, libc::pthread_mutexattr_settype, libc::PTHREAD_MUTEX_RECURSIVE),
        (mutex::ERRORCHECK, libc::pthread_mutexattr_settype, libc::PTHREAD_MUTEX_ERRORCHECK),
        (mutex::ADAPTIVE, libc::pthread_mutexattr_settype, PTHREAD_MUTEX_ADAPTIVE_NP),
        (mutex::ROBUST, pthread_mutexattr_setrobust, PTHREAD_MUTEX_ROBUST),
        (mutex::PRIORITY_INHERIT, pthread_mutexattr_setprotocol, PTHREAD_PRIO_INHERIT),
        (mutex::PRIORITY_PROTECT, pthread_mutexattr_setprotocol, PTHREAD_PRIO_PROTECT),
        (mutex::PROCESS_SHARED, libc::pthread_mutexattr_setpshared, libc::PTHREAD_PROCESS_SHARED),
    ];
    kinds.iter().all(|(kind, set, value)| {
        let made =
            made!(pthread_mutex_init, pthread_mutexattr_init, pthread_mutexattr_destroy, |attr| set(attr, *value));
        made.is_some_and(|object| mutex::looks_like(&object, *kind))
    }) && users_are_known()
}

/// Whether glibc counts a mutex's users where a condition wait adjusts the number (see [`mutex`]).
fn users_are_known() -> bool {
    let mut object = libc::PTHREAD_MUTEX_INITIALIZER;
    // SAFETY: a mutex of our own.
    unsafe {
        let users = mutex::glibcs_users(&mut object);
        let before = users.get();
        REAL.pthread_mutex_lock.get()(&mut object);
        let held = users.get();
        REAL.pthread_mutex_unlock.get()(&mut object);
        (before, held, users.get()) == (0, 1, 0)
    }
}

/// Whether glibc's functions on a mutex do not look at the bit of ours in its kind (see [`mutex`]).
pub fn may_be_kept() -> bool {
    let mut object = libc::PTHREAD_MUTEX_INITIALIZER;
    // SAFETY: a mutex of our own.
    unsafe {
        mutex::keep(&mut object);
        let mutex = &raw mut object;
        let calls = [&REAL.pthread_mutex_lock, &REAL.pthread_mutex_unlock, &REAL.pthread_mutex_trylock];
        calls.iter().all(|call| call.get()(mutex) == 0)
            && REAL.pthread_mutex_trylock.get()(mutex) == libc::EBUSY
            && REAL.pthread_mutex_unlock.get()(mutex) == 0
            && REAL.pthread_mutex_destroy.get()(mutex) == 0
    }
}

fn knows_cond() -> bool {
    let made = |shared: c_int| {
        made!(pthread_cond_init, pthread_condattr_init, pthread_condattr_destroy, |attr| {
            libc::pthread_condattr_setpshared(attr, shared)
        })
    };
    let objects = made(libc::PTHREAD_PROCESS_PRIVATE).zip(made(libc::PTHREAD_PROCESS_SHARED));
    objects.is_some_and(|(private, shared)| cond::learn_layout(&private, &shared))
}

fn knows_rwlock() -> bool {
    [(false, 0), (false, PREFER_WRITER_NONRECURSIVE), (true, 0)].iter().all(|(shared, kind)| {
        let made = made!(pthread_rwlock_init, pthread_rwlockattr_init, pthread_rwlockattr_destroy, |attr| {
            match libc::pthread_rwlockattr_setpshared(attr, *shared as c_int) {
                0 => pthread_rwlockattr_setkind_np(attr, *kind),
                error => error,
            }
        });
        made.is_some_and(|object| rwlock::looks_like(&object, *shared, *kind))
    })
}
