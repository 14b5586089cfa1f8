//! The blocks of an arena, which its lock protects: which are in use by which object, which are free, and when those
//! are given back whose objects are gone.

use crate::{generation, memory};
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicU8, AtomicUsize, Ordering};
use syscalls::{syscall, Errno, Sysno};

/// What an arena knows about one of its blocks.
#[repr(C, align(64))]
pub struct Header {
    /// The address of its object; 0 while it is free.
    pub object: AtomicUsize,
    /// The next block in the same bucket of the table, or on the list of free blocks.
    next: Cell<*mut Header>,
    /// The generation that the lock belongs to: in a later one it has no users.
    pub generation: AtomicU8,
}

/// Buckets of the first table.
pub const FIRST_BUCKETS: usize = 512;
/// Blocks in use before the first sweep.
const FIRST_SWEEP: usize = 1024;
/// Free blocks that are looked at for one that can be reused.
const LOOKS: u32 = 4;
/// Bytes mapped at once at least, and blocks in them at least.
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_BLOCKS: usize = 8;

/// All blocks of an arena: those in use in a table, by their object's address, the free ones in a list, and memory for
/// more.
pub struct State {
    /// Lists of blocks in use by their object's address: a power of two of them.
    pub table: *mut *mut Header,
    buckets: usize,
    used: usize,
    /// The number of blocks in use that makes a sweep worth its time.
    sweep_at: usize,
    first_free: *mut Header,
    last_free: *mut Header,
    /// The part of the last mapping that has not been used yet.
    fresh: *mut u8,
    fresh_bytes: usize,
}

impl State {
    /// No blocks, and no table yet.
    pub const EMPTY: State = State {
        table: null_mut(),
        buckets: FIRST_BUCKETS,
        used: 0,
        sweep_at: FIRST_SWEEP,
        first_free: null_mut(),
        last_free: null_mut(),
        fresh: null_mut(),
        fresh_bytes: 0,
    };

    /// A block for the object at this address, which has none; nothing if there is no memory.
    pub fn block_for(
        &mut self,
        object: usize,
        bytes: usize,
        reuse: &impl Fn(*mut Header) -> bool,
    ) -> Option<*mut Header> {
        let old = self.find(object);
        if !old.is_null() {
            if reuse(old) {
                return Some(old);
            }
            self.give_back(old);
        }
        if self.used >= self.sweep_at {
            self.sweep(reuse);
        }
        let block = self.take_free(reuse).or_else(|| self.take_fresh(bytes)).or_else(|| {
            self.sweep(reuse);
            self.take_free(reuse)
        })?;
        self.insert(block, object);
        Some(block)
    }

    /// Gives back blocks whose objects are gone: what lies at their addresses refers to these blocks no more.
    fn sweep(&mut self, reuse: &impl Fn(*mut Header) -> bool) {
        for bucket in 0..self.buckets {
            // SAFETY: within the table; its lists hold blocks.
            unsafe {
                let mut next = *self.table.add(bucket);
                while !next.is_null() {
                    let block = next;
                    next = (*block).next.get();
                    if !is_referred_to(block) && reuse(block) {
                        self.give_back(block);
                    }
                }
            }
        }
        self.sweep_at = (2 * self.used).max(FIRST_SWEEP);
    }

