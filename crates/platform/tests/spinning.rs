//! What locks may rely on where they spin for a bounded time.

use lockswap_platform::{Native, Platform};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A lock whose waiters are not to spin (`spin=0`) acquires nothing else.
#[test]
fn a_bounded_wait_looks_once_at_least() {
    assert_eq!(Native::spin_map_bounded(0, || Some(7)), Some(7));
    let looks = Cell::new(0);
    let none = Native::spin_map_bounded(0, || {
        looks.set(looks.get() + 1);
        None::<()>
    });
    assert_eq!((none, looks.get()), (None, 1));
}

/// A pause takes 1 ns to 1 us on every processor.
#[test]
fn rounds_follow_the_time_that_they_are_to_last() {
    assert_eq!(Native::rounds(0), 1);
    let rounds = Native::rounds(1_000_000);
    assert!((1_000..=1_000_000).contains(&rounds), "{rounds}");
    assert_eq!(Native::rounds(10_000_000) / rounds, 10);
}

/// Other programs only ever make rounds longer; a processor may have become faster since they were measured.
#[test]
fn rounds_last_for_their_time() {
    let rounds = Native::rounds(2_000_000);
    let begin = Instant::now();
    assert_eq!(Native::spin_map_bounded(rounds, || None::<()>), None);
    let took = begin.elapsed();
    assert!(took >= Duration::from_micros(500), "{took:?}");
}
