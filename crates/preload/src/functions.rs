//! The replaced functions, each named once: its exported symbol, its entry in the table of active functions, and
//! glibc's own version of it.

use crate::boot;
use crate::memory::Page;
use crate::message::die;
use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::{
    clockid_t, pid_t, pthread_attr_t, pthread_barrier_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t,
    pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t, pthread_t, sched_param, sem_t, timespec,
};

/// A function pointer of type `F` that is set while the process has one thread; later only to another function that
/// does the same.
pub struct Entry<F> {
    address: AtomicPtr<()>,
    kind: PhantomData<F>,
}

impl<F: Copy> Entry<F> {
    const fn new(address: *mut ()) -> Self {
        Entry { address: AtomicPtr::new(address), kind: PhantomData }
    }

    #[inline(always)]
    pub fn get(&self) -> F {
        // Relaxed: creating a thread synchronises, and of what is set later a thread may find either.
        let address = self.address.load(Ordering::Relaxed);
        // SAFETY: `F` is a function pointer type and the entry holds a function of that type.
        unsafe { core::mem::transmute_copy::<*mut (), F>(&address) }
    }

    pub fn set(&self, function: F) {
        // Relaxed: as in `get`.
        self.address.store(Self::address_of(function), Ordering::Relaxed);
    }

    #[inline(always)]
    fn address_of(function: F) -> *mut () {
        // SAFETY: `F` is a function pointer type.
        unsafe { core::mem::transmute_copy::<F, *mut ()>(&function) }
    }
}

impl<T> Entry<unsafe extern "C-unwind" fn(T) -> c_int> {
    /// Whether this is the function; if not, the one that it is, as one that nothing unwinds through: the compiler
    /// makes a jump of a call of such a function at the end. Only for functions that are no cancellation points.
    #[inline(always)]
    pub fn other_than(&self, function: unsafe extern "C-unwind" fn(T) -> c_int) -> Option<Quiet<T>> {
        let active = self.get();
        if core::ptr::fn_addr_eq(active, function) {
            None
        } else {
            Some(quiet(active))
        }
    }
}

/// A function that nothing unwinds through.
pub type Quiet<T> = unsafe extern "C" fn(T) -> c_int;

/// The same function as one that nothing unwinds through, for which the compiler makes a jump of a call at the end.
#[inline(always)]
pub fn quiet<T>(function: unsafe extern "C-unwind" fn(T) -> c_int) -> Quiet<T> {
    // SAFETY: the two differ in what the compiler expects of them only.
    unsafe { core::mem::transmute(function) }
}

/// Prints that glibc lacks a function that the program calls, and ends the process.
fn missing(name: &str) -> ! {
    die(format_args!("this glibc has no {name}; lockswap needs glibc 2.34 or later"))
}

/// Forbids writing to the tables, which whoever could write to them would send calls to anywhere with.
pub fn protect() {
    ACTIVE.protect();
    REAL.protect();
    BEHIND.protect();
    UNTRACED.protect();
}

