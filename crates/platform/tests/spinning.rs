//! What locks may rely on where they spin for a bounded time.

use lockswap_platform::{Native, Platform};
use std::cell::Cell;

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
