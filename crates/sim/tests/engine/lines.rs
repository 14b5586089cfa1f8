//! Cache lines: how long they take, who gets them, and what stores and read-modify-writes do to them.

use super::*;

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

#[test]
fn a_core_keeps_a_line_until_the_next_request_has_come_to_it() {
    // Half of 50 ns, in additions of 2 ns, after the first, which came with the line; and 30 ns until the second
    // thread has the line, 50 from there.
    let (additions, took) = additions_until_asked(("fabric.outstanding", "false"));
    assert!((11..=13).contains(&additions) && (80..90).contains(&took), "{additions} additions, {took} ns");
    // The request is there when the line comes, which takes 30 ns and half of 50.
    let (additions, took) = additions_until_asked(("fabric.outstanding", "true"));
    assert!((1..=2).contains(&additions) && (55..65).contains(&took), "{additions} additions, {took} ns");
    // A request that takes a fifth of the 50 ns is there after five additions; the line then takes four fifths.
    let (additions, took) = additions_until_asked(("fabric.request", "0.2"));
    assert!((5..=7).contains(&additions) && (80..90).contains(&took), "{additions} additions, {took} ns");
}

/// What the third thread sees of the second one's additions, and after how many ns.
fn additions_until_asked(change: (&str, &str)) -> (u64, u64) {
    let machine = one_socket(&[("core.rmw", "2"), change]);
    // The second thread takes the line, and adds as often as it can; the third one asks meanwhile.
    let word = Alone::new();
    let seen = on_threads(&machine, 3, |number| {
        match number {
            0 => at(100_000),
            1 => at(101_000),
            _ => at(101_020),
        }
        match number {
            0 => _ = word.0.swap(0, Relaxed),
            1 => (0..100).for_each(|_| _ = word.0.fetch_add(1, Relaxed)),
            _ => {
                let asked = now();
                let seen = word.0.swap(0, Relaxed);
                return (u64::from(seen), now() - asked);
            }
        }
        (0, 0)
    });
    seen.unwrap()[2]
}

/// What `lockswap sim probe` counts to find `fabric.request`, where each look misses.
#[test]
fn between_two_looks_as_many_exchanges_fit_as_into_the_way_of_a_request() {
    for (request, migratory) in
        [("0.2", "\"always\""), ("0.3", "\"always\""), ("0.5", "\"always\""), ("0.3", "\"never\"")]
    {
        let machine = one_socket(&[("core.rmw", "2"), ("fabric.request", request), ("fabric.migratory", migratory)]);
        let (word, done) = (Alone::new(), Alone::new());
        const EXCHANGES: u32 = 10_000;
        let looks = on_threads(&machine, 2, |number| {
            at(100_000);
            if number == 0 {
                (0..EXCHANGES).for_each(|number| _ = word.0.swap(number, Relaxed));
                done.0.store(1, Relaxed);
                return 0;
            }
            let mut looks = 0;
            while done.0.load(Relaxed) == 0 {
                word.0.load(Relaxed);
                looks += 1;
                Sim::keep_busy(25);
            }
            looks
        });
        let found = f64::from(EXCHANGES) / f64::from(looks.unwrap()[1]);
        let expected = request.parse::<f64>().unwrap() * 50.0 / 2.0;
        assert!((0.85..1.15).contains(&(found / expected)), "{request}, {migratory}: {found}, not {expected}");
    }
}

/// As two CPUs of an AMD EPYC do, whose line takes 30 ns: 4.6 ns for an addition of 2.3 ns, and 6 additions in a row
/// (`studies/hand-off/word.c`).
#[test]
fn two_threads_that_add_are_limited_by_the_line_alone_while_it_moves() {
    let machine = one_socket(&[("core.rmw", "2")]);
    let word = Alone::new();
    let ends = on_threads(&machine, 2, |_| {
        at(100_000);
        (0..1_000).for_each(|_| _ = word.0.fetch_add(1, Relaxed));
        now()
    });
    // The line moves for 25 ns, and stays for 25 ns, in which twelve additions fit behind the first.
    let each = (ends.unwrap().into_iter().max().unwrap() - 100_000) as f64 / 2_000.0;
    assert!((3.6..4.1).contains(&each), "{each} ns for an addition");
}

/// As on the same CPUs: a reader finds such a lock held half of the time.
#[test]
fn a_read_modify_write_changes_its_word_in_the_middle_of_its_time() {
    let machine = one_socket(&[("core.rmw", "20")]);
    let word = Alone::new();
    let held = on_threads(&machine, 2, |number| {
        let looks = (0..1_000).filter(|look| {
            if number == 0 {
                // A lock that is acquired and released, for longer than it takes until the next look.
                (0..50).for_each(|_| {
                    word.0.swap(1, Relaxed);
                    word.0.store(0, Relaxed);
                });
                return false;
            }
            // At any moment of a round of the other thread, which each look delays.
            at(100_000 + 1_000 * look + look % 29);
            word.0.load(Relaxed) == 1
        });
        looks.count()
    });
    let held = held.unwrap()[1];
    assert!((400..600).contains(&held), "{held} of 1000 looks");
}

