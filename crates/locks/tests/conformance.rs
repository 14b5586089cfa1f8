//! The conformance suite on the hardware, for every lock of the catalogue.

use lockswap_conformance as conformance;
use lockswap_conformance::system::{come, Crew, System};
use lockswap_locks::auto::bounds::Bounds;
use lockswap_locks::auto::lock::AutoLock;
use lockswap_locks::for_each_lock;
use lockswap_locks::registry::{self, Role};
use lockswap_locks::{Context, TimedLock};
use lockswap_platform::{set_override, set_place, CoreKind, Native, Place, Single, TopologyOverride};
use std::sync::{Mutex, MutexGuard, PoisonError};

macro_rules! tests {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        const MUTEXES: &[(&str, fn())] = &[$(($mutex_id, || {
            use $mutex as Lock;
            conformance::mutex::<Native, Lock<Native>, System>()
        }),)*];
        const ALONE: &[(&str, fn())] = &[$(($mutex_id, || {
            use $mutex as Lock;
            conformance::alone::<Single, Lock<Single>>()
        }),)*];
        const RWLOCKS: &[(&str, fn())] = &[$(($rwlock_id, || {
            use $rwlock as Lock;
            conformance::rwlock::<Native, Lock<Native>, System>()
        }),)*];
        const SPINS: &[(&str, fn())] = &[$(($spin_id, || {
            use $spin as Lock;
            conformance::spin::<Native, Lock<Native>, System>()
        }),)*];
    };
}

for_each_lock!(tests);

/// Declared machines, NODESxCPUS: all waiters local, and each CPU a node of its own.
const TOPOLOGIES: [&str; 2] = ["1x64", "8x1"];

/// Declares the machine, which holds for the whole process: one test at a time, while the result lives.
fn declare(nodes: &[u8]) -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_override(TopologyOverride::parse(nodes).unwrap());
    alone
}

/// Checks every lock, or those that `LOCKSWAP_TEST_LOCKS=a,b` names, on both machines or the one that
/// `LOCKSWAP_TEST_TOPOLOGY` names: two at a time, since a check sleeps for half of its time.
fn check(role: Role, checks: &[(&str, fn())]) {
    let wanted = std::env::var("LOCKSWAP_TEST_LOCKS").ok();
    let is_wanted = |id: &str| wanted.as_ref().is_none_or(|list| list.split(',').any(|name| name == id));
    let only = std::env::var("LOCKSWAP_TEST_TOPOLOGY").ok();
    assert!(only.as_deref().is_none_or(|only| TOPOLOGIES.contains(&only)), "{only:?} is none of {TOPOLOGIES:?}");
    for nodes in TOPOLOGIES.into_iter().filter(|nodes| only.as_ref().is_none_or(|only| only == nodes)) {
        let _alone = declare(nodes.as_bytes());
        let left = Mutex::new(checks.iter().filter(|(id, _)| is_wanted(id)));
        let next = || left.lock().unwrap().next();
        let checks_what_is_left = || {
            while let Some((id, conforms)) = next() {
                let registered = registry::find(role, id).map(|entry| entry.info.id);
                assert_eq!(registered, Some(*id), "{id} is registered under its id");
                println!("{} {id} on {nodes}", role.name());
                conforms();
            }
        };
        std::thread::scope(|scope| {
            // Whoever hangs says in which thread.
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            let second = std::thread::Builder::new().name(name);
            second.spawn_scoped(scope, checks_what_is_left).expect("a second thread");
            checks_what_is_left();
        });
    }
}

#[test]
fn every_mutex_conforms() {
    check(Role::Mutex, MUTEXES);
}

