//! The explorer's two searches see what there is to see: on random little programs the search without a bound, which
//! leaves out executions, finds every outcome that the other one finds, and both find what a plain enumeration finds.

use lockswap_locks::flat::{futex::Futex, ticket::Ticket, ttas::Ttas};
use lockswap_locks::queue::{
    clh::ClhSpin, hemlock::Hemlock, k42::K42, mcs::McsSpin, mcs::McsStp, reciprocating::Reciprocating,
};
use lockswap_locks::{Context, TryLock};
use lockswap_platform::{AtomicInt, Clock, DataCell, Deadline, Ordering::SeqCst, Platform, Wake};
use lockswap_sim::explore::{self, clear_tables, search, Bounds, End, Explore};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

type Word = <Explore as Platform>::U32;
type Data = <Explore as Platform>::Data<u32>;

/// One step of a little program. Words are meant modulo their number, threads modulo theirs.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    Store(usize, u32),
    Swap(usize, u32),
    Exchange(usize, u32, u32),
    Add(usize, u32),
    /// Stores in the second word if the first one is 0.
    StoreUnless(usize, usize, u32),
    Interrupt,
    /// Waits until the word has the value.
    Await(usize, u32),
    /// Waits until it has changed the word from the first to the second value.
    AwaitExchange(usize, u32, u32),
    Park(usize, u32),
    Unpark(usize, u32),
    /// Waits until one of two words has a value.
    AwaitEither(usize, usize, u32),
    TimedAwait(usize, u32),
    TimedPark(usize, u32),
    Now,
    Choose(u32),
    Number(usize),
    Sleep,
    Settle,
    Moment,
    ForgetWait,
    WaitsSince(usize),
    Guarded(bool),
    Gone(usize),
}

/// A small generator: the same programs everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        // SplitMix64 (Steele, Lea, Flood: OOPSLA 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn word(&mut self) -> usize {
        self.below(3) as usize
    }

    fn value(&mut self) -> u32 {
        self.below(3) as u32
    }

    /// Plain accesses, waits and sleeps: what [`plainly`] knows.
    fn plain(&mut self) -> Op {
        let (word, value, other) = (self.word(), self.value(), self.value());
        match self.below(15) {
            0 | 1 => Op::Load(word),
            2 | 3 => Op::Store(word, value),
            4 => Op::Swap(word, value),
            5 => Op::Exchange(word, value, other),
            6 => Op::Add(word, 1),
            7 => Op::Await(word, value),
            8 => Op::AwaitExchange(word, value, other),
            9 => Op::Park(word, 0),
            10 => Op::Park(word, value),
            11 | 12 => Op::StoreUnless(word, self.word(), value),
            13 => Op::Interrupt,
            _ => Op::Unpark(word, 1 + value),
        }
    }

    /// The above, and all else that threads may have in common.
    fn any(&mut self) -> Op {
        let (word, value) = (self.word(), self.value());
        match self.below(24) {
            0 | 1 => Op::AwaitEither(word, self.word(), value),
            2 | 3 => Op::TimedAwait(word, value),
            4 => Op::TimedPark(word, value),
            5 => Op::Now,
            6 => Op::Choose(2 + value),
            7 => Op::Number(word),
            8 => Op::Sleep,
            9 => Op::Settle,
            10 => Op::Moment,
            11 => Op::ForgetWait,
            12 => Op::WaitsSince(word),
            _ => self.plain(),
        }
    }
}

type Program = Vec<Vec<Op>>;

fn program(random: &mut Random, steps: u64, op: impl Fn(&mut Random) -> Op) -> Program {
    let threads = 2 + random.below(2) as usize;
    let mut program = vec![Vec::new(); threads];
    for thread in &mut program {
        for _ in 0..1 + random.below(if threads == 2 { steps + 1 } else { steps }) {
            thread.push(op(random));
        }
    }
    program
}

/// What each thread has seen, and the words at the end.
type Outcome = Vec<Vec<u64>>;

thread_local! {
    static SEEN: RefCell<Outcome> = const { RefCell::new(Vec::new()) };
}

fn note(thread: usize, value: u64) {
    SEEN.with_borrow_mut(|seen| seen[thread].push(value));
}

