//! Every lock, in the explorer and under loom, as far as seconds go; `lockswap-check check` goes further.

use lockswap_check::explore::{Explore, Virtual};
use lockswap_check::mutation::{self, Change, Mutant};
use lockswap_check::runner::{self, Budget, Checked, Engine, Schedule};
use lockswap_check::subjects::{self, Subject};
use lockswap_check::weak::{Modelled, Weak};
use lockswap_conformance::small;
use lockswap_locks::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use lockswap_locks::registry::Role;
use lockswap_locks::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The locks that `LOCKSWAP_TEST_LOCKS=a,b` names, or all.
fn wanted() -> Vec<Subject> {
    let wanted = std::env::var("LOCKSWAP_TEST_LOCKS").ok();
    let mut all = subjects::all();
    all.retain(|subject| wanted.as_ref().is_none_or(|list| list.split(',').any(|id| id == subject.id)));
    all
}

/// Runs `check` on each lock, on two threads. Both machines keep what they know per thread.
fn each_lock(check: impl Fn(&Subject) + Sync) {
    let all = wanted();
    let left = Mutex::new(all.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| loop {
                let next = left.lock().unwrap().next();
                let Some(subject) = next else { break };
                check(subject);
            });
        }
    });
}

/// Runs `check` on each lock, in two processes, of which each runs this `test` alone, with half of the locks. For
/// what maps and unmaps memory all the time, as loom does for the stacks of its threads: two threads of one process
/// hold each other up in the kernel, and take twice as long.
fn each_lock_in_processes(test: &str, check: impl Fn(&Subject)) {
    const HALF: &str = "LOCKSWAP_TEST_HALF";
    if let Ok(half) = std::env::var(HALF) {
        let skipped = usize::from(half == "second");
        return wanted().iter().skip(skipped).step_by(2).for_each(check);
    }
    let start = |half| {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args([test, "--exact", "--nocapture"]).env(HALF, half).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("this program can be started")
    };
    for output in ["first", "second"].map(start).map(|half| half.wait_with_output().expect("it ends")) {
        let [said, complained] = [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream));
        assert!(output.status.success() && said.contains("1 passed"), "{}\n{said}\n{complained}", output.status);
    }
}

fn must_hold(subject: &Subject, checked: &[Checked]) {
    for check in checked {
        assert!(check.failure.is_none(), "{}: {check:?}", subject.name());
    }
}

#[test]
fn every_lock_holds_in_the_explorer() {
    each_lock(|subject| {
        let checked: Vec<_> =
            subject.explore.iter().map(|scenario| runner::explore(subject, scenario, Budget::SHORT)).collect();
        must_hold(subject, &checked);
        let seen: u64 = checked.iter().map(|check| check.executions).sum();
        println!("{}: {seen} executions", subject.name());
        assert!(checked.iter().all(|check| check.engine == Engine::Explore && check.executions > 0));
    });
}

#[test]
fn every_lock_holds_under_loom() {
    each_lock_in_processes("every_lock_holds_under_loom", |subject| {
        let checked: Vec<_> = runner::weak_scenarios(subject, Budget::SHORT)
            .map(|scenario| runner::weak(scenario, Budget::SHORT))
            .collect();
        must_hold(subject, &checked);
        assert!(subject.weak.is_empty() || checked.iter().any(|check| check.executions > 1), "{}", subject.name());
    });
}

/// The checkers see what they are there for: every mutant of the ticket lock fails, the lock itself does not.
#[test]
fn mutants_of_the_ticket_lock_are_caught() {
    let Some(ticket) = subjects::all().into_iter().find(|subject| subject.id == "ticket") else {
        panic!("the ticket lock is registered");
    };
    let fails = |mutant: Option<Mutant>| {
        mutation::set(mutant);
        let failed = runner::check(&ticket, Budget::SHORT).iter().any(|check| check.failure.is_some());
        mutation::set(None);
        failed
    };
    let mut mutants = mutation::record(|| assert!(!fails(None)));
    mutants.retain(|mutant| mutant.place.file.contains("ticket.rs"));
    let kinds = |change: Change| mutants.iter().filter(|mutant| mutant.change == change).count();
    assert!(kinds(Change::DropAcquire) >= 2 && kinds(Change::DropRelease) == 1, "{mutants:?}");
    for mutant in &mutants {
        assert!(fails(Some(mutant.clone())), "{mutant:?} survives");
    }
}

