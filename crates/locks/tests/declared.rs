//! What the user declares of the CPUs of this machine is what the locks go by. In a process of its own: other tests of
//! orders let waiters soon sleep, as under a filter on system calls, and then an emulated CPU has no number.

mod placed;

use lockswap_conformance::system::Crew;
use lockswap_locks::routed::plock::RonPlock;
use lockswap_locks::routed::ron::Ron;
use lockswap_locks::routed::shared::RonShared;
use lockswap_locks::routed::ticket::RonTicket;
use lockswap_locks::shuffle::shfllock::ShflLockKind;
use lockswap_locks::RawLock;
use lockswap_platform::{set_big, set_route, CpuList, Native, Platform};
use placed::order_through;
use std::io::Write;

/// The holder and every other waiter are on a big core.
#[test]
fn declared_kinds_are_followed() {
    let Some(cpus) = two_cpus("declared_kinds_are_followed") else { return };
    set_big(CpuList::parse(cpus[0].to_string().as_bytes()).unwrap());
    let waiters = [0, 1, 0, 1, 0, 1].map(|waiter| cpus[waiter]);
    let acquire = |lock: &ShflLockKind<Native>, (): &(), _| {
        // SAFETY: as `order_through` says.
        unsafe { lock.lock(&()) }
    };
    assert_eq!(order_through(pin, Crew::settle, cpus[0], &waiters, acquire), [0, 2, 4, 1, 3, 5]);
}

/// The holder and the first waiter are on one CPU, the last waiter on the other.
#[test]
fn declared_routes_are_followed() {
    fn check<L: RawLock<Native>>(cpus: &[usize; 2], waiters: &[usize], expected: &[usize]) {
        let waiters: Vec<_> = waiters.iter().map(|waiter| cpus[*waiter]).collect();
        // SAFETY: as `order_through` says.
        let acquire = |lock: &L, cx: &_, _| unsafe { lock.lock(cx) };
        let order = order_through(pin, Crew::settle, cpus[0], &waiters, acquire);
        assert_eq!(order, expected, "{}", L::INFO.id);
    }
    let Some(cpus) = two_cpus("declared_routes_are_followed") else { return };
    set_route([cpus[1], cpus[0]]);
    assert_eq!(Native::ranks(), 2);
    check::<Ron<Native>>(&cpus, &[0, 1], &[1, 0]);
    check::<RonPlock<Native>>(&cpus, &[0, 1], &[1, 0]);
    check::<RonTicket<Native>>(&cpus, &[0, 0, 1], &[2, 0, 1]);
    check::<RonShared<Native>>(&cpus, &[0, 1], &[1, 0]);
}

/// Keeps the calling thread on a CPU.
fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

/// Two CPUs of this machine; says that the test is left out where there are none.
fn two_cpus(test: &str) -> Option<[usize; 2]> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let cpus = allowed.next().zip(allowed.next());
    if cpus.is_none() {
        // Not by a macro, whose output is kept back when the test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: needs two CPUs");
    }
    cpus.map(|(first, second)| [first, second])
}
