//! Threads that the program starts: they run inside a frame of ours, which sees their end. (A key with a destructor
//! would see it as well, but a program may use all keys that there are, and notice one that is not its own.)
//!
//! A thread that starts in another way (glibc's own for timers, a raw `clone`) keeps nothing that had to be given
//! back.
//!
//! [`Threads`] is what that tells about how many there are.

use crate::cancel::{self, Cleanup};
use crate::counters;
use crate::functions::{Start, ACTIVE, REAL};
use crate::tls::{self, Keeps};
use crate::trace::{self, whatif};
use crate::{epoch, mutex, pool};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use libc::{pthread_attr_t, pthread_t};
use lockswap_records::counters::Counter;

/// What [`have_begun`] says. Relaxed: a thread that does not know yet asks glibc.
static HAVE_BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether the program has started a thread here; still so in the child of a fork, as glibc sees it. If not, there may
/// still be several, see above.
#[inline(always)]
fn have_begun() -> bool {
    HAVE_BEGUN.load(Ordering::Relaxed)
}

/// What a function knows about the threads of the process.
#[derive(Clone, Copy)]
pub enum Threads {
    /// There are several, or have been: each instruction must be atomic that has to be.
    Several,
    /// glibc knows how many; probably it is one.
    AskGlibc,
}

impl Threads {
    /// Calls `f` with what is known, once in the code for either case.
    #[inline(always)]
    pub fn known<R>(f: impl FnOnce(Threads) -> R) -> R {
        if have_begun() {
            f(Threads::Several)
        } else {
            seldom();
            f(Threads::AskGlibc)
        }
    }

    /// Whether the process has one thread, so that no instruction needs to be atomic.
    #[inline(always)]
    pub fn are_one(self) -> bool {
        extern "C" {
            static __libc_single_threaded: AtomicU8;
        }
        match self {
            Threads::Several => false,
            // SAFETY: glibc's variable. Relaxed: it changes only while one thread exists, and creating a thread
            // synchronises.
            Threads::AskGlibc => unsafe { __libc_single_threaded.load(Ordering::Relaxed) != 0 },
        }
    }
}

/// Stands where execution seldom comes: the compiler lays the other way out without jumps, each of which takes a
/// cycle, and removes the call. (`core::hint::cold_path` is newer than the oldest compiler that we build with.)
#[cold]
#[inline(never)]
pub fn seldom() {}

/// What a new thread has to run, on its way there in memory from `malloc`, which starting a thread calls anyway.
struct Task<R> {
    start: Start<R>,
    argument: *mut c_void,
}

/// Where each thread begins.
extern "C-unwind" fn run<R>(task: *mut c_void) -> R {
    let memory = task.cast::<Task<R>>();
    // SAFETY: from `create`, for this thread alone.
    let Task { start, argument } = unsafe { memory.read() };
    // SAFETY: as above; it is used no more.
    unsafe { libc::free(task) };
    tls::thread().keeps.set(Keeps::Some);
    whatif::thread_begins();
    let mut cleanup = Cleanup::uninit();
    // SAFETY: the handler needs no argument. The thread may also end inside `start`, and then glibc calls the handler.
    unsafe {
        cancel::push(&mut cleanup, end, core::ptr::null_mut());
        let result = start(argument);
        cancel::pop(&mut cleanup);
        end(core::ptr::null_mut());
        result
    }
}

/// Gives back what the thread has kept. Functions that run later, such as the destructors of C++ objects, may still
/// lock.
extern "C-unwind" fn end(_: *mut c_void) {
    let thread = tls::thread();
    pool::thread_end(thread);
    epoch::thread_end(thread);
    trace::thread_end(thread);
    whatif::thread_end();
}

/// Starts a thread through `real`, which gets the function to run and its argument; `failure` if there is no memory.
fn create<R>(
    start: Start<R>,
    argument: *mut c_void,
    failure: c_int,
    real: impl FnOnce(Start<R>, *mut c_void) -> c_int,
) -> c_int {
    // Relaxed: of several threads, which the program has started in another way, one does what follows.
    if !have_begun() && !HAVE_BEGUN.swap(true, Ordering::Relaxed) {
        mutex::threads_begin();
        trace::threads_begin();
    }
    // SAFETY: a size.
    let task = unsafe { libc::malloc(size_of::<Task<R>>()) }.cast::<Task<R>>();
    if task.is_null() {
        return failure;
    }
    // SAFETY: new memory.
    unsafe { task.write(Task { start, argument }) };
    let result = real(run, task.cast());
    if result == 0 {
        counters::count(Counter::Threads);
    } else {
        // SAFETY: no thread has begun.
        unsafe { libc::free(task.cast()) };
    }
    result
}

unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    start: Start<*mut c_void>,
    argument: *mut c_void,
) -> c_int {
    create(start, argument, libc::EAGAIN, |start, argument| {
        // SAFETY: the program's arguments, but for what it starts.
        unsafe { REAL.pthread_create.get()(thread, attr, start, argument) }
    })
}

unsafe extern "C-unwind" fn thrd_create(thread: *mut pthread_t, start: Start<c_int>, argument: *mut c_void) -> c_int {
    /// glibc's value.
    const THRD_NOMEM: c_int = 3;
    create(start, argument, THRD_NOMEM, |start, argument| {
        // SAFETY: the program's arguments, but for what it starts.
        unsafe { REAL.thrd_create.get()(thread, start, argument) }
    })
}

/// Makes threads start here. The calling one is the first; it ends with the process.
pub fn install() {
    ACTIVE.pthread_create.set(pthread_create);
    ACTIVE.thrd_create.set(thrd_create);
    tls::thread().keeps.set(Keeps::Some);
    counters::count(Counter::Threads);
}
