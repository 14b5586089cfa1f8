//! What a plain and a traced run show of the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lockswap_advise::cause::Run;
use lockswap_advise::suspect::{suspects, Suspect};
use lockswap_study::execute::{execute, Ending, Observer};
use lockswap_study::model::{Comparison, Phase, Sample};
use lockswap_study::plan::{Plan, Variant};
use lockswap_study::problems;
use lockswap_study::runner::{Interrupt, Program};
use lockswap_trace::{Report, Session, Settings, SharedFile};

use super::{ended, programs::Programs};
use crate::compare::Variables;
use crate::error::UserError;
use crate::trace::INTERVAL;

/// In a shorter run hardly anything is sampled.
const SHORTEST: Duration = Duration::from_millis(100);

/// A run that takes this many times as long as the plain one counts as hung, as in comparisons; there is no time here
/// to wait a minute for each run of a short program.
const HUNG_FACTOR: u32 = 10;

/// No run is ended before.
const LEAST_LIMIT: Duration = Duration::from_secs(5);

/// How far apart the samples of a thread are, ns: nearer than those of `lockswap trace`, so that the sums of a run
/// of a second are some percent off, and not 15.
const SPACING_NS: u64 = 1_000_000;

/// What the traced run is called where it fails.
const TRACED: &str = "traced";

/// What was seen.
pub struct Seen {
    /// The run as a whole.
    pub run: Run,
    /// How long the plain run took, with what is around it.
    pub takes: Duration,
    /// The trace.
    pub report: Report,
    /// The locks for which threads waited.
    pub locks: Vec<Suspect>,
}

impl Seen {
    /// Runs the program once plain and once traced; nothing after an interruption.
    pub fn look(programs: &Programs, interrupt: &Interrupt) -> anyhow::Result<Option<Self>> {
        let begin = std::time::Instant::now();
        let Some(plain) = once(&programs.template, programs.template.variants[0].clone(), interrupt)? else {
            return Ok(None);
        };
        let takes = begin.elapsed();
        let sample = first(&plain);
        let name = programs.shown.first().map_or("", String::as_str);
        if sample.wall_s < SHORTEST.as_secs_f64() {
            let what = format!("{name} ended after {:.0} ms: too short for a trace", 1e3 * sample.wall_s);
            return Err(UserError::new(what, "give it more work: a second is good").into());
        }
        let made = |more| programs.interposed(more);
        let Some(report) = traced(programs, limit(programs, takes), interrupt, made)? else { return Ok(None) };
        let cpus = plain.machine.cpus_allowed;
        let run = Run::of(&report, sample.wall_s, &sample.usage, cpus);
        Ok(Some(Self { run, takes, locks: suspects(&report), report }))
    }
}

/// The longest run, where a plain one `takes` so long.
pub fn limit(programs: &Programs, takes: Duration) -> Duration {
    programs.template.timeout.unwrap_or_else(|| LEAST_LIMIT.max(HUNG_FACTOR * takes))
}

/// The only run of a comparison of one run.
fn first(comparison: &Comparison) -> &Sample {
    &comparison.locks[0].samples[0]
}

/// Runs one variant once; nothing after an interruption.
fn once(template: &Plan, variant: Variant, interrupt: &Interrupt) -> anyhow::Result<Option<Comparison>> {
    let plan = Plan { variants: vec![variant], runs: 0, warmup: 1, counts: false, confirms: false, ..template.clone() };
    match execute(&plan, env!("CARGO_PKG_VERSION"), Some(interrupt), &mut Nobody) {
        (comparison, Ending::Complete) => Ok(Some(comparison)),
        (comparison, ending) => ended(&comparison, ending).map_or(Ok(None), |error| Err(error.into())),
    }
}

/// The trace of a run of the program that `made` makes with these variables; nothing after an interruption.
pub fn traced(
    programs: &Programs,
    limit: Duration,
    interrupt: &Interrupt,
    made: impl FnOnce(Variables) -> Result<Program, UserError>,
) -> anyhow::Result<Option<Report>> {
    let settings = Settings { spacing_ns: SPACING_NS, ..Settings::default() };
    let shared = SharedFile::create(settings).map_err(|error| {
        let remedy = "make room in /dev/shm, or set TMPDIR to a folder with room";
        UserError::new(format!("no file for the trace: {error}"), remedy)
    })?;
    let program = made(vec![shared.variable()])?;
    let plain = &programs.template.variants[0];
    let variant = Variant { lock: TRACED.into(), preloaded: true, program, ..plain.clone() };
    let template = Plan { timeout: Some(limit), ..programs.template.clone() };
    let mut session = Session::new(&shared, false);
    let is_over = AtomicBool::new(false);
    let (ran, session) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // Relaxed: what was noted before the end is read below, when the program and its threads are gone.
            while !is_over.load(Ordering::Relaxed) {
                session.read(0, false);
                thread::sleep(INTERVAL);
            }
            session.stop();
            session.read(0, true);
            session
        });
        let ran = once(&template, variant, interrupt);
        is_over.store(true, Ordering::Relaxed);
        (ran, reader.join())
    });
    let Some(comparison) = ran? else { return Ok(None) };
    let Ok(session) = session else { anyhow::bail!("the trace was not read to its end") };
    if let Some(measure) = comparison.measures.first() {
        let allowed = if programs.template.ignore_failure { Some(&first(&comparison).exit) } else { None };
        if let Some(problem) = problems::problem(first(&comparison), measure, allowed) {
            let what = format!("the traced program failed: {problem}");
            return Err(
                UserError::new(what, "'lockswap trace' runs it in the same way and shows what it writes").into()
            );
        }
    }
    if !session.has_begun() {
        let what = "nothing was traced: the program did not load the library, or ended before it could";
        return Err(UserError::new(what, "'lockswap doctor PROGRAM' says why").into());
    }
    Ok(Some(session.report(programs.shown.clone(), vec![], settings)))
}

struct Nobody;

impl Observer for Nobody {
    fn starting(&mut self, _: usize, _: &Variant, _: Phase) {}
    fn measured(&mut self, _: usize, _: &mut Comparison) {}
}
