//! Counts what is replaced and what is passed through, in the file that `LOCKSWAP_STATS` names.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use lockswap_platform::{Native, Platform};
use lockswap_records::counters::{
    call, Called, Counter, Plain, Why, CALLS, CHILDREN, CHILD_WORDS, FILE_WORDS, MOST_CHILDREN, RULES, SHARDS,
    SHARD_WORDS,
};

/// The mapped file; null while nothing is counted.
static FILE: AtomicPtr<[AtomicU64; FILE_WORDS]> = AtomicPtr::new(core::ptr::null_mut());

/// Counts in `file` from now on.
///
/// # Safety
/// `file` stays mapped and writable.
pub unsafe fn set_file(file: *mut [AtomicU64; FILE_WORDS]) {
    // Relaxed: set before a second thread exists.
    FILE.store(file, Ordering::Relaxed);
}

fn file() -> Option<&'static [AtomicU64; FILE_WORDS]> {
    // SAFETY: null, or a file that stays, as `set_file` has it. Relaxed: as there.
    unsafe { FILE.load(Ordering::Relaxed).as_ref() }
}

/// Adds one to `counter`, if counting is on.
pub fn count(counter: Counter) {
    if let Some(file) = file() {
        // Relaxed: a statistic.
        file[counter as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a mutex that got its lock by the rule with this number; by none, if it is as many as there are rules at
/// most.
pub fn count_rule(rule: usize) {
    if let Some(file) = file() {
        // Relaxed: a statistic.
        file[RULES + rule].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call.
#[inline(always)]
pub fn count_call(called: Called, why: Why) {
    if let Some(file) = file() {
        let shard = CALLS + (Native::cpu() as usize % SHARDS) * SHARD_WORDS;
        // Relaxed: a statistic.
        file[shard + call(called, why)].fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes that the program at `path` is started without the library; once for each path.
pub fn note_child(path: &CStr, plain: Plain) {
    let Some(file) = file() else { return };
    let text = path.to_bytes();
    let text = &text[..text.len().min((CHILD_WORDS - 1) * 8 - 1)];
    let word = |index: usize| {
        let bytes = text.get(8 * index..).unwrap_or_default();
        bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    for record in file[CHILDREN..RULES].chunks_exact(CHILD_WORDS).take(MOST_CHILDREN) {
        let (head, path) = record.split_first().expect("a record has words");
        // Relaxed: whoever reads the file does so when the writers have ended; two writers at once may both leave a
        // record.
        match head.compare_exchange(0, plain as u64 + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return path.iter().enumerate().for_each(|(i, to)| to.store(word(i), Ordering::Relaxed)),
            Err(_) if path.iter().enumerate().all(|(i, to)| to.load(Ordering::Relaxed) == word(i)) => return,
            Err(_) => {}
        }
    }
    count(Counter::Children);
}
