//! What the tests of this crate share: reports of traces as they could be.

use lockswap_study::execute::{execute, Observer};
use lockswap_study::model::{Comparison, Exit, Phase, Sample, Usage, BASELINE};
use lockswap_study::plan::{Plan, Variant};
use lockswap_study::runner::Program;
use lockswap_trace::report::{Estimate, Identity, Notes, ObjectReport, Report, Times};

/// A lock that was acquired 10,000 times by four threads and held for 20 us each time, and for which threads waited
/// so long, ns.
pub fn lock(name: &str, used: &'static str, waited: f64) -> ObjectReport {
    let hold =
        Times { count: 1e4, noted: 500, total_ns: 2e8, p50_ns: 2e4, p90_ns: 2e4, p99_ns: 2e4, ..Times::default() };
    let wait = Times { count: 1e3, noted: 100, total_ns: waited, p99_ns: 1e6, max_ns: 5_000_000, ..Times::default() };
    ObjectReport {
        name: name.into(),
        used,
        module: Some("program".into()),
        identity: Identity::Symbol,
        objects: 1,
        users: 4,
        think_ns: 1e5,
        acquisitions: Estimate { value: 1e4, error: 0.0 },
        contended: Some(0.1),
        wait,
        slept: 0.5,
        failed: 0.0,
        hold,
        holder_slept: 0.0,
        holder_preempted: 0.0,
        longest_queue: 3,
        handed: Times::default(),
        changed_owner: 0.5,
        changed_cpu: 0.5,
        changed_node: 0.0,
        charged_ns: waited,
        waiters: Vec::new(),
        holders: Vec::new(),
        stacks: Vec::new(),
        threads: Vec::new(),
    }
}

/// A run of these locks, of 2.5 s, in which all threads lived so long together, ns.
pub fn report(objects: Vec<ObjectReport>, thread_time_ns: u64) -> Report {
    Report {
        schema: 1,
        command: vec!["./program".into()],
        locks: Vec::new(),
        duration_ns: 2_500_000_000,
        thread_time_ns,
        notes: Notes { holds: 1_000 * objects.len() as u64, ..Notes::default() },
        objects,
        conditions: Vec::new(),
        cycles: Vec::new(),
        still_waiting: Vec::new(),
    }
}

/// Runs of these wall times, s, with CPU times as long.
pub fn comparison(locks: &[(&str, [f64; 8])]) -> Comparison {
    let variants = locks.iter().map(|(lock, _)| Variant::new(lock, *lock != BASELINE, Program::default())).collect();
    let mut plan = Plan::new(vec!["p".into()], variants);
    (plan.runs, plan.warmup, plan.smallest_effect) = (0, 0, 0.01);
    let (mut comparison, _) = execute(&plan, "0", None, &mut Nobody);
    for (runs, (_, walls)) in comparison.locks.iter_mut().zip(locks) {
        let sample = |(round, wall_s): (usize, &f64)| Sample {
            round: round as u32,
            phase: Phase::Measured,
            wall_s: *wall_s,
            usage: Usage { user_s: *wall_s, ..Usage::default() },
            metrics: Vec::new(),
            exit: Exit::Code { code: 0 },
            failure: None,
            stdout_tail: None,
            stderr_tail: None,
        };
        runs.samples = walls.iter().enumerate().map(sample).collect();
    }
    comparison.summarise();
    comparison
}

struct Nobody;

impl Observer for Nobody {
    fn starting(&mut self, _: usize, _: &Variant, _: Phase) {}
    fn measured(&mut self, _: usize, _: &mut Comparison) {}
}
