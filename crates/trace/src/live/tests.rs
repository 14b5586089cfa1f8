use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lockswap_records::trace::{Event, Kind, Use};

use super::{Live, Order, Over, RowId, Step, Waiting, Whole};
use crate::tests::{born_here, holds_here, waits_here, Events};

const SECOND: Duration = Duration::from_secs(1);

/// Adds what came since the step before.
fn step(live: &mut Live, events: &mut Events) {
    let step = Step::take(&mut events.gathered, live.stacks(), SECOND, 0);
    live.add(step);
}

/// A hold of an object during which one thread waited; the object was initialised in `born_here`, if at all.
fn contend(events: &mut Events, object: u64, held: u64, birth: u64) {
    let wait = Event { object, birth, ..events.event(2, 1_000, held) };
    let wait = events.stack(wait, waits_here);
    let hold = Event { object, birth, charged: held - 100, waiters: 1, ..events.event(1, 500, held) };
    let hold = events.stack(hold, holds_here);
    events.gathered.take(Kind::Hold, &hold, &[]);
    events.gathered.take(Kind::Wait, &wait, &[]);
}

fn name(live: &Live, row: RowId) -> String {
    live.line(row, Over::All).object.name
}

#[test]
fn a_step_has_what_came_since_the_one_before() {
    let (mut live, mut events) = (Live::default(), Events::new());
    contend(&mut events, 64, 2_000, 0);
    step(&mut live, &mut events);
    contend(&mut events, 64, 6_000, 0);
    step(&mut live, &mut events);
    let [row] = live.ranked(Over::Last, Order::Waited)[..] else { panic!("one row") };
    let (last, all) = (live.line(row, Over::Last), live.line(row, Over::All));
    assert_eq!((last.object.wait.total_ns, all.object.wait.total_ns), (6_000.0, 8_000.0));
    assert_eq!((last.object.acquisitions.value, all.object.acquisitions.value), (1.0, 2.0));
    assert_eq!((last.object.hold.max_ns, last.object.longest_queue, last.object.objects), (6_000, 1, 1));
    assert_eq!((live.length(Over::Last), live.length(Over::All)), (SECOND, 2 * SECOND));
    let (holder, waiter) = (last.holder.unwrap(), last.waiter.unwrap());
    assert!(
        holder.function.ends_with("holds_here") && waiter.function.ends_with("waits_here"),
        "{holder:?} {waiter:?}"
    );
    assert_eq!((holder.share, waiter.share), (1.0, 1.0));
    assert!(last.object.name.contains("waits_here") && last.object.holders.is_empty(), "{}", last.object.name);
    let with = live.line_with_stacks(row, Over::All).object;
    assert!(with.holders[0].place().unwrap().function.ends_with("holds_here"));
    assert_eq!((with.holders[0].waited_ns, with.waiters[0].waited_ns), (7_800.0, 8_000.0));
    // Nothing comes: the row stays, with nothing in it.
    step(&mut live, &mut events);
    assert_eq!(live.ranked(Over::Last, Order::Waited), [row]);
    let last = live.line(row, Over::Last);
    assert_eq!((last.object.wait.noted, last.object.acquisitions.value, last.holder), (0, 0.0, None));
    assert_eq!(live.whole(Over::Last), Whole { objects: 1, ..Whole::default() });
    live.reset();
    assert!(live.ranked(Over::All, Order::Waited).is_empty());
    contend(&mut events, 64, 300, 0);
    step(&mut live, &mut events);
    assert_eq!((live.ranked(Over::All, Order::Waited), live.length(Over::All)), (vec![row], SECOND));
    assert_eq!(live.whole(Over::All), Whole { waited_ns: 300.0, acquisitions: 1.0, objects: 1 });
}

#[test]
fn rows_are_ordered_by_what_is_asked_for() {
    let (mut live, mut events) = (Live::default(), Events::new());
    let hold = |events: &mut Events, object: u64, length: u64, times: usize| {
        let hold = Event { object, used: Use::Spin as u8, ..events.event(1, 100, length) };
        (0..times).for_each(|_| events.gathered.take(Kind::Hold, &hold, &[]));
    };
    contend(&mut events, 64, 2_000, born_here as *const () as u64 + 2);
    hold(&mut events, 128, 10, 20);
    let wait = Event { used: Use::Condition as u8, object: 256, ..events.event(3, 1, 1_000_000) };
    events.gathered.take(Kind::Wait, &wait, &[]);
    step(&mut live, &mut events);
    let first = |order| name(&live, live.ranked(Over::Last, order)[0]);
    assert_eq!(live.ranked(Over::Last, Order::Waited).len(), 2, "a condition is no lock");
    for order in [Order::Waited, Order::Held, Order::Queue] {
        assert!(first(order).contains("born_here"), "{order:?}: {}", first(order));
    }
    assert!(first(Order::Acquired).starts_with("not named"), "{}", first(Order::Acquired));
    // What the last step does not have keeps the order of all steps.
    step(&mut live, &mut events);
    assert!(name(&live, live.ranked(Over::Last, Order::Acquired)[0]).starts_with("not named"));
}