    fn bucket(&self, object: usize) -> *mut *mut Header {
        // Objects lie a few words apart: the multiplier (2^64 divided by the golden ratio) spreads them.
        let hash = (object as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.table.wrapping_add(hash as usize & (self.buckets - 1))
    }

    fn find(&self, object: usize) -> *mut Header {
        // SAFETY: within the table; its lists hold blocks.
        unsafe {
            let mut block = *self.bucket(object);
            while !block.is_null() && (*block).object.load(Ordering::Relaxed) != object {
                block = (*block).next.get();
            }
            block
        }
    }

    fn insert(&mut self, block: *mut Header, object: usize) {
        if self.used == self.buckets {
            self.grow();
        }
        self.used += 1;
        // SAFETY: a block that is on no list. Relaxed: published with the object's word.
        unsafe {
            (*block).object.store(object, Ordering::Relaxed);
            (*block).generation.store(generation::current(), Ordering::Relaxed);
        }
        self.link(block);
    }

    fn link(&mut self, block: *mut Header) {
        // SAFETY: a block with an object that is on no list; within the table.
        unsafe {
            let bucket = self.bucket((*block).object.load(Ordering::Relaxed));
            (*block).next.set(*bucket);
            *bucket = block;
        }
    }

    /// Doubles the table. Without memory for that it stays as it is, and its lists become longer.
    fn grow(&mut self) {
        let (old, old_buckets) = (self.table, self.buckets);
        let Some(table) = memory::map(2 * old_buckets * size_of::<*mut Header>()) else { return };
        self.buckets = 2 * old_buckets;
        self.table = table.cast();
        for bucket in 0..old_buckets {
            // SAFETY: within the old table; its lists hold blocks.
            unsafe {
                let mut next = *old.add(bucket);
                while !next.is_null() {
                    let block = next;
                    next = (*block).next.get();
                    self.link(block);
                }
            }
        }
        if old_buckets > FIRST_BUCKETS {
            // SAFETY: the old table, which nothing refers to; the first one is part of the arena.
            unsafe { memory::unmap(old.cast(), old_buckets * size_of::<*mut Header>()) };
        }
    }

    /// Moves a block in use to the end of the free ones.
    pub fn give_back(&mut self, block: *mut Header) {
        // SAFETY: a block in the table, which is on the list of its bucket. Relaxed: who reads the old address of the
        // object uses the object, and then nobody may give its block back.
        unsafe {
            let mut link = self.bucket((*block).object.load(Ordering::Relaxed));
            while *link != block {
                link = (**link).next.as_ptr();
            }
            *link = (*block).next.get();
            (*block).object.store(0, Ordering::Relaxed);
        }
        self.used -= 1;
        self.append_free(block);
    }

    fn append_free(&mut self, block: *mut Header) {
        // SAFETY: a block that is on no list; the last one is a block.
        unsafe {
            (*block).next.set(null_mut());
            match self.last_free.as_ref() {
                Some(last) => last.next.set(block),
                None => self.first_free = block,
            }
        }
        self.last_free = block;
    }

    /// A free block that can be reused. One that cannot, goes to the end of the list.
    fn take_free(&mut self, reuse: &impl Fn(*mut Header) -> bool) -> Option<*mut Header> {
        for _ in 0..LOOKS {
            let block = self.first_free;
            if block.is_null() {
                break;
            }
            // SAFETY: a block on the list.
            self.first_free = unsafe { (*block).next.get() };
            if self.first_free.is_null() {
                self.last_free = null_mut();
            }
            if reuse(block) {
                return Some(block);
            }
            self.append_free(block);
        }
        None
    }

    fn take_fresh(&mut self, bytes: usize) -> Option<*mut Header> {
        if self.fresh_bytes < bytes {
            let chunk_bytes = CHUNK_BYTES.max(CHUNK_BLOCKS * bytes);
            self.fresh = memory::map(chunk_bytes)?.cast();
            self.fresh_bytes = chunk_bytes;
        }
        let block = self.fresh;
        self.fresh = block.wrapping_add(bytes);
        self.fresh_bytes -= bytes;
        Some(block.cast())
    }
}

/// Whether the memory at the address of the block's object refers to the block; that memory may be unmapped, at any
/// time. The kernel compares one word of it with the block's address, as a futex operation that does nothing else.
fn is_referred_to(block: *mut Header) -> bool {
    const CMP_REQUEUE_PRIVATE: i32 = libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
    let other = AtomicU32::new(0);
    // SAFETY: a block; the kernel checks the addresses, wakes none and moves none.
    let compared = unsafe {
        let object = (*block).object.load(Ordering::Relaxed);
        syscall!(Sysno::futex, object, CMP_REQUEUE_PRIVATE, 0, 0, &raw const other, block as u32)
    };
    !matches!(compared, Err(Errno::EAGAIN | Errno::EFAULT))
}
