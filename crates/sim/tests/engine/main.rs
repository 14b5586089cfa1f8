//! What the engine promises: the same seed gives the same run, time passes as described, and a lock that stops all
//! threads is told apart from one that goes on. What it promises of cache lines is in `lines`, and of stores that depend
//! on a look in `settling`.

mod lines;
mod overlap;
mod settling;

use lockswap_locks::{flat::ticket::Ticket, queue::mcs::McsSpin, RawLock};
use lockswap_platform::{AtomicInt, Clock, Deadline, Ordering::Relaxed, Platform, Wake};
use lockswap_sim::{attempt, Job, Machine, Sim, Simulated, Stuck, Workload};
use lockswap_workloads::counter::{self, Config};
use lockswap_workloads::crew::{gather, Timing};
use lockswap_workloads::direct::Direct;
use lockswap_workloads::Mutex;

fn machine(id: &str, changes: &[(&str, &str)]) -> Machine {
    let changes: Vec<_> = changes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Machine::built_in(id, &changes).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_run_depends_on_the_seed_alone() {
    let machine = machine("amd-2990wx", &[]);
    let run = |seed: u64, lock: &str| {
        let workload = Workload::named("ncs").unwrap().with(64, 3_000_000);
        let run = Job { machine: &machine, workload, lock, seed }.run().unwrap();
        (run.report, run.totals)
    };
    for lock in ["mcs_spin", "cna", "ttas", "backoff", "ron", "twa", "hapax", "futex", "c-bo-mcs_spin", "shfllock-b"] {
        let first = run(1, lock);
        // What else the host's memory holds must not matter.
        let ballast: Vec<Box<[u8; 40]>> = (0..1000).map(|_| Box::new([0; 40])).collect();
        let again = std::thread::scope(|scope| scope.spawn(|| run(1, lock)).join().unwrap());
        drop(ballast);
        assert!(first == again, "{lock}: another run with the same seed");
        assert!(first.1 != run(2, lock).1, "{lock}: another seed must be another run");
    }
}

/// Runs `body` on so many threads; what each returned.
fn on_threads<R: Send>(machine: &Machine, threads: usize, body: impl Fn(usize) -> R + Sync) -> Result<Vec<R>, Stuck> {
    let crew = Simulated::new(machine, 1);
    attempt(|| gather(&crew, threads, Timing::lasting(1_000_000), |member| body(member.number)).0)
}

fn now() -> u64 {
    Sim::now(Clock::Monotonic)
}

/// A word in a line of its own.
#[repr(align(128))]
struct Alone(<Sim as Platform>::U32);

impl Alone {
    const fn new() -> Self {
        Alone(<Sim as Platform>::U32::holding(0))
    }
}

/// Waits until so many ns of virtual time have passed since the beginning.
fn at(time: u64) {
    Sim::keep_busy(time - now());
}

/// A machine with 18 cores that are 50 ns from each other, without chance.
fn one_socket(changes: &[(&str, &str)]) -> Machine {
    let fixed = [
        ("topology.placement", "ascending"),
        ("latency.cluster.core", "50"),
        ("fabric.jitter", "0"),
        ("fabric.near", "0"),
        ("core.clock", "0.1"),
    ];
    machine("xeon-e5-2699v3", &[&fixed, changes].concat())
}

#[test]
fn a_route_may_pass_a_core_several_times() {
    // First the even CPUs and then the odd ones: CPUs 0 and 32 are one core.
    let route: Vec<u32> = (0..64).step_by(2).chain((1..64).step_by(2)).collect();
    let machine = machine("amd-2990wx", &[("topology.route", &format!("{route:?}"))]);
    let ranks = on_threads(&machine, 64, |_| Sim::rank()).unwrap();
    assert!((0..64).all(|rank| ranks[route[rank] as usize] == rank as u32), "{ranks:?}");
}

#[test]
fn a_look_at_the_clock_takes_time() {
    let machine = machine("apple-m1", &[("core.clock", "100"), ("kind.little.speed", "0.5")]);
    let between = on_threads(&machine, 8, |_| {
        let first = now();
        let second = now();
        assert_eq!(Sim::measured_now(), second, "a note takes no time");
        second - first
    });
    assert_eq!(between.unwrap(), [100, 100, 100, 100, 200, 200, 200, 200]);
    let looks = |machine| {
        let looks = on_threads(machine, 1, |_| {
            let before = now();
            Sim::instant() - before
        });
        looks.unwrap()[0]
    };
    let with_counter = one_socket(&[("core.clock", "100"), ("core.counter", "10")]);
    assert_eq!((looks(&machine), looks(&with_counter)), (100, 10));
}

#[test]
fn a_non_critical_section_is_drawn_at_each_look_at_the_clock() {
    let round = |clock: &str| {
        let machine = machine("amd-2990wx", &[("core.clock", clock)]);
        let workload = Workload::named("ncs").unwrap().with(1, 20_000_000);
        Job { machine: &machine, workload, lock: "ticket", seed: 1 }.run().unwrap().report.round_ns
    };
    // Of 10 us; a section that is drawn once takes 10 us on average.
    let (seldom, often) = (round("100"), round("10"));
    assert!((8_600.0..9_600.0).contains(&often) && often + 200.0 < seldom && seldom < 10_100.0, "{often} {seldom}");
}

#[test]
fn deadlines_are_kept() {
    let machine = machine("hikey970", &[]);
    let late = on_threads(&machine, 8, |number| {
        let start = now();
        let until = Deadline { clock: Clock::Monotonic, at: start + 5_000 * number as u64 };
        assert!(Sim::spin_map_until(until, || None::<()>).is_none());
        now() - until.at
    });
    assert!(late.unwrap().iter().all(|late| *late < 100));
}

/// A lock that is never given back.
struct Kept(Direct<Sim, McsSpin<Sim>>);

impl Mutex for Kept {
    type Thread = <Direct<Sim, McsSpin<Sim>> as Mutex>::Thread;
    fn thread(&self) -> Self::Thread {
        self.0.thread()
    }
    fn lock(&self, me: &mut Self::Thread) {
        self.0.lock(me);
    }
    fn unlock(&self, _: &mut Self::Thread) {}
}

fn count<M: Mutex>(machine: &Machine, mutex: &M, threads: usize) -> Result<u64, Stuck> {
    let crew = Simulated::new(machine, 1);
    let config = Config { timing: Timing::lasting(1_000_000), ..Config::bare(threads) };
    attempt(|| counter::run::<Sim, M>(&config, &crew, mutex).ops)
}

#[test]
fn a_deadlock_is_reported_with_what_each_thread_waits_for() {
    let machine = machine("apple-m1", &[]);
    let Err(Stuck::Deadlock(threads)) = count(&machine, &Kept(Direct::new()), 3) else { panic!("not a deadlock") };
    assert_eq!(threads.len(), 3);
    assert!(threads.iter().all(|line| line.contains("watches cache lines") && line.contains(".rs:")), "{threads:?}");
    // The host's thread can go on.
    assert!(count(&machine, &Direct::<Sim, Ticket<Sim>>::new(), 3).unwrap() > 0);
}

/// A lock that sleeps until it is free, and wakes nobody.
struct NeverWakes(Alone);

impl Mutex for NeverWakes {
    type Thread = ();
    fn thread(&self) {}
    fn lock(&self, (): &mut ()) {
        while self.0 .0.swap(1, Relaxed) != 0 {
            Sim::park(&self.0 .0, 1, None);
        }
    }
    fn unlock(&self, (): &mut ()) {
        self.0 .0.store(0, Relaxed);
    }
}

#[test]
fn a_lost_wake_up_is_a_deadlock_of_parked_threads() {
    let machine = machine("apple-m1", &[]);
    let lock = NeverWakes(Alone(AtomicInt::new(0)));
    let Err(Stuck::Deadlock(threads)) = count(&machine, &lock, 3) else { panic!("not a deadlock") };
    assert!(!threads.is_empty() && threads.len() < 3, "one ended: {threads:?}");
    assert!(
        threads.iter().all(|line| line.contains("is parked at") && line.contains("engine/main.rs:")),
        "{threads:?}"
    );
}

/// A lock whose threads never stop asking, by themselves and not by `spin_map`: it was never free.
struct AlwaysAsks(Alone);

impl Mutex for AlwaysAsks {
    type Thread = ();
    fn thread(&self) {}
    fn lock(&self, (): &mut ()) {
        while self.0 .0.load(Relaxed) != 0 {}
    }
    fn unlock(&self, (): &mut ()) {}
}

#[test]
fn threads_that_go_on_for_ever_are_a_livelock() {
    let machine = machine("apple-m1", &[]);
    let lock = AlwaysAsks(Alone(AtomicInt::new(1)));
    let Err(Stuck::Livelock(threads)) = count(&machine, &lock, 2) else { panic!("not a livelock") };
    assert_eq!(threads.len(), 2);
    assert!(threads.iter().all(|line| line.contains("on CPU")), "{threads:?}");
}

#[test]
fn waiting_for_ever_by_the_clock_is_found_too() {
    let machine = machine("apple-m1", &[("scheduler.patience", "true")]);
    let Err(Stuck::Late(threads)) = count(&machine, &Kept(Direct::new()), 3) else { panic!("it ended") };
    assert_eq!(threads.len(), 3);
}

#[test]
fn a_wake_up_that_finds_nobody_takes_as_long_as_a_sleep_that_need_not_be() {
    let machine = machine("xeon-e5-2699v3", &[("scheduler.park", "300"), ("scheduler.unpark", "8000")]);
    let word = Alone::new();
    let took = on_threads(&machine, 2, |number| {
        if number == 1 {
            let until = Deadline { clock: Clock::Monotonic, at: now() + 20_000 };
            assert_eq!(Sim::park(&word.0, 0, Some(until)), Wake::TimedOut);
            at(300_000);
            Sim::park(&word.0, 0, None);
            return [0; 3];
        }
        let wake = |time| {
            at(time);
            let before = now();
            Sim::unpark(&word.0, 1);
            now() - before
        };
        // A thread that slept until its time had passed is not there any more.
        [wake(250_000), wake(400_000), wake(450_000)]
    });
    let [gone, somebody, nobody] = took.unwrap()[0];
    assert!((8_000..8_050).contains(&somebody), "{somebody} ns");
    assert!((300..350).contains(&nobody) && (300..350).contains(&gone), "{nobody} and {gone} ns");
}

#[test]
fn a_little_core_computes_more_slowly() {
    let machine = machine("apple-m1", &[("kind.little.speed", "0.5")]);
    let times = on_threads(&machine, 8, |_| {
        let start = now();
        Sim::compute(1000);
        now() - start
    });
    let times = times.unwrap();
    assert!((1990..2010).contains(&(1000 * times[7] / times[0])), "{times:?}");
}

/// When each of 16 threads on 8 CPUs has done `work`, ns from the start; they start together.
fn ends_of_sixteen(work: impl Fn() + Sync) -> Vec<u64> {
    let changes = [("scheduler.slice", "1e6"), ("scheduler.start", "0"), ("kind.little.speed", "1")];
    let machine = machine("apple-m1", &changes);
    let crew = Simulated::new(&machine, 1);
    let ends = attempt(|| {
        let timing = Timing::lasting(1_000_000);
        gather(&crew, 16, timing, |_| {
            work();
            now()
        })
        .0
    });
    ends.unwrap()
}

#[test]
fn threads_share_a_cpu_in_slices() {
    // A step takes 6 cycles of 0.3125 ns. Two threads of 10 ms on each CPU: both end near 20 ms, a few switches later.
    let ends = ends_of_sixteen(|| Sim::compute(10_000_000 * 1000 / 1875));
    assert!(ends.iter().all(|end| (18_900_000..20_500_000).contains(end)), "{ends:?}");
}

#[test]
fn who_waits_for_the_clock_needs_no_cpu_for_it() {
    let ends = ends_of_sixteen(|| Sim::keep_busy(10_000_000));
    assert!(ends.iter().all(|end| (10_000_000..11_500_000).contains(end)), "{ends:?}");
}

#[test]
fn a_condition_that_yields_does_so_again_and_again() {
    // Both threads are on one CPU: the first waits, by yields, for the second, which computes for less than a slice.
    let machine = machine("apple-m1", &[("scheduler.start", "0"), ("scheduler.slice", "1e9")]);
    let done = <Sim as Platform>::U32::new(0);
    let times = on_threads(&machine, 16, |number| {
        if number == 8 {
            Sim::compute(10_000);
            done.store(1, Relaxed);
        } else if number == 0 {
            Sim::spin_map(|| {
                Sim::yield_cpu();
                (done.load(Relaxed) != 0).then_some(())
            });
        }
        now()
    });
    let times = times.unwrap();
    assert!(times[0] < 1_000_000 && times[8] < 1_000_000, "{times:?}");
}

#[test]
fn a_thread_gives_way_if_another_one_is_ready_on_its_cpu() {
    // Of nine threads on eight CPUs, the first and the last share one: the first lets the last run, for 10,000 steps,
    // and that one the first, which is ready again and at its end.
    let machine = machine("apple-m1", &[("scheduler.start", "0"), ("scheduler.slice", "1e9")]);
    let others = on_threads(&machine, 9, |number| {
        Sim::compute(if number == 8 { 10_000 } else { 10 });
        Sim::give_way()
    });
    let others = others.unwrap();
    assert!(others[1..8].iter().all(|&ns| ns == 0), "{others:?}");
    assert!(others[0] > 10_000 && (1..10_000).contains(&others[8]), "{others:?}");
}

#[test]
fn what_locks_say_about_themselves_does_not_depend_on_the_platform() {
    assert_eq!(<McsSpin<Sim> as RawLock<Sim>>::INFO.id, "mcs_spin");
}
