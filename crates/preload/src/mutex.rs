//! `pthread_mutex_t` with the lock inside it.
//!
//!   bytes  0..16  the lock, and for a queue lock the holder's node
//!         16..20  the kind, where glibc keeps it          ) one load of this word,
//!         20      0                                        ) compared with one value,
//!         21      the generation (see `crate::generation`) ) finds out whether the
//!         22..24  0                                        ) mutex is an ordinary one
//!         24..32  the owner's identity, for kinds that know their owner
//!         32..36  levels of recursion beyond the first
//!         36..40  threads in a condition wait that will come back for the mutex
//!
//! All zero is an unlocked mutex of the default kind, as PTHREAD_MUTEX_INITIALIZER wants it. A mutex that is robust,
//! priority-inheriting, priority-protected or process-shared stays glibc's; so does a destroyed one, which glibc refuses.

use crate::counters::count;
use crate::functions::{Entry, ACTIVE, REAL};
use crate::{cancel, deadline, generation, pool, tls};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering};
use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use lockswap_locks::counters::Counter;
use lockswap_locks::{IsHeld, TimedLock};
use lockswap_platform::{Clock, Deadline, Native, Platform, Single};

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
const NORMAL: u32 = 0;
const RECURSIVE: u32 = 1;
const ERRORCHECK: u32 = 2;
const ADAPTIVE: u32 = 3;
const KIND: u32 = 3;
/// Flags in the kind that say something about lock elision, which is not done here.
const ELISION: u32 = 0x300;
const ROBUST: u32 = 0x10;
const PRIORITY_INHERIT: u32 = 0x20;
const PRIORITY_PROTECT: u32 = 0x40;
const PROCESS_SHARED: u32 = 0x80;
/// The kind of a destroyed mutex; glibc's functions answer EINVAL to it.
const DESTROYED: u32 = u32::MAX;

/// How a lock works inside a mutex.
struct Ops {
    acquire: unsafe fn(&Mutex),
    try_acquire: unsafe fn(&Mutex) -> bool,
    acquire_until: unsafe fn(&Mutex, Deadline) -> bool,
    release: unsafe fn(&Mutex),
    is_held: unsafe fn(&Mutex) -> bool,
}

static OPS: AtomicPtr<Ops> = AtomicPtr::new(core::ptr::null_mut());

fn ops() -> &'static Ops {
    // SAFETY: set by `install` to a static before the functions of this module are reachable. Relaxed: at that time the
    // process has one thread.
    unsafe { &*OPS.load(Ordering::Relaxed) }
}

/// The lock `N` on all CPUs, and the same lock `S` while the process has one thread.
struct InPlace<N, S>(PhantomData<(N, S)>);

/// The lock type `L` on platform `P` has its context allocated by the pool.
trait Body<P: Platform>: TimedLock<P> + IsHeld {
    const HAS_CONTEXT: bool = size_of::<Self::Ctx>() != 0;
}

