//! Where objects were initialised, which names those that have no symbol.

use super::probes::probe;
use super::whatif;
use crate::functions::{Functions, UNTRACED};
use crate::tls;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use libc::{pthread_mutex_t, pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t};
use lockswap_platform::{Native, Platform};
use lockswap_records::trace::{Event, Kind};

/// The last objects that were initialised, each at the place that its address says; a newer one takes the place of an
/// older.
static BIRTHS: [Birth; 1 << 14] = [const { Birth { object: AtomicUsize::new(0), site: AtomicUsize::new(0) } }; 1 << 14];

/// Relaxed, both: an object is initialised before others use it; where two objects share a place, a thread may see the
/// address of one with the site of the other, once.
struct Birth {
    object: AtomicUsize,
    site: AtomicUsize,
}

fn place(object: usize) -> &'static Birth {
    &BIRTHS[super::watch::hash(object) % BIRTHS.len()]
}

/// Remembers that the call that returns to `site` has initialised an object.
fn note(object: usize, site: usize) {
    let place = place(object);
    place.object.store(object, Ordering::Relaxed);
    place.site.store(site, Ordering::Relaxed);
    whatif::note_birth(site);
}

/// Calls that initialise objects whose stacks are noted, of each place in the program: they tell who called a function
/// that does nothing else.
const MOST_STACKS: u32 = 100;

/// How many stacks were noted of the places that lead to each of these, and in the upper bits in which session.
/// Relaxed: what a few too many cost is time.
static NOTED: [AtomicU32; 1 << 12] = [const { AtomicU32::new(0) }; 1 << 12];

/// Notes the stack of a call that initialises an object, if it is one of the first at this place.
fn note_stack(object: usize, site: usize) {
    let thread = &tls::thread().trace;
    thread.alone(|ring| {
        let counter = &NOTED[super::watch::hash(site) % NOTED.len()];
        let begun = ring.session() << 16;
        let count = match counter.load(Ordering::Relaxed) {
            value if value >> 16 == begun >> 16 => value,
            _ => begun,
        };
        if count - begun < MOST_STACKS {
            counter.store(count + 1, Ordering::Relaxed);
            let (object, birth) = (object as u64, site as u64);
            let event = thread.complete(Event { object, birth, begin: Native::instant(), ..Event::default() });
            ring.write(Kind::Birth, &thread.with_stack(ring, event));
        }
    });
}

/// Where the call returned that initialised an object; 0 where that is not known.
pub fn site_of_birth(object: usize) -> u64 {
    let place = place(object);
    if place.object.load(Ordering::Relaxed) == object {
        place.site.load(Ordering::Relaxed) as u64
    } else {
        0
    }
}

macro_rules! initialisers {
    ($(fn $name:ident($object:ident: $type:ty, $argument:ident: $argument_type:ty) = $probe:literal;)*) => {
        $(
            mod $name {
                use super::*;

                /// Goes on with the return address, which is that of the program's call, as the third argument.
                #[unsafe(naked)]
                pub unsafe extern "C-unwind" fn entry(_: $type, _: $argument_type) -> c_int {
                    #[cfg(target_arch = "x86_64")]
                    core::arch::naked_asm!("mov rdx, qword ptr [rsp]", "jmp {}", sym initialise);
                    #[cfg(target_arch = "aarch64")]
                    core::arch::naked_asm!("mov x2, x30", "b {}", sym initialise);
                }

                unsafe extern "C-unwind" fn initialise(
                    $object: $type, $argument: $argument_type, site: usize) -> c_int {
                    probe!($probe, $object);
                    note($object.addr(), site);
                    note_stack($object.addr(), site);
                    // SAFETY: the program's arguments.
                    unsafe { UNTRACED.$name.get()($object, $argument) }
                }
            }
        )*

        /// Puts the functions that remember where they initialise objects into a table.
        pub fn put(table: &Functions) {
            $(table.$name.set($name::entry);)*
        }
    };
}

initialisers! {
    fn pthread_mutex_init(mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t) = "mutex_init";
    fn pthread_rwlock_init(rwlock: *mut pthread_rwlock_t, attr: *const pthread_rwlockattr_t) = "rwlock_init";
    fn pthread_spin_init(spin: *mut c_int, pshared: c_int) = "spin_init";
}
