//! One thread's slots by id: a hash table with open addressing.
//!
//!   Slots [ table ]--> [ slots | bits | older ]--> the table before it grew
//!
//! A table that has become too small is kept until the thread ends: a signal handler may make it grow while the thread
//! that it has interrupted looks something up. All older ones together are smaller than the one in use.

use super::ids::{descriptor, Descriptor};
use super::records::Records;
use super::Frame;
use crate::memory;
use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::null;
use core::sync::atomic::{compiler_fence, Ordering};
use lockswap_locks::asymmetric::epoch::{Target, Window};
use lockswap_platform::{window, CoreKind, Ns};
use lockswap_records::latency::Run;

/// Slots that a thread has at first; it gets twice as many whenever more than half of them are in use.
const FIRST_SLOTS: usize = 16;

/// One thread's part of an id; all zero while it is free.
#[derive(Clone)]
pub struct Slot {
    id: c_int,
    window: Cell<Window>,
    /// Null while the slot is free.
    descriptor: *const Descriptor,
    records: Records,
}

impl Slot {
    /// How long to stand back in this epoch.
    pub fn window(&self) -> Ns {
        self.window.get().get()
    }

    /// Takes note of an epoch that ends on a core of this kind.
    #[inline(always)]
    pub fn end(&self, begun: Frame, kind: CoreKind, latency: Ns, slo: Ns) {
        // SAFETY: not null, as the slot is in use; descriptors live for ever.
        let descriptor = unsafe { &*self.descriptor };
        let slo = descriptor.slo(slo);
        if kind == CoreKind::Little && begun.kind == CoreKind::Little {
            let mut window = self.window.get();
            window.update(latency, Target { slo, misses: descriptor.misses(), longest: window::longest() });
            self.window.set(window);
        }
        self.records.count(self.id, kind, Run { start: begun.start, latency, slo, window: self.window() });
    }
}

/// 2^bits slots, of which more than half are free.
struct Table {
    slots: Cell<*mut Slot>,
    bits: Cell<u32>,
    older: Cell<*const Table>,
}

impl Table {
    /// The slot of this id, or the free one where it belongs.
    #[inline(always)]
    fn probe(&self, id: c_int) -> *mut Slot {
        let bits = self.bits.get();
        // Fibonacci hashing: consecutive ids, and ids with a regular distance, spread over the table.
        let mut index = (id as u32).wrapping_mul(0x9E37_79B9) >> (32 - bits);
        loop {
            let slot = self.slots.get().wrapping_add(index as usize);
            // SAFETY: less than 2^bits slots from the first one.
            let found = unsafe { &*slot };
            if found.id == id || found.descriptor.is_null() {
                return slot;
            }
            index = (index + 1) & ((1 << bits) - 1);
        }
    }

    /// The slots in use, and their descriptors.
    fn in_use(&self) -> impl Iterator<Item = (&Slot, &Descriptor)> {
        // SAFETY: as many slots as the table has.
        let slots = unsafe { core::slice::from_raw_parts(self.slots.get(), 1 << self.bits.get()) };
        // SAFETY: null, or a descriptor, which lives for ever.
        slots.iter().filter_map(|slot| Some((slot, unsafe { slot.descriptor.as_ref() }?)))
    }
}

/// The slots of a thread; all zero before [`Slots::prepare`].
pub struct Slots {
    table: Cell<*const Table>,
    used: Cell<usize>,
    /// Whether the thread is making a slot; a signal handler makes none then.
    busy: Cell<bool>,
    first: Table,
    first_slots: [Cell<Slot>; FIRST_SLOTS],
}

impl Slots {
    /// Makes them ready to be used. They stay where they are from now on.
    pub fn prepare(&self) {
        self.first.slots.set(self.first_slots.as_ptr().cast_mut().cast());
        self.first.bits.set(FIRST_SLOTS.ilog2());
        self.table.set(&self.first);
    }

    #[inline(always)]
    fn table(&self) -> &Table {
        // SAFETY: set by `prepare`, and tables stay as long as the thread.
        unsafe { &*self.table.get() }
    }

    /// The slot of an id, if it has one.
    #[inline(always)]
    pub fn find(&self, id: c_int) -> Option<&Slot> {
        // SAFETY: a slot of this thread's.
        let slot = unsafe { &*self.table().probe(id) };
        (!slot.descriptor.is_null()).then_some(slot)
    }

    /// Makes a slot for an id that had none.
    #[cold]
    pub fn make(&self, id: c_int) -> Option<&Slot> {
        if self.busy.replace(true) {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        let made = descriptor(id).filter(|_| self.make_room()).map(|descriptor| {
            let slot = self.table().probe(id);
            // SAFETY: a slot of this thread's, which it alone uses.
            unsafe {
                // A signal handler may have made it in the meantime.
                if (*slot).descriptor.is_null() {
                    let window = Cell::new(descriptor.first_window());
                    slot.write(Slot { id, window, descriptor, records: Records::default() });
                    self.used.set(self.used.get() + 1);
                }
                &*slot
            }
        });
        compiler_fence(Ordering::SeqCst);
        self.busy.set(false);
        made
    }

    /// Makes sure that more than half of the table stays free with one slot more; whether that is so.
    fn make_room(&self) -> bool {
        let old = self.table();
        let bits = old.bits.get();
        if self.used.get() < 1 << (bits - 1) {
            return true;
        }
        let Some(memory) = memory::map(bytes(bits + 1)) else { return false };
        let memory = memory.cast::<Table>();
        // SAFETY: new memory, large enough for the table and its slots; all zero are free slots.
        let new = unsafe { &*memory };
        new.slots.set(memory.wrapping_add(1).cast());
        new.bits.set(bits + 1);
        new.older.set(old);
        for (slot, _) in old.in_use() {
            // SAFETY: a free slot of the new table.
            unsafe { new.probe(slot.id).write(slot.clone()) };
        }
        compiler_fence(Ordering::SeqCst);
        self.table.set(new);
        true
    }

    /// Leaves the windows and records to other threads, and gives back the memory.
    ///
    /// # Safety
    /// The thread ends, and uses none of it any more.
    pub unsafe fn release(&self) {
        for (slot, descriptor) in self.table().in_use() {
            slot.records.release();
            descriptor.leave(slot.window.get());
        }
        let mut table = self.table.replace(null());
        while table != &raw const self.first {
            // SAFETY: mapped by `make_room` with this size; only the first one has none that is older.
            unsafe {
                let (older, bits) = ((*table).older.get(), (*table).bits.get());
                memory::unmap(table.cast_mut().cast(), bytes(bits));
                table = older;
            }
        }
    }
}

/// Memory of a table and its slots.
fn bytes(bits: u32) -> usize {
    const { assert!(align_of::<Table>() == align_of::<Slot>()) };
    size_of::<Table>() + (size_of::<Slot>() << bits)
}
