//! In which order the locks serve waiters on different CPUs: what each policy promises.

mod placed;

use lockswap_conformance::routed::{comes_round, in_order, lets_each_pass_once, Decides, Rider};
use lockswap_conformance::{self as conformance, Threads};
use lockswap_locks::asymmetric::libasl;
use lockswap_locks::numa::{ahmcs, cohort, hmcs, hticket};
use lockswap_locks::routed::list::RonList;
use lockswap_locks::routed::plock::{Counts, RonPlock};
use lockswap_locks::routed::ron::{Flags, Ron, Routed};
use lockswap_locks::routed::shared::{RonShared, Table};
use lockswap_locks::routed::ticket::{Queues, RonTicket};
use lockswap_locks::shuffle::policy::{OfKind, OfLlc, OfNode, Together, WritersFirst, READER, WRITER};
use lockswap_locks::shuffle::proportional::Proportional;
use lockswap_locks::shuffle::shfllock::{
    Shfl, ShflLock, ShflLockB, ShflLockKind, ShflLockLlc, ShflPb10, WITHOUT_BOUND,
};
use lockswap_locks::waiting::{Spin, SpinThenPark};
use lockswap_locks::{Context, IsHeld, RawLock};
use lockswap_platform::CoreKind::{self, Big, Little};
use lockswap_platform::{group_number, set_big, set_route, CpuList, Native, Platform};
use placed::{Place, Placed, Riders, RANKS, SOMEWHERE};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Waits until the others have come to rest, as far as anybody can tell.
fn settle() {
    std::thread::sleep(Duration::from_millis(30));
}

/// For what the whole process has once, the reorder window and the table of waiters: one test at a time, while the result
/// lives.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn alone_with_window(window: Duration) -> MutexGuard<'static, ()> {
    let alone = alone();
    Placed::set_reorder_window(window.as_nanos() as u64);
    alone
}

/// The order in which `waiters`, who have come one after the other, are served after a holder at `holder`. `go` brings a
/// thread to its place; `acquire` is told which waiter calls it.
fn order_through<P: Platform, L: RawLock<P>, W: Copy + Sync>(
    go: impl Fn(W) + Sync,
    holder: W,
    waiters: &[W],
    acquire: impl Fn(&L, &L::Ctx, usize) + Sync,
) -> Vec<usize> {
    let (lock, order) = (L::new(), Mutex::new(Vec::new()));
    let holders_context = L::Ctx::new();
    go(holder);
    // SAFETY: contexts are fresh, serve one acquisition, and are leaked or outlive the lock.
    unsafe {
        lock.lock(&holders_context);
        std::thread::scope(|scope| {
            for (waiter, place) in waiters.iter().enumerate() {
                let (lock, order, go, acquire) = (&lock, &order, &go, &acquire);
                scope.spawn(move || {
                    go(*place);
                    let cx = Box::leak(Box::new(L::Ctx::new()));
                    acquire(lock, cx, waiter);
                    order.lock().unwrap().push(waiter);
                    lock.unlock(cx);
                });
                settle();
            }
            lock.unlock(&holders_context);
        });
    }
    order.into_inner().unwrap()
}

fn order_of_service<L: RawLock<Placed>>(holder: Place, waiters: &[Place]) -> Vec<usize> {
    // SAFETY: see above.
    order_through(Placed::move_to, holder, waiters, |lock: &L, cx, _| unsafe { lock.lock(cx) })
}

/// Checks the order in which waiters of two groups, who come alternately, are served: group by group, but the last, whom
/// nobody moves.
fn brings_together<L: RawLock<Placed>>(groups: [Place; 2]) {
    let waiters: Vec<_> = (0..8).map(|waiter| groups[waiter % 2]).collect();
    assert_eq!(order_of_service::<L>(groups[0], &waiters), [0, 2, 4, 6, 1, 3, 5, 7], "{}", L::INFO.id);
}

fn on_node(node: u32) -> Place {
    Place { node, ..SOMEWHERE }
}

