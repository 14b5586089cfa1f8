//! `pthread_mutex_t` on a lock of ours.
//!
//!   bytes  0..16  the lock, or its address if it is too large (see `crate::outside`);
//!                 for a lock with a context also the last holder's; or, behind IN_PLACE, a small lock of ours
//!         16..20  the kind, where glibc keeps it           ) one load of this word,
//!         20      which of the process's locks it is       ) compared with one value,
//!         21..24  the generation (see `crate::generation`) ) finds out whether the mutex
//!                 and in the upper 12 bits the number of   ) is an ordinary one
//!                 waiters outside the queue (`realtime`)   )
//!         24..32  the owner's identity, for kinds that know their owner
//!         32..36  levels of recursion beyond the first
//!         36..40  threads in a condition wait that will come back for the mutex
//!
//! All zero is an unlocked mutex of the default kind, as PTHREAD_MUTEX_INITIALIZER wants it. A mutex that is robust,
//! priority-inheriting, priority-protected or process-shared stays glibc's; so does a destroyed one, which glibc
//! refuses, and one that is to stay glibc's because a rule of a profile says so ([`KEPT`]).
//!
//! A process has one lock for its mutexes, number 0. Only with a profile (`crate::profile`) it has several; then other
//! functions stand in the table (`dispatch`), which look at the number first.

mod adaptive;
mod body;
mod choose;
mod direct;
mod dispatch;
mod ordinary;
mod pthread;
mod special;
mod switch;
mod wait;

pub use adaptive::install as install_adaptive;
pub use choose::Choice;
pub use dispatch::install as install_several;
pub use ordinary::one_of_several;
pub use pthread::install;
pub use switch::threads_begin;
pub use wait::{begin_wait, is_glibcs, let_holder_finish, reacquire_after_wait, release_for_wait, Held};

use crate::counters::count;
use crate::generation::Object;
use crate::memory::Page;
use crate::pool::LOCKS;
use crate::{cancel, generation, profile, realtime, tls};
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use libc::pthread_mutex_t;
use lockswap_locks::info::{ByPriority, LockInfo};
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
/// Ours, in the kind: a mutex that a profile leaves to glibc, whose functions do not look at this bit
/// ([`crate::layout`] tries that out).
const KEPT: u32 = 1 << 30;
/// The kind of a destroyed mutex; glibc's functions answer EINVAL to it.
const DESTROYED: u32 = u32::MAX;

/// Who answers a call on the mutex.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn who_answers(mutex: *mut pthread_mutex_t) -> Why {
    // SAFETY: as for this call.
    let ours = unsafe { Mutex::of(mutex) };
    if profile::is_in_force() {
        // Which lock it has is known after that.
        ours.adopt();
    }
    let kind = ours.kind();
    match GLIBCS.iter().find(|(flag, ..)| kind & flag != 0 && kind != DESTROYED) {
        Some((_, _, why)) => *why,
        None if kind & KEPT != 0 => Why::Chosen,
        None if ARE_REPLACED.load(Ordering::Relaxed) => Why::Ours,
        None => Why::Chosen,
    }
}

/// Whether a mutex is robust, or destroyed.
///
/// # Safety
/// `mutex` is the program's.
#[inline(always)]
pub unsafe fn is_robust(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: as for this call. Relaxed: a kind never changes while the mutex is used.
    unsafe { Mutex::of(mutex) }.word.load(Ordering::Relaxed) as u32 & ROBUST != 0
}

