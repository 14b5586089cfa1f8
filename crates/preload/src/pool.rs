//! Queue nodes that must live from an acquisition to its release.
//!
//! A node is a slot of two cache lines in memory that is never unmapped and holds nodes of one type for ever, so that
//! a late look at a recycled node is harmless. Where a process has several locks ([`crate::profile`]), each has slots
//! of its own: a [`Pool`]. They come from the same memory, and never pass from one pool to another.
//!
//!   thread:  slots[0..4] ──▶ slot      free ──▶ slot ──▶ slot    both only in threads whose end will be seen
//!   process: FREE        ──▶ slot ──▶ slot ...                    a stack without a lock
//!            CHUNKS[n / 1024] ──▶ [slot; 1024]                    slots never used yet: from FRESH on
//!
//! A thread keeps its *own* slots until it ends. All others are *loose*: they belong to whoever releases the lock that
//! is held through them. Who uses a slot stands in the slot, so that a thread takes an own one and puts it back with
//! two stores, and later knows without a look at the mutex that it holds it:
//!
//! | user                      | meaning                                                                              |
//! |---------------------------|--------------------------------------------------------------------------------------|
//! | `UNUSED`                  | nobody uses the slot                                                                 |
//! | a mutex's address         | its thread holds the mutex through it, or tries to; only in the thread's first own slot |
//! | the same with `ASK`       | an acquisition of this mutex, of which only the mutex can tell whether it has ended  |
//! | the same with `LOOSE` too | the same, in a loose slot                                                            |
//!
//! Another thread may release the lock. It makes an own slot `UNUSED` then; the slot remains with its thread.
//!
//! Slots are linked by their numbers, which are 1 for the first. A number is half as long as an address, which leaves
//! room for a count beside it that tells two states of the stack apart (else a slot that was taken and put back
//! between a thread's look at the stack and its exchange would go unnoticed).
//!
//! **A signal may come at any instruction**, and its handler may take slots and put some back, not necessarily as
//! many. An own slot is therefore claimed with one instruction. The lists of a thread are marked as busy while they
//! are changed; a handler that finds the mark uses the stack of the process. That stack needs no mark: each change is
//! one exchange, repeated if it fails.
//!
//! **Without memory** the first 1024 slots, which come with the library, remain; an acquisition that finds none waits
//! until there is one.