impl<P: Platform, L: TimedLock<P> + IsHeld> Body<P> for L {}

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

    #[inline(always)]
    fn lock_inside<L>(&self) -> &L {
        const { assert!(size_of::<L>() <= 16 && align_of::<L>() <= 8) };
        // SAFETY: the body of a mutex of the chosen lock type, which all mutexes of the process have; zero is a free lock.
        unsafe { &*self.body.get().cast() }
    }

    /// The holder's context; null while the mutex is free.
    #[inline(always)]
    fn holder<C>(&self) -> &AtomicPtr<C> {
        // SAFETY: the second word of the body, behind a lock of one word.
        unsafe { &*self.body.get().cast::<AtomicPtr<C>>().add(1) }
    }

    #[inline(always)]
    unsafe fn acquire<P: Platform, L: Body<P>>(&self) {
        let lock = self.lock_inside::<L>();
        // SAFETY: a context from the pool is reusable and serves this acquisition only.
        unsafe {
            if L::HAS_CONTEXT {
                let context = pool::take::<L::Ctx>();
                lock.lock(context.as_ref());
                // Relaxed: whoever releases the lock is this thread, or was told by it.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                lock.lock(NonNull::dangling().as_ref());
            }
        }
    }

    #[inline(always)]
    unsafe fn acquire_if<P: Platform, L: Body<P>>(&self, acquire: impl FnOnce(&L, &L::Ctx) -> bool) -> bool {
        let lock = self.lock_inside::<L>();
        // SAFETY: as in `acquire`.
        unsafe {
            if !L::HAS_CONTEXT {
                return acquire(lock, NonNull::dangling().as_ref());
            }
            let context = pool::take::<L::Ctx>();
            let acquired = acquire(lock, context.as_ref());
            if acquired {
                // Relaxed: as in `acquire`.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                pool::put(context);
            }
            acquired
        }
    }

    #[inline(always)]
    unsafe fn release<P: Platform, L: Body<P>>(&self) {
        let lock = self.lock_inside::<L>();
        // SAFETY: the mutex is held, through the context that the holder has stored.
        unsafe {
            if L::HAS_CONTEXT {
                let holder = self.holder::<L::Ctx>();
                // Relaxed: as in `acquire`.
                let context = NonNull::new_unchecked(holder.load(Ordering::Relaxed));
                holder.store(core::ptr::null_mut(), Ordering::Relaxed);
                lock.unlock(context.as_ref());
                pool::put(context);
            } else {
                lock.unlock(NonNull::dangling().as_ref());
            }
        }
    }

    #[inline(always)]
    fn is_held<P: Platform, L: Body<P>>(&self) -> bool {
        if L::HAS_CONTEXT {
            // Relaxed: exact for a holder, and for others only if nobody uses the mutex.
            !self.holder::<L::Ctx>().load(Ordering::Relaxed).is_null()
        } else {
            self.lock_inside::<L>().is_held()
        }
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
        let generation_of = |word: u64| (word >> generation::MUTEX_SHIFT) as u8;
        // ORDER(adopt): as in `class`.
        let word = self.word.load(Ordering::Acquire);
        let kind = word as u32;
        if generation_of(word) != generation::current() {
            // ORDER(adopt): Acquire pairs with the Release below.
            let mark = || generation_of(self.word.load(Ordering::Acquire));
            generation::adopt(mark, |is_new, current| {
                if is_new {
                    count(Counter::Mutex);
                }
                // SAFETY: only the thread that adopts touches the mutex.
                unsafe { self.forget_waiters() };
                let kind = if kind & KIND == ADAPTIVE { NORMAL } else { kind & KIND };
                // ORDER(adopt): Release pairs with the Acquire of everybody's first look at the word.
                self.word.store(word_of(kind, current), Ordering::Release);
            });
        } else if kind & KIND == ADAPTIVE {
            // Relaxed: the kinds are handled alike, this one only slower.
            let normal = word_of(NORMAL, generation_of(word));
            let _ = self.word.compare_exchange(word, normal, Ordering::Relaxed, Ordering::Relaxed);
        }
        true
    }

    /// Keeps the lock held if it is held, with no waiters in its queue.
    ///
    /// # Safety
    /// No other thread uses the mutex.
    unsafe fn forget_waiters(&self) {
        // SAFETY: as for this call; zero is a free lock.
        unsafe {
            let held = (ops().is_held)(self);
            self.body.get().write([0; 2]);
            if held {
                (ops().acquire)(self);
            }
        }
    }

    /// Acquires a mutex that is ours, in whatever way suits the thread.
    unsafe fn wait(&self) {
        // SAFETY: as for this call. A thread that may vanish at any instruction must not be in a queue.
        unsafe {
            if cancel::is_asynchronous() {
                Native::spin_map(|| (ops().try_acquire)(self).then_some(()));
            } else {
                (ops().acquire)(self);
            }
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

fn word_of(kind: u32, generation: u8) -> u64 {
    (generation as u64) << generation::MUTEX_SHIFT | kind as u64
}

/// Whether the process has one thread, so that no instruction needs to be atomic (set by glibc).
#[inline(always)]
fn has_one_thread() -> bool {
    extern "C" {
        static __libc_single_threaded: AtomicU8;
    }
    // SAFETY: glibc's variable. Relaxed: it changes only while one thread exists, and creating a thread synchronises.
    unsafe { __libc_single_threaded.load(Ordering::Relaxed) != 0 }
}

impl<N: Body<Native>, S: Body<Single>> InPlace<N, S> {
    const LAYOUTS_AGREE: () = assert!(size_of::<N>() == size_of::<S>() && size_of::<N::Ctx>() == size_of::<S::Ctx>());

    const OPS: Ops = Ops {
        acquire: Self::acquire,
        try_acquire: Self::try_acquire,
        acquire_until: |mutex, deadline| {
            // SAFETY: as for `Ops`.
            unsafe { mutex.acquire_if::<Native, N>(|lock, context| lock.lock_until(context, deadline)) }
        },
        release: Self::release,
        is_held: |mutex| mutex.is_held::<Native, N>(),
    };

    #[inline(always)]
    unsafe fn acquire(mutex: &Mutex) {
        // SAFETY: as for this call; with one thread both types see the same lock. A lone thread that finds its own lock
        // held waits for ever.
        unsafe {
            if has_one_thread() && mutex.acquire_if::<Single, S>(|lock, context| lock.try_lock(context)) {
                return;
            }
            mutex.acquire::<Native, N>();
        }
    }

    #[inline(always)]
    unsafe fn try_acquire(mutex: &Mutex) -> bool {
        // SAFETY: as for this call; with one thread both types see the same lock.
        unsafe {
            if has_one_thread() {
                mutex.acquire_if::<Single, S>(|lock, context| lock.try_lock(context))
            } else {
                mutex.acquire_if::<Native, N>(|lock, context| lock.try_lock(context))
            }
        }
    }

    #[inline(always)]
    unsafe fn release(mutex: &Mutex) {
        // SAFETY: as for this call; with one thread both types see the same lock.
        unsafe {
            if has_one_thread() {
                mutex.release::<Single, S>();
            } else {
                mutex.release::<Native, N>();
            }
        }
    }

    /// `pthread_mutex_lock`
    unsafe extern "C-unwind" fn lock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        match mutex.class() {
            Class::Ordinary => {
                // SAFETY: an ordinary mutex.
                unsafe { Self::acquire(mutex) };
                0
            }
            Class::Owned => Self::lock_owned(mutex),
            Class::Glibcs => pass_on(&REAL.pthread_mutex_lock, mutex),
            Class::Special => lock_special(mutex),
        }
    }

    #[inline(never)]
    extern "C" fn lock_owned(mutex: &Mutex) -> c_int {
        let identity = tls::identity();
        // Relaxed: a thread finds its own identity only if it has stored it itself.
        if mutex.owner.load(Ordering::Relaxed) == identity {
            return mutex.relock(libc::EDEADLK).unwrap_or(0);
        }
        // SAFETY: a mutex of ours.
        unsafe { Self::acquire(mutex) };
        mutex.owner.store(identity, Ordering::Relaxed);
        0
    }

    #[inline(never)]
    extern "C" fn unlock_owned(mutex: &Mutex) -> c_int {
        // Relaxed: as in `lock_owned`; the depth is the holder's own.
        if mutex.owner.load(Ordering::Relaxed) != tls::identity() {
            return libc::EPERM;
        }
        let depth = mutex.depth.load(Ordering::Relaxed);
        if depth > 0 {
            mutex.depth.store(depth - 1, Ordering::Relaxed);
        } else {
            mutex.owner.store(0, Ordering::Relaxed);
            // SAFETY: a mutex of ours, which its owner holds.
            unsafe { Self::release(mutex) };
        }
        0
    }

    /// `pthread_mutex_trylock`
    unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        let Class::Ordinary = mutex.class() else { return trylock_special(mutex) };
        // SAFETY: an ordinary mutex.
        if unsafe { Self::try_acquire(mutex) } {
            0
        } else {
            libc::EBUSY
        }
    }

    /// `pthread_mutex_unlock`: by any thread, and of a mutex that is not locked, which changes nothing.
    unsafe extern "C-unwind" fn unlock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        match mutex.class() {
            Class::Ordinary => {
                if mutex.is_held::<Native, N>() {
                    // SAFETY: an ordinary mutex that is held.
                    unsafe { Self::release(mutex) };
                }
                0
            }
            Class::Owned => Self::unlock_owned(mutex),
            Class::Glibcs => pass_on(&REAL.pthread_mutex_unlock, mutex),
            Class::Special => unlock_special(mutex),
        }
    }
}

