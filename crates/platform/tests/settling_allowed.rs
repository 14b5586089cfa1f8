//! [`Platform::store_unless`] and [`Platform::settle`] on hardware. Both are switched on for a whole process, so there is
//! one test.

use lockswap_platform::{Native, Platform, Single};
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether a store happens, with a flag of 0 and with one that is set.
fn stores<P: Platform>(byte: fn(u8) -> P::U8, load: fn(&P::U8) -> u8) -> [bool; 2] {
    [0, 1].map(|flag| {
        let word = byte(7);
        let stores = P::store_unless(&byte(flag), &word, 9);
        assert_eq!(load(&word), if stores { 9 } else { 7 }, "flag {flag}");
        stores
    })
}

fn native() -> [bool; 2] {
    // A sequence may be interrupted now and then, but not always.
    let tries = (0..100).map(|_| stores::<Native>(AtomicU8::new, |word| word.load(Ordering::Relaxed)));
    tries.reduce(|all, one| [all[0] | one[0], all[1] | one[1]]).unwrap()
}

#[test]
fn stores_depend_on_their_flags_once_settling_is_allowed_and_as_long_as_it_is() {
    assert_eq!(
        stores::<Single>(lockswap_platform::AtomicInt::new, |word| {
            lockswap_platform::AtomicInt::load(word, Ordering::Relaxed)
        }),
        [true, false]
    );
    assert!(Single::settle());

    assert_eq!((native(), Native::settle()), ([false; 2], false), "off at first");
    Native::allow_settling(true);
    if Native::settle() {
        assert_eq!(native(), [true, false]);
    } else {
        println!("this kernel or glibc has no restartable sequences, or its membarrier does not know them");
        assert_eq!(native(), [false; 2]);
    }
    Native::allow_settling(false);
    assert_eq!((native(), Native::settle()), ([false; 2], false), "off again");
}
