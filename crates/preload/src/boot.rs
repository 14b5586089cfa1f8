//! Start-up: reads the environment and fills the table of functions, before any other constructor runs or at the first
//! call of a replaced function, whichever is first. Nothing here allocates or takes a lock.

use crate::functions::{self, ACTIVE, REAL};
use crate::{c11, cancel, cond, counters, epoch, generation, machine, mutex, outside, pool, route, rwlock, spin, tls};
use core::ffi::{c_char, c_int, c_void, CStr};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use libc::{pthread_attr_t, pthread_t};
use lockswap_locks::asymmetric::latency::FILE_WORDS;
use lockswap_locks::counters::{Counter, FILE_BYTES};
use lockswap_locks::for_each_lock;
use lockswap_locks::info::Asks;
use lockswap_locks::registry::{self, Role};
use lockswap_platform::{parse_duration, window, CpuList, Native, Single};
use syscalls::{syscall, Sysno};

/// Exit status when the environment asks for something that does not exist: as a shell's "command not found".
const CANNOT_START: c_int = 127;

/// Runs first of all constructors (`-z initfirst`); glibc passes the arguments of `main`.
extern "C" fn constructor(_argc: c_int, _argv: *const *const c_char, environment: *const *const c_char) {
    initialise(environment);
}

#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

/// Fills the table of functions, once. `environment` is null where the caller does not know it.
pub fn initialise(environment: *const *const c_char) {
    static STARTED: AtomicBool = AtomicBool::new(false);
    // Relaxed: the process has one thread.
    if !STARTED.swap(true, Ordering::Relaxed) {
        functions::load_real();
        let environment = if environment.is_null() {
            extern "C" {
                static environ: *const *const c_char;
            }
            // SAFETY: glibc's variable.
            unsafe { environ }
        } else {
            environment
        };
        // SAFETY: the list of the process's environment, ended by a null pointer.
        unsafe { install(&Environment(environment)) };
    }
}

/// The process's environment.
pub struct Environment(*const *const c_char);

impl Environment {
    /// The value of the variable `name`, if it is set and not empty.
    ///
    /// # Safety
    /// The list is the process's environment and does not change meanwhile.
    pub unsafe fn get(&self, name: &str) -> Option<&'static CStr> {
        let mut next = self.0;
        // SAFETY: as for this call.
        unsafe {
            while !next.is_null() && !(*next).is_null() {
                let entry = CStr::from_ptr(*next);
                let value = entry.to_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
                if value.is_some_and(|value| !value.is_empty()) {
                    return Some(CStr::from_ptr((*next).add(name.len() + 1)));
                }
                next = next.add(1);
            }
        }
        None
    }

    /// The CPUs that the variable `name` lists, if it is set and not empty.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    pub unsafe fn cpus(&self, name: &str) -> Option<CpuList<'static>> {
        // SAFETY: as for this call.
        let text = unsafe { self.get(name) }?.to_bytes();
        match CpuList::parse(text) {
            None => die(format_args!("{name}={} is not a list of CPUs, for instance 0-3,8", Lossy(text))),
            list => list,
        }
    }

    /// The file that the variable `name` names, mapped; `None` if it is not set or the file is not fit.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    unsafe fn map_file(&self, name: &str, bytes: usize, verbose: bool) -> Option<*mut c_void> {
        // SAFETY: as for this call.
        let path = unsafe { self.get(name) }?;
        let mapping = map_file(path, bytes);
        if let (Err(error), true) = (mapping, verbose) {
            complain(format_args!("{name}={}: not used: error {error}", Lossy(path.to_bytes())));
        }
        mapping.ok()
    }

    /// The lock that the variable `name` chooses for `role`; `default` if it chooses none.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    unsafe fn lock(&self, name: &str, role: Role, default: &'static str) -> &'static str {
        // SAFETY: as for this call.
        let Some(value) = (unsafe { self.get(name) }) else { return default };
        let chosen = value.to_str().ok().and_then(|id| registry::find(role, id));
        match chosen {
            Some(entry) => entry.info.id,
            None => die(format_args!(
                "{name}={} names no {} lock; choose one of: {}",
                Lossy(value.to_bytes()),
                role.name(),
                Ids(role)
            )),
        }
    }
}