fn with_llc(llc: u32) -> Place {
    Place { llc, ..SOMEWHERE }
}

fn in_cache_of_node(llc: u32, node: u32) -> Place {
    Place { node, llc, outer: Some(node), ..SOMEWHERE }
}

fn on(kind: CoreKind) -> Place {
    Place { kind, ..SOMEWHERE }
}

fn at(rank: u32) -> Place {
    Place { rank, ..SOMEWHERE }
}

#[test]
fn shfllock_brings_waiters_of_one_group_together() {
    brings_together::<ShflLock<Placed>>([0, 1].map(on_node));
    brings_together::<ShflLockLlc<Placed>>([0, 1].map(with_llc));
    brings_together::<ShflLockKind<Placed>>([Big, Little].map(on));
}

/// Bounds of two acquisitions in a row at each level.
struct Twice;
impl hmcs::Form for Twice {
    const THRESHOLDS: [u32; 2] = [2, 2];
}

#[test]
fn a_hierarchical_lock_serves_the_cache_then_the_node() {
    // Far, near and nearest to the holder, two of each.
    let places = [(3, 1), (1, 0), (0, 0), (2, 1), (1, 0), (0, 0)].map(|(llc, node)| in_cache_of_node(llc, node));
    let holder = in_cache_of_node(0, 0);
    for (order, id) in [
        (order_of_service::<hmcs::Hmcs<Placed>>(holder, &places), "hmcs"),
        (order_of_service::<ahmcs::Ahmcs<Placed>>(holder, &places), "ahmcs"),
    ] {
        // The holder has begun at the root, where the first that came is next.
        assert_eq!(order, [0, 3, 1, 4, 2, 5], "{id}");
    }
}

#[test]
fn a_hierarchical_lock_bounds_each_level() {
    // Seven of one cache before one each of its sister and of another node.
    let mut places = vec![in_cache_of_node(0, 0); 7];
    places.extend([in_cache_of_node(1, 0), in_cache_of_node(2, 1)]);
    let order = order_of_service::<hmcs::HmcsLock<Placed, Twice>>(in_cache_of_node(3, 1), &places);
    // Two of the cache, then its sister, which is the second of the node in a row, then the other node, then the rest.
    assert_eq!(order, [0, 1, 7, 8, 2, 3, 4, 5, 6]);
}

#[test]
fn neighbours_share_a_queue_where_there_are_too_many() {
    // 64 caches of two nodes: the first two of each share a queue, and have their turns together.
    let cache = |rank: u32| in_cache_of_node(group_number(rank, 64), rank / 32);
    let places = [0, 32, 1, 2, 33, 0].map(cache);
    assert_eq!(order_of_service::<hmcs::Hmcs<Placed>>(cache(63), &places), [0, 2, 5, 3, 1, 4]);
    // 16 nodes: the first two.
    let node = |rank: u32| on_node(group_number(rank, 16));
    let places = [0, 8, 1].map(node);
    assert_eq!(order_of_service::<cohort::CTktTkt<Placed>>(node(15), &places), [0, 2, 1]);
    assert_eq!(order_of_service::<cohort::CPtlTkt<Placed>>(node(15), &places), [0, 2, 1]);
    assert_eq!(order_of_service::<hticket::HTicketLs<Placed>>(node(15), &places), [0, 2, 1]);
}

#[test]
fn a_batch_is_bounded() {
    fn check<L: RawLock<Placed>>(place: fn(u32) -> Place) {
        let waiters = [0, 1, 0, 1, 0, 1, 0].map(place);
        let order = order_of_service::<L>(place(0), &waiters);
        // The batch of two ends with waiter 2; the next head of the queue begins another.
        assert_eq!(order, [0, 2, 1, 3, 4, 5, 6]);
    }
    check::<Shfl<Placed, Together<OfNode, 2>, Spin>>(on_node);
    check::<Shfl<Placed, Together<OfLlc, 2>, Spin>>(with_llc);
    check::<Shfl<Placed, Together<OfKind, 2>, Spin>>(|group| on([Big, Little][group as usize]));
}