#[test]
fn objects_of_one_name_are_one_row_and_can_get_a_name_later() {
    let (mut live, mut events) = (Live::default(), Events::new());
    for object in 1..=3 {
        let hold = Event { object: 64 * object, ..events.event(1, 100, 50) };
        events.gathered.take(Kind::Hold, &hold, &[]);
    }
    step(&mut live, &mut events);
    let [unnamed] = live.ranked(Over::Last, Order::Waited)[..] else { panic!("one row") };
    assert_eq!(live.line(unnamed, Over::Last).object.objects, 3);
    for object in 1..=2 {
        contend(&mut events, 64 * object, 1_000, 0);
    }
    step(&mut live, &mut events);
    let ranked = live.ranked(Over::Last, Order::Waited);
    let objects: Vec<u64> = ranked.iter().map(|row| live.line(*row, Over::All).object.objects).collect();
    assert_eq!((objects, ranked[1]), (vec![2, 1], unnamed));
    assert_eq!(live.line(ranked[0], Over::All).object.wait.total_ns, 2_000.0);
}

#[test]
fn a_lock_for_which_threads_wait_for_ever_is_shown() {
    let (mut live, mut events) = (Live::default(), Events::new());
    events.begin_wait(Event { object: 64, ..events.event(1, 1_000, 0) }, waits_here);
    events.begin_wait(Event { object: 64, ..events.event(2, 1_000, 0) }, waits_here);
    std::thread::sleep(Duration::from_millis(2));
    step(&mut live, &mut events);
    let [row] = live.ranked(Over::Last, Order::Waited)[..] else { panic!("one row") };
    let Waiting { threads, longest } = live.line(row, Over::Last).waiting;
    assert!(threads == 2 && longest >= Duration::from_millis(2), "{threads} {longest:?}");
    // One of them goes on.
    events.gathered.take(Kind::Hold, &Event { object: 64, ..events.event(1, 2_000, 10) }, &[]);
    step(&mut live, &mut events);
    assert_eq!(live.line(row, Over::Last).waiting.threads, 1);
}

/// Locks of which each has a name of its own.
static MANY: [AtomicU64; 50_000] = [const { AtomicU64::new(0) }; 50_000];

/// How long this thread has run, without the time in which others had its CPU.
fn run_time() -> Duration {
    let words = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = words.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.unwrap_or_default())
}

/// The most that there can be, half of them in one row, half each in its own; prints how long a refresh takes.
#[test]
fn a_refresh_with_100_000_objects() {
    const OBJECTS: u64 = 2 * MANY.len() as u64;
    let (mut live, mut events) = (Live::default(), Events::new());
    let births = born_here as *const () as u64 + 2;
    let born = (1..=OBJECTS / 2).map(|number| (64 * number, births));
    let objects: Vec<(u64, u64)> = born.chain(MANY.iter().map(|lock| (&raw const *lock as u64, 0))).collect();
    for round in 1..=3 {
        for (object, birth) in objects.iter().copied() {
            let wait = Event { object, birth, ..events.event(2, 1_000, 10 * round) };
            let hold = Event { charged: 5, waiters: 1, ..wait };
            events.gathered.take(Kind::Wait, &wait, &[]);
            events.gathered.take(Kind::Hold, &hold, &[]);
        }
        let begin = run_time();
        let step = Step::take(&mut events.gathered, live.stacks(), SECOND, 0);
        let taken = run_time();
        live.add(step);
        let added = run_time();
        let rows = live.ranked(Over::Last, Order::Waited);
        let whole = live.whole(Over::All);
        rows.iter().take(50).for_each(|row| drop(live.line(*row, Over::Last)));
        eprintln!("taken in {:?}, added in {:?}, shown in {:?}", taken - begin, added - taken, run_time() - added);
        assert_eq!((rows.len() as u64, whole.objects), (1 + OBJECTS / 2, OBJECTS));
        assert_eq!(whole.acquisitions, (round * OBJECTS) as f64);
        assert!(name(&live, rows[0]).contains("born_here") && name(&live, rows[1]).contains("MANY"));
    }
}
