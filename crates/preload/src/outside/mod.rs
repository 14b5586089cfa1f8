//! Locks that are too large for their pthread object: the object holds the address of a block in memory of our own.
//!
//!   object              block
//!   [ block's address ]-->[ object's address | next | generation ]   a line that is not written while the lock is used
//!   [ holder's context ]  [ the lock, on lines of its own        ]
//!
//! | block   | its header's object  | it is found through                            |
//! |---------|----------------------|------------------------------------------------|
//! | in use  | the object's address | the object; the table, by the object's address |
//! | free    | 0                    | the list of free blocks                        |
//!
//! An object has no block before its first use: zero is a free lock. It gets one under the arena's lock, so that of
//! several first users one does it. A block remains a block for ever: it passes from one object to another, but is
//! never unmapped, so that whoever still reads a block that has been given back reads a lock.
//!
//! **An object need not be destroyed.** C++ drops a `std::mutex` without a word, and what lies at its address later
//! may be another mutex. So the first use of an object looks up its address, and takes the block of the object that
//! lay there before, unless that is held or a releasing thread still touches it; then it goes to the free blocks,
//! which are looked at again before they are handed out. For objects that never have a successor at the same address
//! there is a sweep: when the number of blocks in use has doubled, those are given back whose objects do not refer to
//! them any more.
//!
//! **An object may have been moved** (`realloc` of a structure with a mutex in it: undefined in POSIX, and done). The
//! copy refers to a block whose header names another object, and counts as an object without a block: it is free, and
//! gets its own. A mutex that was held when it was copied is therefore free in its copy, but no other mutex suffers.
//!
//! **There may be no block to be had**: no memory is left, or a signal handler uses an object for the first time while
//! the thread that it interrupted is inside the arena. Such an object has [`IN_PLACE`] instead of an address, for
//! ever, and runs on a small lock of ours inside the object. An exchange of its first word decides between several
//! first users.

mod blocks;

use crate::pool::LOCKS;
use crate::rare_lock::RareLock;
use crate::tls::inside;
use crate::{cancel, generation, tls};
use blocks::{Header, State, FIRST_BUCKETS};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{compiler_fence, AtomicPtr, AtomicU64, Ordering};
use lockswap_locks::registry::block_bytes;

#[repr(C)]
struct Block<L> {
    header: Header,
    lock: L,
}

/// The first word of an object whose lock lies outside.
#[repr(transparent)]
pub struct Word<L>(AtomicPtr<Block<L>>);

/// Stands in the place of a block's address: the object runs on a small lock inside it.
const IN_PLACE: usize = 1;

