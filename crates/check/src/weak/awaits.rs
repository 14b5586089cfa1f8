//! Whether waits end, under weak orders (await termination; Oberhauser et al.: ASPLOS 2021).
//!
//! Loom's scheduler is fair to threads that yield, and a thread that has yielded does not read a value again that it
//! has read before where there is a newer one: after a few looks it sees the newest ones. So a wait may fail to end
//! for two reasons only: others go on changing words for ever, which is an execution that loom cuts off; or every
//! thread that has not ended waits, and looks again and again while no word changes. The second one is an error, and
//! reported here.
//!
//! For the same reason a look in vain need not be repeated before something has changed: an execution in which a
//! thread does so is run to its end, which shows whether waits end, but no other execution is made of what comes in
//! it after that.
//!
//! What a SeqCst load is here, an exchange that writes what it has found, leaves loom without an order between that
//! and a store of another thread, and either then counts as the newest: after such a load only sleepers are looked
//! at, by loom.

use super::threads::virtual_cpu;
use std::cell::{Cell, RefCell};

/// Looks of a thread without a change by anybody, after which it has seen the newest values: loom keeps seven of a
/// word.
const LOOKS: u32 = 24;

/// What is known about one thread.
#[derive(Clone, Copy, Default)]
struct Thread {
    has_ended: bool,
    is_asleep: bool,
    /// Looks without success while nothing has changed.
    looks: u32,
    /// The number of changes before the first of them.
    since: u64,
}

/// A thread in [`sleep`].
struct Sleeper {
    /// The address of the word that it sleeps on.
    word: usize,
    index: usize,
    thread: loom::thread::Thread,
}

thread_local! {
    static THREADS: RefCell<Vec<Thread>> = RefCell::default();
    /// Changes of words, ends of threads and of timed waits in this execution.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    static SOUND: Cell<bool> = const { Cell::new(false) };
    static DISTRUSTED: Cell<bool> = const { Cell::new(false) };
    /// Longest asleep first.
    static SLEEPERS: RefCell<Vec<Sleeper>> = RefCell::default();
}

/// An execution begins.
pub fn forget() {
    CHANGES.set(0);
    SOUND.set(false);
    DISTRUSTED.set(false);
    SLEEPERS.take();
    begin(1);
}

/// So many threads are there from here on.
pub fn begin(count: usize) {
    THREADS.set(vec![Thread::default(); count]);
}

/// How many threads there are.
pub fn threads() -> usize {
    THREADS.with_borrow(Vec::len)
}

/// A word has got another value, or something else has happened that may end a wait.
pub fn note_change() {
    CHANGES.set(CHANGES.get() + 1);
}

/// The calling thread does nothing more.
pub fn note_thread_end() {
    note_change();
    update(|thread| thread.has_ended = true);
}

/// What the calling thread has waited for has come.
pub fn note_end() {
    update(|thread| thread.looks = 0);
}

/// The calling thread has looked for what it waits for, in vain, and will look again.
pub fn note_look() {
    let changes = CHANGES.get();
    let looks = update(|thread| {
        let before = if thread.since == changes { thread.looks } else { 0 };
        (thread.looks, thread.since) = (before + 1, changes);
        thread.looks
    });
    // Nothing has changed since this thread's last look. An execution without this look leads to the same, and is
    // searched; without this line loom would let waiters look again and again before the thread goes on that they
    // wait for.
    if looks > 1 {
        loom::skip_branch();
    }
    must_go_on();
}

fn update<R>(f: impl FnOnce(&mut Thread) -> R) -> R {
    let index = virtual_cpu() as usize;
    THREADS.with_borrow_mut(|threads| f(&mut threads[index]))
}

/// From here on in this execution loom may not know which value of a word is the newest.
pub fn distrust() {
    DISTRUSTED.set(true);
}

/// Fails if all threads that have not ended wait for each other.
fn must_go_on() {
    if DISTRUSTED.get() {
        return;
    }
    let changes = CHANGES.get();
    let waits = |thread: &Thread| thread.is_asleep || (thread.since == changes && thread.looks >= LOOKS);
    let (living, asleep) = THREADS.with_borrow(|threads| {
        let mut living = threads.iter().filter(|thread| !thread.has_ended);
        let all_wait = living.clone().all(waits);
        (if all_wait { living.clone().count() } else { 0 }, living.by_ref().filter(|thread| thread.is_asleep).count())
    });
    assert!(
        living == 0,
        "no wait ends: of {living} threads that have not ended {asleep} sleep, and the others look at the newest values"
    );
}

/// As [`lockswap_conformance::small::Stage::sleep_soundly`].
pub fn sleep_soundly() {
    SOUND.set(true);
}

/// Whether a sleeper sleeps until it is woken.
pub fn sleeps_soundly() -> bool {
    SOUND.get()
}

/// The calling thread sleeps until somebody calls [`wake`] for this address.
pub fn sleep(word: usize) {
    let index = virtual_cpu() as usize;
    SLEEPERS.with_borrow_mut(|all| all.push(Sleeper { word, index, thread: loom::thread::current() }));
    update(|thread| thread.is_asleep = true);
    must_go_on();
    while update(|thread| thread.is_asleep) {
        loom::thread::park();
    }
}

/// Wakes up to so many threads that sleep at this address, and returns how many.
pub fn wake(word: usize, most: u32) -> u32 {
    let mut woken = Vec::new();
    SLEEPERS.with_borrow_mut(|all| {
        all.retain(|sleeper| {
            let is_left = sleeper.word != word || woken.len() >= most as usize;
            if !is_left {
                woken.push((sleeper.index, sleeper.thread.clone()));
            }
            is_left
        });
    });
    for (index, thread) in &woken {
        THREADS.with_borrow_mut(|threads| threads[*index].is_asleep = false);
        note_change();
        thread.unpark();
    }
    woken.len() as u32
}