/// # Safety
/// The process has one thread and `environment` is its own.
unsafe fn install(environment: &Environment) {
    // SAFETY: as for this call.
    unsafe {
        let mutex = environment.lock("LOCKSWAP_LOCK", Role::Mutex, Role::Mutex.default_id());
        let native = registry::is_glibcs(mutex);
        let default = |role: Role| if native { registry::PTHREAD } else { role.default_id() };
        let rwlock = environment.lock("LOCKSWAP_RWLOCK", Role::RwLock, default(Role::RwLock));
        let spin = environment.lock("LOCKSWAP_SPIN", Role::Spin, default(Role::Spin));
        let verbose = environment.get("LOCKSWAP_VERBOSE").is_some();
        let declared = environment.cpus("LOCKSWAP_ROUTE");
        let locks = [(Role::Mutex, mutex), (Role::RwLock, rwlock), (Role::Spin, spin)];
        let locks_ask = locks.iter().filter_map(|(role, id)| registry::find(*role, id));
        let latencies = environment.map_file("LOCKSWAP_LATENCIES", 8 * FILE_WORDS, verbose);
        // Latencies are recorded by the kind of the core, whatever the lock.
        let asks = Asks { kind: latencies.is_some(), ..Asks::default() };
        let asks = locks_ask.fold(asks, |asks, entry| asks.and(entry.info.asks()));
        let settings = machine::settings(environment);
        let learnt = machine::learn(environment, &settings, asks);
        let route = asks.route.then(|| route::choose(environment, declared, &settings, verbose));
        if let Some(file) = environment.map_file("LOCKSWAP_STATS", FILE_BYTES, verbose) {
            counters::set_file(file.cast());
            generation::start_counting();
        }
        if let Some(file) = latencies {
            epoch::set_latencies(file.cast());
        }
        if let Some(text) = environment.get("LOCKSWAP_ASL_MAX_WINDOW") {
            match text.to_str().ok().and_then(parse_duration) {
                Some(ns) => window::set_longest(ns),
                None => die(format_args!(
                    "LOCKSWAP_ASL_MAX_WINDOW={} is not a duration, for instance 100ms",
                    Lossy(text.to_bytes())
                )),
            }
        }
        if let Some(text) = environment.get("LOCKSWAP_SLO") {
            if !text.to_str().is_ok_and(epoch::set_slos) {
                die(format_args!(
                    "LOCKSWAP_SLO={} is not a list of ID=DURATION, for instance 5=50us,7=1ms",
                    Lossy(text.to_bytes())
                ));
            }
        }
        epoch::install();
        Native::has_one_cpu();
        libc::pthread_key_create(THREAD_END.as_ptr(), Some(end_thread));
        __register_atfork(
            Some(outside::before_fork),
            Some(outside::after_fork),
            Some(enter_child),
            core::ptr::null_mut(),
        );
        if !native {
            cond::install();
        }
        if !native || mutex == registry::PTHREAD_ADAPTIVE {
            c11::install();
        }
        if mutex == registry::PTHREAD_ADAPTIVE {
            mutex::install_adaptive();
        }
        choose(mutex, rwlock, spin);
        ACTIVE.pthread_create.set(create);
        ACTIVE.thrd_create.set(create_c11);
        ACTIVE.pthread_setcanceltype.set(cancel::setcanceltype);
        counters::count(Counter::Processes);
        counters::count(Counter::Threads);
        if verbose {
            complain(format_args!("mutex {mutex}, rwlock {rwlock}, spin {spin}"));
            if let Some(learnt) = learnt {
                complain(format_args!("{learnt}"));
            }
            if let Some(route) = route {
                complain(format_args!("{route}"));
            }
        }
    }
}

macro_rules! choose {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        /// Puts the chosen locks into the table; an id that is not listed stays glibc's.
        fn choose(mutex: &str, rwlock: &str, spin: &str) {
            match mutex {
                $($mutex_id => {
                    use $mutex as Lock;
                    mutex::install::<Lock<Native>, Lock<Single>>();
                })*
                _ => {}
            }
            match rwlock {
                $($rwlock_id => {
                    use $rwlock as Lock;
                    rwlock::install::<Lock<Native>>();
                })*
                _ => {}
            }
            match spin {
                $($spin_id => {
                    use $spin as Lock;
                    spin::install::<Lock<Native>>();
                })*
                _ => {}
            }
        }
    };
}

for_each_lock!(choose);