/// Everybody sleeps when the holder lets go; waiter 0 wakes and stays for a while. Waiter 1, the head now, shuffles before
/// it sleeps again: it wakes the one behind it, as a head does, and those that it brings together.
#[test]
fn the_shuffler_wakes_those_that_it_brings_together() {
    let woken = AtomicU32::new(0);
    let waiters: Vec<_> = (0..8).map(|waiter| on_node(waiter % 2)).collect();
    let order = order_through(Placed::move_to, on_node(0), &waiters, |lock: &ShflLockB<Placed>, (), waiter| {
        // SAFETY: see above.
        unsafe { lock.lock(&()) };
        match waiter {
            0 => settle(),
            1 => woken.store(Placed::woken(), Ordering::Relaxed),
            _ => {}
        }
    });
    assert_eq!(order[..4], [0, 1, 3, 5]);
    // Waiter 2, then 3 and 5, and 3 again when it becomes the head.
    assert_eq!(woken.load(Ordering::Relaxed), 4);
}

#[test]
fn writers_come_first() {
    type Lock<const BATCH: u32> = Shfl<Placed, WritersFirst<BATCH>, Spin>;
    const WANT: [u32; 8] = [READER, READER, WRITER, WRITER, READER, WRITER, WRITER, READER];
    let order = order_through(Placed::move_to, SOMEWHERE, &[SOMEWHERE; 8], |lock: &Lock<1024>, (), waiter| {
        lock.lock_as(WANT[waiter]);
    });
    assert_eq!(order, [0, 2, 3, 5, 6, 1, 4, 7]);
    let order = order_through(Placed::move_to, SOMEWHERE, &[SOMEWHERE; 8], |lock: &Lock<3>, (), waiter| {
        lock.lock_as(WANT[waiter]);
    });
    assert_eq!(order[..4], [0, 2, 3, 1], "a batch of three, then the next in the queue");
}

#[test]
fn one_little_core_passes_after_the_published_number_of_big_ones() {
    type OneInThree = Shfl<Placed, Proportional<2>, Spin>;
    // Little ones first; the last waiter is not moved.
    let kinds = [Little, Little, Little, Big, Big, Big, Big, Big, Little];
    let order = order_of_service::<OneInThree>(on(Big), &kinds.map(on));
    assert_eq!(order, [0, 3, 4, 1, 5, 6, 2, 7, 8]);
    // Big ones first.
    let kinds = [Big, Big, Big, Big, Little, Little, Big];
    let order = order_of_service::<OneInThree>(on(Big), &kinds.map(on));
    assert_eq!(order, [0, 1, 4, 2, 3, 5, 6]);

    let kinds = [[Little; 2].as_slice(), &[Big; 12], &[Little; 1]].concat();
    let order = order_of_service::<ShflPb10<Placed>>(on(Big), &kinds.into_iter().map(on).collect::<Vec<_>>());
    assert_eq!(order, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 12, 13, 14]);
}

/// Waiter 0 holds the lock while those from 2 on come: waiter 1 is the head then, and goes on with the count.
#[test]
fn the_count_of_big_cores_is_not_lost_between_batches() {
    const KINDS: [CoreKind; 6] = [Big, Big, Big, Big, Little, Big];
    let lock = Shfl::<Placed, Proportional<2>, Spin>::new();
    let (order, may_go) = (Mutex::new(Vec::new()), AtomicU32::new(0));
    // SAFETY: the lock has no context, and each acquisition is released once.
    unsafe {
        lock.lock(&());
        std::thread::scope(|scope| {
            for (waiter, kind) in KINDS.into_iter().enumerate() {
                let (lock, order, may_go) = (&lock, &order, &may_go);
                scope.spawn(move || {
                    Placed::move_to(on(kind));
                    lock.lock(&());
                    order.lock().unwrap().push(waiter);
                    Native::spin_map(|| (may_go.load(Ordering::Relaxed) == 1).then_some(()));
                    lock.unlock(&());
                });
                settle();
                if waiter == 1 {
                    lock.unlock(&());
                    settle();
                }
            }
            may_go.store(1, Ordering::Relaxed);
        });
    }
    assert_eq!(order.into_inner().unwrap()[..4], [0, 1, 4, 2]);
}