impl<L> Word<L> {
    /// The object begins with this word.
    fn object(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The object's own lock, if it has got one.
    #[inline(always)]
    pub fn get(&self) -> Option<&L> {
        // ORDER(block): Acquire pairs with the Release in `Arena::provide`; the block's header, and its lock.
        self.own(self.0.load(Ordering::Acquire))
    }

    /// The lock in this block, which the word referred to, if that is the object's own.
    #[inline(always)]
    fn own(&self, block: *mut Block<L>) -> Option<&L> {
        // SAFETY: neither null nor `IN_PLACE`, so the address of a block.
        // Relaxed: a block that is this object's stays so while the object is in use.
        unsafe {
            (block.addr() > IN_PLACE && (*block).header.object.load(Ordering::Relaxed) == self.object())
                .then(|| &(*block).lock)
        }
    }

    /// Whether the object runs on the small lock inside it.
    #[inline(always)]
    pub fn is_in_place(&self) -> bool {
        // Relaxed: the small lock was zero before, and orders what it protects itself.
        self.0.load(Ordering::Relaxed).addr() == IN_PLACE
    }

    /// The object's own lock.
    ///
    /// # Safety
    /// It has got one.
    #[inline(always)]
    pub unsafe fn get_existing(&self) -> &L {
        // SAFETY: as for this call. Relaxed: the caller has got the lock before.
        unsafe { &(*self.0.load(Ordering::Relaxed)).lock }
    }

    /// Runs `repair` on the object's own lock if it has got one; from now on the lock belongs to this generation.
    ///
    /// # Safety
    /// No other thread uses the object, and `repair` leaves a lock behind.
    pub unsafe fn renew(&self, repair: impl FnOnce(*mut L)) {
        if let Some(lock) = self.get() {
            repair(core::ptr::from_ref(lock).cast_mut());
            // SAFETY: the block of the lock. Relaxed: read under the arena's lock when the object is gone.
            unsafe {
                (*self.0.load(Ordering::Relaxed)).header.generation.store(generation::current(), Ordering::Relaxed)
            };
        }
    }
}

/// The blocks of all mutexes that run on one of the process's locks, or of all rwlocks: of one lock type.
pub struct Arena {
    lock: RareLock,
    state: UnsafeCell<State>,
    first_table: UnsafeCell<[*mut Header; FIRST_BUCKETS]>,
    /// The arena's bit in [`tls::Thread::inside`].
    bit: u16,
}

// SAFETY: the state is accessed only while the lock is held.
unsafe impl Sync for Arena {}

/// The blocks of the mutexes of each lock.
static MUTEXES: [Arena; LOCKS] = {
    let mut arenas = [const { Arena::new(inside::MUTEXES) }; LOCKS];
    let mut lock = 1;
    while lock < LOCKS {
        arenas[lock].bit = inside::MUTEXES << lock;
        lock += 1;
    }
    arenas
};
/// The blocks of rwlocks.
pub static RWLOCKS: Arena = Arena::new(inside::RWLOCKS);

/// The blocks of the mutexes that run on the process's lock with this number.
pub fn mutexes(lock: u8) -> &'static Arena {
    &MUTEXES[lock as usize % LOCKS]
}

/// All arenas, in the order in which a fork acquires their locks.
fn all() -> impl DoubleEndedIterator<Item = &'static Arena> {
    MUTEXES.iter().chain([&RWLOCKS])
}

impl Arena {
    const fn new(bit: u16) -> Self {
        Arena {
            lock: RareLock::new(),
            state: UnsafeCell::new(State::EMPTY),
            first_table: UnsafeCell::new([null_mut(); FIRST_BUCKETS]),
            bit,
        }
    }

    /// Runs `f` while the lock is held; not, if this is a signal handler that interrupted its thread in here.
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> Option<R> {
        let thread = tls::thread();
        let inside = thread.inside.get();
        if inside & self.bit != 0 {
            return None;
        }
        // A thread that is cancelled here would take the lock with it.
        let deferred = cancel::defer();
        thread.inside.set(inside | self.bit);
        // The fences keep the mark around the lock for a handler, which sees the instructions in order.
        compiler_fence(Ordering::SeqCst);
        // Relaxed: a thread finds its own identity only if it has stored it itself.
        let is_forking = FORKING.load(Ordering::Relaxed) == tls::identity();
        if !is_forking {
            self.lock.acquire();
        }
        // SAFETY: the lock is held.
        let state = unsafe { &mut *self.state.get() };
        if state.table.is_null() {
            state.table = self.first_table.get().cast();
        }
        let result = f(state);
        if !is_forking {
            // SAFETY: acquired above.
            unsafe { self.lock.release() };
        }
        compiler_fence(Ordering::SeqCst);
        thread.inside.set(inside);
        cancel::undo_defer(deferred);
        Some(result)
    }

