//! Notes for `lockswap trace` which objects threads wait for, and what their holders do, in the file that
//! `LOCKSWAP_TRACE` names ([`lockswap_records::trace`] is its layout). Only where it names one, or where it says
//! `ready` ([`ready`]) and somebody traces: then the table of functions holds those below, and they go on to those
//! that it held. Nothing else in this library differs, so that a program that is not traced runs the same code.
//!
//! A thread that acquires an object tries first. If that fails it has to wait. Of the acquisitions and of the waits of
//! each thread a [`sampler`] picks some; all others pass with a countdown.
//! - An acquisition that is picked becomes one of the thread's [`holds`]: its release notes how long it lasted. What
//!   the thread acquires until then is noted as one of the [`orders`].
//! - A wait that is picked copies its stack ([`stack`]) before it begins, and is on [`watch`] until it ends: releases
//!   of the object look at the watch meanwhile, at random times, and note who it was that let others wait.
//!
//! A release finds out by one look at a table whether the object has a picked hold or a watch. What a release notes it
//! does after it, but for the time.

mod births;
mod functions;
mod holds;
mod orders;
mod other_waits;
mod probes;
mod ready;
mod ring;
mod sampler;
mod stack;
mod watch;
pub mod whatif;

use crate::environment::Environment;
use crate::functions::{ACTIVE, UNTRACED};
use crate::{sandbox, tls};
use births::site_of_birth;
use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use holds::{Hold, Holds};
use lockswap_platform::{Native, Platform};
use lockswap_records::trace::{Event, Kind, Use, BEFORE_WAIT, ENDLESS, FAILED, FILE_BYTES, SLEPT};
pub use ready::threads_begin;
use ring::Ring;
use sampler::Sampler;
use syscalls::{syscall, Sysno};

/// A thread's words for this module; all zero at its start.
pub struct Thread {
    acquisitions: Sampler,
    waits: Sampler,
    holds: Holds,
    /// Rwlocks that this thread holds to write, since one function releases both ways.
    written: [Cell<usize>; 4],
    /// The number that the kernel gave it; 0 before it is asked for.
    number: Cell<u32>,
    /// The value of [`lockswap_records::trace::Header::on`] when it noted something last.
    session: Cell<u32>,
    /// Whether this thread is writing these words: a signal handler that runs meanwhile traces nothing.
    is_busy: Cell<bool>,
}

/// Threads that have noted something, at least 1 while one does.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// What `LOCKSWAP_TRACE` asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To trace, into the file that it names.
    Now,
    /// To be ready to be traced.
    Ready,
    /// To have probes, for tools that know what to do with them.
    Probes,
    /// To take part in an experiment, in the file that `LOCKSWAP_WHATIF` names.
    WhatIf,
}

/// What the environment asks for; nothing also if the file is not fit.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn wish(environment: &Environment, verbose: bool) -> Option<Wish> {
    // SAFETY: as for this call; the file is mapped for good.
    unsafe {
        if let Some(file) = environment.map_file("LOCKSWAP_WHATIF", lockswap_records::whatif::FILE_BYTES, verbose) {
            return whatif::open(file.cast()).then_some(Wish::WhatIf);
        }
        match environment.get("LOCKSWAP_TRACE")?.to_bytes() {
            b"ready" => return Some(Wish::Ready),
            b"probes" => return Some(Wish::Probes),
            _ => {}
        }
        let file = environment.map_file("LOCKSWAP_TRACE", FILE_BYTES, verbose)?;
        ring::open(file.cast()).then_some(Wish::Now)
    }
}

/// In the child of a fork: its threads are gone, and what they waited for.
pub fn enter_child() {
    whatif::enter_child();
    if let Some(ring) = ring::get() {
        ring.enter_child();
        watch::forget();
        orders::forget();
        let thread = &tls::thread().trace;
        while thread.holds.take_any().is_some() {}
        thread.acquisitions.resume();
        thread.number.set(0);
        // Relaxed: one thread.
        THREADS.store(0, Ordering::Relaxed);
    }
}

/// At the end of a thread: what it still holds is known to be held no longer than the program runs.
pub fn thread_end(thread: &tls::Thread) {
    let thread = &thread.trace;
    if thread.number.get() == 0 {
        return;
    }
    thread.alone(|ring| {
        while let Some(hold) = thread.holds.take_any() {
            thread.note_endless(ring, &hold);
        }
    });
    // Relaxed: an estimate.
    THREADS.fetch_sub(1, Ordering::Relaxed);
}