#[test]
fn ron_follows_the_route() {
    fn check<L: RawLock<Placed>>() {
        let ranks = [1, 5, 3, 7, 2, 0];
        let order = order_of_service::<L>(at(2), &ranks.map(at));
        let served: Vec<_> = order.iter().map(|waiter| ranks[*waiter]).collect();
        assert_eq!(served, [3, 5, 7, 0, 1, 2], "{}", L::INFO.id);
    }
    let _alone = alone();
    check::<Ron<Placed>>();
    check::<RonTicket<Placed>>();
    check::<RonPlock<Placed>>();
    check::<RonShared<Placed>>();
    check::<RonList<Placed>>();
}

/// Two threads wait on each of three CPUs: one of each passes in each round.
#[test]
fn ron_serves_one_thread_of_each_cpu_in_a_round() {
    fn ranks_in_order<L: RawLock<Placed>>() -> (Vec<usize>, Vec<u32>) {
        let ranks = [6, 6, 4, 4, 1, 1];
        let order = order_of_service::<L>(at(2), &ranks.map(at));
        let served = order.iter().map(|waiter| ranks[*waiter]).collect();
        (order, served)
    }
    assert_eq!(ranks_in_order::<RonTicket<Placed>>().0, [2, 0, 4, 3, 1, 5]);
    assert_eq!(ranks_in_order::<RonPlock<Placed>>().1, [4, 6, 1, 4, 6, 1]);
}

/// A thread that moves while it holds the lock does not keep the lock from coming round.
#[test]
fn ron_ticket_goes_on_from_where_the_holder_was_served() {
    let lock = RonTicket::<Placed>::new();
    let order = Mutex::new(Vec::new());
    // SAFETY: the lock has no context, and each acquisition is released once.
    unsafe {
        lock.lock(&());
        std::thread::scope(|scope| {
            for (waiter, rank) in [1, 3, 1, 5].into_iter().enumerate() {
                let (lock, order) = (&lock, &order);
                scope.spawn(move || {
                    Placed::move_to(at(rank));
                    lock.lock(&());
                    order.lock().unwrap().push(waiter);
                    Placed::move_to(at(0));
                    lock.unlock(&());
                });
                settle();
            }
            lock.unlock(&());
        });
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 3, 2]);
}

/// One thread on each CPU, or two, that come and go as they run; holders move to other CPUs. `crates/conformance` says what
/// is checked.
#[test]
fn ron_comes_round() {
    fn riders(threads: u32, rounds: usize) -> Vec<Rider> {
        let rider = |thread: u32| Rider { at: thread % RANKS, leaves: (thread * 5 + 3) % RANKS, rounds };
        (0..threads).map(rider).collect()
    }
    fn check<L: RawLock<Placed>>(threads: u32) {
        comes_round::<Placed, L, Riders>(&riders(threads, 300));
        in_order::<Placed, L, Riders>(Decides::AtRelease, &riders(threads, 2));
    }
    let _alone = alone();
    check::<Ron<Placed>>(RANKS);
    check::<RonShared<Placed>>(RANKS);
    check::<RonTicket<Placed>>(RANKS);
    check::<RonTicket<Placed>>(2 * RANKS);
    check::<RonPlock<Placed>>(RANKS);
    check::<RonPlock<Placed>>(2 * RANKS);
    comes_round::<Placed, RonList<Placed>, Riders>(&riders(RANKS, 300));
    lets_each_pass_once::<Placed, RonList<Placed>, Riders>(&riders(2 * RANKS, 300));
    in_order::<Placed, RonList<Placed>, Riders>(Decides::AtAcquisition, &riders(RANKS, 2));
}

