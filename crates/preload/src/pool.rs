//! Queue nodes that must live from an acquisition to its release.
//!
//! A node is a slot of one cache line in memory that is never unmapped and holds nodes of one type for ever, so that a
//! late look at a recycled node is harmless. Each thread keeps a list of free slots; a global list takes what a thread has
//! too many of, and all of them when it ends. A held lock's slot belongs to whoever releases the lock.

use crate::generation::RareLock;
use crate::{boot, tls};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use lockswap_locks::registry::CONTEXT_SLOT_BYTES;
use lockswap_locks::Context;

const CONTEXT_BYTES: usize = CONTEXT_SLOT_BYTES - size_of::<*mut Slot>();

/// Free slots that a thread keeps at most; half of them go to the global list when there are more.
const MOST_FREE: u32 = 128;
/// Slots that a thread takes from the global list, or makes, at once.
const REFILL: u32 = 32;
/// Bytes mapped at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// One queue node.
#[repr(C, align(64))]
pub struct Slot {
    next_free: Cell<*mut Slot>,
    context: MaybeUninit<[u64; CONTEXT_BYTES / 8]>,
}

const _: () = assert!(size_of::<Slot>() == CONTEXT_SLOT_BYTES);

const CONTEXT_OFFSET: usize = core::mem::offset_of!(Slot, context);

fn slot_of<C>(context: NonNull<C>) -> *mut Slot {
    context.as_ptr().cast::<u8>().wrapping_sub(CONTEXT_OFFSET).cast()
}

/// The calling thread's spare context, if it is ready to be used; it is used with [`use_spare`].
#[inline(always)]
pub fn spare<C: Context>() -> Option<NonNull<C>> {
    const { assert!(size_of::<C>() <= CONTEXT_BYTES && align_of::<C>() <= 8) };
    let slot = tls::thread().spare.get();
    if slot.is_null() {
        return None;
    }
    // SAFETY: a free slot of this thread, with a context of the process's one context type.
    let context = unsafe { context_of::<C>(slot) };
    // SAFETY: as above.
    unsafe { context.as_ref() }.is_reusable().then_some(context)
}

/// Takes the context that [`spare`] has shown.
#[inline(always)]
pub fn use_spare() {
    tls::thread().spare.set(null_mut());
}

/// A context that is ready to be used.
pub fn take<C: Context>() -> NonNull<C> {
    match spare() {
        Some(context) => {
            use_spare();
            context
        }
        None => take_from_list(tls::thread()),
    }
}

/// # Safety
/// `slot` is not null.
#[inline(always)]
unsafe fn context_of<C>(slot: *mut Slot) -> NonNull<C> {
    // SAFETY: as for this call.
    unsafe { NonNull::new_unchecked(slot.cast::<u8>().wrapping_add(CONTEXT_OFFSET).cast()) }
}

/// Puts a context back that no acquisition uses any more.
///
/// # Safety
/// It came from [`take`] with the same type.
#[inline(always)]
pub unsafe fn put<C: Context>(context: NonNull<C>) {
    let thread = tls::thread();
    if thread.spare.get().is_null() {
        thread.spare.set(slot_of(context));
    } else {
        put_on_list(thread, slot_of(context));
    }
}

#[cold]
#[inline(never)]
fn put_on_list(thread: &tls::Thread, slot: *mut Slot) {
    push(thread, slot);
    if thread.free_count.get() > MOST_FREE {
        give_back(thread, MOST_FREE / 2);
    }
}

/// Slots that no thread has.
static GLOBAL: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
/// The part of the last mapping that has not been used yet.
static FRESH: AtomicPtr<Slot> = AtomicPtr::new(null_mut());
static FRESH_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Protects the three above, which is why they are accessed with Relaxed order.
static POOL: RareLock = RareLock::new();

#[cold]
#[inline(never)]
fn take_from_list<C: Context>(thread: &tls::Thread) -> NonNull<C> {
    loop {
        let mut link = &thread.free;
        // SAFETY: slots on the list are free contexts of the process's one context type, and this thread's.
        while let Some(slot) = unsafe { link.get().as_ref() } {
            // SAFETY: as above.
            let context = unsafe { context_of::<C>(link.get()) };
            // SAFETY: as above.
            if unsafe { context.as_ref() }.is_reusable() {
                link.set(slot.next_free.get());
                thread.free_count.set(thread.free_count.get() - 1);
                return context;
            }
            link = &slot.next_free;
        }
        refill::<C>(thread);
    }
}

fn refill<C: Context>(thread: &tls::Thread) {
    boot::at_thread_end(thread);
    let mut left = REFILL;
    POOL.with(|| {
        while left > 0 {
            let slot = GLOBAL.load(Ordering::Relaxed);
            if slot.is_null() {
                break;
            }
            // SAFETY: slots on the global list belong to whoever holds the lock.
            GLOBAL.store(unsafe { (*slot).next_free.get() }, Ordering::Relaxed);
            push(thread, slot);
            left -= 1;
        }
        while left > 0 {
            let slot = fresh_slot();
            // SAFETY: new memory, large and aligned enough (checked in `take`).
            unsafe { context_of::<C>(slot).as_ptr().write(C::new()) };
            push(thread, slot);
            left -= 1;
        }
    });
}

fn push(thread: &tls::Thread, slot: *mut Slot) {
    // SAFETY: the caller owns the slot.
    unsafe { (*slot).next_free.set(thread.free.get()) };
    thread.free.set(slot);
    thread.free_count.set(thread.free_count.get() + 1);
}

/// Memory for one slot; the lock is held.
fn fresh_slot() -> *mut Slot {
    if FRESH_COUNT.load(Ordering::Relaxed) == 0 {
        FRESH.store(boot::map(CHUNK_BYTES).cast(), Ordering::Relaxed);
        FRESH_COUNT.store(CHUNK_BYTES / size_of::<Slot>(), Ordering::Relaxed);
    }
    let slot = FRESH.load(Ordering::Relaxed);
    FRESH.store(slot.wrapping_add(1), Ordering::Relaxed);
    FRESH_COUNT.store(FRESH_COUNT.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    slot
}

/// Moves `count` slots of this thread to the global list.
#[cold]
fn give_back(thread: &tls::Thread, count: u32) {
    POOL.with(|| {
        for _ in 0..count {
            let slot = thread.free.get();
            // SAFETY: the list holds at least `count` slots, and they belong to this thread.
            unsafe {
                thread.free.set((*slot).next_free.get());
                (*slot).next_free.set(GLOBAL.load(Ordering::Relaxed));
            }
            GLOBAL.store(slot, Ordering::Relaxed);
        }
    });
    thread.free_count.set(thread.free_count.get() - count);
}

/// Gives back the list of a thread that ends.
pub fn thread_end(thread: &tls::Thread) {
    let spare = thread.spare.replace(null_mut());
    if !spare.is_null() {
        push(thread, spare);
    }
    give_back(thread, thread.free_count.get());
}

/// Forgets the global lists, which another thread may have been changing.
///
/// # Safety
/// The process has one thread: it is the child of a fork.
pub unsafe fn enter_child() {
    GLOBAL.store(null_mut(), Ordering::Relaxed);
    FRESH_COUNT.store(0, Ordering::Relaxed);
    // SAFETY: the thread that held it, if any, is in the parent.
    unsafe { POOL.reset() };
}