/// Calls glibc's function on a mutex that is glibc's, as a jump: none of these functions is a cancellation point, and an
/// asynchronous cancellation finds its way by the unwind tables.
#[inline(always)]
fn pass_on(real: &Entry<unsafe extern "C-unwind" fn(*mut pthread_mutex_t) -> c_int>, mutex: &Mutex) -> c_int {
    // SAFETY: the same function; glibc's own mutex.
    unsafe {
        let real: unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int = core::mem::transmute(real.get());
        real(mutex.as_ptr())
    }
}

#[inline(never)]
extern "C" fn lock_special(mutex: &Mutex) -> c_int {
    if mutex.is_glibcs() {
        return pass_on(&REAL.pthread_mutex_lock, mutex);
    }
    mutex.adopt();
    if let Some(result) = mutex.relock(libc::EDEADLK) {
        return result;
    }
    // SAFETY: the mutex is ours.
    unsafe { mutex.wait() };
    mutex.remember_owner();
    0
}

#[inline(never)]
extern "C" fn trylock_special(mutex: &Mutex) -> c_int {
    if mutex.is_glibcs() {
        return pass_on(&REAL.pthread_mutex_trylock, mutex);
    }
    mutex.adopt();
    if let Some(result) = mutex.relock(libc::EBUSY) {
        return result;
    }
    // SAFETY: the mutex is ours.
    if unsafe { !(ops().try_acquire)(mutex) } {
        return libc::EBUSY;
    }
    mutex.remember_owner();
    0
}