/// Waiters of two nodes queue alternately; those of one node are served together, the holder's node first. A global
/// back-off lock leaves the order of nodes to chance after a holder that came without queueing.
fn serves_its_node_first<L: TimedLock<Native>>(cpus: &[usize], order_is_chance: bool) {
    const WAITERS: usize = 6;
    let lock = L::new();
    let (order, crew) = (Mutex::new(Vec::new()), Crew::default());
    pin(cpus[0]);
    let holder = L::Ctx::new();
    // SAFETY: contexts are fresh, serve one acquisition, and are leaked or outlive the lock.
    unsafe {
        lock.lock(&holder);
        std::thread::scope(|scope| {
            for waiter in 0..WAITERS {
                let (lock, order, cpu) = (&lock, &order, cpus[waiter % 2]);
                scope.spawn(crew.newcomer(move || {
                    pin(cpu);
                    let cx = Box::leak(Box::new(L::Ctx::new()));
                    come();
                    lock.lock(cx);
                    order.lock().unwrap().push(waiter);
                    lock.unlock(cx);
                }));
                crew.settle();
            }
            lock.unlock(&holder);
        });
    }
    let order = order.into_inner().unwrap();
    let changes = order.windows(2).filter(|pair| pair[0] % 2 != pair[1] % 2).count();
    let by_chance = order_is_chance && changes <= 2;
    assert!(by_chance || order == [0, 2, 4, 1, 3, 5], "{}: {order:?}", L::INFO.id);
}

fn allowed_cpus() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

#[test]
fn numa_locks_serve_the_holders_node_first() {
    let cpus = allowed_cpus();
    if cpus.len() < 2 {
        // Not by a macro, whose output is kept back when the test passes.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: numa_locks_serve_the_holders_node_first: needs two CPUs\n",
        );
        return;
    }
    let _alone = declare(b"1x1");
    for (node, cpu) in cpus.iter().enumerate().take(2) {
        set_place(*cpu, Place::new(node as u16, node as u16, CoreKind::Big));
    }
    serves_its_node_first::<lockswap_locks::numa::cna::Cna<Native>>(&cpus, false);
    serves_its_node_first::<lockswap_locks::shuffle::shfllock::ShflLock<Native>>(&cpus, false);
    serves_its_node_first::<lockswap_locks::numa::cohort::CBoMcsSpin<Native>>(&cpus, true);
    serves_its_node_first::<lockswap_locks::numa::cohort::CBoMcsStp<Native>>(&cpus, true);
    serves_its_node_first::<lockswap_locks::numa::cohort::CPtlTkt<Native>>(&cpus, false);
    serves_its_node_first::<lockswap_locks::numa::cohort::CTktTkt<Native>>(&cpus, false);
    serves_its_node_first::<lockswap_locks::numa::hmcs::Hmcs<Native>>(&cpus, false);
    serves_its_node_first::<lockswap_locks::numa::ahmcs::Ahmcs<Native>>(&cpus, false);
}

#[test]
fn every_mutex_conforms_without_atomics_in_one_thread() {
    check(Role::Mutex, ALONE);
}

#[test]
fn every_rwlock_conforms() {
    check(Role::RwLock, RWLOCKS);
}

#[test]
fn every_spinlock_conforms() {
    check(Role::Spin, SPINS);
}

#[test]
fn ids_are_unique_within_a_role() {
    for role in [Role::Mutex, Role::RwLock, Role::Spin] {
        // What `find` does not tell apart must not be two locks.
        let mut ids: Vec<_> = registry::ids(role).map(|id| id.to_ascii_lowercase().replace('-', "_")).collect();
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(registry::find(role, role.default_id()).is_some());
    }
    let id = |given| registry::find(Role::Mutex, given).map(|entry| entry.info.id);
    for (given, published) in [("mcs-spin", "mcs_spin"), ("MCS_SPIN", "mcs_spin"), ("mcs_ls", "mcs-ls")] {
        assert_eq!(id(given), Some(published));
    }
    for nothing in ["mcs", "mcs spin", "mcs_spin ", ""] {
        assert_eq!(id(nothing), None);
    }
}

/// `auto`, which passes the lock on along the route as soon as two threads wait.
#[test]
fn auto_keeps_its_promises_along_the_route() {
    struct Routed;
    impl Bounds for Routed {
        const ROUTE: u32 = 1;
        const BEHIND: u32 = 0;
        const BACK: u64 = 0;
    }
    type Lock = AutoLock<Native, Routed>;
    let _alone = declare(b"1x64");
    conformance::mutex::<Native, Lock, System>();
}