/// The whole body of an exported function: a jump to the active one, which finds the stack and the registers as its
/// caller left them. (The compiler's own code for this keeps a frame, 2 ns.)
macro_rules! jump_through {
    ($name:ident) => {{
        #[cfg(target_arch = "x86_64")]
        core::arch::naked_asm!(
            "jmp qword ptr [rip + {table} + {entry}]",
            table = sym ACTIVE,
            entry = const core::mem::offset_of!(Functions, $name),
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::naked_asm!(
            "adrp x16, {table} + {entry}",
            "ldr x16, [x16, :lo12:{table} + {entry}]",
            "br x16",
            table = sym ACTIVE,
            entry = const core::mem::offset_of!(Functions, $name),
        );
    }};
}

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// One set of implementations.
        pub struct Functions {
            $(pub $name: Entry<unsafe extern "C-unwind" fn($($type),*) -> $result>,)*
        }

        /// The implementations in use.
        pub static ACTIVE: Page<Functions> = Page(Functions {
            $($name: Entry::new({
                unsafe extern "C-unwind" fn first_call($($arg: $type),*) -> $result {
                    boot::initialise(core::ptr::null());
                    // SAFETY: the caller's contract is that of the function itself.
                    unsafe { ACTIVE.$name.get()($($arg),*) }
                }
                first_call as *mut ()
            }),)*
        });

        /// glibc's implementations.
        pub static REAL: Page<Functions> = Page(Functions {
            $($name: Entry::new({
                unsafe extern "C-unwind" fn absent($(_: $type),*) -> $result {
                    missing(stringify!($name))
                }
                absent as *mut ()
            }),)*
        });

        /// The implementations behind those that count, see [`crate::calls`].
        pub static BEHIND: Page<Functions> = Page(Functions {
            $($name: Entry::new(core::ptr::null_mut()),)*
        });

        /// The implementations behind those that trace, see [`crate::trace`].
        pub static UNTRACED: Page<Functions> = Page(Functions {
            $($name: Entry::new(core::ptr::null_mut()),)*
        });

        impl Functions {
            /// Makes all entries those of another set.
            pub fn copy_from(&self, other: &Functions) {
                $(self.$name.set(other.$name.get());)*
            }
        }

        /// Looks up glibc's implementations, and makes them the active ones.
        pub fn load_real() {
            $(
                let name = concat!(stringify!($name), "\0");
                // SAFETY: the name ends with a zero byte; the library is fully relocated.
                let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
                if !address.is_null() {
                    REAL.$name.address.store(address.cast(), Ordering::Relaxed);
                }
                ACTIVE.$name.set(REAL.$name.get());
            )*
        }

        $(
            /// # Safety
            /// As for the function of the same name in glibc.
            #[no_mangle]
            #[unsafe(naked)]
            pub unsafe extern "C-unwind" fn $name($(_: $type),*) -> $result {
                jump_through!($name)
            }
        )*
    };
}

/// A list of C strings that ends with a null pointer.
pub type Strings = *const *const c_char;

/// The start function of a thread: its result is a pointer for POSIX, an `int` for C11.
pub type Start<R> = extern "C-unwind" fn(*mut c_void) -> R;