#[inline(never)]
extern "C" fn unlock_special(mutex: &Mutex) -> c_int {
    if mutex.is_glibcs() {
        return pass_on(&REAL.pthread_mutex_unlock, mutex);
    }
    mutex.adopt();
    if !mutex.may_release() {
        return libc::EPERM;
    }
    // Relaxed: the holder's own.
    let depth = mutex.depth.load(Ordering::Relaxed);
    if depth > 0 {
        mutex.depth.store(depth - 1, Ordering::Relaxed);
        return 0;
    }
    mutex.owner.store(0, Ordering::Relaxed);
    // SAFETY: the mutex is ours, and released only if it is held.
    unsafe {
        if (ops().is_held)(mutex) {
            (ops().release)(mutex);
        }
    }
    0
}

/// # Safety
/// `mutex` is the program's mutex and `abstime` points at its timespec.
unsafe fn lock_until(mutex: &Mutex, clock: Clock, abstime: *const timespec) -> c_int {
    if let Some(result) = mutex.relock(libc::EDEADLK) {
        return result;
    }
    // SAFETY: the mutex is ours. The time is looked at only if there is something to wait for.
    unsafe {
        if !(ops().try_acquire)(mutex) {
            match deadline::deadline(clock, abstime) {
                Err(error) => return error,
                Ok(deadline) => {
                    let acquired = if cancel::is_asynchronous() {
                        Native::spin_map_until(deadline, || (ops().try_acquire)(mutex).then_some(())).is_some()
                    } else {
                        (ops().acquire_until)(mutex, deadline)
                    };
                    if !acquired {
                        return libc::ETIMEDOUT;
                    }
                }
            }
        }
    }
    mutex.remember_owner();
    0
}

