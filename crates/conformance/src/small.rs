//! The checks again, small enough to see all executions of them: two or three threads, one or two acquisitions each.

use crate::{bodies, deadline, Lock, Threads};
use lockswap_locks::info::{Fairness, Family, WaitingPolicy};
use lockswap_locks::Context;
use lockswap_platform::{AtomicInt, DataCell, Ns, Ordering, Platform};
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::Mutex;

/// A machine on which executions are enumerated.
pub trait Stage: Threads {
    /// Whether the functions below do anything.
    const SEES_WAITS: bool;
    /// What happens from here on need not be enumerated any more, in this execution.
    fn enough() {}
    /// From here on a thread that has gone to sleep in [`Platform::park`] sleeps until it is woken, in this execution,
    /// on a machine whose sleepers may also wake up for no reason.
    fn sleep_soundly() {}
    /// The bytes must not be accessed any more, and all accesses so far happen before this.
    fn gone(start: *const u8, bytes: usize);
    /// The calling thread is about to look at, or to change, what scenarios keep outside the machine: until its next
    /// access to a word that comes in an order with the same of other threads, which is enumerated.
    fn order() {}
    /// A number higher than all before.
    fn moment() -> u64;
    /// From now on [`Stage::waits_since`] is about another wait of the calling thread.
    fn forget_wait();
    /// The moment at which the thread with this index came to rest first since it called [`Stage::forget_wait`]. To be
    /// asked after [`Stage::order`].
    fn waits_since(thread: usize) -> Option<u64>;
}

/// One check of one lock.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// What is checked.
    pub name: &'static str,
    /// Threads that take part.
    pub threads: usize,
    /// One execution; panics when the lock fails.
    pub run: fn(),
}

/// Long enough never to pass by itself, ns.
const PATIENT: Ns = 1_000_000_000;