/// The lowest byte of a word, which has all of the small values here.
fn byte(word: &Word) -> &<Explore as Platform>::U8 {
    // SAFETY: both are transparent wrappers of the integer, which has its lowest byte first.
    unsafe { &*std::ptr::from_ref(word).cast() }
}

fn perform(thread: usize, op: Op, words: &[Word], data: &Data, threads: usize) {
    let word = |number: usize| &words[number % words.len()];
    let soon = || Deadline { clock: Clock::Monotonic, at: Explore::<explore::Faithful>::now(Clock::Monotonic) + 5 };
    type P = Explore;
    let seen = match op {
        Op::Load(w) => word(w).load(SeqCst).into(),
        Op::Store(w, value) => {
            word(w).store(value, SeqCst);
            0
        }
        Op::Swap(w, value) => word(w).swap(value, SeqCst).into(),
        Op::Exchange(w, from, to) => match word(w).compare_exchange(from, to, SeqCst) {
            Ok(_) => 100,
            Err(found) => found.into(),
        },
        Op::Add(w, value) => word(w).fetch_add(value, SeqCst).into(),
        Op::StoreUnless(flag, w, value) => P::store_unless(byte(word(flag)), byte(word(w)), value as u8).into(),
        Op::Interrupt => P::settle().into(),
        Op::Await(w, value) => P::spin_map(|| (word(w).load(SeqCst) == value).then_some(7)),
        Op::AwaitExchange(w, from, to) => P::spin_map(|| word(w).compare_exchange(from, to, SeqCst).ok()).into(),
        Op::AwaitEither(w, x, value) => P::spin_map(|| {
            let (a, b) = (word(w).load(SeqCst), word(x).load(SeqCst));
            (a == value || b == value).then_some(u64::from(a * 10 + b))
        }),
        Op::TimedAwait(w, value) => {
            P::spin_map_until(soon(), || (word(w).load(SeqCst) == value).then_some(1)).unwrap_or(2)
        }
        Op::Park(w, expected) => (P::park(word(w), expected, None) == Wake::Retry).into(),
        Op::TimedPark(w, expected) => (P::park(word(w), expected, Some(soon())) == Wake::Retry).into(),
        Op::Unpark(w, n) => P::unpark(word(w), n).into(),
        Op::Now => P::now(Clock::Monotonic),
        Op::Choose(n) => P::choose(n).into(),
        Op::Number(w) => P::address(word(w)) as u64,
        Op::Sleep => {
            P::sleep(3);
            0
        }
        Op::Settle => {
            explore::settle();
            0
        }
        Op::Moment => explore::moment(),
        Op::ForgetWait => {
            explore::forget_wait();
            0
        }
        Op::WaitsSince(other) => {
            explore::order();
            explore::waits_since(other % threads).unwrap_or(0)
        }
        // SAFETY: virtual threads run one at a time.
        Op::Guarded(true) => unsafe { data.with_mut(|value| (*value, *value += 1).0.into()) },
        // SAFETY: as above.
        Op::Guarded(false) => unsafe { data.with(|value| (*value).into()) },
        Op::Gone(w) => {
            explore::gone((&raw const *word(w)).addr(), size_of::<Word>());
            0
        }
    };
    note(thread, seen);
}

fn run(program: &Program, words: usize) {
    let threads = program.len();
    SEEN.set(vec![Vec::new(); threads + 1]);
    clear_tables();
    // Some words lie where addresses change from execution to execution.
    let ballast = vec![0u8; 24];
    let boxed: Box<[Word]> = (0..words).map(|_| AtomicInt::new(0)).collect();
    std::mem::forget(ballast);
    let array: [Word; 3] = [const { 0 }; 3].map(AtomicInt::new);
    let words = if words == 3 { &array[..] } else { &boxed[..] };
    let data = Data::new(0);
    let data = &data;
    let bodies = program.iter().enumerate().map(|(thread, ops)| {
        let body = move || ops.iter().for_each(|op| perform(thread, *op, words, data, threads));
        Box::new(body) as Box<dyn FnOnce() + Send>
    });
    explore::run(bodies.collect());
    words.iter().for_each(|word| note(threads, word.load(SeqCst).into()));
}