/// Maps the first `bytes` bytes of a file, shared and writable; the error of the system call that failed.
fn map_file(path: &CStr, bytes: usize) -> Result<*mut c_void, c_int> {
    // SAFETY: the path is a C string; the mapping is new.
    let mapping = unsafe {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags).map_err(|error| error.into_raw())?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = match syscall!(Sysno::lseek, file, 0, libc::SEEK_END) {
            Ok(size) if size >= bytes => syscall!(Sysno::mmap, 0, bytes, access, libc::MAP_SHARED, file, 0),
            Ok(_) => Err(syscalls::Errno::EINVAL),
            Err(error) => Err(error),
        };
        let _ = syscall!(Sysno::close, file);
        mapping
    };
    mapping.map(|address| address as *mut c_void).map_err(|error| error.into_raw())
}

/// Maps `bytes` bytes of zero memory; ends the process if there is none, as there is nobody to report it to.
pub fn map(bytes: usize) -> *mut c_void {
    match try_map(bytes) {
        Some(address) => address,
        None => die(format_args!("out of memory for locks")),
    }
}

/// Maps `bytes` bytes of zero memory, if there are as many.
pub fn try_map(bytes: usize) -> Option<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping.
    let address = unsafe { syscall!(Sysno::mmap, 0, bytes, access, flags, usize::MAX, 0) };
    address.ok().map(|address| address as *mut c_void)
}

/// Unmaps memory from [`map`].
///
/// # Safety
/// Nothing refers to it any more.
pub unsafe fn unmap(address: *mut c_void, bytes: usize) {
    // SAFETY: as for this call. It cannot fail.
    let _ = unsafe { syscall!(Sysno::munmap, address, bytes) };
}

extern "C" {
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
}

/// Runs in the child of a fork before the handlers of the program, which may release what was held.
unsafe extern "C" fn enter_child() {
    // SAFETY: the child has one thread.
    unsafe {
        generation::enter_child();
        pool::enter_child();
        outside::enter_child();
    }
}

/// The key whose destructor gives back a thread's memory.
static THREAD_END: AtomicU32 = AtomicU32::new(0);

/// The destructor. Others that run later may still lock and enter epochs: what they take is given back in the next round
/// of destructors.
unsafe extern "C" fn end_thread(_: *mut c_void) {
    let thread = tls::thread();
    thread.returns_memory.set(false);
    epoch::thread_end(thread);
    pool::thread_end(thread);
}

/// Makes `thread`, which is the calling one, give back its memory when it ends.
pub fn at_thread_end(thread: &tls::Thread) {
    if !thread.returns_memory.replace(true) {
        // SAFETY: the key was made at start-up, early enough for glibc to have room for its value without allocating.
        unsafe { libc::pthread_setspecific(THREAD_END.load(Ordering::Relaxed), core::ptr::dangling()) };
    }
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" fn create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    counters::count(Counter::Threads);
    // SAFETY: the program's arguments.
    unsafe { REAL.pthread_create.get()(thread, attr, start, argument) }
}

unsafe extern "C-unwind" fn create_c11(thread: *mut pthread_t, start: Start, argument: *mut c_void) -> c_int {
    counters::count(Counter::Threads);
    // SAFETY: the program's arguments.
    unsafe { REAL.thrd_create.get()(thread, start, argument) }
}

/// Prints one line to stderr.
pub fn complain(message: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [MaybeUninit::uninit(); 1024], length: 0 };
    let _ = writeln!(line, "lockswap: {message}");
    // SAFETY: the bytes up to `length` are initialised.
    let _ = unsafe { syscall!(Sysno::write, libc::STDERR_FILENO, line.bytes.as_ptr(), line.length) };
}

/// Prints one line to stderr and ends the process.
pub fn die(message: fmt::Arguments<'_>) -> ! {
    complain(message);
    // SAFETY: does not return.
    unsafe {
        let _ = syscall!(Sysno::exit_group, CANNOT_START);
        core::hint::unreachable_unchecked()
    }
}

/// A line of text that needs no allocation; what does not fit is cut off.
struct Line {
    bytes: [MaybeUninit<u8>; 1024],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (to, from) in self.bytes[self.length..].iter_mut().zip(text.bytes()) {
            to.write(from);
            self.length += 1;
        }
        Ok(())
    }
}

/// Text that may not be valid UTF-8.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}

/// The ids of all locks of one role.
struct Ids(Role);

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        registry::ids(self.0).try_for_each(|id| write!(f, "{id} "))
    }
}