/// A lock whose test and set are two steps.
struct Broken<P: Platform>(P::U32);

// SAFETY: none; the checkers are to see that.
unsafe impl<P: Platform> RawLock<P> for Broken<P> {
    const INFO: LockInfo = LockInfo {
        id: "broken",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: "",
        paper: "",
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        Broken(P::U32::new(0))
    }

    unsafe fn lock(&self, (): &()) {
        P::spin_map(|| (self.0.load(Ordering::Acquire) == 0).then_some(()));
        self.0.store(1, Ordering::Relaxed);
    }

    unsafe fn unlock(&self, (): &()) {
        self.0.store(0, Ordering::Release);
    }
}

// SAFETY: as above.
unsafe impl<P: Platform> TryLock<P> for Broken<P> {
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire).is_ok()
    }
}

// SAFETY: as above.
unsafe impl<P: Platform> TimedLock<P> for Broken<P> {}

impl<P: Platform> IsHeld for Broken<P> {
    fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[test]
fn a_failure_can_be_replayed_step_by_step() {
    let broken = Subject {
        role: Role::Mutex,
        id: "broken",
        variant: "",
        explore: small::mutex::<Explore, Broken<Explore>, Virtual>(),
        weak: small::mutex::<Weak, Broken<Weak>, Modelled>(),
    };
    let scenario = broken.explore.iter().find(|scenario| scenario.name == "exclusion-2x2").unwrap();
    let checked = runner::explore(&broken, scenario, Budget::SHORT);
    let failure = checked.failure.expect("two threads are in the critical section");
    assert!(failure.contains("in the critical section beside another one"), "{failure}");
    let command = "cargo run --profile prove -p lockswap-check -- replay 'broken' 'exclusion-2x2' ";
    let (_, rest) = failure.split_once(command).expect("the failure names the command that shows it");
    let (schedule, steps) = rest.split_once('\n').expect("the steps follow");
    let schedule: Schedule = schedule.parse().unwrap();
    // One takes the first thread away between its two steps, the other one the second thread inside.
    assert_eq!(schedule.preemptions, Some(2), "found under the lowest bound that shows it");

    // The command shows the same.
    let (message, again) = runner::replay(scenario, &schedule);
    assert!(failure.starts_with(&message.expect("the replay fails as well")));
    assert_eq!(steps, again);
    // One sees that the lock is free, the other one takes it and goes inside, and so does the first one.
    let lines: Vec<&str> = steps.lines().collect();
    let last = |text: &str| {
        let found = lines.iter().rposition(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no '{text}' in:\n{steps}"))
    };
    let [seen, taken, first, taken_again, second] = [
        "thread 0: reads word 1: 0 ",
        "thread 1: writes word 1: 0 -> 1 ",
        "thread 1: begins to write what the lock guards ",
        "thread 0: writes word 1: 1 -> 1 ",
        "thread 0: begins to write what the lock guards ",
    ]
    .map(last);
    assert!(seen < taken && taken < first && first < taken_again && taken_again < second, "{steps}");
    assert!([seen, taken, taken_again].iter().all(|line| lines[*line].contains(file!())), "{steps}");
    assert!(steps.lines().any(|line| line.contains("word 1 has 4 bytes, first used by thread 0 at")), "{steps}");
    assert!(steps.lines().all(|line| line.chars().count() <= 120), "{steps}");

    let under_loom = broken.weak.iter().find(|scenario| scenario.name == "exclusion-2x2").unwrap();
    assert!(runner::weak(under_loom, Budget::SHORT).failure.is_some());
    // A schedule of something else is refused.
    let (message, _) = runner::replay(scenario, &"1:9".parse().unwrap());
    assert!(message.unwrap().contains("does not exist"));
    assert!("1.2".parse::<Schedule>().is_err());
}