impl Thread {
    /// The event with what it says of its thread.
    fn complete(&self, event: Event) -> Event {
        Event { process: ring::process(), thread: self.number(), ..event }
    }

    /// Notes a hold whose end this thread has not seen.
    fn note_endless(&self, ring: &Ring, hold: &Hold) {
        ring.write(Kind::Hold, &self.complete(Event { flags: ENDLESS, ..hold.event() }));
        watch::unmark(hold.object);
    }

    /// The number that the kernel gave the thread.
    fn number(&self) -> u32 {
        if self.number.get() == 0 {
            // SAFETY: no arguments. Under a filter of system calls the number is made up, as the number of no thread.
            let number = if sandbox::is_free() { unsafe { syscall!(Sysno::gettid) }.unwrap_or(0) } else { 0 };
            let made_up = tls::identity() as usize | 1 << 31;
            self.number.set(if number == 0 { made_up } else { number } as u32);
            // Relaxed: an estimate.
            THREADS.fetch_add(1, Ordering::Relaxed);
        }
        self.number.get()
    }

    /// Runs `body`, which writes this thread's words, unless that is what was interrupted.
    fn alone<R>(&self, body: impl FnOnce(&Ring) -> R) -> Option<R> {
        let Some(ring) = ring::get() else {
            self.acquisitions.rest();
            self.waits.rest();
            return None;
        };
        if self.is_busy.get() {
            return None;
        }
        self.is_busy.set(true);
        let session = ring.session();
        if self.session.replace(session) != session {
            // Their releases may have come while nobody traced.
            while let Some(hold) = self.holds.take_any() {
                watch::unmark(hold.object);
            }
            self.acquisitions.resume();
        }
        let result = (session != 0 && ring.is_open()).then(|| body(ring));
        self.is_busy.set(false);
        result
    }

    /// Notes that this thread is about to acquire an object while it has others.
    fn note_orders(&self, ring: &Ring, object: usize, used: Use) {
        for hold in self.holds.iter().filter(|hold| hold.object != object) {
            if !orders::is_new(hold.object, object, ring.session()) {
                continue;
            }
            let event = Event {
                object: object as u64,
                birth: site_of_birth(object),
                begin: Native::instant(),
                used: used as u8,
                charged: hold.object as u64,
                handed: hold.birth,
                held_used: hold.used,
                ..Event::default()
            };
            let event = self.with_stack(ring, self.complete(event));
            ring.write(Kind::Order, &event);
        }
    }

    /// Writes the thread's stack for an event and gives it its number.
    fn with_stack(&self, ring: &Ring, event: Event) -> Event {
        Event { stack: stack::write(ring, &event), ..event }
    }
}

/// Whether the call acquired an object, robust ones included whose owner died.
fn has_acquired(result: c_int) -> bool {
    matches!(result, 0 | libc::EOWNERDEAD)
}

/// Whether a call waits for what it acquires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It does, and the thread can come to wait for good.
    Waits,
    /// It does not, or it acquires again what it held before.
    Tries,
}

/// An acquisition that was picked, by `acquire`: it begins to be a hold; or one that is only to be looked at.
#[cold]
#[inline(never)]
fn begin_hold(object: usize, used: Use, manner: Manner, acquire: impl FnOnce() -> c_int) -> c_int {
    let thread = &tls::thread().trace;
    if manner == Manner::Waits && thread.holds.iter().next().is_some() {
        thread.alone(|ring| thread.note_orders(ring, object, used));
    }
    if thread.acquisitions.is_look() {
        return acquire();
    }
    let result = acquire();
    if !has_acquired(result) {
        return result;
    }
    thread.alone(|ring| {
        let mut hold = Hold {
            object,
            birth: site_of_birth(object),
            begin: 0,
            weight: thread.acquisitions.weight(),
            used: used as u8,
            switches: switches(),
        };
        watch::mark(object);
        // Last, so that the time that all this takes is not the program's.
        hold.begin = Native::instant();
        thread.acquisitions.draw(hold.begin, ring.spacing(threads()));
        if let Some(evicted) = thread.holds.put(hold) {
            thread.note_endless(ring, &evicted);
        }
        thread.acquisitions.suspend(orders::MOST_LOOKS);
    });
    result
}

fn threads() -> u32 {
    // Relaxed: an estimate.
    THREADS.load(Ordering::Relaxed)
}