use crate::memory;
use crate::tls::{self, Keeps};
#[cfg(target_arch = "x86_64")]
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{compiler_fence, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use lockswap_locks::registry::CONTEXT_SLOT_BYTES;
use lockswap_locks::Context;

/// The context has a line of its own, because other threads read and write it while this one takes and puts back its
/// slots.
const CONTEXT_BYTES: usize = CONTEXT_SLOT_BYTES / 2;

/// Free slots that a thread keeps at most; half of them go to the process when there are more.
const MOST_FREE: u32 = 128;
/// Slots that a thread takes from the process at once.
const REFILL: u32 = 32;
/// Slots in a chunk: 128 KiB.
const CHUNK_SLOTS: usize = 1024;
/// Chunks at most: 4 million slots, each in use by a held lock or a waiter.
const MOST_CHUNKS: usize = 4096;

/// One queue node.
#[repr(C, align(64))]
pub struct Slot {
    /// The slot's own number; 0 before its first use.
    number: Cell<u32>,
    /// The number of the next slot on the list of a thread or of the process; 0 at the end. Atomic, because a thread
    /// that takes from the stack may look at it when the slot is in use again.
    next: AtomicU32,
    /// Who uses the slot, see the top of this file.
    user: AtomicUsize,
    context: Line<MaybeUninit<[u64; CONTEXT_BYTES / 8]>>,
}

/// What has a cache line of its own.
#[repr(C, align(64))]
struct Line<T>(T);

/// Locks that a process may have for its mutexes: a mutex keeps the number of its own in a byte, a thread slots for
/// each.
pub const LOCKS: usize = 8;

/// What a thread keeps for one lock; all zero at its start.
#[repr(C)]
pub struct Own {
    /// Slots that are the thread's until it ends, in use or not: enough for one that holds few locks at a time.
    slots: [Cell<*mut Slot>; 4],
    /// Free slots that the thread keeps besides: the number of the first.
    free: Cell<u32>,
    /// Length of that list.
    free_count: Cell<u32>,
}

/// The slots of one of the process's locks. Which one is part of the code where the process has one lock.
#[derive(Clone, Copy)]
pub enum Pool {
    /// The process has one lock.
    Only,
    /// The process has several locks: the one with this number, less than [`LOCKS`].
    Numbered(u8),
}

impl Pool {
    #[inline(always)]
    fn index(self) -> usize {
        match self {
            Pool::Only => 0,
            Pool::Numbered(number) => number as usize % LOCKS,
        }
    }

    #[inline(always)]
    fn own(self, thread: &tls::Thread) -> &Own {
        &thread.own[self.index()]
    }
}

/// How many pools are in use. Relaxed: set while the process has one thread.
static POOLS: AtomicUsize = AtomicUsize::new(1);

/// Says how many locks the process has. Called before a second thread exists.
pub fn set_count(pools: usize) {
    POOLS.store(pools.min(LOCKS), Ordering::Relaxed);
}

/// What the thread keeps for each lock of the process.
fn all_own(thread: &tls::Thread) -> impl Iterator<Item = (Pool, &Own)> {
    let pools = (0..).map(Pool::Numbered).zip(&thread.own);
    pools.take(POOLS.load(Ordering::Relaxed))
}

/// The user of an own slot that nobody uses.
const UNUSED: usize = 0;
/// Beside a user: the mutex tells through which slot it is held.
const ASK: usize = 1;
/// Beside a user: the slot belongs to whoever releases the lock.
const LOOSE: usize = 2;
/// The bits that are not part of a mutex's address. (One that a program has not aligned is always asked.)
const FLAGS: usize = 7;

const CONTEXT_OFFSET: usize = core::mem::offset_of!(Slot, context);

type Chunk = [Slot; CHUNK_SLOTS];

/// Memory of the first chunk: zero pages, which take no memory until they are used.
struct FirstChunk(UnsafeCell<MaybeUninit<Chunk>>);

// SAFETY: handed out slot by slot, as other chunks are.
unsafe impl Sync for FirstChunk {}

static FIRST: FirstChunk = FirstChunk(UnsafeCell::new(MaybeUninit::zeroed()));

static CHUNKS: [AtomicPtr<Slot>; MOST_CHUNKS] = {
    let mut chunks = [const { AtomicPtr::new(null_mut()) }; MOST_CHUNKS];
    chunks[0] = AtomicPtr::new(FIRST.0.get().cast());
    chunks
};

/// How many slots have ever been used: those with higher numbers are fresh.
static FRESH: AtomicU32 = AtomicU32::new(0);

/// The stack of free slots of each pool: the number of the first, and in the upper half how often the stack has been
/// changed.
static FREE: [Line<AtomicU64>; LOCKS] = [const { Line(AtomicU64::new(0)) }; LOCKS];

fn slot_of<C>(context: NonNull<C>) -> *mut Slot {
    context.as_ptr().cast::<u8>().wrapping_sub(CONTEXT_OFFSET).cast()
}

/// # Safety
/// `slot` is one, not null.
#[inline(always)]
unsafe fn context_of<C>(slot: *mut Slot) -> NonNull<C> {
    // SAFETY: as for this call.
    unsafe { NonNull::new_unchecked(slot.cast::<u8>().add(CONTEXT_OFFSET).cast()) }
}

/// The slot with this number, which has been used.
fn numbered(number: u32) -> *mut Slot {
    let index = number as usize - 1;
    // ORDER(chunk): Acquire pairs with the Release in `fresh`; the chunk is zero memory.
    CHUNKS[index / CHUNK_SLOTS].load(Ordering::Acquire).wrapping_add(index % CHUNK_SLOTS)
}

/// # Safety
/// The slot has been used.
unsafe fn number_of(slot: *mut Slot) -> u32 {
    // SAFETY: as for this call; the number does not change.
    unsafe { (*slot).number.get() }
}

/// Runs `body` on the thread's own slots, unless the thread keeps none, or this is a signal handler that has come
/// while it was at them.
#[inline(always)]
fn with_own<R>(thread: &tls::Thread, body: impl FnOnce() -> Option<R>) -> Option<R> {
    if thread.keeps.get() != Keeps::Some {
        return None;
    }
    thread.keeps.set(Keeps::Busy);
    // The fences keep the compiler from moving what `body` does out of here; a handler sees the instructions in order.
    compiler_fence(Ordering::SeqCst);
    let result = body();
    compiler_fence(Ordering::SeqCst);
    thread.keeps.set(Keeps::Some);
    result
}

/// Changes the user of an own slot of the calling thread from `old` to `new`, in one instruction as far as the
/// thread's signal handlers can see, and returns whether it was `old`.
#[inline(always)]
fn change(user: &AtomicUsize, old: usize, new: usize) -> bool {
    // The instruction writes in any case: another thread may release the lock of a slot that is in use. Relaxed, here
    // and where nothing else is said: while the slot is unused, or its thread has not returned from its acquisition,
    // no other thread changes the word.
    if user.load(Ordering::Relaxed) != old {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let found: usize;
        // SAFETY: writes to an atomic word that no other thread changes now. Without the prefix that makes it atomic
        // for other CPUs, the instruction costs a third. A load acquires on this architecture.
        unsafe {
            asm!(
                "cmpxchg qword ptr [{user}], {new}",
                user = in(reg) user.as_ptr(), new = in(reg) new, inout("rax") old => found, options(nostack)
            );
        }
        found == old
    }
    // ORDER(user): Acquire pairs with the Release in `put`; the releasing thread has finished with the context.
    #[cfg(not(target_arch = "x86_64"))]
    user.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// The context in this own slot, claimed for `user`, if it is ready to be used.
#[inline(always)]
fn claim_reusable<C: Context>(slot: *mut Slot, user: usize) -> Option<NonNull<C>> {
    const { assert!(size_of::<C>() <= CONTEXT_BYTES && align_of::<C>() <= 8) };
    // SAFETY: null, or a slot.
    let own = unsafe { slot.as_ref() }?;
    if !change(&own.user, UNUSED, user) {
        return None;
    }
    // SAFETY: not null, and a context of the pool's one context type.
    let context = unsafe { context_of::<C>(slot) };
    // SAFETY: as above.
    if unsafe { context.as_ref() }.is_reusable() {
        return Some(context);
    }
    own.user.store(UNUSED, Ordering::Relaxed);
    None
}

/// The context in the calling thread's first own slot of the pool, to acquire the mutex at this address, if it is
/// ready to be used. If the mutex `is_asked`, [`holds_through`] does not tell of it.
#[inline(always)]
pub fn take_first<C: Context>(pool: Pool, mutex: usize, is_asked: bool) -> Option<NonNull<C>> {
    let thread = tls::thread();
    if let Pool::Numbered(number) = pool {
        thread.recent.set(number);
    }
    claim_reusable(pool.own(thread).slots[0].get(), mutex & !FLAGS | if is_asked { ASK } else { 0 })
}

/// The number of the lock of the mutex at this address, if the calling thread is known to hold that through a context,
/// and has acquired none of another lock so since.
#[inline(always)]
pub fn lock_held_through(mutex: usize) -> Option<u8> {
    let thread = tls::thread();
    let recent = thread.recent.get();
    let slot = Pool::Numbered(recent).own(thread).slots[0].get();
    // SAFETY: null, or a slot; not null if it has a user.
    unsafe { (!slot.is_null() && (*slot).user.load(Ordering::Relaxed) == mutex).then_some(recent) }
}

/// The context through which the calling thread is known to hold the mutex at this address.
#[inline(always)]
pub fn holds_through<C: Context>(pool: Pool, mutex: usize) -> Option<NonNull<C>> {
    let slot = pool.own(tls::thread()).slots[0].get();
    // SAFETY: null, or a slot; not null if it has a user.
    unsafe { (!slot.is_null() && (*slot).user.load(Ordering::Relaxed) == mutex).then(|| context_of(slot)) }
}

/// Puts a context back that the calling thread has from [`take_first`] or [`holds_through`].
///
/// # Safety
/// No acquisition uses it any more.
#[inline(always)]
pub unsafe fn put_first<C: Context>(context: NonNull<C>) {
    // SAFETY: in a slot of this thread's own.
    unsafe { (*slot_of(context)).user.store(UNUSED, Ordering::Relaxed) };
}

/// A context to acquire the mutex at this address, which is ready to be used; none if there is no memory for one.
pub fn take<C: Context>(pool: Pool, mutex: usize) -> Option<NonNull<C>> {
    let thread = tls::thread();
    let user = mutex & !FLAGS | ASK;
    forget(pool.own(thread), Some(mutex));
    let own_slots = pool.own(thread).slots.iter();
    let own = || own_slots.map(|own| own_slot::<C>(pool, thread, own)).find_map(|slot| claim_reusable::<C>(slot, user));
    own().or_else(|| {
        let context = take_from_list::<C>(pool, thread)?;
        // SAFETY: the context of a slot that is this thread's alone.
        unsafe { (*slot_of(context)).user.store(user | LOOSE, Ordering::Relaxed) };
        Some(context)
    })
}

/// The slot in this place, which gets one if it has none; null where the thread keeps none, and without memory.
fn own_slot<C: Context>(pool: Pool, thread: &tls::Thread, own: &Cell<*mut Slot>) -> *mut Slot {
    if own.get().is_null() {
        with_own(thread, || {
            // A signal handler may have come meanwhile.
            if own.get().is_null() {
                own.set(pop_free::<C>(pool)?);
            }
            Some(())
        });
    }
    own.get()
}

/// Lets [`holds_through`] tell that the calling thread holds the mutex at this address through `context`, which it has
/// from [`take_first`].
///
/// # Safety
/// It does.
#[inline(always)]
pub unsafe fn note_holding<C: Context>(mutex: usize, context: NonNull<C>) {
    // SAFETY: in a slot of this thread's own.
    unsafe { (*slot_of(context)).user.store(mutex & !FLAGS, Ordering::Relaxed) };
}

/// Makes [`holds_through`] tell of no mutex any more: each call is to take the long way from now on.
pub fn forget_holding() {
    all_own(tls::thread()).for_each(|(_, own)| forget(own, None));
}

/// Makes [`holds_through`] tell of the mutex at this address no more, or of none: the calling thread acquires the
/// mutex again (a signal handler may, while the thread tries), another mutex has come to lie there, or all are to be
/// forgotten.
fn forget(own: &Own, mutex: Option<usize>) {
    // SAFETY: null, or a slot of this thread.
    let Some(slot) = (unsafe { own.slots[0].get().as_ref() }) else { return };
    let user = slot.user.load(Ordering::Relaxed);
    if user != UNUSED && user & FLAGS == 0 && mutex.is_none_or(|mutex| user == mutex) {
        // Relaxed: if another thread has released the mutex meanwhile, the slot is unused.
        let _ = slot.user.compare_exchange(user, user | ASK, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Makes the calling thread give up its own slots in use, because no acquisition will be released through them: of the
/// mutex at this address, or of all mutexes.
pub fn abandon(mutex: Option<usize>) {
    for own in all_own(tls::thread()).flat_map(|(_, own)| &own.slots) {
        // SAFETY: null, or a slot.
        let user = unsafe { own.get().as_ref() }.map_or(UNUSED, |slot| slot.user.load(Ordering::Relaxed));
        if user != UNUSED && mutex.is_none_or(|mutex| user & !FLAGS == mutex & !FLAGS) {
            own.set(null_mut());
        }
    }
}

/// Whether an acquisition may be held through this context: not one that has been put back.
///
/// # Safety
/// It came from [`take`] or [`take_first`] at some time.
#[inline(always)]
pub unsafe fn is_taken<C: Context>(context: NonNull<C>) -> bool {
    // SAFETY: the context of a slot, which is a slot for ever. Relaxed: whoever asks knows of the acquisition.
    unsafe { (*slot_of(context)).user.load(Ordering::Relaxed) != UNUSED }
}

/// Puts a context back that no acquisition uses any more, whichever thread took it.
///
/// # Safety
/// It came from [`take`] or [`take_first`] with the same pool.
pub unsafe fn put<C: Context>(pool: Pool, context: NonNull<C>) {
    let thread = tls::thread();
    let slot = slot_of(context);
    // SAFETY: a slot.
    let user = unsafe { &(*slot).user };
    if pool.own(thread).slots.iter().any(|own| own.get() == slot) {
        return user.store(UNUSED, Ordering::Relaxed);
    }
    let unless_loose = |user: usize| (user & LOOSE == 0).then_some(UNUSED);
    // ORDER(user): Release pairs with the Acquire in `change` and in `thread_end`.
    if user.fetch_update(Ordering::Release, Ordering::Relaxed, unless_loose).is_err() {
        user.store(UNUSED, Ordering::Relaxed);
        put_on_list(pool, thread, slot);
    }
}

#[cold]
#[inline(never)]
fn put_on_list(pool: Pool, thread: &tls::Thread, slot: *mut Slot) {
    let own = pool.own(thread);
    let kept = with_own(thread, || {
        push_own(own, slot);
        if own.free_count.get() > MOST_FREE {
            give_back(pool, own, MOST_FREE / 2);
        }
        Some(())
    });
    if kept.is_none() {
        push_free(pool, slot, slot);
    }
}

#[cold]
#[inline(never)]
fn take_from_list<C: Context>(pool: Pool, thread: &tls::Thread) -> Option<NonNull<C>> {
    let own = pool.own(thread);
    let kept = with_own(thread, || {
        if own.free.get() == 0 {
            for _ in 0..REFILL {
                push_own(own, pop_free::<C>(pool)?);
            }
        }
        take_reusable(own)
    });
    kept.or_else(|| take_reusable_free(pool))
}

/// A slot of the thread's own list whose context may be used.
fn take_reusable<C: Context>(own: &Own) -> Option<NonNull<C>> {
    let mut previous: *mut Slot = null_mut();
    let mut number = own.free.get();
    while number != 0 {
        let slot = numbered(number);
        // SAFETY: slots on the list are free contexts of the pool's one context type, and this thread's. Relaxed, here
        // and below: only this thread changes the list.
        unsafe {
            let next = (*slot).next.load(Ordering::Relaxed);
            let context = context_of::<C>(slot);
            if context.as_ref().is_reusable() {
                match previous.as_ref() {
                    Some(previous) => previous.next.store(next, Ordering::Relaxed),
                    None => own.free.set(next),
                }
                own.free_count.set(own.free_count.get() - 1);
                return Some(context);
            }
            previous = slot;
            number = next;
        }
    }
    None
}

fn push_own(own: &Own, slot: *mut Slot) {
    // SAFETY: the caller owns the slot, which has been used. Relaxed: as in `take_reusable`.
    unsafe {
        (*slot).next.store(own.free.get(), Ordering::Relaxed);
        own.free.set(number_of(slot));
    }
    own.free_count.set(own.free_count.get() + 1);
}

/// A free slot of the process whose context may be used.
fn take_reusable_free<C: Context>(pool: Pool) -> Option<NonNull<C>> {
    let mut refused = 0;
    let found = loop {
        let Some(slot) = pop_free::<C>(pool) else { break None };
        // SAFETY: a free slot, and this thread's since `pop_free`.
        let context = unsafe { context_of::<C>(slot) };
        // SAFETY: as above. Relaxed: nobody else knows the list of the refused ones.
        unsafe {
            if context.as_ref().is_reusable() {
                break Some(context);
            }
            (*slot).next.store(refused, Ordering::Relaxed);
            refused = number_of(slot);
        }
    };
    while refused != 0 {
        let slot = numbered(refused);
        // SAFETY: a slot refused above.
        refused = unsafe { (*slot).next.load(Ordering::Relaxed) };
        push_free(pool, slot, slot);
    }
    found
}

/// The stack with another first slot.
fn changed(stack: u64, first: u32) -> u64 {
    ((stack >> 32) + 1) << 32 | first as u64
}

/// Takes a slot from the stack, else one that has never been used; none if there is no memory.
fn pop_free<C: Context>(pool: Pool) -> Option<*mut Slot> {
    let Line(free) = &FREE[pool.index()];
    // ORDER(free): Acquire pairs with the Release in `push_free`; the slot's link, and what its last user did.
    let mut stack = free.load(Ordering::Acquire);
    while stack as u32 != 0 {
        let slot = numbered(stack as u32);
        // SAFETY: a slot for ever. Relaxed: if another thread has taken it meanwhile, the exchange fails.
        let next = unsafe { (*slot).next.load(Ordering::Relaxed) };
        // ORDER(free): as above.
        match free.compare_exchange_weak(stack, changed(stack, next), Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Some(slot),
            Err(found) => stack = found,
        }
    }
    fresh::<C>()
}

/// Puts slots on the stack that are linked from `first` to `last`.
fn push_free(pool: Pool, first: *mut Slot, last: *mut Slot) {
    let Line(free) = &FREE[pool.index()];
    // SAFETY: the caller owns the slots, which have been used.
    unsafe {
        let number = number_of(first);
        let link = |stack: u64| {
            // Relaxed: published by the exchange.
            (*last).next.store(stack as u32, Ordering::Relaxed);
            Some(changed(stack, number))
        };
        // ORDER(free): Release pairs with the Acquire in `pop_free`. Relaxed: a failed exchange is repeated.
        let _ = free.fetch_update(Ordering::Release, Ordering::Relaxed, link);
    }
}

/// A slot that has never been used; none if there is no memory.
fn fresh<C: Context>() -> Option<*mut Slot> {
    // Relaxed: the number is all that threads share through this counter.
    let mut used = FRESH.load(Ordering::Relaxed);
    loop {
        let chunk = CHUNKS.get(used as usize / CHUNK_SLOTS)?;
        if chunk.load(Ordering::Relaxed).is_null() {
            let memory = memory::map(size_of::<Chunk>())?;
            // ORDER(chunk): Release pairs with the Acquire in `numbered`.
            if chunk.compare_exchange(null_mut(), memory.cast(), Ordering::Release, Ordering::Relaxed).is_err() {
                // SAFETY: mapped above, and nobody has seen it.
                unsafe { memory::unmap(memory, size_of::<Chunk>()) };
            }
        }
        match FRESH.compare_exchange_weak(used, used + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break,
            Err(found) => used = found,
        }
    }
    let slot = numbered(used + 1);
    // SAFETY: this thread's alone, large and aligned enough (checked in `take_spare`).
    unsafe {
        (*slot).number.set(used + 1);
        context_of::<C>(slot).as_ptr().write(C::new());
    }
    Some(slot)
}

/// Moves the first `count` slots of this thread's list to the process.
fn give_back(pool: Pool, own: &Own, count: u32) {
    if count == 0 {
        return;
    }
    let first = numbered(own.free.get());
    let mut last = first;
    // SAFETY: the list holds at least `count` slots, and they belong to this thread. Relaxed: as in `take_reusable`.
    unsafe {
        for _ in 1..count {
            last = numbered((*last).next.load(Ordering::Relaxed));
        }
        own.free.set((*last).next.load(Ordering::Relaxed));
    }
    own.free_count.set(own.free_count.get() - count);
    push_free(pool, first, last);
}

/// Gives back the slots of a thread that ends, and keeps none from now on: other functions that run at its end may
/// still lock.
pub fn thread_end(thread: &tls::Thread) {
    thread.keeps.set(Keeps::Nothing);
    compiler_fence(Ordering::SeqCst);
    for (pool, own) in all_own(thread) {
        for place in &own.slots {
            let slot = place.replace(null_mut());
            // SAFETY: null, or a slot.
            let Some(user) = unsafe { slot.as_ref() }.map(|slot| &slot.user) else { continue };
            // ORDER(user): Acquire pairs with the Release in `put`. A slot in use is left to who releases the lock.
            if user.fetch_or(LOOSE, Ordering::Acquire) == UNUSED {
                user.store(UNUSED, Ordering::Relaxed);
                push_own(own, slot);
            }
        }
        give_back(pool, own, own.free_count.get());
    }
}