functions! {
    fn pthread_mutex_init(mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t) -> c_int;
    fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int;
    fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_consistent(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_getprioceiling(mutex: *const pthread_mutex_t, ceiling: *mut c_int) -> c_int;
    fn pthread_mutex_setprioceiling(mutex: *mut pthread_mutex_t, ceiling: c_int, old: *mut c_int) -> c_int;

    fn pthread_cond_init(cond: *mut pthread_cond_t, attr: *const pthread_condattr_t) -> c_int;
    fn pthread_cond_destroy(cond: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_timedwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int;
    fn pthread_cond_clockwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec) -> c_int;
    fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int;

    fn pthread_rwlock_init(rwlock: *mut pthread_rwlock_t, attr: *const pthread_rwlockattr_t) -> c_int;
    fn pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_tryrdlock(rwlock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_timedrdlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) -> c_int;
    fn pthread_rwlock_clockrdlock(
        rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec) -> c_int;
    fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_trywrlock(rwlock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_timedwrlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) -> c_int;
    fn pthread_rwlock_clockwrlock(
        rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec) -> c_int;
    fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) -> c_int;

    fn pthread_spin_init(spin: *mut c_int, pshared: c_int) -> c_int;
    fn pthread_spin_destroy(spin: *mut c_int) -> c_int;
    fn pthread_spin_lock(spin: *mut c_int) -> c_int;
    fn pthread_spin_trylock(spin: *mut c_int) -> c_int;
    fn pthread_spin_unlock(spin: *mut c_int) -> c_int;

    fn mtx_init(mutex: *mut pthread_mutex_t, kind: c_int) -> c_int;
    fn mtx_lock(mutex: *mut pthread_mutex_t) -> c_int;
    fn mtx_trylock(mutex: *mut pthread_mutex_t) -> c_int;
    fn mtx_timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int;
    fn mtx_unlock(mutex: *mut pthread_mutex_t) -> c_int;
    fn mtx_destroy(mutex: *mut pthread_mutex_t) -> ();
    fn cnd_init(cond: *mut pthread_cond_t) -> c_int;
    fn cnd_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn cnd_timedwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int;
    fn cnd_signal(cond: *mut pthread_cond_t) -> c_int;
    fn cnd_broadcast(cond: *mut pthread_cond_t) -> c_int;
    fn cnd_destroy(cond: *mut pthread_cond_t) -> ();

    fn sem_wait(semaphore: *mut sem_t) -> c_int;
    fn sem_timedwait(semaphore: *mut sem_t, abstime: *const timespec) -> c_int;
    fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, abstime: *const timespec) -> c_int;
    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int;

    fn pthread_create(
        thread: *mut pthread_t, attr: *const pthread_attr_t, start: Start<*mut c_void>, argument: *mut c_void) -> c_int;
    fn thrd_create(thread: *mut pthread_t, start: Start<c_int>, argument: *mut c_void) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;

    fn pthread_setschedparam(thread: pthread_t, policy: c_int, param: *const sched_param) -> c_int;
    fn pthread_attr_setschedpolicy(attr: *mut pthread_attr_t, policy: c_int) -> c_int;
    fn sched_setscheduler(pid: pid_t, policy: c_int, param: *const sched_param) -> c_int;
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn execv(path: *const c_char, arguments: Strings) -> c_int;
    fn execvp(file: *const c_char, arguments: Strings) -> c_int;
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fn posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attr: *const c_void, arguments: Strings,
        environment: Strings) -> c_int;
    fn posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const c_void, attr: *const c_void, arguments: Strings,
        environment: Strings) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long) -> c_long;
}

/// Names under which glibc before 2.34 exported some of the functions for other libraries; programs linked then still
/// import them.
macro_rules! old_names {
    ($(fn $old:ident($($arg:ident: $type:ty),*) = $name:ident;)*) => {
        $(
            /// # Safety
            /// As for the function of the newer name.
            #[no_mangle]
            #[unsafe(naked)]
            pub unsafe extern "C-unwind" fn $old($(_: $type),*) -> c_int {
                jump_through!($name)
            }
        )*
    };
}

old_names! {
    fn __pthread_mutex_init(
        mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t) = pthread_mutex_init;
    fn __pthread_mutex_destroy(mutex: *mut pthread_mutex_t) = pthread_mutex_destroy;
    fn __pthread_mutex_lock(mutex: *mut pthread_mutex_t) = pthread_mutex_lock;
    fn __pthread_mutex_trylock(mutex: *mut pthread_mutex_t) = pthread_mutex_trylock;
    fn __pthread_mutex_unlock(mutex: *mut pthread_mutex_t) = pthread_mutex_unlock;
    fn pthread_mutex_consistent_np(mutex: *mut pthread_mutex_t) = pthread_mutex_consistent;
    fn __pthread_rwlock_init(
        rwlock: *mut pthread_rwlock_t, attr: *const pthread_rwlockattr_t) = pthread_rwlock_init;
    fn __pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) = pthread_rwlock_destroy;
    fn __pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t) = pthread_rwlock_rdlock;
    fn __pthread_rwlock_tryrdlock(rwlock: *mut pthread_rwlock_t) = pthread_rwlock_tryrdlock;
    fn __pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) = pthread_rwlock_wrlock;
    fn __pthread_rwlock_trywrlock(rwlock: *mut pthread_rwlock_t) = pthread_rwlock_trywrlock;
    fn __pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) = pthread_rwlock_unlock;
}