/// How often the thread gave up its CPU, and lost it; zeros where we may not ask.
fn switches() -> [u32; 2] {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    if sandbox::is_free() {
        // SAFETY: the kernel writes to `usage` only.
        let _ = unsafe { syscall!(Sysno::getrusage, libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    }
    // SAFETY: zeros, or what the kernel wrote.
    let usage = unsafe { usage.assume_init() };
    [usage.ru_nvcsw as u32, usage.ru_nivcsw as u32]
}

/// A wait, in `wait`, which returns what the call returns.
#[inline(never)]
fn waits(object: usize, used: Use, wait: impl FnOnce() -> c_int) -> c_int {
    if tls::thread().trace.waits.picks() {
        notes_wait(object, used, wait)
    } else {
        wait()
    }
}

/// A wait that was picked.
#[cold]
#[inline(never)]
fn notes_wait(object: usize, used: Use, wait: impl FnOnce() -> c_int) -> c_int {
    /// Waits that are shorter have not slept, ns.
    const SHORTEST_SLEEP: u64 = 2_000;
    let thread = &tls::thread().trace;
    let begun = thread.alone(|ring| {
        let event = Event {
            object: object as u64,
            birth: site_of_birth(object),
            used: used as u8,
            weight: thread.waits.weight(),
            flags: BEFORE_WAIT,
            begin: Native::instant(),
            ..Event::default()
        };
        thread.waits.draw(event.begin, ring.spacing(threads()));
        let event = thread.with_stack(ring, thread.complete(event));
        let watch = if used.has_holder() { watch::begin(object, event.weight) } else { None };
        if used.has_holder() && watch.is_none() {
            ring.count_unwatched();
        }
        (Event { begin: Native::instant(), ..event }, watch, switches())
    });
    let result = wait();
    let Some((event, watch, before)) = begun else { return result };
    let end = Native::instant();
    let last = watch.map(|watch| watch.end());
    thread.alone(|ring| {
        let length = end.saturating_sub(event.begin);
        let slept = length >= SHORTEST_SLEEP && switches()[0] != before[0];
        let failed = if has_acquired(result) { 0 } else { FAILED };
        let mut event =
            Event { length, cpu: Native::cpu() as u16, flags: failed | if slept { SLEPT } else { 0 }, ..event };
        if let Some(last) = last.flatten().filter(|last| last.time >= event.begin) {
            event.handed = end.saturating_sub(last.time);
            event.other = last.thread;
            event.other_cpu = last.cpu;
        }
        ring.write(Kind::Wait, &event);
    });
    result
}

/// A release of an object that is marked, in `release`, which returns what the call returns.
#[cold]
#[inline(never)]
fn releases(object: usize, used: Use, release: impl FnOnce() -> c_int) -> c_int {
    let thread = &tls::thread().trace;
    let begun = thread.alone(|_| {
        let end = Native::instant();
        let charge = watch::release(object, end, thread.number());
        let hold = thread.holds.take(object);
        if hold.is_some() {
            watch::unmark(object);
            if thread.holds.iter().next().is_none() {
                thread.acquisitions.resume();
            }
        }
        (end, charge, hold)
    });
    let result = release();
    let Some((end, charge, hold)) = begun else { return result };
    if charge.is_none() && hold.is_none() {
        return result;
    }
    thread.alone(|ring| {
        let mut event = match hold {
            Some(hold) => {
                let now = switches();
                let [slept, preempted] =
                    [0, 1].map(|i| now[i].wrapping_sub(hold.switches[i]).min(u16::MAX.into()) as u16);
                Event { length: end.saturating_sub(hold.begin), slept, preempted, ..hold.event() }
            }
            None => Event {
                object: object as u64,
                birth: site_of_birth(object),
                begin: end,
                used: used as u8,
                ..Event::default()
            },
        };
        event.cpu = Native::cpu() as u16;
        if let Some(charge) = charge {
            event.charged = charge.time;
            event.waiters = charge.waiters;
        }
        let event = thread.with_stack(ring, thread.complete(event));
        ring.write(Kind::Hold, &event);
    });
    result
}

/// Traces from now on, or once somebody asks for it. The table of functions is complete, but for those that count.
pub fn install(wish: Wish) {
    UNTRACED.copy_from(&ACTIVE);
    match wish {
        Wish::Now => functions::put(&ACTIVE),
        Wish::Ready => ready::want(),
        Wish::Probes => {
            functions::put(&ACTIVE);
            probes::put(&ACTIVE);
        }
        Wish::WhatIf => whatif::put(&ACTIVE),
    }
}