/// Whether a thread may acquire a mutex that it holds.
///
/// # Safety
/// `mutex` points at a mutex.
pub unsafe fn is_recursive(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: as for this call. Relaxed: as in `is_robust`.
    unsafe { Mutex::of(mutex) }.word.load(Ordering::Relaxed) as u32 & KIND == RECURSIVE
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

/// Marks a mutex that glibc has initialised as one that stays glibc's, for [`crate::layout`].
pub fn keep(object: &mut pthread_mutex_t) {
    // SAFETY: an initialised mutex, which nobody uses.
    choose::keep(unsafe { Mutex::of(object) }, false);
}

/// How many threads hold a mutex of glibc's or will come back for it: changed by its holder only. While the number is
/// not zero, glibc answers EBUSY to `pthread_mutex_destroy`.
///
/// # Safety
/// `mutex` points at a mutex of glibc's, which the calling thread holds.
pub unsafe fn glibcs_users<'a>(mutex: *mut pthread_mutex_t) -> &'a Cell<u32> {
    /// Behind the lock word, the recursion depth and the owner; tried out at start by [`crate::layout`].
    const OFFSET: usize = 12;
    // SAFETY: as for this call.
    unsafe { &*mutex.cast::<u8>().add(OFFSET).cast() }
}

/// The number of the mutex's lock, in its word.
const NUMBER: u64 = 0xff << generation::MUTEX_SHIFT;

/// One waiter outside the queue, in a mutex's word.
const OUTSIDE_QUEUE: u64 = 1 << 52;

/// How a lock works inside a mutex. Aligned so that its place in a table is a shift away.
#[derive(Clone, Copy)]
#[repr(align(128))]
pub struct Ops {
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
    // What follows is for a process with several locks: pthread functions on an ordinary mutex.
    lock: unsafe extern "C" fn(&Mutex) -> c_int,
    trylock: unsafe extern "C" fn(&Mutex) -> c_int,
    unlock: unsafe extern "C" fn(&Mutex) -> c_int,
    /// On a mutex of which is only known that the calling thread holds it, see [`crate::pool::lock_held_through`].
    unlock_known: unsafe extern "C" fn(&Mutex) -> c_int,
    // And on one that knows its owner.
    lock_owned: extern "C" fn(&Mutex) -> c_int,
    unlock_owned: extern "C" fn(&Mutex) -> c_int,
    info: &'static LockInfo,
}

/// How each of the process's locks works, by its number: all the same where it has one. By value, which saves a load
/// on the way to a function.
struct Locks([UnsafeCell<MaybeUninit<Ops>>; LOCKS]);

// SAFETY: written once, while the process has one thread.
unsafe impl Sync for Locks {}

static OPS: Page<Locks> = Page(Locks([const { UnsafeCell::new(MaybeUninit::uninit()) }; LOCKS]));

impl Page<Locks> {
    /// Called once, before the functions of this module are reachable.
    fn store(&self, locks: [&'static Ops; LOCKS]) {
        let Page(Locks(places)) = self;
        for (place, ops) in places.iter().zip(locks) {
            // SAFETY: the process has one thread.
            unsafe { (*place.get()).write(*ops) };
        }
        self.protect();
    }

    #[inline(always)]
    fn get(&self, number: u8) -> &'static Ops {
        let Page(Locks(locks)) = self;
        // SAFETY: set by `store`.
        unsafe { (*locks[number as usize % LOCKS].get()).assume_init_ref() }
    }
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

impl Class {
    /// That of a mutex with this word, which differs so from that of an ordinary one.
    #[inline(always)]
    fn of(word: u64, difference: u64) -> Class {
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
}

impl Mutex {
    /// # Safety
    /// `mutex` points at a mutex, or at memory that the caller makes one.
    #[inline(always)]
    unsafe fn of<'a>(mutex: *mut pthread_mutex_t) -> &'a Mutex {
        // SAFETY: as for this call; all fields are atomics or in a cell.
        unsafe { &*mutex.cast() }
    }

    #[inline(always)]
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn as_ptr(&self) -> *mut pthread_mutex_t {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    #[inline(always)]
    fn class(&self) -> Class {
        // ORDER(adopt): Acquire pairs with the Release in `adopt`; the lock inside has been repaired.
        let word = self.word.load(Ordering::Acquire);
        Class::of(word, word ^ generation::ordinary_word())
    }

    /// The same where the process has several locks, and how the mutex's own one works.
    #[inline(always)]
    fn class_and_ops(&self) -> (Class, &'static Ops) {
        // ORDER(adopt): as in `class`.
        let word = self.word.load(Ordering::Acquire);
        let class = Class::of(word, (word ^ generation::ordinary_word()) & !NUMBER);
        (class, OPS.get((word >> generation::MUTEX_SHIFT) as u8))
    }

    /// Which of the process's locks the mutex runs on; 0 before its first use.
    #[inline(always)]
    fn lock_number(&self) -> u8 {
        // Relaxed: changes only before the mutex's first use.
        (self.word.load(Ordering::Relaxed) >> generation::MUTEX_SHIFT) as u8
    }

    #[inline(always)]
    fn ops(&self) -> &'static Ops {
        OPS.get(self.lock_number())
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
            // A profile may have left it to glibc.
            if self.is_glibcs() {
                return false;
            }
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

    /// Acquires a mutex that is ours. A thread that may be cancelled at any instruction (`asynchronous`, which the
    /// caller has put off) must not be in a queue: it tries again and again, and can be cancelled in between.
    unsafe fn wait(&self, asynchronous: bool) {
        // SAFETY: as for this call.
        unsafe {
            if asynchronous {
                Native::spin_map(|| self.try_between_cancellations());
            } else {
                (self.ops().acquire)(self);
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
                (self.ops().acquire_until)(self, deadline)
            }
        }
    }

    unsafe fn try_between_cancellations(&self) -> Option<()> {
        // SAFETY: as for this call.
        let acquired = unsafe { (self.ops().try_acquire)(self) };
        if !acquired {
            cancel::undo_defer(true);
            cancel::defer();
        }
        acquired.then_some(())
    }

    /// Acquires the mutex outside the queue of its waiters, if it is a thread of real-time priority that asks and the
    /// lock lets it: whether it was acquired; nothing where it has to queue.
    #[inline(always)]
    unsafe fn acquire_outside_queue(&self, until: Option<Deadline>) -> Option<bool> {
        if Native::has_real_time() && self.ops().info.by_priority == ByPriority::Barging {
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
        if unsafe { (self.ops().try_acquire)(self) } {
            return Some(true);
        }
        let priority = Some(Native::real_time_priority()).filter(|priority| *priority > 0)?;
        realtime::acquire(
            core::ptr::from_ref(self).addr(),
            priority,
            until,
            // SAFETY: as for this call.
            || unsafe { (self.ops().try_acquire)(self) },
            // Relaxed, both: a release that does not see the waiter yet does not delay it by more than one short
            // sleep.
            || _ = self.word.fetch_add(OUTSIDE_QUEUE, Ordering::Relaxed),
            || _ = self.word.fetch_sub(OUTSIDE_QUEUE, Ordering::Relaxed),
        )
    }

    /// Releases a mutex that is held, and lets a waiter outside its queue know.
    unsafe fn release(&self) {
        // SAFETY: as for this call.
        unsafe { self.release_by(self.ops().release) };
    }

    /// The same for a thread that goes on to wait on a condition.
    unsafe fn release_to_wait(&self) {
        // SAFETY: as for this call.
        unsafe { self.release_by(self.ops().release_to_wait) };
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

    /// Changes the word, if its mark is `old` and the mutex has not been left to glibc, and returns whether it was so.
    fn replace_word(&self, old: u32, replace: impl Fn(u64) -> u64) -> bool {
        // Nobody waits outside the queue of a mutex of another generation.
        let mark = |word: u64| ((word & !NUMBER) >> generation::MUTEX_SHIFT) as u32 & generation::MARK;
        let has_old = |word: u64| mark(word) == old && word as u32 & KEPT == 0;
        // ORDER(adopt): Release pairs with the Acquire of everybody's first look at the word. Relaxed: as is to be
        // replaced.
        let replace = |word| has_old(word).then(|| replace(word));
        self.word.fetch_update(Ordering::Release, Ordering::Relaxed, replace).is_ok()
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
        ((self.word.load(Ordering::Acquire) & !NUMBER) >> generation::MUTEX_SHIFT) as u32 & generation::MARK
    }

    fn replace_mark(&self, old: u32, new: u32) -> bool {
        self.replace_word(old, |word| word & (u32::MAX as u64 | NUMBER) | (new as u64) << generation::MUTEX_SHIFT)
    }

    fn begin(&self, mark: u32) -> bool {
        choose::begin(self, mark)
    }

    fn count(&self) {
        count(Counter::Mutex);
    }

    fn is_held(&self) -> bool {
        // SAFETY: a mutex of ours.
        unsafe { (self.ops().is_held)(self) }
    }

    unsafe fn forget_waiters(&self, held: bool) {
        // SAFETY: as for this call.
        unsafe { (self.ops().forget_waiters)(self, held) };
    }
}

/// The second half of a mutex of this kind, of the current generation, that runs on the lock with this number.
fn word_of(kind: u32, number: u8) -> u64 {
    (generation::mark() as u64 | number as u64) << generation::MUTEX_SHIFT | kind as u64
}
