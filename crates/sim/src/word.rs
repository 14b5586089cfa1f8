//! Shared memory of machines whose threads take turns on one thread of the host: the locks' atomics, and what they
//! guard.

use lockswap_platform::{AtomicInt, AtomicPtrCell, DataCell, Ordering};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::Location;

/// Where an access stands in the source.
pub type At = &'static Location<'static>;

/// What accesses are on one machine. Another virtual thread may run during each of them.
pub trait Memory: 'static {
    /// What the machine keeps beside guarded memory.
    type Guard: Default;
    /// Reads.
    fn load(place: Place, at: At) -> u64;
    /// Writes.
    fn store(place: Place, value: u64, at: At);
    /// Reads and writes what `f` gives, if anything; the value before.
    fn update(place: Place, at: At, f: impl FnOnce(u64) -> Option<u64>) -> u64;
    /// Uses so many bytes that a lock protects.
    fn touch(guard: &Self::Guard, start: usize, bytes: usize, writes: bool, at: At);
}

/// The atomic integer at an address.
#[derive(Clone, Copy, Default)]
pub struct Place {
    pub address: usize,
    pub bytes: u8,
}

impl Place {
    #[inline]
    pub fn read(self) -> u64 {
        let pointer = std::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: a `Word` of that size or a larger one is there, and virtual threads run one at a time.
        unsafe {
            match self.bytes {
                1 => u64::from(*pointer),
                2 => u64::from(*pointer.cast::<u16>()),
                4 => u64::from(*pointer.cast::<u32>()),
                _ => *pointer.cast::<u64>(),
            }
        }
    }

    #[inline]
    pub fn write(self, value: u64) {
        let pointer = std::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY: as above.
        unsafe {
            match self.bytes {
                1 => *pointer = value as u8,
                2 => *pointer.cast::<u16>() = value as u16,
                4 => *pointer.cast::<u32>() = value as u32,
                _ => *pointer.cast::<u64>() = value,
            }
        }
    }
}

/// An atomic of the machine `M`; its bytes are the value's.
#[repr(transparent)]
pub struct Word<T, M>(UnsafeCell<T>, PhantomData<M>);

// SAFETY: virtual threads run one at a time on one thread of the host.
unsafe impl<T, M> Sync for Word<T, M> {}
// SAFETY: as above.
unsafe impl<T, M> Send for Word<T, M> {}

impl<T, M: Memory> Word<T, M> {
    /// A word outside any lock.
    pub const fn holding(value: T) -> Self {
        Word(UnsafeCell::new(value), PhantomData)
    }

    /// Sets the value while no virtual thread runs.
    pub fn reset(&self, value: T) {
        // SAFETY: nobody runs.
        unsafe { *self.0.get() = value };
    }

    #[inline]
    pub fn place(&self) -> Place {
        Place { address: self.0.get().expose_provenance(), bytes: size_of::<T>() as u8 }
    }

    #[inline]
    fn read(&self, at: At) -> u64 {
        M::load(self.place(), at)
    }

    #[inline]
    fn write(&self, value: u64, at: At) {
        M::store(self.place(), value, at);
    }

    #[inline]
    fn update(&self, at: At, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
        M::update(self.place(), at, f)
    }
}

/// A word whose parts can be accessed as well, as on hardware with the lowest byte first.
impl<M: Memory> Word<u32, M> {
    /// Writes the lowest byte.
    #[inline]
    #[track_caller]
    pub fn store_byte(&self, value: u8) {
        M::store(Place { bytes: 1, ..self.place() }, value.into(), Location::caller());
    }

    /// Writes the lower half.
    #[inline]
    #[track_caller]
    pub fn store_half(&self, value: u16) {
        M::store(Place { bytes: 2, ..self.place() }, value.into(), Location::caller());
    }

    /// Writes the upper half, and returns the whole word before.
    #[inline]
    #[track_caller]
    pub fn swap_upper(&self, value: u16) -> u32 {
        self.update(Location::caller(), |old| Some(old & 0xffff | u64::from(value) << 16)) as u32
    }
}