/// The checks of a mutex.
pub fn mutex<P: Platform, L: Lock<P>, T: Stage>() -> Vec<Scenario> {
    let mut scenarios = vec![
        Scenario { name: "alone", threads: 1, run: crate::alone::<P, L> },
        Scenario { name: "exclusion-2x2", threads: 2, run: || play::<P, L, T>(&["ll", "ll"]) },
        Scenario { name: "try-2", threads: 2, run: || play::<P, L, T>(&["tt", "l"]) },
        Scenario { name: "timed-2", threads: 2, run: || play::<P, L, T>(&["d", "l"]) },
        Scenario { name: "gone-2", threads: 2, run: || leaves_memory::<P, L, T, 2>(L::unlock) },
        Scenario { name: "released-by-other", threads: 2, run: other_releases::<P, L, T> },
        Scenario { name: "exclusion-3x1", threads: 3, run: || play::<P, L, T>(&["l", "l", "l"]) },
        Scenario { name: "try-3", threads: 3, run: || play::<P, L, T>(&["tt", "l", "l"]) },
        Scenario { name: "timed-3", threads: 3, run: || play::<P, L, T>(&["d", "l", "l"]) },
        Scenario { name: "gone-3", threads: 3, run: || leaves_memory::<P, L, T, 3>(L::unlock) },
        Scenario { name: "exclusion-3x2", threads: 3, run: || play::<P, L, T>(&["ll", "ll", "ll"]) },
    ];
    if size_of::<L::Ctx>() > 0 {
        scenarios.extend([
            Scenario { name: "freed ll-ll", threads: 2, run: || freed::<P, L, T>(&["ll", "ll"]) },
            Scenario { name: "freed lt-l", threads: 2, run: || freed::<P, L, T>(&["lt", "l"]) },
            Scenario { name: "freed d-l", threads: 2, run: || freed::<P, L, T>(&["d", "l"]) },
            Scenario { name: "freed l-u-l", threads: 3, run: || freed::<P, L, T>(&["l", "u", "l"]) },
            Scenario { name: "reused l-r-l", threads: 3, run: || play::<P, L, T>(&["l", "r", "l"]) },
        ]);
    }
    if T::SEES_WAITS {
        if matches!(L::INFO.fairness, Fairness::Fifo | Fairness::Bounded(_)) {
            scenarios.push(Scenario { name: "fairness-3", threads: 3, run: is_fair::<P, L, T> });
        }
    } else {
        // Weak orders show where threads meet often: the lock is held at first, or acquired again and again. Loom
        // begins with the last thread, and goes on with the first one: the one that releases comes when the others
        // wait.
        scenarios.extend([
            Scenario { name: "held l-u-l", threads: 3, run: || play::<P, L, T>(&["l", "u", "l"]) },
            Scenario { name: "held l-ul-l", threads: 3, run: || play::<P, L, T>(&["l", "ul", "l"]) },
            Scenario { name: "held l-u-d", threads: 3, run: || play::<P, L, T>(&["l", "u", "d"]) },
            Scenario { name: "held l-l-u-l", threads: 4, run: || play::<P, L, T>(&["l", "l", "u", "l"]) },
            Scenario { name: "often lll-l", threads: 2, run: || play::<P, L, T>(&["lll", "l"]) },
            Scenario { name: "often lll-t", threads: 2, run: || play::<P, L, T>(&["lll", "t"]) },
            Scenario { name: "often llt-l", threads: 2, run: || play::<P, L, T>(&["llt", "l"]) },
        ]);
        if L::INFO.waiting != WaitingPolicy::Spin {
            scenarios.extend([
                Scenario { name: "asleep ll-ll", threads: 2, run: || asleep::<P, L, T>(&["ll", "ll"]) },
                Scenario { name: "asleep l-u-l", threads: 3, run: || asleep::<P, L, T>(&["l", "u", "l"]) },
                Scenario { name: "asleep l-l-l", threads: 3, run: || asleep::<P, L, T>(&["l", "l", "l"]) },
            ]);
        }
        if L::INFO.family == Family::Shuffle {
            // A queue that is long enough to be put in order, by a waiter that looks before the release.
            scenarios.extend([
                Scenario { name: "held l-l-l-su-l", threads: 5, run: || play::<P, L, T>(&["l", "l", "l", "su", "l"]) },
                Scenario {
                    name: "held l-l-l-sxu-l",
                    threads: 5,
                    run: || play::<P, L, T>(&["l", "l", "l", "sxu", "l"]),
                },
                Scenario {
                    name: "held l-l-l-ssxu-l",
                    threads: 5,
                    run: || play::<P, L, T>(&["l", "l", "l", "ssxu", "l"]),
                },
                Scenario {
                    name: "held sxu-l-l-l-l",
                    threads: 5,
                    run: || play::<P, L, T>(&["sxu", "l", "l", "l", "l"]),
                },
            ]);
        }
    }
    scenarios
}

/// The checks of a mutex that has an [`RawLock::unlock_to_wait`](lockswap_locks::RawLock::unlock_to_wait) of its own.
pub fn to_wait<P: Platform, L: Lock<P>, T: Stage>() -> Vec<Scenario> {
    let mut scenarios = vec![
        Scenario { name: "to-wait ww-ww", threads: 2, run: || play::<P, L, T>(&["ww", "ww"]) },
        Scenario { name: "to-wait wl-l", threads: 2, run: || play::<P, L, T>(&["wl", "l"]) },
        Scenario { name: "to-wait tw-w", threads: 2, run: || play::<P, L, T>(&["tw", "w"]) },
        Scenario { name: "to-wait w-l-w", threads: 3, run: || play::<P, L, T>(&["w", "l", "w"]) },
        Scenario { name: "to-wait gone-2", threads: 2, run: || leaves_memory::<P, L, T, 2>(L::unlock_to_wait) },
        Scenario { name: "to-wait gone-3", threads: 3, run: || leaves_memory::<P, L, T, 3>(L::unlock_to_wait) },
    ];
    if T::SEES_WAITS {
        scenarios.extend([
            Scenario { name: "gives-up-2", threads: 2, run: gives_up::<P, L, T, 2> },
            Scenario { name: "gives-up-3", threads: 3, run: gives_up::<P, L, T, 3> },
        ]);
    }
    scenarios
}