/// Waiters for one lock take up elements of all CPUs; those for another one get it all the same.
#[test]
fn locks_that_share_a_table_do_not_disturb_each_other() {
    let _alone = alone();
    let locks = [RonShared::<Placed>::new(), RonShared::<Placed>::new()];
    let served = [AtomicU32::new(0), AtomicU32::new(0)];
    // SAFETY: the locks have no context, and each acquisition is released once.
    unsafe {
        locks.iter().for_each(|lock| lock.lock(&()));
        std::thread::scope(|scope| {
            for (waiter, rank) in [0, 1, 2, 3, 0, 1, 2, 3].into_iter().enumerate() {
                let (lock, served) = (&locks[waiter / 4], &served[waiter / 4]);
                scope.spawn(move || {
                    Placed::move_to(at(rank));
                    lock.lock(&());
                    served.fetch_add(1, Ordering::Relaxed);
                    lock.unlock(&());
                });
            }
            settle();
            locks[1].unlock(&());
            settle();
            assert_eq!(served[1].load(Ordering::Relaxed), 4);
            assert_eq!(served[0].load(Ordering::Relaxed), 0);
            locks[0].unlock(&());
        });
    }
    assert!(served[0].load(Ordering::Relaxed) == 4 && locks.iter().all(|lock| !lock.is_held()));
}

macro_rules! for_each_asl {
    ($check:ident) => {
        $check::<libasl::Asl<Placed>>();
        $check::<libasl::AslTicket<Placed>>();
        $check::<libasl::AslCna<Placed>>();
        $check::<libasl::AslBlocking<Placed>>();
    };
}

/// A thread on a little core acquires `lock`, which nobody else releases, and says when it has.
fn time_to_acquire<L: RawLock<Placed>>(lock: &L) -> Duration {
    let begin = Instant::now();
    Placed::move_to(on(Little));
    let cx = Box::leak(Box::new(L::Ctx::new()));
    // SAFETY: a fresh context for one acquisition; leaked, since the next owner may look at it after the release.
    unsafe {
        lock.lock(cx);
        let time = begin.elapsed();
        lock.unlock(cx);
        time
    }
}

#[test]
fn a_big_core_overtakes_a_little_one_that_stands_back() {
    fn check<L: RawLock<Placed>>() {
        let order = order_of_service::<L>(on(Big), &[Little, Big, Big].map(on));
        let last = order.iter().position(|waiter| *waiter == 0);
        assert_eq!(last, Some(2), "{}: {order:?}", L::INFO.id);
    }
    let _alone = alone_with_window(Duration::from_secs(60));
    for_each_asl!(check);
}

#[test]
fn a_little_core_queues_when_its_window_has_passed() {
    /// The little one comes first, and its window passes before the big one comes.
    fn check<L: RawLock<Placed>>() {
        let order = order_of_service::<L>(on(Big), &[Little, Big].map(on));
        assert_eq!(order, [0, 1], "{}", L::INFO.id);
    }
    let _alone = alone_with_window(Duration::from_millis(5));
    check::<libasl::Asl<Placed>>();
    check::<libasl::AslTicket<Placed>>();
    check::<libasl::AslCna<Placed>>();
}

#[test]
fn a_little_core_does_not_wait_for_its_window_when_the_lock_is_free() {
    fn check<L: RawLock<Placed>>() {
        const FAR_TOO_LONG: Duration = Duration::from_secs(30);
        let lock = L::new();
        assert!(time_to_acquire(&lock) < FAR_TOO_LONG);
        let cx = L::Ctx::new();
        // SAFETY: a fresh context for one acquisition, released before the waiter.
        unsafe {
            lock.lock(&cx);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| time_to_acquire(&lock));
                settle();
                lock.unlock(&cx);
                assert!(waiter.join().unwrap() < FAR_TOO_LONG, "{}", L::INFO.id);
            });
        }
    }
    let _alone = alone_with_window(Duration::from_secs(60));
    for_each_asl!(check);
}

