//! What a lock promises that travels along a route through the CPUs: in which order it comes to those who wait, and
//! that it comes round. One source for the explorer, the hardware and any machine on which threads say where they are.

use crate::bodies;
use crate::small::{all_contexts, Scenario, Stage};
use lockswap_locks::RawLock;
use lockswap_platform::{DataCell, Platform};
use std::sync::{Mutex, MutexGuard};

/// A machine on which a thread says itself where it runs.
pub trait Places: Stage {
    /// Moves the calling thread to the CPU at this position on the route.
    fn move_to(rank: u32);
}

/// One thread of a check.
#[derive(Clone, Copy, Debug)]
pub struct Rider {
    /// Where it is when it comes to acquire the lock.
    pub at: u32,
    /// Where it is when it releases the lock.
    pub leaves: u32,
    /// How often it acquires the lock.
    pub rounds: usize,
}

/// A thread that stays at one place.
pub const fn rider(at: u32, rounds: usize) -> Rider {
    Rider { at, leaves: at, rounds }
}

const fn mover(at: u32, leaves: u32, rounds: usize) -> Rider {
    Rider { at, leaves, rounds }
}

/// When a lock decides who comes after a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decides {
    /// When that one releases it.
    AtRelease,
    /// When that one acquires it, if others wait by then.
    AtAcquisition,
}

/// Small checks for all executions. Where `several` threads of one CPU may wait, the lock keeps its promises to them,
/// too; one that decides when it is acquired keeps that of bounded waiting to threads, not to CPUs.
pub fn scenarios<P: Platform, L: RawLock<P>, T: Places>(decides: Decides, several: bool) -> Vec<Scenario> {
    let mut scenarios = match decides {
        Decides::AtRelease => vec![
            Scenario {
                name: "route-3",
                threads: 3,
                run: || in_order::<P, L, T>(Decides::AtRelease, &[rider(0, 1), rider(1, 2), rider(3, 1)]),
            },
            Scenario {
                name: "route-moving-3",
                threads: 3,
                run: || in_order::<P, L, T>(Decides::AtRelease, &[rider(2, 1), mover(1, 3, 2), mover(0, 1, 1)]),
            },
        ],
        Decides::AtAcquisition => vec![
            Scenario {
                name: "route-3",
                threads: 3,
                run: || in_order::<P, L, T>(Decides::AtAcquisition, &[rider(0, 1), rider(1, 2), rider(3, 1)]),
            },
            Scenario {
                name: "route-4",
                threads: 4,
                run: || {
                    in_order::<P, L, T>(
                        Decides::AtAcquisition,
                        &[rider(0, 1), mover(1, 3, 1), rider(3, 1), rider(2, 1)],
                    )
                },
            },
        ],
    };
    scenarios.extend([
        Scenario {
            name: "round-3",
            threads: 3,
            run: || comes_round::<P, L, T>(&[rider(0, 1), rider(1, 4), rider(3, 1)]),
        },
        Scenario {
            name: "round-moving-3",
            threads: 3,
            run: || comes_round::<P, L, T>(&[rider(2, 1), mover(1, 3, 2), mover(0, 3, 2)]),
        },
    ]);
    let shared: &[Scenario] = match decides {
        Decides::AtRelease => &[
            Scenario {
                name: "route-shared-4",
                threads: 4,
                run: || {
                    in_order::<P, L, T>(Decides::AtRelease, &[rider(1, 1), rider(1, 1), rider(2, 1), rider(0, 1)]);
                },
            },
            Scenario {
                name: "round-shared-3",
                threads: 3,
                run: || comes_round::<P, L, T>(&[rider(0, 1), rider(0, 1), rider(1, 3)]),
            },
            Scenario {
                name: "round-shared-4",
                threads: 4,
                run: || comes_round::<P, L, T>(&[rider(2, 1), rider(2, 1), mover(1, 2, 2), rider(0, 1)]),
            },
        ],
        Decides::AtAcquisition => &[
            Scenario {
                name: "round-shared-3",
                threads: 3,
                run: || lets_each_pass_once::<P, L, T>(&[rider(0, 3), rider(0, 1), rider(1, 3)]),
            },
            Scenario {
                name: "round-shared-4",
                threads: 4,
                run: || lets_each_pass_once::<P, L, T>(&[rider(2, 2), rider(2, 1), rider(1, 2), rider(0, 1)]),
            },
        ],
    };
    if several {
        scenarios.extend(shared);
    }
    scenarios
}

/// What has happened so far. Times are moments of the machine.
struct Book {
    /// Threads between the call and the return of `lock`.
    inside: Vec<bool>,
    /// Who acquired the lock each time, and a moment before which that was not.
    acquisitions: Vec<(usize, u64)>,
    /// Just before the latest release.
    released: u64,
    /// Where the holder before this one was served; nothing where that is not sure.
    from: Option<u32>,
    /// Who began to wait up to this moment had a part in the decision that made this one the holder.
    decided: u64,
}