/// The contexts of one thread; they outlive all threads.
pub(crate) struct Contexts<C>(Vec<(Cell<bool>, C)>);

// SAFETY: the flags are used by one thread only.
unsafe impl<C: Sync> Sync for Contexts<C> {}

impl<C: Context> Contexts<C> {
    fn new(count: usize) -> Self {
        Contexts((0..count).map(|_| (Cell::new(false), C::new())).collect())
    }

    /// One that is ready for an acquisition: used before rather than new.
    pub(crate) fn take(&self) -> &C {
        let used = self.0.iter().filter(|(used, _)| used.get()).find(|(_, cx)| cx.is_reusable());
        let (used, cx) =
            used.or_else(|| self.0.iter().find(|(used, _)| !used.get())).expect("one for each acquisition");
        used.set(true);
        cx
    }
}

pub(crate) fn all_contexts<C: Context>(threads: usize, each: usize) -> Vec<Contexts<C>> {
    (0..threads).map(|_| Contexts::new(each)).collect()
}

/// After all threads have ended the lock is free, in its own word and for the next acquisition.
fn must_be_free<P: Platform, L: Lock<P>>(lock: &L) {
    let cx = L::Ctx::new();
    assert!(!lock.is_held(), "{}: held though all have released", L::INFO.id);
    // SAFETY: a fresh context; released at once.
    unsafe {
        assert!(lock.try_lock(&cx), "{}: try_lock of a free lock failed", L::INFO.id);
        lock.unlock(&cx);
    }
}

/// As [`play`], with sleepers that do not wake by themselves.
fn asleep<P: Platform, L: Lock<P>, T: Stage>(words: &'static [&'static str]) {
    T::sleep_soundly();
    play::<P, L, T>(words);
}

/// As [`play`], with a context for each acquisition whose memory begins with it, and ends as soon as it may.
fn freed<P: Platform, L: Lock<P>, T: Stage>(words: &'static [&'static str]) {
    play_with::<P, L, T>(words, true);
}

/// A thread for each word, which acquires and releases for each letter: `l` waits for as long as it takes, `w` does,
/// too, and releases in order to wait; `t` tries, `d` gives up if it has to wait for too long, and comes back. `u`
/// only releases, what was acquired before the threads began; `r` does so, too, and acquires again with the same
/// context as soon as that is reusable. `s` lets the others go on first, and after `x` the executions need not be
/// enumerated.
fn play<P: Platform, L: Lock<P>, T: Stage>(words: &'static [&'static str]) {
    play_with::<P, L, T>(words, false);
}

/// Where a thread's contexts come from.
struct Source<'a, C> {
    /// Contexts from before the threads began.
    kept: &'a Contexts<C>,
    /// Where those lie that the thread makes; nothing: it makes none. They stay there to the end, so that nothing else
    /// comes to lie at their place.
    made: Option<&'a Mutex<Vec<Box<C>>>>,
    /// Those whose memory has not ended.
    living: Vec<*const C>,
}

impl<'a, C: Context> Source<'a, C> {
    /// One that is ready for an acquisition.
    fn take<T: Stage>(&mut self) -> &'a C {
        let Some(made) = self.made else { return self.kept.take() };
        self.living.retain(|cx| {
            // SAFETY: the boxes stay until all threads have ended.
            let is_over = unsafe { &**cx }.is_reusable();
            if is_over {
                T::gone(cx.cast(), size_of::<C>());
            }
            !is_over
        });
        let mut made = made.lock().unwrap();
        made.push(Box::new(C::new()));
        let cx: *const C = &**made.last().expect("just pushed");
        self.living.push(cx);
        // SAFETY: as above.
        unsafe { &*cx }
    }

    /// The thread has released the lock for the last time.
    fn end<P: Platform, T: Stage>(self) {
        for cx in self.living {
            // SAFETY: as in `take`.
            P::spin_map(|| unsafe { &*cx }.is_reusable().then_some(()));
            T::gone(cx.cast(), size_of::<C>());
        }
    }
}

