//! In which order the locks serve waiters of different groups, NUMA nodes, caches and kinds of cores: what each policy
//! promises.

mod placed;

use lockswap_conformance::system::{come, Crew, System};
use lockswap_conformance::{self as conformance, Threads};
use lockswap_locks::asymmetric::libasl;
use lockswap_locks::numa::{ahmcs, cohort, hmcs, hticket};
use lockswap_locks::shuffle::policy::{OfKind, OfLlc, OfNode, Together, WritersFirst, READER, WRITER};
use lockswap_locks::shuffle::proportional::Proportional;
use lockswap_locks::shuffle::shfllock::{
    Shfl, ShflLock, ShflLockB, ShflLockKind, ShflLockLlc, ShflPb10, WITHOUT_BOUND,
};
use lockswap_locks::waiting::{Spin, SpinThenPark};
use lockswap_locks::{Context, RawLock};
use lockswap_platform::CoreKind::{self, Big, Little};
use lockswap_platform::{group_number, Native, Platform};
use placed::{order_of_service, order_through, Place, Placed, SOMEWHERE};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sets the reorder window, which holds for the whole process: one test at a time, while the result lives.
fn alone_with_window(window: Duration) -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Placed::set_reorder_window(window.as_nanos() as u64);
    alone
}

/// Checks the order in which waiters of two groups, who come alternately, are served: group by group, but the last,
/// whom nobody moves.
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

/// Everybody sleeps when the holder lets go; waiter 0 wakes and stays for a while. Waiter 1, the head now, shuffles
/// before it sleeps again: it wakes the one behind it, as a head does, and those that it brings together.
#[test]
fn the_shuffler_wakes_those_that_it_brings_together() {
    let woken = AtomicU32::new(0);
    let waiters: Vec<_> = (0..8).map(|waiter| on_node(waiter % 2)).collect();
    let order =
        order_through(Placed::move_to, Crew::settle, on_node(0), &waiters, |lock: &ShflLockB<Placed>, (), waiter| {
            // SAFETY: as `order_through` says.
            unsafe { lock.lock(&()) };
            match waiter {
                0 => System::settle(),
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
    let order =
        order_through(Placed::move_to, Crew::settle, SOMEWHERE, &[SOMEWHERE; 8], |lock: &Lock<1024>, (), waiter| {
            lock.lock_as(WANT[waiter]);
        });
    assert_eq!(order, [0, 2, 3, 5, 6, 1, 4, 7]);
    let order =
        order_through(Placed::move_to, Crew::settle, SOMEWHERE, &[SOMEWHERE; 8], |lock: &Lock<3>, (), waiter| {
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
    let (order, may_go, crew) = (Mutex::new(Vec::new()), AtomicU32::new(0), Crew::default());
    // SAFETY: the lock has no context, and each acquisition is released once.
    unsafe {
        lock.lock(&());
        std::thread::scope(|scope| {
            for (waiter, kind) in KINDS.into_iter().enumerate() {
                let (lock, order, may_go) = (&lock, &order, &may_go);
                scope.spawn(crew.newcomer(move || {
                    Placed::move_to(on(kind));
                    come();
                    lock.lock(&());
                    order.lock().unwrap().push(waiter);
                    Native::spin_map(|| (may_go.load(Ordering::Relaxed) == 1).then_some(()));
                    lock.unlock(&());
                }));
                crew.settle();
                if waiter == 1 {
                    lock.unlock(&());
                    crew.settle();
                }
            }
            may_go.store(1, Ordering::Relaxed);
        });
    }
    assert_eq!(order.into_inner().unwrap()[..4], [0, 1, 4, 2]);
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
        come();
        lock.lock(cx);
        let time = begin.elapsed();
        lock.unlock(cx);
        time
    }
}

/// Over a lock that is handed over. The futex lock is free while a waiter wakes up: a little core that looks then
/// takes it.
#[test]
fn a_big_core_overtakes_a_little_one_that_stands_back() {
    fn check<L: RawLock<Placed>>() {
        let order = order_of_service::<L>(on(Big), &[Little, Big, Big].map(on));
        let last = order.iter().position(|waiter| *waiter == 0);
        assert_eq!(last, Some(2), "{}: {order:?}", std::any::type_name::<L>());
    }
    let _alone = alone_with_window(Duration::from_secs(60));
    check::<libasl::Asl<Placed>>();
    check::<libasl::AslTicket<Placed>>();
    check::<libasl::AslCna<Placed>>();
}

#[test]
fn a_little_core_queues_when_its_window_has_passed() {
    /// The little one comes first, and its window passes before the big one comes.
    fn check<L: RawLock<Placed>>() {
        let rest = |crew: &Crew| {
            crew.settle();
            Native::spin_map(|| (!Placed::anyone_stands_back()).then_some(()));
            crew.settle();
        };
        // SAFETY: as `order_through` says.
        let acquire = |lock: &L, cx: &_, _| unsafe { lock.lock(cx) };
        let order = order_through(Placed::move_to, rest, on(Big), &[Little, Big].map(on), acquire);
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
            let crew = Crew::default();
            std::thread::scope(|scope| {
                let waiter = scope.spawn(crew.newcomer(|| time_to_acquire(&lock)));
                crew.settle();
                lock.unlock(&cx);
                assert!(waiter.join().unwrap() < FAR_TOO_LONG, "{}", L::INFO.id);
            });
        }
    }
    let _alone = alone_with_window(Duration::from_secs(60));
    for_each_asl!(check);
}

/// Threads move between any two questions about where they are.
#[test]
fn locks_work_for_threads_that_never_stay_on_a_cpu() {
    type P = Placed<true>;
    let _alone = alone_with_window(Duration::from_micros(200));
    conformance::mutex::<P, Shfl<P, Together<OfLlc, 2>, Spin>, System>();
    conformance::mutex::<P, Shfl<P, Together<OfNode, 2>, SpinThenPark, WITHOUT_BOUND>, System>();
    conformance::mutex::<P, Shfl<P, Proportional<2>, Spin>, System>();
    conformance::mutex::<P, Shfl<P, Proportional<1>, SpinThenPark, 1>, System>();
    conformance::mutex::<P, libasl::Asl<P>, System>();
    conformance::mutex::<P, libasl::AslBlocking<P>, System>();
    conformance::mutex::<P, hmcs::Hmcs<P>, System>();
    conformance::mutex::<P, hmcs::HmcsLock<P, Twice>, System>();
    conformance::mutex::<P, ahmcs::AhmcsLock<P, Twice>, System>();
    conformance::mutex::<P, cohort::CPtlTkt<P>, System>();
    conformance::mutex::<P, hticket::HTicketLs<P>, System>();
}