/// Runs the riders. `judge` looks at the book when a rider has acquired the lock, `stay` is what holders do before
/// they release it.
fn ride<P: Platform, L: RawLock<P>, T: Places>(
    decides: Decides,
    riders: &[Rider],
    judge: impl Fn(&Book, usize) + Copy + Send + Sync,
    stay: impl Fn() + Copy + Send + Sync,
) {
    let lock = L::new();
    let contexts = all_contexts::<L::Ctx>(riders.len(), riders.iter().map(|rider| rider.rounds).max().unwrap_or(0));
    let book = Mutex::new(Book {
        inside: vec![false; riders.len()],
        acquisitions: Vec::new(),
        released: 0,
        from: None,
        decided: u64::MAX,
    });
    let count = P::Data::<usize>::new(0);
    let (lock_ref, contexts_ref, book_ref, count_ref) = (&lock, &contexts, &book, &count);
    let open = move || -> MutexGuard<'_, Book> {
        T::order();
        book_ref.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    T::run(bodies(riders.len(), &move |thread| {
        let rider = riders[thread];
        for _ in 0..rider.rounds {
            let cx = contexts_ref[thread].take();
            T::move_to(rider.at);
            T::forget_wait();
            open().inside[thread] = true;
            // SAFETY: the context is ready.
            unsafe { lock_ref.lock(cx) };
            {
                let mut book = open();
                book.inside[thread] = false;
                let released = book.released;
                book.acquisitions.push((thread, released));
                book.decided = book.decided.min(released);
                judge(&book, thread);
                // One that has not waited may have found the lock free, and then has not told the lock where it was.
                let has_waited = T::waits_since(thread).is_some();
                book.from = (rider.at == rider.leaves || has_waited).then_some(rider.at);
                // The next decision. Who finds the lock free leaves it to the release.
                let is_made = decides == Decides::AtAcquisition && has_waited;
                book.decided = if is_made { released } else { u64::MAX };
            }
            T::move_to(rider.leaves);
            // SAFETY: the lock is held. The access takes time, in which others come.
            unsafe { count_ref.with_mut(|count| *count += 1) };
            stay();
            open().released = T::moment();
            // SAFETY: held through this context.
            unsafe { lock_ref.unlock(cx) };
        }
    }));
}

/// The riders that wait, and since when.
fn waiters<'a, T: Stage>(book: &'a Book, riders: &'a [Rider]) -> impl Iterator<Item = (Rider, u64)> + 'a {
    let waits = |(thread, inside): (usize, &bool)| inside.then(|| Some((riders[thread], T::waits_since(thread)?)));
    book.inside.iter().enumerate().filter_map(waits).flatten()
}

/// Bounded waiting: while somebody waits at a place, each other place gets the lock at most once before this one does:
/// with N places nobody lets more than N - 1 others pass.
///
/// # Panics
/// Where the lock does not come round.
pub fn comes_round<P: Platform, L: RawLock<P>, T: Places>(riders: &[Rider]) {
    let judge = |book: &Book, _: usize| {
        for (waiter, since) in waiters::<T>(book, riders) {
            let mut passed: Vec<u32> = Vec::new();
            for (thread, moment) in book.acquisitions.iter().rev() {
                let rank = riders[*thread].at;
                if rank == waiter.at || *moment < since {
                    break;
                }
                let again = passed.contains(&rank);
                assert!(!again, "{}: place {rank} twice while {} waits", L::INFO.id, waiter.at);
                passed.push(rank);
            }
        }
    };
    ride::<P, L, T>(Decides::AtRelease, riders, judge, || {});
}

/// Bounded waiting, counted in threads, of which several may wait at one place: while one waits, each other one gets
/// the lock at most once.
///
/// # Panics
/// Where one gets it twice.
pub fn lets_each_pass_once<P: Platform, L: RawLock<P>, T: Places>(riders: &[Rider]) {
    let judge = |book: &Book, _: usize| {
        for (waiter, since) in waiters::<T>(book, riders) {
            let mut passed: Vec<usize> = Vec::new();
            for (thread, _) in book.acquisitions.iter().rev().take_while(|(_, moment)| *moment >= since) {
                let again = passed.contains(thread);
                assert!(!again, "{}: thread {thread} twice while one waits at {}", L::INFO.id, waiter.at);
                passed.push(*thread);
            }
        }
    };
    ride::<P, L, T>(Decides::AtRelease, riders, judge, || {});
}

/// The lock goes to the first of those who wait when it decides, along the route, from where its holder was served.
///
/// # Panics
/// Where it goes to another one.
pub fn in_order<P: Platform, L: RawLock<P>, T: Places>(decides: Decides, riders: &[Rider]) {
    let judge = |book: &Book, thread: usize| {
        let (Some(from), Some(_)) = (book.from, T::waits_since(thread)) else { return };
        let way_to = |rank: u32| (rank + P::ranks() - from - 1) % P::ranks();
        let mine = riders[thread].at;
        for (waiter, since) in waiters::<T>(book, riders) {
            let in_order = since > book.decided || way_to(mine) <= way_to(waiter.at);
            assert!(in_order, "{}: from place {from} to {mine}, past {}", L::INFO.id, waiter.at);
        }
    };
    ride::<P, L, T>(decides, riders, judge, T::settle);
}