    /// The lock of the object that begins with `word`, which gets a block of the arena if it has none; nothing if it
    /// runs on the small lock inside it. `make_new` says whether a lock is neither held nor
    /// touched, and makes it as good as new then; `clean` clears the rest of an
    /// object that was copied.
    #[cold]
    #[inline(never)]
    pub fn provide<'a, L>(&self, word: &'a Word<L>, make_new: fn(&L) -> bool, clean: impl Fn()) -> Option<&'a L> {
        const { assert!(size_of::<Block<L>>() == block_bytes(size_of::<L>())) };
        loop {
            // ORDER(block): as in `Word::get`. All that follows rests on this one look: another thread may provide a
            // lock, and acquire it, at any time.
            let old = word.0.load(Ordering::Acquire);
            if let Some(lock) = word.own(old) {
                return Some(lock);
            }
            if old.addr() == IN_PLACE {
                return None;
            }
            let publish = |new: *mut Block<L>| {
                if !old.is_null() {
                    clean();
                }
                // ORDER(block): Release pairs with the Acquire in `Word::get`. Relaxed: a failed exchange is looked at
                // again.
                word.0.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
            };
            let in_place = core::ptr::without_provenance_mut(IN_PLACE);
            let entered = self.with(|state| {
                // Another thread may have been here. Relaxed: compared only.
                if word.0.load(Ordering::Relaxed) != old {
                    return;
                }
                match state.block_for(word.object(), size_of::<Block<L>>(), &reuse::<L>(make_new)) {
                    Some(block) if publish(block.cast()) => {}
                    Some(block) => state.give_back(block),
                    None => {
                        publish(in_place);
                    }
                }
            });
            if entered.is_none() {
                // A handler that interrupted its thread inside. Only a copy that another thread uses for the first
                // time in this very moment could be disturbed.
                publish(in_place);
            }
        }
    }

    /// Gives back what the object that begins with `word` has, if anything.
    pub fn give_back<L>(&self, word: &Word<L>) {
        if word.get().is_some() {
            // The object refers to its block until the arena's lock is held: another thread's sweep would give back
            // one that nobody refers to. Where this thread is inside already, the block stays in the table for a
            // sweep.
            self.with(|state| state.give_back(word.0.swap(null_mut(), Ordering::Relaxed).cast()));
        }
        // Relaxed: nobody else uses the object.
        word.0.store(null_mut(), Ordering::Relaxed);
    }

    /// Acquires the lock for a fork, unless the calling thread was interrupted inside the arena by the signal handler
    /// that forks: then it holds the lock already, and in both processes it releases it when the handler has returned.
    fn before_fork(&self) {
        if tls::thread().inside.get() & self.bit == 0 {
            self.lock.acquire();
        }
    }

    /// Undoes [`Arena::before_fork`] through `free`.
    fn after_fork(&self, free: impl FnOnce(&RareLock)) {
        if tls::thread().inside.get() & self.bit == 0 {
            free(&self.lock);
        }
    }
}

/// The identity of the thread that holds the arenas' locks while it forks, else 0. Handlers of other libraries may
/// still run in that thread, and use objects for the first time.
static FORKING: AtomicU64 = AtomicU64::new(0);

/// Keeps other threads out of the arenas until [`after_fork`] or, in the child, [`enter_child`].
pub fn before_fork() {
    all().for_each(Arena::before_fork);
    FORKING.store(tls::identity(), Ordering::Relaxed);
}

/// Undoes [`before_fork`] in the parent.
pub fn after_fork() {
    FORKING.store(0, Ordering::Relaxed);
    for arena in all().rev() {
        // SAFETY: acquired by `before_fork`.
        arena.after_fork(|lock| unsafe { lock.release() });
    }
}

/// Undoes [`before_fork`] in the child.
///
/// # Safety
/// The process has one thread: it is the child of a fork.
pub unsafe fn enter_child() {
    FORKING.store(0, Ordering::Relaxed);
    for arena in all().rev() {
        // SAFETY: as for this call; threads that waited for the lock are in the parent.
        arena.after_fork(|lock| unsafe { lock.reset() });
    }
}

/// Prepares a block with a lock of type `L` for its next object, if nobody uses it any more. Its lock is as good as
/// new then; one of an older generation is made so.
fn reuse<L>(make_new: fn(&L) -> bool) -> impl Fn(*mut Header) -> bool {
    move |header| {
        let block = header.cast::<Block<L>>();
        // SAFETY: a block of this arena, which holds this type. The threads that used a lock of an older generation
        // were another process's.
        unsafe {
            // Relaxed: changed by who adopts the block's object, before others use it.
            if (*header).generation.load(Ordering::Relaxed) != generation::current() {
                (&raw mut (*block).lock).write_bytes(0, 1);
                (*header).generation.store(generation::current(), Ordering::Relaxed);
                return true;
            }
            make_new(&(*block).lock)
        }
    }
}