unsafe extern "C-unwind" fn timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int {
    // SAFETY: the program's mutex and time.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_timedlock.get()(mutex, abstime);
        }
        lock_until(ours, Clock::Realtime, abstime)
    }
}

unsafe extern "C-unwind" fn clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's mutex and time.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_clocklock.get()(mutex, clock, abstime);
        }
        match deadline::clock(clock) {
            Ok(clock) => lock_until(ours, clock, abstime),
            Err(error) => error,
        }
    }
}

unsafe extern "C-unwind" fn init(mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t) -> c_int {
    // SAFETY: the program's memory; glibc reads the attribute and leaves the kind where it keeps it.
    unsafe {
        let result = REAL.pthread_mutex_init.get()(mutex, attr);
        if result != 0 {
            return result;
        }
        let ours = Mutex::of(mutex);
        let kind = ours.kind();
        let why_not = [
            (ROBUST, Counter::Robust),
            (PRIORITY_INHERIT, Counter::Pi),
            (PRIORITY_PROTECT, Counter::Protect),
            (PROCESS_SHARED, Counter::Pshared),
        ];
        if let Some((_, reason)) = why_not.iter().find(|(flag, _)| kind & flag != 0) {
            count(*reason);
            return 0;
        }
        mutex.cast::<u8>().write_bytes(0, size_of::<pthread_mutex_t>());
        let kind = if kind & KIND == ADAPTIVE { NORMAL } else { kind & KIND };
        // Relaxed: nobody else may use the mutex before this returns.
        ours.word.store(word_of(kind, generation::current()), Ordering::Relaxed);
        count(Counter::Mutex);
        0
    }
}

unsafe extern "C-unwind" fn destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_destroy.get()(mutex);
        }
        // Relaxed: nobody else may use the mutex any more; where somebody does, the answer is a courtesy.
        if (ops().is_held)(ours) || ours.users.load(Ordering::Relaxed) != 0 {
            return libc::EBUSY;
        }
        ours.word.store(DESTROYED as u64, Ordering::Relaxed);
        0
    }
}

/// What only robust and priority-protected mutexes have: everything else is refused, as glibc does.
macro_rules! only_glibc {
    ($(fn $function:ident = $real:ident(mutex: $mutex:ty $(, $arg:ident: $type:ty)*);)*) => {
        $(unsafe extern "C-unwind" fn $function(mutex: $mutex $(, $arg: $type)*) -> c_int {
            // SAFETY: the program's mutex.
            unsafe {
                if Mutex::of(mutex.cast_mut()).adopt() {
                    return libc::EINVAL;
                }
                REAL.$real.get()(mutex $(, $arg)*)
            }
        })*
    };
}

/// Lets the macro treat both kinds of pointer alike.
trait CastMut {
    fn cast_mut(self) -> *mut pthread_mutex_t;
}

impl CastMut for *mut pthread_mutex_t {
    fn cast_mut(self) -> *mut pthread_mutex_t {
        self
    }
}

only_glibc! {
    fn consistent = pthread_mutex_consistent(mutex: *mut pthread_mutex_t);
    fn getprioceiling = pthread_mutex_getprioceiling(mutex: *const pthread_mutex_t, ceiling: *mut c_int);
    fn setprioceiling =
        pthread_mutex_setprioceiling(mutex: *mut pthread_mutex_t, ceiling: c_int, old: *mut c_int);
}

