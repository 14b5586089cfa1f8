//! What the engine promises: the same seed gives the same run, time passes as described, and a lock that stops all threads
//! is told apart from one that goes on.

use lockswap_locks::{flat::ticket::Ticket, queue::mcs::McsSpin, RawLock};
use lockswap_platform::{AtomicInt, Clock, Deadline, Ordering::Relaxed, Platform};
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

#[test]
fn a_line_takes_as_long_as_the_machine_file_says() {
    let machine = machine(
        "xeon-e5-2699v3",
        &[
            ("topology.placement", "ascending"),
            ("latency.cluster.core", "50"),
            ("fabric.jitter", "0"),
            ("core.clock", "0.1"),
        ],
    );
    #[repr(align(64))]
    struct Word(<Sim as Platform>::U32);
    // Thread 0 writes; the others read, one after the other: in its own socket, in the other one.
    for (reader, expected) in [(1, 50), (18, 118)] {
        let word = Word(AtomicInt::new(0));
        let times = on_threads(&machine, 19, |number| match number {
            0 => {
                word.0.swap(1, Relaxed);
                0
            }
            number if number == reader => {
                Sim::keep_busy(10_000);
                let start = now();
                assert_eq!(word.0.load(Relaxed), 1);
                now() - start
            }
            _ => 0,
        });
        let took = times.unwrap()[reader];
        assert!((expected..expected + 12).contains(&took), "reader {reader}: {took} ns, not {expected}");
    }
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
fn only_a_read_modify_write_keeps_a_line_from_others() {
    let machine = one_socket(&[("fabric.hold", "1000")]);
    let read_after = |write: fn(&Alone)| {
        let word = Alone::new();
        let took = on_threads(&machine, 3, |number| {
            let start = 100_000 + 1_000 * number as u64;
            match number {
                0 => word.0.store(1, Relaxed),
                1 => {
                    at(start);
                    write(&word);
                }
                _ => {
                    // The line is on its way to the second thread.
                    at(101_020);
                    let asked = now();
                    word.0.load(Relaxed);
                    return now() - asked;
                }
            }
            0
        });
        took.unwrap()[2]
    };
    let (stored, exchanged) = (
        read_after(|word| word.0.store(2, Relaxed)),
        read_after(|word| {
            word.0.swap(2, Relaxed);
        }),
    );
    assert!((70..110).contains(&stored), "it comes as soon as the other core has it: {stored} ns");
    assert!((1_070..1_110).contains(&exchanged), "{exchanged} ns");
}

#[test]
fn a_line_goes_to_those_who_asked_for_it_before_its_owner_asks_again() {
    let machine = one_socket(&[]);
    // The first thread releases a lock and takes it again, while the second one asks for it.
    let winner = |asks: u64| {
        let word = Alone::new();
        let seen = on_threads(&machine, 2, |number| {
            at(100_000 + 1_000 * number as u64);
            word.0.load(Relaxed);
            at(102_000 + asks * number as u64);
            if number == 0 {
                word.0.store(1, Relaxed);
            }
            word.0.swap(2 + number as u32, Relaxed)
        });
        seen.unwrap()
    };
    // The line needs 50 ns until the first thread may write.
    assert_eq!(winner(20), [3, 1], "the second thread's request has waited for the line");
    assert_eq!(winner(60), [1, 2], "nobody had asked for the line when it was there");
}

#[test]
fn hardware_threads_of_a_core_pay_for_what_they_share() {
    // CPU 36 is the second hardware thread of CPU 0's core.
    let machine = one_socket(&[("latency.sibling", "500"), ("core.sibling_busy", "1"), ("core.sibling_spinning", "1")]);
    let took = |write: fn(&Alone), asks: u64, access: fn(&Alone)| {
        let word = Alone::new();
        let times = on_threads(&machine, 37, |number| {
            at(200_000 + if number == 36 { asks } else { 0 });
            let asked = now();
            match number {
                0 => write(&word),
                36 => access(&word),
                _ => {}
            }
            now() - asked
        });
        times.unwrap()[36]
    };
    let (store, swap) = (|word: &Alone| word.0.store(1, Relaxed), |word: &Alone| _ = word.0.swap(2, Relaxed));
    let load = |word: &Alone| _ = word.0.load(Relaxed);
    for (write, access) in [(store as fn(&Alone), load as fn(&Alone)), (store, swap), (swap, load), (swap, swap)] {
        // The line comes from memory first, in 90 ns.
        let soon = took(write, 100, access);
        assert!((400..600).contains(&soon), "{soon} ns");
        let late = took(write, 2_000, access);
        assert!(late < 20 + 40, "the core has it: {late} ns");
    }
    let spinning = took(store, 100, |word| Sim::spin_map(|| (word.0.load(Relaxed) == 1).then_some(())));
    assert!((400..600).contains(&spinning), "{spinning} ns");
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
fn stores_of_a_thread_are_seen_in_order_and_at_once_by_itself() {
    #[repr(align(64))]
    struct Word(<Sim as Platform>::U32);
    let machine = machine("apple-m1", &[]);
    let words: Vec<Word> = (0..16).map(|_| Word(AtomicInt::new(0))).collect();
    let wrong = on_threads(&machine, 8, |number| {
        let mut wrong = 0;
        for round in 1..500 {
            if number == 0 {
                for word in &words {
                    word.0.store(round, Relaxed);
                    wrong += u32::from(word.0.load(Relaxed) != round);
                }
            } else {
                // Read backwards: what was written later must not be older.
                let seen: Vec<u32> = words.iter().rev().map(|word| word.0.load(Relaxed)).collect();
                wrong += u32::from(seen.windows(2).any(|pair| pair[0] > pair[1]));
            }
        }
        wrong
    });
    assert_eq!(wrong.unwrap(), [0; 8]);
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
    assert!(threads.iter().all(|line| line.contains("is parked at") && line.contains("engine.rs:")), "{threads:?}");
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
fn what_locks_say_about_themselves_does_not_depend_on_the_platform() {
    assert_eq!(<McsSpin<Sim> as RawLock<Sim>>::INFO.id, "mcs_spin");
}
