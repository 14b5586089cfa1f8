//! Queue nodes that must live from an acquisition to its release.
//!
//! A node is a slot of one cache line in memory that is never unmapped and holds nodes of one type for ever, so that a
//! late look at a recycled node is harmless. A held lock's slot belongs to whoever releases the lock.
//!
//!   thread:  spare ──▶ slot        free ──▶ slot ──▶ slot        both only in threads whose end will be seen
//!   process: FREE  ──▶ slot ──▶ slot ...                          a stack without a lock
//!            CHUNKS[n / 1024] ──▶ [slot; 1024]                    slots never used yet: from FRESH on
//!
//! Slots are linked by their numbers, which are 1 for the first. A number is half as long as an address, which leaves room
//! for a count beside it that tells two states of the stack apart (else a slot that was taken and put back between a
//! thread's look at the stack and its exchange would go unnoticed).
//!
//! **A signal may come at any instruction**, and its handler may take slots and put some back, not necessarily as many. What
//! belongs to the thread is therefore marked as busy while it is changed; a handler that finds the mark uses the stack of
//! the process. That stack needs no mark: each change is one exchange, repeated if it fails.
//!
//! **Without memory** the first 1024 slots, which come with the library, remain; an acquisition that finds none waits until
//! there is one.

use crate::memory;
use crate::tls::{self, Keeps};
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{compiler_fence, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use lockswap_locks::registry::CONTEXT_SLOT_BYTES;
use lockswap_locks::Context;

const CONTEXT_BYTES: usize = CONTEXT_SLOT_BYTES - 2 * size_of::<u32>();

/// Free slots that a thread keeps at most; half of them go to the process when there are more.
const MOST_FREE: u32 = 128;
/// Slots that a thread takes from the process at once.
const REFILL: u32 = 32;
/// Slots in a chunk: 64 KiB.
const CHUNK_SLOTS: usize = 1024;
/// Chunks at most: 4 million slots, each in use by a held lock or a waiter.
const MOST_CHUNKS: usize = 4096;

/// One queue node.
#[repr(C, align(64))]
pub struct Slot {
    /// The slot's own number; 0 before its first use.
    number: Cell<u32>,
    /// The number of the next slot on the list of a thread or of the process; 0 at the end. Atomic, because a thread that
    /// takes from the stack may look at it when the slot is in use again.
    next: AtomicU32,
    context: MaybeUninit<[u64; CONTEXT_BYTES / 8]>,
}

const _: () = assert!(size_of::<Slot>() == CONTEXT_SLOT_BYTES);

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

/// The stack of free slots: the number of the first, and in the upper half how often the stack has been changed.
static FREE: AtomicU64 = AtomicU64::new(0);

fn slot_of<C>(context: NonNull<C>) -> *mut Slot {
    context.as_ptr().cast::<u8>().wrapping_sub(CONTEXT_OFFSET).cast()
}

/// # Safety
/// `slot` is not null.
#[inline(always)]
unsafe fn context_of<C>(slot: *mut Slot) -> NonNull<C> {
    // SAFETY: as for this call.
    unsafe { NonNull::new_unchecked(slot.cast::<u8>().wrapping_add(CONTEXT_OFFSET).cast()) }
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

/// Runs `body` on the thread's own slots, unless the thread keeps none, or this is a signal handler that has come while it
/// was at them.
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

/// The calling thread's spare context, if it has one that is ready to be used.
#[inline(always)]
pub fn take_spare<C: Context>() -> Option<NonNull<C>> {
    const { assert!(size_of::<C>() <= CONTEXT_BYTES && align_of::<C>() <= 8) };
    let thread = tls::thread();
    let slot = with_own(thread, || NonNull::new(thread.spare.replace(null_mut())))?;
    // SAFETY: a free slot of this thread, with a context of the process's one context type.
    let context = unsafe { context_of::<C>(slot.as_ptr()) };
    // SAFETY: as above.
    if unsafe { context.as_ref() }.is_reusable() {
        return Some(context);
    }
    put_on_list(thread, slot.as_ptr());
    None
}

/// A context that is ready to be used; none if there is no memory for one.
pub fn take<C: Context>() -> Option<NonNull<C>> {
    take_spare().or_else(|| take_from_list(tls::thread()))
}

/// Puts a context back that no acquisition uses any more.
///
/// # Safety
/// It came from [`take`] or [`take_spare`] with the same type.
#[inline(always)]
pub unsafe fn put<C: Context>(context: NonNull<C>) {
    let thread = tls::thread();
    let slot = slot_of(context);
    let was_spared = with_own(thread, || thread.spare.get().is_null().then(|| thread.spare.set(slot)));
    if was_spared.is_none() {
        put_on_list(thread, slot);
    }
}

#[cold]
#[inline(never)]
fn put_on_list(thread: &tls::Thread, slot: *mut Slot) {
    let kept = with_own(thread, || {
        push_own(thread, slot);
        if thread.free_count.get() > MOST_FREE {
            give_back(thread, MOST_FREE / 2);
        }
        Some(())
    });
    if kept.is_none() {
        push_free(slot, slot);
    }
}

#[cold]
#[inline(never)]
fn take_from_list<C: Context>(thread: &tls::Thread) -> Option<NonNull<C>> {
    let own = with_own(thread, || {
        if thread.free.get() == 0 {
            for _ in 0..REFILL {
                push_own(thread, pop_free::<C>()?);
            }
        }
        take_reusable(thread)
    });
    own.or_else(take_reusable_free)
}

/// A slot of the thread's own list whose context may be used.
fn take_reusable<C: Context>(thread: &tls::Thread) -> Option<NonNull<C>> {
    let mut previous: *mut Slot = null_mut();
    let mut number = thread.free.get();
    while number != 0 {
        let slot = numbered(number);
        // SAFETY: slots on the list are free contexts of the process's one context type, and this thread's. Relaxed, here
        // and below: only this thread changes the list.
        unsafe {
            let next = (*slot).next.load(Ordering::Relaxed);
            let context = context_of::<C>(slot);
            if context.as_ref().is_reusable() {
                match previous.as_ref() {
                    Some(previous) => previous.next.store(next, Ordering::Relaxed),
                    None => thread.free.set(next),
                }
                thread.free_count.set(thread.free_count.get() - 1);
                return Some(context);
            }
            previous = slot;
            number = next;
        }
    }
    None
}

fn push_own(thread: &tls::Thread, slot: *mut Slot) {
    // SAFETY: the caller owns the slot, which has been used. Relaxed: as in `take_reusable`.
    unsafe {
        (*slot).next.store(thread.free.get(), Ordering::Relaxed);
        thread.free.set(number_of(slot));
    }
    thread.free_count.set(thread.free_count.get() + 1);
}

/// A free slot of the process whose context may be used.
fn take_reusable_free<C: Context>() -> Option<NonNull<C>> {
    let mut refused = 0;
    let found = loop {
        let Some(slot) = pop_free::<C>() else { break None };
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
        push_free(slot, slot);
    }
    found
}

/// The stack with another first slot.
fn changed(stack: u64, first: u32) -> u64 {
    ((stack >> 32) + 1) << 32 | first as u64
}

/// Takes a slot from the stack, else one that has never been used; none if there is no memory.
fn pop_free<C: Context>() -> Option<*mut Slot> {
    // ORDER(free): Acquire pairs with the Release in `push_free`; the slot's link, and what its last user did.
    let mut stack = FREE.load(Ordering::Acquire);
    while stack as u32 != 0 {
        let slot = numbered(stack as u32);
        // SAFETY: a slot for ever. Relaxed: if another thread has taken it meanwhile, the exchange fails.
        let next = unsafe { (*slot).next.load(Ordering::Relaxed) };
        // ORDER(free): as above.
        match FREE.compare_exchange_weak(stack, changed(stack, next), Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Some(slot),
            Err(found) => stack = found,
        }
    }
    fresh::<C>()
}

/// Puts slots on the stack that are linked from `first` to `last`.
fn push_free(first: *mut Slot, last: *mut Slot) {
    // SAFETY: the caller owns the slots, which have been used.
    unsafe {
        let number = number_of(first);
        let link = |stack: u64| {
            // Relaxed: published by the exchange.
            (*last).next.store(stack as u32, Ordering::Relaxed);
            Some(changed(stack, number))
        };
        // ORDER(free): Release pairs with the Acquire in `pop_free`. Relaxed: a failed exchange is repeated.
        let _ = FREE.fetch_update(Ordering::Release, Ordering::Relaxed, link);
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
fn give_back(thread: &tls::Thread, count: u32) {
    if count == 0 {
        return;
    }
    let first = numbered(thread.free.get());
    let mut last = first;
    // SAFETY: the list holds at least `count` slots, and they belong to this thread. Relaxed: as in `take_reusable`.
    unsafe {
        for _ in 1..count {
            last = numbered((*last).next.load(Ordering::Relaxed));
        }
        thread.free.set((*last).next.load(Ordering::Relaxed));
    }
    thread.free_count.set(thread.free_count.get() - count);
    push_free(first, last);
}

/// Gives back the slots of a thread that ends, and keeps none from now on: other functions that run at its end may still
/// lock.
pub fn thread_end(thread: &tls::Thread) {
    thread.keeps.set(Keeps::Nothing);
    compiler_fence(Ordering::SeqCst);
    let spare = thread.spare.replace(null_mut());
    if !spare.is_null() {
        push_own(thread, spare);
    }
    give_back(thread, thread.free_count.get());
}