/// Makes mutexes run on the lock `N`, which is `S` while the process has one thread.
pub fn install<N: TimedLock<Native> + IsHeld, S: TimedLock<Single> + IsHeld>() {
    let () = InPlace::<N, S>::LAYOUTS_AGREE;
    OPS.store(core::ptr::from_ref(&InPlace::<N, S>::OPS).cast_mut(), Ordering::Relaxed);
    ACTIVE.pthread_mutex_lock.set(InPlace::<N, S>::lock);
    ACTIVE.pthread_mutex_trylock.set(InPlace::<N, S>::trylock);
    ACTIVE.pthread_mutex_unlock.set(InPlace::<N, S>::unlock);
    ACTIVE.pthread_mutex_timedlock.set(timedlock);
    ACTIVE.pthread_mutex_clocklock.set(clocklock);
    ACTIVE.pthread_mutex_init.set(init);
    ACTIVE.pthread_mutex_destroy.set(destroy);
    ACTIVE.pthread_mutex_consistent.set(consistent);
    ACTIVE.pthread_mutex_getprioceiling.set(getprioceiling);
    ACTIVE.pthread_mutex_setprioceiling.set(setprioceiling);
}

/// Whether the mutex has been left to glibc.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn is_glibcs(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: as for this call.
    unsafe { Mutex::of(mutex).is_glibcs() }
}

/// What a condition wait gave up and takes back.
#[derive(Clone, Copy)]
pub struct Held {
    depth: u32,
}

/// Whether the calling thread may wait on a condition with this mutex; EPERM if it does not hold it, as far as the kind
/// knows.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn begin_wait(mutex: *mut pthread_mutex_t) -> Result<(), c_int> {
    // SAFETY: as for this call.
    let ours = unsafe { Mutex::of(mutex) };
    if !ours.adopt() || ours.may_release() {
        Ok(())
    } else {
        Err(libc::EPERM)
    }
}

/// Releases all levels of the mutex; a mutex of glibc's may refuse with its own error.
///
/// # Safety
/// The calling thread holds `mutex`.
pub unsafe fn release_for_wait(mutex: *mut pthread_mutex_t) -> Result<Held, c_int> {
    // SAFETY: as for this call. Relaxed: the fields are the holder's.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return match REAL.pthread_mutex_unlock.get()(mutex) {
                0 => Ok(Held { depth: 0 }),
                error => Err(error),
            };
        }
        let held = Held { depth: ours.depth.load(Ordering::Relaxed) };
        ours.depth.store(0, Ordering::Relaxed);
        ours.users.store(ours.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ours.knows_its_owner() {
            ours.owner.store(0, Ordering::Relaxed);
        }
        if (ops().is_held)(ours) {
            (ops().release)(ours);
        }
        Ok(held)
    }
}

/// Yields a few times while the mutex is held. A thread that has just been woken may have driven the thread that woke it,
/// and that still holds the mutex, from the CPU that they share.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn let_holder_finish(mutex: *mut pthread_mutex_t) {
    const YIELDS: u32 = 4;
    // SAFETY: as for this call.
    let ours = unsafe { Mutex::of(mutex) };
    for _ in 0..YIELDS {
        // SAFETY: asked only of a mutex that is ours; nothing depends on the answer.
        if ours.is_glibcs() || unsafe { !(ops().is_held)(ours) } {
            break;
        }
        Native::yield_cpu();
    }
}

/// Takes the mutex back; the result is not 0 only for a mutex of glibc's, whose error it is.
///
/// # Safety
/// `held` was given up by this thread.
pub unsafe fn reacquire_after_wait(mutex: *mut pthread_mutex_t, held: Held) -> c_int {
    // SAFETY: as for this call. Relaxed: the fields are the holder's.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_lock.get()(mutex);
        }
        ours.wait();
        ours.remember_owner();
        ours.depth.store(held.depth, Ordering::Relaxed);
        ours.users.store(ours.users.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        0
    }
}
