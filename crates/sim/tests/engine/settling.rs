//! Stores that depend on a look, and what it takes to settle them.

use super::*;

/// A byte in a line of its own.
#[repr(align(128))]
struct Byte(<Sim as Platform>::U8);

/// A machine on which settling takes what this says.
fn settling_machine(changes: &[(&str, &str)]) -> Machine {
    let costs = [
        ("scheduler.settle", "100"),
        ("scheduler.interrupt", "700"),
        ("scheduler.interrupt_each", "30"),
        ("scheduler.interrupted", "200"),
    ];
    one_socket(&[&costs, changes].concat())
}

#[test]
fn to_settle_takes_longer_the_more_cpus_run_threads_and_keeps_those_from_their_work() {
    let machine = settling_machine(&[]);
    for (threads, expected) in [(1, 100), (2, 800), (5, 890)] {
        let took = on_threads(&machine, threads, |number| {
            at(100_000);
            let began = now();
            if number == 0 {
                assert!(Sim::settle());
            } else {
                Sim::compute(2_000);
            }
            now() - began
        })
        .unwrap();
        assert!((expected..expected + 5).contains(&took[0]), "{threads} threads: {took:?} ns");
        // 12,000 cycles of 0.435 ns.
        assert!(took[1..].iter().all(|took| (5_420..5_425).contains(took)), "{threads} threads: {took:?} ns");
    }
}

#[test]
fn who_waits_for_a_cpu_is_not_interrupted() {
    let machine = settling_machine(&[("scheduler.slice", "2000"), ("scheduler.migrate", "false")]);
    // The second thread of each CPU waits or sleeps.
    let took = on_threads(&machine, 73, |number| {
        at(200_000);
        if number != 1 {
            Sim::sleep(100_000);
            return 0;
        }
        Sim::keep_busy(20_000);
        let began = now();
        assert!(Sim::settle());
        now() - began
    })
    .unwrap();
    assert!((100..105).contains(&took[1]), "{} ns", took[1]);
}

/// A releaser and a thread that is about to sleep, so many ns apart: whether the first has released without a look at
/// who sleeps, and whether the second has found the lock held.
fn release_and_sleep(machine: &Machine, apart: u64, settles: bool) -> (bool, bool) {
    const HELD: u8 = 1;
    let (flag, word) = (Byte(<Sim as Platform>::U8::holding(0)), Byte(<Sim as Platform>::U8::holding(HELD)));
    let seen = on_threads(machine, 3, |number| match number {
        // Both lines are in the cache of a third core, so that looks and stores take their time.
        2 => {
            at(90_000);
            flag.0.swap(2, Relaxed);
            flag.0.swap(0, Relaxed);
            word.0.fetch_or(2, Relaxed);
            word.0.swap(HELD, Relaxed);
            false
        }
        0 => {
            at(101_000);
            Sim::store_unless(&flag.0, &word.0, 0)
        }
        _ => {
            at(100_000 + apart);
            flag.0.store(1, Relaxed);
            if settles {
                assert!(Sim::settle());
            }
            word.0.load(Relaxed) == HELD
        }
    })
    .unwrap();
    (seen[0], seen[1])
}

#[test]
fn a_release_that_misses_the_flag_is_seen_once_it_has_been_settled() {
    let machine = settling_machine(&[]);
    let outcomes = |settles| (0..1_500).map(move |apart| (apart, settles));
    let run = |(apart, settles)| release_and_sleep(&machine, apart, settles);
    let settled: Vec<_> = outcomes(true).map(run).collect();
    assert!(!settled.contains(&(true, true)), "asleep, and nobody knows");
    assert!(settled.contains(&(true, false)) && settled.contains(&(false, true)), "either comes first");
    let lost = outcomes(false).map(run).filter(|outcome| *outcome == (true, true)).count();
    assert!(lost > 10, "without the call {lost} of 1500 sleepers are lost");
}

#[test]
fn a_store_whose_look_was_interrupted_does_not_happen_although_the_flag_is_clear() {
    let machine = settling_machine(&[]);
    let refused = (0..200).filter(|apart| {
        let (flag, word) = (Byte(<Sim as Platform>::U8::holding(0)), Byte(<Sim as Platform>::U8::holding(1)));
        let stored = on_threads(&machine, 2, |number| {
            if number == 0 {
                at(100_000);
                let stored = Sim::store_unless(&flag.0, &word.0, 0);
                assert_eq!(word.0.load(Relaxed), u8::from(!stored));
                return stored;
            }
            at(99_800 + apart);
            Sim::settle()
        })
        .unwrap();
        !stored[0]
    });
    let refused = refused.count();
    // The look takes 90 ns from memory.
    assert!((50..130).contains(&refused), "{refused} of 200 refused");
}