struct StdThreads;

impl Threads for StdThreads {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        std::thread::scope(|scope| bodies.into_iter().for_each(|body| drop(scope.spawn(body))));
    }

    fn settle() {
        settle();
    }
}

/// Threads move between any two questions about where they are, and CPUs share the few elements that there are.
#[test]
fn locks_work_for_threads_that_never_stay_on_a_cpu() {
    type P = Placed<true>;
    let _alone = alone_with_window(Duration::from_micros(200));
    conformance::mutex::<P, Ron<P>, StdThreads>();
    conformance::mutex::<P, Routed<P, Flags<P, 2>>, StdThreads>();
    conformance::mutex::<P, Routed<P, Counts<P, 3>>, StdThreads>();
    conformance::mutex::<P, Routed<P, Table<P, 2048, 1>>, StdThreads>();
    conformance::mutex::<P, Routed<P, Table<P, 2048, 4>>, StdThreads>();
    conformance::mutex::<P, RonList<P>, StdThreads>();
    conformance::mutex::<P, Queues<P, 3>, StdThreads>();
    conformance::mutex::<P, Shfl<P, Together<OfLlc, 2>, Spin>, StdThreads>();
    conformance::mutex::<P, Shfl<P, Together<OfNode, 2>, SpinThenPark, WITHOUT_BOUND>, StdThreads>();
    conformance::mutex::<P, Shfl<P, Proportional<2>, Spin>, StdThreads>();
    conformance::mutex::<P, Shfl<P, Proportional<1>, SpinThenPark, 1>, StdThreads>();
    conformance::mutex::<P, libasl::Asl<P>, StdThreads>();
    conformance::mutex::<P, libasl::AslBlocking<P>, StdThreads>();
    conformance::mutex::<P, hmcs::Hmcs<P>, StdThreads>();
    conformance::mutex::<P, hmcs::HmcsLock<P, Twice>, StdThreads>();
    conformance::mutex::<P, ahmcs::AhmcsLock<P, Twice>, StdThreads>();
    conformance::mutex::<P, cohort::CPtlTkt<P>, StdThreads>();
    conformance::mutex::<P, hticket::HTicketLs<P>, StdThreads>();
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// The same on the CPUs of this machine, as the user declares them. The holder and the first waiter are on one CPU, the
/// second waiter on another.
#[test]
fn declared_kinds_and_routes_are_followed() {
    fn check<L: RawLock<Native>>(cpus: &[usize; 2], waiters: &[usize], expected: &[usize]) {
        let waiters: Vec<_> = waiters.iter().map(|waiter| cpus[*waiter]).collect();
        // SAFETY: see above.
        let order = order_through(pin, cpus[0], &waiters, |lock: &L, cx, _| unsafe { lock.lock(cx) });
        assert_eq!(order, expected, "{}", L::INFO.id);
    }
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let [first, second, ..] = allowed[..] else {
        // Not by a macro, whose output is kept back when the test passes.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: declared_kinds_and_routes_are_followed: needs two CPUs\n",
        );
        return;
    };
    let _alone = alone();
    let cpus = [first, second];
    set_big(CpuList::parse(first.to_string().as_bytes()).unwrap());
    set_route([second, first]);
    assert_eq!(Native::ranks(), 2);
    check::<Ron<Native>>(&cpus, &[0, 1], &[1, 0]);
    check::<RonPlock<Native>>(&cpus, &[0, 1], &[1, 0]);
    check::<RonTicket<Native>>(&cpus, &[0, 0, 1], &[2, 0, 1]);
    check::<RonShared<Native>>(&cpus, &[0, 1], &[1, 0]);
    check::<ShflLockKind<Native>>(&cpus, &[0, 1, 0, 1, 0, 1], &[0, 2, 4, 1, 3, 5]);
}
