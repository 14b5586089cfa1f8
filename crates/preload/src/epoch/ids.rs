//! What the whole process knows about an id: a descriptor for each, which lives for ever. They are found, and made,
//! without a lock, so that a fork and a signal handler may come at any time.

use crate::memory;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use lockswap_locks::asymmetric::epoch::{Share, Window};
use lockswap_platform::{parse_duration, Ns};

/// Ids that a process can use; 4 MiB of address space are reserved for them at the first epoch.
const MOST_IDS: usize = 65_536;

/// One id. All its words are settings and hints that may change at any time, hence Relaxed throughout.
#[repr(align(64))]
pub struct Descriptor {
    id: c_int,
    /// See [`Share::to_bits`].
    misses: AtomicU32,
    /// An SLO from outside plus one; 0 where the program's own counts.
    slo: AtomicU64,
    /// The window that the last thread to end has left plus one; 0 where there is none.
    window: AtomicU64,
    next: *const Descriptor,
}

impl Descriptor {
    /// The SLO from outside, if there is one, else the program's.
    #[inline(always)]
    pub fn slo(&self, programs: Ns) -> Ns {
        self.slo.load(Ordering::Relaxed).checked_sub(1).unwrap_or(programs)
    }

    /// How many epochs may miss their SLO.
    #[inline(always)]
    pub fn misses(&self) -> Share {
        Share::from_bits(self.misses.load(Ordering::Relaxed))
    }

    /// Lets this share of all epochs miss their SLO.
    pub fn set_misses(&self, misses: Share) {
        self.misses.store(misses.to_bits(), Ordering::Relaxed);
    }

    /// The window that a thread begins with.
    pub fn first_window(&self) -> Window {
        self.window.load(Ordering::Relaxed).checked_sub(1).map_or(Window::NEW, Window::resume)
    }

    /// Leaves the window of a thread that ends to the next one.
    pub fn leave(&self, window: Window) {
        if window.has_run() {
            self.window.store(window.get() + 1, Ordering::Relaxed);
        }
    }
}

/// The descriptors, used from the first on, and how many are taken.
static DESCRIPTORS: AtomicPtr<Descriptor> = AtomicPtr::new(null_mut());
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Descriptors by id; the newest of a bucket first.
static BUCKETS: [AtomicPtr<Descriptor>; 1024] = [const { AtomicPtr::new(null_mut()) }; 1024];

/// The descriptor of an id, made if there is none; `None` if there are too many.
pub fn descriptor(id: c_int) -> Option<&'static Descriptor> {
    let bucket = &BUCKETS[id as u32 as usize % BUCKETS.len()];
    // ORDER(descriptor): Acquire, here and in the exchange, pairs with the Release of the exchange; its fields.
    let mut head = bucket.load(Ordering::Acquire);
    let mut own: Option<*mut Descriptor> = None;
    loop {
        let mut next = head.cast_const();
        // SAFETY: null, or a descriptor, which lives for ever and does not change its id and its next.
        while let Some(found) = unsafe { next.as_ref() } {
            if found.id == id {
                // What was taken in vain, because another thread came first, stays unused.
                return Some(found);
            }
            next = found.next;
        }
        let new = match own {
            Some(new) => new,
            None => take_descriptor()?,
        };
        own = Some(new);
        // SAFETY: this thread's own until the exchange; all zero else.
        unsafe {
            (&raw mut (*new).id).write(id);
            (&raw mut (*new).next).write(head);
        }
        match bucket.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => return Some(unsafe { &*new }),
            Err(found) => head = found,
        }
    }
}

fn take_descriptor() -> Option<*mut Descriptor> {
    const BYTES: usize = MOST_IDS * size_of::<Descriptor>();
    // Relaxed, all: the memory is zero for whoever learns its address, and each descriptor is one thread's.
    let mut all = DESCRIPTORS.load(Ordering::Relaxed);
    if all.is_null() {
        all = memory::map(BYTES)?.cast();
        if let Err(first) = DESCRIPTORS.compare_exchange(null_mut(), all, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: mapped above, and nobody has seen it.
            unsafe { memory::unmap(all.cast::<c_void>(), BYTES) };
            all = first;
        }
    }
    let taken =
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| (taken < MOST_IDS).then_some(taken + 1));
    Some(all.wrapping_add(taken.ok()?))
}

/// Sets SLOs as `5=50us,7=1ms` lists them, whatever the program says; whether that is such a list.
pub fn set_slos(list: &str) -> bool {
    list.split(',').all(|entry| {
        let parsed = entry.split_once('=').and_then(|(id, slo)| Some((id.parse().ok()?, parse_duration(slo)?)));
        let descriptor = parsed.and_then(|(id, slo)| Some((descriptor(id)?, slo)));
        descriptor.map(|(descriptor, slo)| descriptor.slo.store(slo + 1, Ordering::Relaxed)).is_some()
    })
}