macro_rules! int {
    ($value:ty) => {
        impl<M: Memory> AtomicInt<$value> for Word<$value, M> {
            fn new(value: $value) -> Self {
                Word::holding(value)
            }
            #[inline]
            #[track_caller]
            fn load(&self, _: Ordering) -> $value {
                self.read(Location::caller()) as $value
            }
            #[inline]
            #[track_caller]
            fn store(&self, value: $value, _: Ordering) {
                self.write(value as u64, Location::caller());
            }
            #[inline]
            #[track_caller]
            fn swap(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |_| Some(value as u64)) as $value
            }
            #[inline]
            #[track_caller]
            fn compare_exchange(&self, current: $value, new: $value, _: Ordering) -> Result<$value, $value> {
                let change = |old| (old as $value == current).then_some(new as u64);
                let old = self.update(Location::caller(), change) as $value;
                if old == current {
                    Ok(old)
                } else {
                    Err(old)
                }
            }
            #[inline]
            #[track_caller]
            fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some((old as $value).wrapping_add(value) as u64)) as $value
            }
            #[inline]
            #[track_caller]
            fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some((old as $value).wrapping_sub(value) as u64)) as $value
            }
            #[inline]
            #[track_caller]
            fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some((old as $value & value) as u64)) as $value
            }
            #[inline]
            #[track_caller]
            fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some((old as $value | value) as u64)) as $value
            }
        }
    };
}

int!(u8);
int!(u32);
int!(usize);

fn pointer<T>(bits: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(bits as usize)
}

fn bits<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

impl<T, M: Memory> AtomicPtrCell<T> for Word<*mut T, M> {
    fn new(value: *mut T) -> Self {
        Word::holding(value)
    }
    #[inline]
    #[track_caller]
    fn load(&self, _: Ordering) -> *mut T {
        pointer(self.read(Location::caller()))
    }
    #[inline]
    #[track_caller]
    fn store(&self, value: *mut T, _: Ordering) {
        self.write(bits(value), Location::caller());
    }
    #[inline]
    #[track_caller]
    fn swap(&self, value: *mut T, _: Ordering) -> *mut T {
        pointer(self.update(Location::caller(), |_| Some(bits(value))))
    }
    #[inline]
    #[track_caller]
    fn compare_exchange(&self, current: *mut T, new: *mut T, _: Ordering) -> Result<*mut T, *mut T> {
        let change = |old| (old == bits(current)).then_some(bits(new));
        let old = pointer(self.update(Location::caller(), change));
        if old == current {
            Ok(old)
        } else {
            Err(old)
        }
    }
}

/// Memory that a lock protects.
#[repr(C)]
pub struct Guarded<T, M: Memory> {
    value: UnsafeCell<T>,
    guard: M::Guard,
}

// SAFETY: as for `Word`.
unsafe impl<T: Send, M: Memory> Sync for Guarded<T, M> {}
// SAFETY: as for `Word`.
unsafe impl<T: Send, M: Memory> Send for Guarded<T, M> {}

impl<T, M: Memory> Guarded<T, M> {
    #[inline]
    fn touch(&self, writes: bool, at: At) {
        M::touch(&self.guard, self.value.get().addr(), size_of::<T>(), writes, at);
    }
}

impl<T: Send, M: Memory> DataCell<T> for Guarded<T, M> {
    fn new(value: T) -> Self {
        Guarded { value: UnsafeCell::new(value), guard: M::Guard::default() }
    }
    #[inline]
    #[track_caller]
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        self.touch(false, Location::caller());
        // SAFETY: nobody else runs.
        f(unsafe { &*self.value.get() })
    }
    #[inline]
    #[track_caller]
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.touch(true, Location::caller());
        // SAFETY: as above.
        f(unsafe { &mut *self.value.get() })
    }
}
