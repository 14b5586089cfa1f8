//! The versions under which glibc exports the replaced functions.
//!
//! Programs are linked to one of the versions, and bind to our symbol without a version all the same, also to one that
//! a later glibc introduces. But whoever looks a function up with `dlvsym` gets a symbol of exactly the version that
//! it names: ThreadSanitizer does so for condition variables. Hence a symbol here for each version that ever was;
//! `exports.map` names the versions to the linker.

use crate::functions::{Functions, ACTIVE};

/// The version of all that was there when glibc came to the architecture.
#[cfg(target_arch = "x86_64")]
macro_rules! first {
    () => {
        "GLIBC_2.2.5"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! first {
    () => {
        "GLIBC_2.17"
    };
}

/// A symbol of its own, with a jump of its own: the linker drops a symbol without a version that has the address of
/// one with a version.
macro_rules! symbol {
    ($name:ident, $entry:ident, $version:expr) => {
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            concat!(".globl \"", stringify!($name), "$", $version, "\""),
            concat!(".type \"", stringify!($name), "$", $version, "\", @function"),
            concat!("\"", stringify!($name), "$", $version, "\":"),
            "jmp qword ptr [rip + {table} + {entry}]",
            concat!(".size \"", stringify!($name), "$", $version, "\", . - \"", stringify!($name), "$", $version, "\""),
            concat!(".symver \"", stringify!($name), "$", $version, "\", ", stringify!($name), "@", $version, ", remove"),
            table = sym ACTIVE,
            entry = const core::mem::offset_of!(Functions, $entry),
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            concat!(".globl \"", stringify!($name), "$", $version, "\""),
            concat!(".type \"", stringify!($name), "$", $version, "\", %function"),
            concat!("\"", stringify!($name), "$", $version, "\":"),
            "adrp x16, {table} + {entry}",
            "ldr x16, [x16, :lo12:{table} + {entry}]",
            "br x16",
            concat!(".size \"", stringify!($name), "$", $version, "\", . - \"", stringify!($name), "$", $version, "\""),
            concat!(".symver \"", stringify!($name), "$", $version, "\", ", stringify!($name), "@", $version, ", remove"),
            table = sym ACTIVE,
            entry = const core::mem::offset_of!(Functions, $entry),
        );
    };
}

/// Symbols of one version: functions, and older names of functions.
macro_rules! version {
    ($version:expr => $($name:ident $(= $entry:ident)?)*) => {
        $(version!(@one $version, $name $(= $entry)?);)*
    };
    (@one $version:expr, $name:ident) => { symbol!($name, $name, $version); };
    (@one $version:expr, $name:ident = $entry:ident) => { symbol!($name, $entry, $version); };
}

version! { first!() =>
    pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock
    pthread_mutex_unlock
    pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_signal
    pthread_cond_broadcast
    pthread_rwlock_init pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_tryrdlock
    pthread_rwlock_timedrdlock pthread_rwlock_wrlock pthread_rwlock_trywrlock pthread_rwlock_timedwrlock
    pthread_rwlock_unlock
    pthread_spin_init pthread_spin_destroy pthread_spin_lock pthread_spin_trylock pthread_spin_unlock
    sem_wait sem_timedwait pthread_barrier_wait
    pthread_create pthread_setcanceltype
    pthread_setschedparam pthread_attr_setschedpolicy sched_setscheduler
    prctl syscall execve execv execvp
    __pthread_mutex_init = pthread_mutex_init
    __pthread_mutex_destroy = pthread_mutex_destroy
    __pthread_mutex_lock = pthread_mutex_lock
    __pthread_mutex_trylock = pthread_mutex_trylock
    __pthread_mutex_unlock = pthread_mutex_unlock
    __pthread_rwlock_init = pthread_rwlock_init
    __pthread_rwlock_destroy = pthread_rwlock_destroy
    __pthread_rwlock_rdlock = pthread_rwlock_rdlock
    __pthread_rwlock_tryrdlock = pthread_rwlock_tryrdlock
    __pthread_rwlock_wrlock = pthread_rwlock_wrlock
    __pthread_rwlock_trywrlock = pthread_rwlock_trywrlock
    __pthread_rwlock_unlock = pthread_rwlock_unlock
}

#[cfg(target_arch = "x86_64")]
version! { "GLIBC_2.3.2" =>
    pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_signal
    pthread_cond_broadcast
}

#[cfg(target_arch = "x86_64")]
version! { "GLIBC_2.4" =>
    pthread_mutex_getprioceiling pthread_mutex_setprioceiling pthread_mutex_consistent_np = pthread_mutex_consistent
}

#[cfg(target_arch = "x86_64")]
version! { "GLIBC_2.11" => execvpe }

#[cfg(target_arch = "x86_64")]
version! { "GLIBC_2.15" => posix_spawn posix_spawnp }

#[cfg(target_arch = "x86_64")]
version! { "GLIBC_2.12" => pthread_mutex_consistent }

#[cfg(target_arch = "aarch64")]
version! { first!() =>
    pthread_mutex_getprioceiling pthread_mutex_setprioceiling pthread_mutex_consistent
    pthread_mutex_consistent_np = pthread_mutex_consistent
    execvpe posix_spawn posix_spawnp
}

version! { "GLIBC_2.28" =>
    mtx_init mtx_lock mtx_trylock mtx_timedlock mtx_unlock mtx_destroy
    cnd_init cnd_wait cnd_timedwait cnd_signal cnd_broadcast cnd_destroy
    thrd_create
}

version! { "GLIBC_2.30" =>
    pthread_mutex_clocklock pthread_cond_clockwait pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock sem_clockwait
}

version! { "GLIBC_2.34" =>
    pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_consistent
    pthread_mutex_getprioceiling pthread_mutex_setprioceiling
    pthread_cond_clockwait
    pthread_rwlock_init pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_tryrdlock
    pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock pthread_rwlock_wrlock pthread_rwlock_trywrlock
    pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock pthread_rwlock_unlock
    pthread_spin_init pthread_spin_destroy pthread_spin_lock pthread_spin_trylock pthread_spin_unlock
    sem_wait sem_timedwait sem_clockwait pthread_barrier_wait
    pthread_create pthread_attr_setschedpolicy
    mtx_init mtx_lock mtx_trylock mtx_timedlock mtx_unlock mtx_destroy
    cnd_init cnd_wait cnd_timedwait cnd_signal cnd_broadcast cnd_destroy
    thrd_create
}