fn bounds(preemptions: Option<u32>, rarities: u32) -> Bounds {
    Bounds { preemptions, rarities, steps: 500, executions: 60_000, time: Duration::MAX }
}

/// All outcomes, deadlocks among them; nothing if there are too many executions.
fn outcomes(program: &Program, words: usize, bounds: Bounds) -> Option<(BTreeSet<Outcome>, u64)> {
    let mut all = BTreeSet::new();
    let report = search(bounds, &|| run(program, words), &mut |failure| {
        let mut seen = SEEN.take();
        match failure {
            None => {}
            Some(message) if message.starts_with("deadlock") => seen.push(vec![u64::MAX]),
            Some(message) => panic!("{message}: {program:?}"),
        }
        all.insert(seen);
        true
    });
    (report.end == End::Exhausted).then_some((all, report.executions))
}

/// The same by the simplest enumeration there is, of programs of the plain operations.
fn plainly(program: &Program, words: usize) -> BTreeSet<Outcome> {
    #[derive(Clone)]
    struct State {
        next: Vec<usize>,
        /// The word each thread sleeps on, in the order of falling asleep.
        asleep: Vec<(usize, usize)>,
        memory: Vec<u32>,
        /// Threads that have looked for a conditional store.
        looked: Vec<bool>,
        /// Those of them that have been interrupted since.
        interrupted: Vec<bool>,
        seen: Outcome,
    }
    fn step(program: &Program, state: &State, thread: usize) -> Option<State> {
        let op = program[thread].get(state.next[thread])?;
        if state.asleep.iter().any(|(sleeper, _)| *sleeper == thread) {
            return None;
        }
        let mut after = state.clone();
        let count = after.memory.len();
        if let (Op::StoreUnless(flag, ..), false) = (*op, state.looked[thread]) {
            if after.memory[flag % count] == 0 {
                after.looked[thread] = true;
                return Some(after);
            }
        }
        let seen = match *op {
            Op::Load(w) => after.memory[w % count].into(),
            Op::Store(w, value) => {
                after.memory[w % count] = value;
                0
            }
            Op::Swap(w, value) => std::mem::replace(&mut after.memory[w % count], value).into(),
            Op::Exchange(w, from, to) if after.memory[w % count] == from => {
                after.memory[w % count] = to;
                100
            }
            Op::Exchange(w, ..) => after.memory[w % count].into(),
            Op::Add(w, value) => {
                after.memory[w % count] += value;
                (after.memory[w % count] - value).into()
            }
            Op::StoreUnless(_, w, value) => {
                let stores = std::mem::take(&mut after.looked[thread]) && !after.interrupted[thread];
                after.interrupted[thread] = false;
                if stores {
                    after.memory[w % count] = value;
                }
                stores.into()
            }
            Op::Interrupt => {
                after.interrupted.copy_from_slice(&after.looked);
                1
            }
            Op::Await(w, value) if after.memory[w % count] == value => 7,
            Op::AwaitExchange(w, from, to) if after.memory[w % count] == from => {
                after.memory[w % count] = to;
                from.into()
            }
            Op::Await(..) | Op::AwaitExchange(..) => return None,
            Op::Park(w, expected) => {
                if after.memory[w % count] == expected {
                    after.asleep.push((thread, w % count));
                }
                1
            }
            Op::Unpark(w, n) => {
                let mut woken = 0;
                after.asleep.retain(|(_, word)| {
                    let wakes = *word == w % count && woken < n;
                    woken += u32::from(wakes);
                    !wakes
                });
                woken.into()
            }
            _ => unreachable!("not a plain operation"),
        };
        after.next[thread] += 1;
        after.seen[thread].push(seen);
        Some(after)
    }
    fn walk(program: &Program, state: &State, all: &mut BTreeSet<Outcome>) {
        let mut is_end = true;
        for thread in 0..program.len() {
            if let Some(after) = step(program, state, thread) {
                is_end = false;
                walk(program, &after, all);
            }
        }
        if is_end {
            let mut seen = state.seen.clone();
            // A thread that sleeps has not come back from that.
            for (thread, _) in &state.asleep {
                seen[*thread].pop();
            }
            let has_ended = |thread: usize| state.next[thread] == program[thread].len();
            if (0..program.len()).all(has_ended) && state.asleep.is_empty() {
                let memory = seen.last_mut().unwrap();
                memory.extend(state.memory.iter().map(|value| u64::from(*value)));
            } else {
                seen.push(vec![u64::MAX]);
            }
            all.insert(seen);
        }
    }
    let threads = program.len();
    let start = State {
        next: vec![0; threads],
        asleep: Vec::new(),
        memory: vec![0; words],
        looked: vec![false; threads],
        interrupted: vec![false; threads],
        seen: vec![Vec::new(); threads + 1],
    };
    let mut all = BTreeSet::new();
    walk(program, &start, &mut all);
    all
}

