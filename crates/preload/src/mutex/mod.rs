//! `pthread_mutex_t` on a lock of ours.
//!
//!   bytes  0..16  the lock, or its address if it is too large (see `crate::outside`);
//!                 for a lock with a context also the last holder's; or, behind IN_PLACE, a small lock of ours
//!         16..20  the kind, where glibc keeps it          ) one load of this word,
//!         20..24  the generation (see `crate::generation`) ) compared with one value,
//!                 and in the upper 12 bits the number of   ) finds out whether the mutex
//!                 waiters outside the queue (`realtime`)   ) is an ordinary one
//!         24..32  the owner's identity, for kinds that know their owner
//!         32..36  levels of recursion beyond the first
//!         36..40  threads in a condition wait that will come back for the mutex
//!
//! All zero is an unlocked mutex of the default kind, as PTHREAD_MUTEX_INITIALIZER wants it. A mutex that is robust,
//! priority-inheriting, priority-protected or process-shared stays glibc's; so does a destroyed one, which glibc refuses.

mod adaptive;
mod ordinary;
mod special;
mod wait;

pub use adaptive::install as install_adaptive;
pub use ordinary::install;
pub use wait::{begin_wait, is_glibcs, let_holder_finish, reacquire_after_wait, release_for_wait, Held};

use crate::counters::count;
use crate::generation::Object;
use crate::memory::Page;
use crate::{cancel, generation, realtime, tls};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use libc::pthread_mutex_t;
use lockswap_locks::info::WaitingPolicy;
use lockswap_platform::{Deadline, Native, Platform};
use lockswap_records::counters::{Counter, Why};

#[repr(C)]
struct Mutex {
    body: UnsafeCell<[u64; 2]>,
    word: AtomicU64,
    owner: AtomicU64,
    depth: AtomicU32,
    users: AtomicU32,
}

const _: () = assert!(size_of::<Mutex>() <= size_of::<pthread_mutex_t>());

/// Kinds, as glibc numbers them.
pub const NORMAL: u32 = 0;
pub const RECURSIVE: u32 = 1;
pub const ERRORCHECK: u32 = 2;
pub const ADAPTIVE: u32 = 3;
const KIND: u32 = 3;
/// Flags in the kind that say something about lock elision, which is not done here.
const ELISION: u32 = 0x100 | NO_ELISION;
/// glibc's flag of a mutex whose kind was set by name.
const NO_ELISION: u32 = 0x200;
pub const ROBUST: u32 = 0x10;
pub const PRIORITY_INHERIT: u32 = 0x20;
pub const PRIORITY_PROTECT: u32 = 0x40;
pub const PROCESS_SHARED: u32 = 0x80;
/// The kind of a destroyed mutex; glibc's functions answer EINVAL to it.
const DESTROYED: u32 = u32::MAX;

/// Who answers a call on the mutex.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn who_answers(mutex: *mut pthread_mutex_t) -> Why {
    // SAFETY: as for this call.
    let kind = unsafe { Mutex::of(mutex) }.kind();
    match GLIBCS.iter().find(|(flag, ..)| kind & flag != 0 && kind != DESTROYED) {
        Some((_, _, why)) => *why,
        None if ARE_REPLACED.load(Ordering::Relaxed) => Why::Ours,
        None => Why::Chosen,
    }
}

/// Whether mutexes run on the chosen lock. Relaxed: set while the process has one thread.
static ARE_REPLACED: AtomicBool = AtomicBool::new(false);

/// What makes a mutex glibc's.
const GLIBCS: [(u32, Counter, Why); 4] = [
    (ROBUST, Counter::Robust, Why::Robust),
    (PRIORITY_INHERIT, Counter::Pi, Why::Pi),
    (PRIORITY_PROTECT, Counter::Protect, Why::Protect),
    (PROCESS_SHARED, Counter::Pshared, Why::Pshared),
];

/// Whether `object`, which glibc has made, has the kind that it was made with where we look.
pub fn looks_like(object: &pthread_mutex_t, kind: u32) -> bool {
    // SAFETY: an initialised mutex.
    let ours = unsafe { Mutex::of(core::ptr::from_ref(object).cast_mut()) };
    // glibc adds the flag of process-shared ones to robust ones.
    let found = ours.kind() & !ELISION;
    found == kind || kind == ROBUST && found == ROBUST | PROCESS_SHARED
}

/// How many threads hold a mutex of glibc's or will come back for it: changed by its holder only. While the number is not
/// zero, glibc answers EBUSY to `pthread_mutex_destroy`.
///
/// # Safety
/// `mutex` points at a mutex of glibc's, which the calling thread holds.
pub unsafe fn glibcs_users<'a>(mutex: *mut pthread_mutex_t) -> &'a Cell<u32> {
    /// Behind the lock word, the recursion depth and the owner; tried out at start by [`crate::layout`].
    const OFFSET: usize = 12;
    // SAFETY: as for this call.
    unsafe { &*mutex.cast::<u8>().add(OFFSET).cast() }
}