/// How many letters the longest of the words has.
fn longest(words: &[&str]) -> usize {
    words.iter().map(|word| word.len()).max().unwrap_or(0)
}

/// Whether a thread releases what was acquired before the threads began.
fn begins_held(words: &[&str]) -> bool {
    words.iter().any(|word| word.contains(['u', 'r']))
}

/// Where each thread keeps the contexts that it makes.
fn memory_for<C>(threads: usize) -> Vec<Mutex<Vec<Box<C>>>> {
    (0..threads).map(|_| Mutex::default()).collect()
}

/// As [`play`]; where `frees`, as [`freed`]. It is compiled for each lock on each machine, which takes long: what does
/// not need to know them is in functions of its own.
fn play_with<P: Platform, L: Lock<P>, T: Stage>(words: &'static [&'static str], frees: bool) {
    let lock = L::new();
    let count = P::Data::<usize>::new(0);
    let acquired = AtomicUsize::new(0);
    let contexts = all_contexts::<L::Ctx>(words.len(), 2 * longest(words));
    let made = memory_for::<L::Ctx>(words.len());
    let made_ref = &made;
    let first = L::Ctx::new();
    if begins_held(words) {
        // SAFETY: the context is ready; who says `u` or `r` releases.
        unsafe { lock.lock(&first) };
    }
    let (lock_ref, count_ref, acquired_ref, contexts_ref, first_ref) = (&lock, &count, &acquired, &contexts, &first);
    T::run(bodies(words.len(), &move |thread| {
        let made = frees.then(|| &made_ref[thread]);
        let mut mine = Source { kept: &contexts_ref[thread], made, living: Vec::new() };
        for letter in words[thread].chars() {
            if letter == 's' {
                T::settle();
                continue;
            }
            if letter == 'x' {
                T::enough();
                continue;
            }
            // SAFETY: a context is ready when it is taken, and released before the next one is; the data is protected
            // by the lock.
            unsafe {
                let mut cx = if matches!(letter, 'u' | 'r') { first_ref } else { mine.take::<T>() };
                let holds = match letter {
                    'u' => true,
                    'r' => {
                        lock_ref.unlock(cx);
                        P::spin_map(|| cx.is_reusable().then_some(()));
                        lock_ref.lock(cx);
                        true
                    }
                    't' => lock_ref.try_lock(cx),
                    _ => {
                        if letter != 'd' || !lock_ref.lock_until(cx, deadline::<P>(PATIENT)) {
                            if letter == 'd' {
                                cx = mine.take::<T>();
                            }
                            lock_ref.lock(cx);
                        }
                        true
                    }
                };
                if holds {
                    count_ref.with_mut(|count| *count += 1);
                    acquired_ref.fetch_add(1, Ordering::Relaxed);
                    if letter == 'w' {
                        lock_ref.unlock_to_wait(cx);
                    } else {
                        lock_ref.unlock(cx);
                    }
                }
            }
        }
        mine.end::<P, T>();
    }));
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { count.with(|count| *count) }, acquired.into_inner());
    must_be_free(&lock);
}

/// Whoever acquires last destroys the lock after its release.
fn leaves_memory<P: Platform, L: Lock<P>, T: Stage, const THREADS: usize>(unlock: unsafe fn(&L, &L::Ctx)) {
    let lock = L::new();
    let left = P::Data::<usize>::new(THREADS);
    let contexts = all_contexts::<L::Ctx>(THREADS, 1);
    let (lock_ref, left_ref, contexts_ref) = (&lock, &left, &contexts);
    T::run(bodies(THREADS, &move |thread| {
        let cx = contexts_ref[thread].take();
        // SAFETY: as in `exclusion`.
        let last = unsafe {
            lock_ref.lock(cx);
            let left = left_ref.with_mut(|left| {
                *left -= 1;
                *left
            });
            unlock(lock_ref, cx);
            left == 0
        };
        if last {
            P::spin_map(|| lock_ref.is_quiet().then_some(()));
            T::gone((&raw const *lock_ref).cast(), size_of::<L>());
        }
    }));
}

