//! The locks of `docs/adding-a-lock.md`, which must do what any lock does: on hardware, in the explorer, under loom
//! and in the simulator. A file and a line each are all that is known of them here.

#[path = "adding_a_lock/lock.rs"]
mod lock;
#[path = "adding_a_lock/policy.rs"]
mod policy;
include!("adding_a_lock/lines.rs");

use lockswap_check::explore::{Explore, Virtual};
use lockswap_check::runner::{self, Budget};
use lockswap_check::subjects::Subject;
use lockswap_check::weak::{Modelled, Weak};
use lockswap_conformance::system::System;
use lockswap_conformance::{self as conformance, small};
use lockswap_locks::info::LockInfo;
use lockswap_locks::parameters::Parameters;
use lockswap_locks::registry::Role;
use lockswap_locks::shuffle::shfllock::Shfl;
use lockswap_locks::waiting::Spin;
use lockswap_locks::{Context, RawLock};
use lockswap_platform::{CoreKind, Native, Platform};
use lockswap_sim::{attempt, Machine, Sim, Simulated};
use lockswap_workloads::crew::{gather, Phase, Timing};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the catalogue, the conformance suite, the checkers and the simulator make of a line.
struct Example {
    id: &'static str,
    info: LockInfo,
    parameters: Parameters,
    hardware: fn(),
    subject: fn() -> Subject,
    simulated: fn(&Machine) -> [u64; 2],
}

macro_rules! subject {
    ($id:expr, $variant:expr, $lock:ident) => {
        Subject {
            role: Role::Mutex,
            id: $id,
            variant: $variant,
            explore: small::mutex::<Explore, $lock<Explore>, Virtual>(),
            weak: small::mutex::<Weak, $lock<Weak>, Modelled>(),
        }
    };
}

macro_rules! examples {
    (
        mutex { $($id:literal => $lock:path,)* }
        rwlock {}
        spin {}
    ) => {
        const EXAMPLES: &[Example] = &[$({
            use $lock as Lock;
            Example {
                id: $id,
                info: <Lock<Native> as RawLock<Native>>::INFO,
                parameters: <Lock<Native> as RawLock<Native>>::PARAMETERS,
                hardware: conformance::mutex::<Native, Lock<Native>, System>,
                subject: || subject!($id, "", Lock),
                simulated: acquisitions::<Lock<Sim>>,
            }
        },)*];
    };
}

for_each_example!(examples);

/// The acquisitions by eight threads of a simulated machine, on its big and on its little cores. None may be lost.
fn acquisitions<L: RawLock<Sim>>(machine: &Machine) -> [u64; 2] {
    let (lock, inside, by_kind) = (L::new(), AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    let crew = Simulated::new(machine, 1);
    let finished = attempt(|| {
        gather(&crew, 8, Timing::lasting(20_000_000), |member| {
            let cx = L::Ctx::new();
            while member.signal.phase() != Phase::Stop {
                // SAFETY: the context serves one acquisition at a time, and threads end after the last release.
                unsafe { lock.lock(&cx) };
                let before = inside.load(Relaxed);
                // Long enough for a shuffler to look through the queue.
                Sim::keep_busy(1_000);
                inside.store(before + 1, Relaxed);
                // SAFETY: held.
                unsafe { lock.unlock(&cx) };
                by_kind[usize::from(member.kind == CoreKind::Little)].fetch_add(1, Relaxed);
            }
        });
    });
    finished.expect("it ends");
    let by_kind = by_kind.map(AtomicU64::into_inner);
    assert_eq!(inside.into_inner(), by_kind.iter().sum::<u64>(), "{} lost acquisitions", L::INFO.id);
    by_kind
}

#[test]
fn the_page_shows_what_is_compiled() {
    let page = include_str!("../../../docs/adding-a-lock.md");
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).map(|rest| rest.split_once("```").expect("a block ends").0).collect();
    let files = [
        include_str!("adding_a_lock/lock.rs"),
        include_str!("adding_a_lock/lines.rs"),
        include_str!("adding_a_lock/policy.rs"),
    ];
    assert_eq!(blocks, files);
}

#[test]
fn lines_and_files_agree() {
    for example in EXAMPLES {
        assert_eq!(example.info.id, example.id);
        assert!(!example.parameters.is_empty(), "{}", example.id);
    }
}

#[test]
fn they_conform_on_hardware() {
    EXAMPLES.iter().for_each(|example| (example.hardware)());
}

/// With small bounds, too, as a line in `subjects.rs` would have them.
#[test]
fn they_hold_in_the_explorer_and_under_loom() {
    type BatchesOf2<P> = Shfl<P, policy::BigFirst<2>, Spin>;
    let small = subject!("shfl-big-first", "batches of 2", BatchesOf2);
    for subject in EXAMPLES.iter().map(|example| (example.subject)()).chain([small]) {
        let checked = runner::check(&subject, Budget::SHORT);
        let engines = checked.iter().map(|check| check.engine).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(engines.len(), 2, "{}: the explorer and loom", subject.name());
        for check in &checked {
            assert!(check.failure.is_none() && check.executions > 0, "{}: {check:?}", subject.name());
        }
    }
}

#[test]
fn they_run_in_the_simulator() {
    let m1 = Machine::built_in("apple-m1", &[]).expect("apple-m1");
    for example in EXAMPLES {
        let [big, little] = (example.simulated)(&m1);
        println!("{}: {big} acquisitions on big cores, {little} on little ones", example.id);
        assert!(big + little > 1_000, "{}", example.id);
        if example.id == "shfl-big-first" {
            assert!(big > 2 * little && little > 0, "big cores first, within bounds: {big} and {little}");
        }
    }
}