/// One waiter outside the queue, in a mutex's word.
const OUTSIDE_QUEUE: u64 = 1 << 52;

/// How a lock works inside a mutex.
struct Ops {
    acquire: unsafe fn(&Mutex),
    try_acquire: unsafe fn(&Mutex) -> bool,
    acquire_until: unsafe fn(&Mutex, Deadline) -> bool,
    release: unsafe fn(&Mutex),
    /// Releases for a condition wait, see [`lockswap_locks::RawLock::unlock_to_wait`].
    release_to_wait: unsafe fn(&Mutex),
    is_held: unsafe fn(&Mutex) -> bool,
    /// Makes the lock one without waiters in its queue, held or not. No other thread uses the mutex.
    forget_waiters: unsafe fn(&Mutex, bool),
    /// Ends the life of a free mutex.
    destroy: unsafe fn(&Mutex),
    waiting: WaitingPolicy,
}

static OPS: Page<AtomicPtr<Ops>> = Page(AtomicPtr::new(core::ptr::null_mut()));

fn ops() -> &'static Ops {
    // SAFETY: set by `install` to a static before the functions of this module are reachable. Relaxed: at that time the
    // process has one thread.
    unsafe { &*OPS.load(Ordering::Relaxed) }
}

/// What a function has to do for a mutex.
enum Class {
    /// Of the ordinary kind and the current generation.
    Ordinary,
    /// Of the current generation and of a kind that knows its owner.
    Owned,
    /// Left to glibc.
    Glibcs,
    /// Anything else of ours.
    Special,
}

impl Mutex {
    /// # Safety
    /// `mutex` points at a mutex, or at memory that the caller makes one.
    #[inline(always)]
    unsafe fn of<'a>(mutex: *mut pthread_mutex_t) -> &'a Mutex {
        // SAFETY: as for this call; all fields are atomics or in a cell.
        unsafe { &*mutex.cast() }
    }