/// So many programs each; `EXPLORE_PROGRAMS=N` for more, `EXPLORE_SEED=N` for others.
fn programs(default: u64) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    (number("EXPLORE_PROGRAMS").unwrap_or(default), number("EXPLORE_SEED").unwrap_or(1))
}

#[test]
fn plain_programs_have_the_outcomes_of_a_plain_enumeration() {
    let (count, seed) = programs(1_500);
    let mut random = Random(seed);
    let (mut executions, mut different) = (0, 0);
    for _ in 0..count {
        let words = 1 + random.below(3) as usize;
        let program = program(&mut random, 4, Random::plain);
        let expected = plainly(&program, words);
        let (reduced, taken) = outcomes(&program, words, bounds(None, 0)).expect("short programs");
        assert_eq!(reduced, expected, "{words} words: {program:?}");
        executions += taken;
        different += expected.len();
    }
    println!("{count} programs: {different} outcomes, {executions} executions of the reduced search");
}

#[test]
fn the_reduced_search_sees_what_the_full_one_sees() {
    let (count, seed) = programs(1_500);
    let mut random = Random(seed << 32);
    let (mut full_executions, mut reduced_executions, mut compared) = (0, 0, 0);
    for _ in 0..count {
        let words = 1 + random.below(3) as usize;
        let rarities = random.below(3) as u32;
        let program = program(&mut random, 3, Random::any);
        let Some((expected, all)) = outcomes(&program, words, bounds(Some(u32::MAX), rarities)) else { continue };
        let (reduced, taken) = outcomes(&program, words, bounds(None, rarities)).expect("fewer than all");
        assert_eq!(reduced, expected, "{words} words, {rarities} rarities: {program:?}");
        assert!(taken <= all, "{taken} of {all} executions: {program:?}");
        full_executions += all;
        reduced_executions += taken;
        compared += 1;
    }
    println!(
        "{compared} of {count} programs: {full_executions} executions, {reduced_executions} of the reduced search"
    );
    assert!(compared > count * 9 / 10 && reduced_executions < full_executions / 3);
}

#[test]
fn a_conditional_store_is_seen_to_happen_and_to_be_refused() {
    let seen = |program: &Program, rarities| {
        let all = outcomes(program, 2, bounds(None, rarities)).expect("short programs").0;
        all.iter().map(|outcome| (outcome[0][0], outcome[1].first().copied())).collect::<Vec<_>>()
    };
    let store = vec![Op::StoreUnless(0, 1, 2)];
    let (alone, settled) = (vec![store.clone(), Vec::new()], vec![store, vec![Op::Interrupt]]);
    assert_eq!(seen(&alone, 0), [(1, None)]);
    assert_eq!(seen(&alone, 1), [(0, None), (1, None)], "for no reason");
    assert_eq!(seen(&settled, 0), [(0, Some(1)), (1, Some(1))], "interrupted or not");
    assert_eq!(seen(&settled, 1), [(0, Some(0)), (0, Some(1)), (1, Some(0)), (1, Some(1))], "or forbidden");
}