#[test]
fn a_line_read_from_its_writer_may_come_with_the_right_to_write() {
    // Thread 0 is in one socket, thread 1 in the same one, and thread 18 in the other one.
    let took = |migratory: &str, reader: usize| {
        let value = format!("\"{migratory}\"");
        let machine = one_socket(&[("fabric.migratory", &value), ("core.rmw", "2")]);
        let word = Alone::new();
        let times = on_threads(&machine, 19, |number| {
            if number == 0 {
                word.0.store(1, Relaxed);
            } else if number == reader {
                at(100_000);
                word.0.load(Relaxed);
                at(101_000);
                let start = now();
                word.0.swap(2, Relaxed);
                return now() - start;
            }
            0
        });
        times.unwrap()[reader]
    };
    for (migratory, near, far) in [("never", false, false), ("between-nodes", false, true), ("always", true, true)] {
        for (reader, comes_along) in [(1, near), (18, far)] {
            let took = took(migratory, reader);
            assert_eq!(took < 20, comes_along, "{migratory}: {took} ns");
        }
    }
}

#[test]
fn a_line_goes_to_those_who_have_asked_for_it_unless_its_owner_is_quick() {
    let machine = one_socket(&[]);
    // The first thread releases a lock and takes it again, while the second one asks for it.
    let winner = |again: u64| {
        let word = Alone::new();
        let seen = on_threads(&machine, 2, |number| {
            at(100_000 + 1_000 * number as u64);
            word.0.load(Relaxed);
            at(102_000 + 20 * number as u64);
            if number == 0 {
                word.0.store(1, Relaxed);
                at(102_000 + again);
            }
            word.0.swap(2 + number as u32, Relaxed)
        });
        seen.unwrap()
    };
    // The first thread may write after 50 ns; after 25 more the second one's request has come to it.
    assert_eq!(winner(60), [1, 2], "the first thread is quick");
    assert_eq!(winner(74), [3, 1], "it loses the line before the exchange is done");
    assert_eq!(winner(100), [3, 1]);
}

#[test]
fn words_128_bytes_apart_share_no_line_and_words_64_bytes_apart_may() {
    #[repr(align(128))]
    struct Pair([<Sim as Platform>::U32; 32]);
    let took = |line: &str| {
        let machine = one_socket(&[("core.line", line)]);
        let pair = Pair(std::array::from_fn(|_| <Sim as Platform>::U32::holding(0)));
        let times = on_threads(&machine, 2, |number| {
            if number == 0 {
                pair.0[0].store(1, Relaxed);
                return 0;
            }
            at(100_000);
            pair.0[16].load(Relaxed);
            let start = now();
            pair.0[0].load(Relaxed);
            now() - start
        });
        times.unwrap()[1]
    };
    assert!(took("64") >= 50, "{} ns", took("64"));
    assert!(took("128") < 20, "it came along: {} ns", took("128"));
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

/// A number in a line of its own.
#[repr(align(128))]
struct Number(<Sim as Platform>::Usize);

#[test]
fn increments_in_one_operation_are_those_one_by_one() {
    let one_by_one = |words: &[Number], times: u64| {
        for word in words.iter().cycle().take(times as usize) {
            word.0.store(word.0.load(Relaxed).wrapping_add(1), Relaxed);
        }
    };
    let at_once = |words: &[Number], times: u64| Sim::increment_each(words, times, |word| &word.0);
    let slow_lines = [("core.store_buffer", "1"), ("latency.cluster.big", "400")];
    let slices = [("scheduler.slice", "2000"), ("scheduler.start", "0")];
    for (changes, threads, longer) in [
        (&[][..], 1, 1),
        (&[], 8, 1),
        (&slow_lines, 8, 1),
        (&slices, 24, 1),
        (&[], 1, 20),
        (&[], 8, 20),
        (&slices, 24, 20),
    ] {
        let run = |increment: &(dyn Fn(&[Number], u64) + Sync)| {
            let machine = machine("apple-m1", changes);
            let words: Vec<Number> = (0..12).map(|_| Number(AtomicInt::new(0))).collect();
            let crew = Simulated::new(&machine, 1);
            // No lock: increments are lost, which tells in which order loads and stores came.
            let ends = attempt(|| {
                let body = |number: usize| {
                    for round in 0..20 {
                        Sim::compute(10 * number as u64);
                        let from = (number + round) % 8;
                        increment(&words[from..], 3 * (number as u64 % 5) * (round as u64 % 3) * longer);
                    }
                    now()
                };
                gather(&crew, threads, Timing::lasting(1_000_000), |member| body(member.number)).0
            });
            let values: Vec<usize> = words.iter().map(|word| word.0.load(Relaxed)).collect();
            (ends.unwrap(), values, crew.totals())
        };
        let (single, range) = (run(&one_by_one), run(&at_once));
        assert_eq!(single, range, "{changes:?}");
        assert!(threads == 1 || single.2.misses > 200, "they must meet: {:?}", single.2);
    }
}