    fn as_ptr(&self) -> *mut pthread_mutex_t {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    #[inline(always)]
    fn class(&self) -> Class {
        // ORDER(adopt): Acquire pairs with the Release in `adopt`; the lock inside has been repaired.
        let word = self.word.load(Ordering::Acquire);
        let difference = word ^ generation::ordinary_word();
        if difference == NORMAL as u64 {
            Class::Ordinary
        } else if word as u32 & !(KIND | ELISION) != 0 {
            Class::Glibcs
        } else if difference == RECURSIVE as u64 || difference == ERRORCHECK as u64 {
            Class::Owned
        } else {
            Class::Special
        }
    }

    fn kind(&self) -> u32 {
        // ORDER(adopt): as in `class`.
        self.word.load(Ordering::Acquire) as u32
    }

    fn knows_its_owner(&self) -> bool {
        matches!(self.kind() & KIND, RECURSIVE | ERRORCHECK)
    }

    /// Whether the mutex is of a kind that is left to glibc; a destroyed one is.
    #[inline(always)]
    fn is_glibcs(&self) -> bool {
        self.kind() & !(KIND | ELISION) != 0
    }

    /// Whether the mutex is ours; if so, it is of the current generation when this returns.
    fn adopt(&self) -> bool {
        if self.is_glibcs() {
            return false;
        }
        if self.mark() != generation::mark() {
            generation::adopt(self);
        }
        // ORDER(adopt): as in `class`.
        let word = self.word.load(Ordering::Acquire);
        if word as u32 & KIND == ADAPTIVE {
            // Relaxed: the kinds are handled alike, this one only slower.
            let normal = word & !(KIND as u64) | NORMAL as u64;
            let _ = self.word.compare_exchange(word, normal, Ordering::Relaxed, Ordering::Relaxed);
        }
        true
    }

    /// Acquires a mutex that is ours. A thread that may be cancelled at any instruction (`asynchronous`, which the caller has
    /// put off) must not be in a queue: it tries again and again, and can be cancelled in between.
    unsafe fn wait(&self, asynchronous: bool) {
        // SAFETY: as for this call.
        unsafe {
            if asynchronous {
                Native::spin_map(|| self.try_between_cancellations());
            } else {
                (ops().acquire)(self);
            }
        }
    }

    /// The same with a deadline; whether the mutex was acquired.
    unsafe fn wait_until(&self, deadline: Deadline, asynchronous: bool) -> bool {
        // SAFETY: as for this call.
        unsafe {
            if asynchronous {
                Native::spin_map_until(deadline, || self.try_between_cancellations()).is_some()
            } else {
                (ops().acquire_until)(self, deadline)
            }
        }
    }

    unsafe fn try_between_cancellations(&self) -> Option<()> {
        // SAFETY: as for this call.
        let acquired = unsafe { (ops().try_acquire)(self) };
        if !acquired {
            cancel::undo_defer(true);
            cancel::defer();
        }
        acquired.then_some(())
    }

    /// Acquires the mutex outside the queue of its waiters, if it is a thread of real-time priority that asks and the lock
    /// lets it: whether it was acquired; nothing where it has to queue.
    #[inline(always)]
    unsafe fn acquire_outside_queue(&self, until: Option<Deadline>) -> Option<bool> {
        if realtime::uses_outside() {
            // SAFETY: as for this call.
            unsafe { self.acquire_outside_now(until) }
        } else {
            None
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn acquire_outside_now(&self, until: Option<Deadline>) -> Option<bool> {
        // SAFETY: as for this call.
        if unsafe { (ops().try_acquire)(self) } {
            return Some(true);
        }
        let priority = Some(realtime::priority()).filter(|priority| *priority > 0)?;
        realtime::acquire(
            core::ptr::from_ref(self).addr(),
            priority,
            until,
            // SAFETY: as for this call.
            || unsafe { (ops().try_acquire)(self) },
            // Relaxed, both: a release that does not see the waiter yet does not delay it by more than one short sleep.
            || _ = self.word.fetch_add(OUTSIDE_QUEUE, Ordering::Relaxed),
            || _ = self.word.fetch_sub(OUTSIDE_QUEUE, Ordering::Relaxed),
        )
    }

    /// Releases a mutex that is held, and lets a waiter outside its queue know.
    unsafe fn release(&self) {
        // SAFETY: as for this call.
        unsafe { self.release_by(ops().release) };
    }

    /// The same for a thread that goes on to wait on a condition.
    unsafe fn release_to_wait(&self) {
        // SAFETY: as for this call.
        unsafe { self.release_by(ops().release_to_wait) };
    }

    unsafe fn release_by(&self, release: unsafe fn(&Mutex)) {
        // The mutex may be gone after the release. Relaxed: as in `acquire_outside_queue`.
        let waits = self.word.load(Ordering::Relaxed) >= OUTSIDE_QUEUE;
        let address = core::ptr::from_ref(self).addr();
        // SAFETY: as for this call.
        unsafe { release(self) };
        if waits {
            realtime::wake(address);
        }
    }

    /// Handles an acquisition by the thread that holds the mutex already, if its kind knows: the result of the call.
    fn relock(&self, deadlock: c_int) -> Option<c_int> {
        if !self.knows_its_owner() || self.owner.load(Ordering::Relaxed) != tls::identity() {
            return None;
        }
        // Relaxed here and for the owner: a thread finds its own identity only if it has stored it itself.
        let depth = self.depth.load(Ordering::Relaxed);
        if self.kind() & KIND == ERRORCHECK {
            return Some(deadlock);
        }
        if depth == u32::MAX {
            return Some(libc::EAGAIN);
        }
        self.depth.store(depth + 1, Ordering::Relaxed);
        Some(0)
    }

    fn remember_owner(&self) {
        if self.knows_its_owner() {
            // Relaxed: as in `relock`.
            self.owner.store(tls::identity(), Ordering::Relaxed);
        }
    }

    /// Whether the calling thread may release the mutex, as far as its kind knows.
    fn may_release(&self) -> bool {
        !self.knows_its_owner() || self.owner.load(Ordering::Relaxed) == tls::identity()
    }
}

impl Object for Mutex {
    fn mark(&self) -> u32 {
        // ORDER(adopt): as in `class`.
        (self.word.load(Ordering::Acquire) >> generation::MUTEX_SHIFT) as u32 & generation::MARK
    }

    fn replace_mark(&self, old: u32, new: u32) -> bool {
        let replace = |word: u64| {
            let has_old = (word >> generation::MUTEX_SHIFT) as u32 & generation::MARK == old;
            // Nobody waits outside the queue of a mutex of another generation.
            has_old.then_some(word as u32 as u64 | (new as u64) << generation::MUTEX_SHIFT)
        };
        // ORDER(adopt): Release pairs with the Acquire of everybody's first look at the word. Relaxed: as is to be replaced.
        self.word.fetch_update(Ordering::Release, Ordering::Relaxed, replace).is_ok()
    }

    fn count(&self) {
        count(Counter::Mutex);
    }

    fn is_held(&self) -> bool {
        // SAFETY: a mutex of ours.
        unsafe { (ops().is_held)(self) }
    }

    unsafe fn forget_waiters(&self, held: bool) {
        // SAFETY: as for this call.
        unsafe { (ops().forget_waiters)(self, held) };
    }
}

/// The second half of a mutex of this kind, of the current generation.
fn word_of(kind: u32) -> u64 {
    (generation::mark() as u64) << generation::MUTEX_SHIFT | kind as u64
}