/// What ends an execution is found by both searches, or by neither.
#[test]
fn the_reduced_search_fails_where_the_full_one_fails() {
    let (count, seed) = programs(1_500);
    let mut random = Random(seed << 16);
    let (mut failed, mut compared) = (0, 0);
    for _ in 0..count {
        let words = 1 + random.below(3) as usize;
        let is_about_memory = random.below(2) == 0;
        let program = program(&mut random, 3, |random| match random.below(6) {
            0 if is_about_memory => Op::Gone(random.word()),
            0 | 1 if !is_about_memory => Op::Guarded(random.below(2) == 0),
            _ => random.plain(),
        });
        let failure = |preemptions| {
            let mut first = None;
            // A deadlock is not looked for here.
            let report = search(bounds(preemptions, 0), &|| run(&program, words), &mut |failure| {
                let failure = failure.filter(|message| !message.starts_with("deadlock"));
                first = failure.map(str::to_owned);
                first.is_none()
            });
            (first.is_some(), report.end)
        };
        let (full, end) = failure(Some(u32::MAX));
        if matches!(end, End::Limit(_)) {
            continue;
        }
        assert_eq!(failure(None).0, full, "{words} words: {program:?}");
        compared += 1;
        failed += u64::from(full);
    }
    println!("{failed} of {compared} programs fail");
    assert!(failed > count / 10 && failed < count * 9 / 10 && compared > count * 9 / 10);
}

/// A thread for each word: `l` acquires and releases, `t` tries. What is seen: who was inside, in this order, and who
/// failed.
fn acquires<L: TryLock<Explore>>(words: &[&str]) {
    SEEN.set(vec![Vec::new()]);
    clear_tables();
    let lock = L::new();
    let data = Data::new(0);
    let contexts: Vec<Vec<L::Ctx>> = words.iter().map(|word| word.chars().map(|_| L::Ctx::new()).collect()).collect();
    let (lock, data, contexts) = (&lock, &data, &contexts);
    let bodies = words.iter().enumerate().map(|(thread, word)| {
        let body = move || {
            for (letter, cx) in word.chars().zip(&contexts[thread]) {
                // SAFETY: a context of its own for each acquisition, which outlives the threads.
                let holds = unsafe {
                    match letter {
                        't' => lock.try_lock(cx),
                        _ => {
                            lock.lock(cx);
                            true
                        }
                    }
                };
                explore::order();
                note(0, thread as u64 + if holds { 0 } else { 100 });
                if holds {
                    // SAFETY: held through this context.
                    unsafe {
                        data.with_mut(|value| *value += 1);
                        lock.unlock(cx);
                    }
                }
            }
        };
        Box::new(body) as Box<dyn FnOnce() + Send>
    });
    explore::run(bodies.collect());
}

/// The orders of acquisitions are the same in both searches, where the full one has an end; how many executions each
/// takes.
fn compare<L: TryLock<Explore>>() -> (u64, u64) {
    let (mut full, mut reduced, mut whole) = (0, 0, 0);
    for words in [&["l", "l"][..], &["ll", "l"], &["lt", "l"], &["l", "t", "t"], &["lt", "tl"]] {
        let orders = |preemptions| {
            let mut seen = BTreeSet::new();
            let bounds = Bounds { executions: 200_000, ..bounds(preemptions, 1) };
            let report = search(bounds, &|| acquires::<L>(words), &mut |failure| {
                assert_eq!(failure, None, "{} {words:?}", L::INFO.id);
                seen.insert(SEEN.take());
                true
            });
            (seen, report)
        };
        let (seen, some) = orders(None);
        assert_eq!(some.end, End::Exhausted, "{} {words:?}", L::INFO.id);
        let (expected, all) = orders(Some(u32::MAX));
        if all.end == End::Exhausted {
            assert_eq!(seen, expected, "{} {words:?}", L::INFO.id);
            whole += 1;
        } else {
            assert!(seen.is_superset(&expected), "{} {words:?}", L::INFO.id);
        }
        full += all.executions;
        reduced += some.executions;
    }
    assert!(whole >= 1, "{}", L::INFO.id);
    println!("{}: {full} executions, {reduced} of the reduced search", L::INFO.id);
    (full, reduced)
}

#[test]
fn locks_are_acquired_in_the_same_orders_in_both_searches() {
    let executions = [
        compare::<Ticket<Explore>>(),
        compare::<Ttas<Explore>>(),
        compare::<Futex<Explore>>(),
        compare::<McsSpin<Explore>>(),
        compare::<McsStp<Explore>>(),
        compare::<K42<Explore>>(),
        compare::<ClhSpin<Explore>>(),
        compare::<Hemlock<Explore>>(),
        compare::<Reciprocating<Explore>>(),
    ];
    assert!(executions.iter().all(|(full, reduced)| reduced < full));
}