/// Each thread acquires once, and releases in order to wait: when the others have come to rest, without any time
/// having passed for them, all have acquired.
fn gives_up<P: Platform, L: Lock<P>, T: Stage, const THREADS: usize>() {
    let lock = L::new();
    let acquired = AtomicUsize::new(0);
    let contexts = all_contexts::<L::Ctx>(THREADS, 1);
    let (lock_ref, acquired_ref, contexts_ref) = (&lock, &acquired, &contexts);
    T::run(bodies(THREADS, &move |thread| {
        let cx = contexts_ref[thread].take();
        // SAFETY: the context is ready.
        unsafe {
            lock_ref.lock(cx);
            acquired_ref.fetch_add(1, Ordering::Relaxed);
            lock_ref.unlock_to_wait(cx);
        }
        T::settle();
        T::order();
        let all = acquired_ref.load(Ordering::Relaxed);
        assert_eq!(all, THREADS, "{}: {all} threads have acquired, the others wait for a time", L::INFO.id);
    }));
    must_be_free(&lock);
}

/// The first thread acquires, the second one releases for it, and acquires itself.
fn other_releases<P: Platform, L: Lock<P>, T: Stage>() {
    let lock = L::new();
    let contexts = all_contexts::<L::Ctx>(2, 1);
    let acquired = P::U32::new(0);
    let (lock_ref, contexts_ref, acquired_ref) = (&lock, &contexts, &acquired);
    T::run(bodies(2, &move |thread| {
        // SAFETY: one acquisition, released by the other thread, which synchronises with it.
        unsafe {
            if thread == 0 {
                lock_ref.lock(&contexts_ref[0].0[0].1);
                acquired_ref.store(1, Ordering::Release);
            } else {
                P::spin_map(|| (acquired_ref.load(Ordering::Acquire) == 1).then_some(()));
                lock_ref.unlock(&contexts_ref[0].0[0].1);
                let cx = contexts_ref[1].take();
                lock_ref.lock(cx);
                lock_ref.unlock(cx);
            }
        }
    }));
    must_be_free(&lock);
}

/// While a thread waits, another one that comes later acquires at most as often as the lock declares.
fn is_fair<P: Platform, L: Lock<P>, T: Stage>() {
    const THREADS: usize = 3;
    let most = match L::INFO.fairness {
        Fairness::Bounded(most) => most as usize,
        _ => 0,
    };
    // The last thread comes often enough to break the promise.
    let rounds = |thread: usize| if thread == THREADS - 1 { most + 1 } else { 1 };
    let lock = L::new();
    let contexts = all_contexts::<L::Ctx>(THREADS, most + 1);
    let overtaken = Mutex::new([[0usize; THREADS]; THREADS]);
    let inside = Mutex::new([false; THREADS]);
    let (lock_ref, contexts_ref, overtaken_ref, inside_ref) = (&lock, &contexts, &overtaken, &inside);
    T::run(bodies(THREADS, &move |thread| {
        for _ in 0..rounds(thread) {
            let cx = contexts_ref[thread].take();
            T::forget_wait();
            let start = T::moment();
            inside_ref.lock().unwrap()[thread] = true;
            // SAFETY: as in `exclusion`.
            unsafe { lock_ref.lock(cx) };
            T::order();
            inside_ref.lock().unwrap()[thread] = false;
            overtaken_ref.lock().unwrap()[thread] = [0; THREADS];
            for other in 0..THREADS {
                let waits =
                    inside_ref.lock().unwrap()[other] && T::waits_since(other).is_some_and(|since| since < start);
                if waits {
                    let times = &mut overtaken_ref.lock().unwrap()[other][thread];
                    *times += 1;
                    assert!(*times <= most, "{}: overtaken {times} times while it waits", L::INFO.id);
                }
            }
            // SAFETY: as above.
            unsafe { lock_ref.unlock(cx) };
        }
    }));
}

mod rwlock;

pub use rwlock::rwlock;
