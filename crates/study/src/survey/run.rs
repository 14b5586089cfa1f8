//! Carrying a survey's plan out: rounds of all programs, levels and locks in random order.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

use super::database::{NewRun, Quantity};
use super::plan::{filled_in, Pin, Plan, Program};
use super::Unusable;
use crate::execute::{self, TIMEOUTS_ALLOWED};
use crate::model::{Exit, Measure, Phase, Sample, BASELINE};
use crate::plan as one;
use crate::problems;
use crate::runner::{self, Interrupt};
use crate::window::Window;

/// Variables that a program's environment has and ours has not; nothing removes one.
pub type Variables = Vec<(OsString, Option<OsString>)>;

/// The environment that puts a program on a lock, and whether it loads the preload library.
pub type Environment<'a> = &'a dyn Fn(&str) -> Result<(bool, Variables), Unusable>;

/// What identifies a run: a program, a number of nodes, a lock, and the round; the trial of the plain program has
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The program.
    pub program: String,
    /// Its level of contention.
    pub nodes: u32,
    /// The lock.
    pub lock: String,
    /// The round, warm-up rounds first.
    pub round: Option<u32>,
}

/// What is known of a run that was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Made {
    /// How long it took, seconds.
    pub wall_s: f64,
    /// Whether it ran past the limit.
    pub timed_out: bool,
}

/// Hears how the survey goes on, and keeps what was measured.
pub trait Keeper {
    /// So many runs come, which take about so long.
    fn estimate(&mut self, runs: u64, time: Duration);
    /// A program is left out, for this reason.
    fn left_out(&mut self, program: &str, why: &str);
    /// A run begins.
    fn starting(&mut self, key: &Key);
    /// It has ended; what it measured must be kept before the next one.
    fn measured(&mut self, run: &NewRun, quantities: &[Quantity]) -> Result<(), Unusable>;
}

/// How a survey ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// All runs were made.
    Complete,
    /// The next round would not have fitted into the budget.
    OutOfTime {
        /// Rounds that were made, warm-up rounds among them.
        rounds: u32,
        /// Rounds of the plan.
        of: u32,
    },
    /// A signal came.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// A program fails without lockswap, or a command around the runs does.
    Failed(Unusable),
}

impl From<Unusable> for Ending {
    fn from(unusable: Unusable) -> Self {
        Ending::Failed(unusable)
    }
}

/// What to run, and how.
pub struct Settings<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Which part of the plan's programs and levels is run: this one, from 0, of so many.
    pub shard: (usize, usize),
    /// Longest time for everything.
    pub budget: Option<Duration>,
    /// What was made before.
    pub made: HashMap<Key, Made>,
    /// How a program gets on a lock.
    pub environment: Environment<'a>,
    /// The CPUs of each NUMA node.
    pub nodes: Vec<Vec<usize>>,
}

/// A program at one level of contention, ready to run on each lock.
struct Group<'a> {
    program: &'a Program,
    nodes: u32,
    cpus: Option<CpuSet>,
    /// The plain program first, then one for each lock of the plan.
    plan: one::Plan,
}

/// Runs the plan. Each run is reported to the keeper as it ends.
pub fn run(settings: &mut Settings<'_>, interrupt: &Interrupt, keeper: &mut dyn Keeper) -> Ending {
    match groups(settings) {
        Ok(mut groups) => {
            let ending = set_up(&mut groups, interrupt, keeper)
                .and_then(|()| all(settings, &groups, interrupt, keeper))
                .map_or_else(|ending| ending, |()| Ending::Complete);
            let cleaned = each_program(&groups, |group| {
                execute::around("cleanup", group.plan.cleanup.as_ref(), &group.plan, None).map_err(failed_command)
            });
            match (ending, cleaned) {
                (Ending::Complete, Err(ending)) => ending,
                (ending, _) => ending,
            }
        }
        Err(unusable) => Ending::Failed(unusable),
    }
}

/// Makes ready what the programs need, and leaves those out that can be and cannot run.
fn set_up(groups: &mut Vec<Group<'_>>, interrupt: &Interrupt, keeper: &mut dyn Keeper) -> Result<(), Ending> {
    let mut absent = Vec::new();
    each_program(groups, |group| {
        match execute::around("setup", group.plan.setup.as_ref(), &group.plan, Some(interrupt)) {
            Err(execute::Ending::CommandFailed { problem }) if group.program.optional => {
                keeper.left_out(&group.program.name, &problem);
                absent.push(group.program.name.clone());
                Ok(())
            }
            made => made.map_err(failed_command),
        }
    })?;
    groups.retain(|group| !absent.contains(&group.program.name));
    match groups.is_empty() && !absent.is_empty() {
        true => Err(Unusable::new("all programs were left out", "install what their setup names").into()),
        false => Ok(()),
    }
}

fn all(
    settings: &mut Settings<'_>,
    groups: &[Group<'_>],
    interrupt: &Interrupt,
    keeper: &mut dyn Keeper,
) -> Result<(), Ending> {
    let begin = Instant::now();
    // The plain programs first: what does not run at all, or lacks its metric, is found now and not after a night.
    for group in groups {
        one_run(settings, group, 0, None, interrupt, keeper)?;
    }
    let rounds = settings.plan.warmup + settings.plan.repetitions;
    let left = |settings: &Settings<'_>, round: u32| {
        let tasks = tasks(settings, groups, round);
        let seconds: f64 = tasks.iter().map(|(group, _)| settings.made[&groups[*group].key(0, None)].wall_s).sum();
        (tasks.len() as u64, seconds)
    };
    let (runs, seconds) = (0..rounds).map(|round| left(settings, round)).fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    keeper.estimate(runs, Duration::from_secs_f64(seconds));
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        let expected = longest.max(Duration::from_secs_f64(left(settings, round).1));
        if settings.budget.is_some_and(|budget| begin.elapsed() + expected > budget) {
            return Err(Ending::OutOfTime { rounds: round, of: rounds });
        }
        let start = Instant::now();
        for (group, variant) in tasks(settings, groups, round) {
            one_run(settings, &groups[group], variant, Some(round), interrupt, keeper)?;
        }
        longest = longest.max(start.elapsed());
    }
    Ok(())
}

/// The runs of a round that are still to be made, in the order that the seed draws for it: groups and their variants.
fn tasks(settings: &Settings<'_>, groups: &[Group<'_>], round: u32) -> Vec<(usize, usize)> {
    let of_group = |(index, group): (usize, &Group<'_>)| {
        (1..group.plan.variants.len()).map(move |variant| (index, variant)).collect::<Vec<_>>()
    };
    let mut tasks: Vec<(usize, usize)> = groups.iter().enumerate().flat_map(of_group).collect();
    // A generator for each round: a survey that is resumed draws the order that it would have had.
    fastrand::Rng::with_seed(settings.plan.seed ^ (u64::from(round) << 32)).shuffle(&mut tasks);
    tasks.retain(|(group, variant)| {
        let key = groups[*group].key(*variant, Some(round));
        !settings.made.contains_key(&key) && !is_left_out(settings, &key)
    });
    tasks
}

/// Whether the lock hung so often that the rest of its runs are left out: each costs the whole limit.
fn is_left_out(settings: &Settings<'_>, key: &Key) -> bool {
    let same =
        |(made, _): &(&Key, &Made)| (&made.program, made.nodes, &made.lock) == (&key.program, key.nodes, &key.lock);
    let hung = settings.made.iter().filter(same).filter(|(made, how)| made.round.is_some() && how.timed_out);
    hung.count() >= TIMEOUTS_ALLOWED
}

fn one_run(
    settings: &mut Settings<'_>,
    group: &Group<'_>,
    variant: usize,
    round: Option<u32>,
    interrupt: &Interrupt,
    keeper: &mut dyn Keeper,
) -> Result<(), Ending> {
    let key = group.key(variant, round);
    if settings.made.contains_key(&key) {
        return Ok(());
    }
    keeper.starting(&key);
    let of = &group.plan.variants[variant];
    let warm_up = round.is_none_or(|round| round < settings.plan.warmup);
    let phase = if warm_up { Phase::WarmUp } else { Phase::Measured };
    execute::around("prepare", of.prepare.as_ref(), &group.plan, Some(interrupt)).map_err(failed_command)?;
    let limit = group.program.timeout;
    let measure =
        || execute::measure(&group.plan, of, &of.program, (round.unwrap_or_default(), phase), limit, Some(interrupt));
    let sample = on_cpus(group.cpus.as_ref(), measure)?;
    // A run that a signal has reached, too, says nothing.
    let Some(sample) = sample.filter(|_| interrupt.signal().is_none()) else {
        return Err(Ending::Interrupted { signal: interrupt.signal().unwrap_or_default() });
    };
    let problem = problem(&group.plan, &sample);
    if let (None, Some(problem)) = (round, &problem) {
        return Err(plain_failed(&key, problem, &sample).into());
    }
    let made = Made { wall_s: sample.wall_s, timed_out: matches!(sample.exit, Exit::TimedOut { .. }) };
    let values = group.plan.measures.iter().map_while(|measure| measure.value(&sample)).collect();
    let new = NewRun {
        program: key.program.clone(),
        nodes: key.nodes,
        lock: key.lock.clone(),
        round,
        warm_up,
        problem,
        values,
        sample: serde_json::to_string(&sample).ok(),
    };
    keeper.measured(&new, &group.program.quantities())?;
    settings.made.insert(key, made);
    Ok(())
}

/// Why the run does not count.
fn problem(plan: &one::Plan, sample: &Sample) -> Option<String> {
    match &sample.exit {
        exit @ Exit::Code { code } if *code != 0 => Some(exit.words()),
        _ => plan.measures.iter().find_map(|measure| problems::problem(sample, measure, None)),
    }
}

fn plain_failed(key: &Key, problem: &str, sample: &Sample) -> Unusable {
    let mut what = format!("{} at {} nodes fails without lockswap: {problem}", key.program, key.nodes);
    for (stream, tail) in [("stderr", &sample.stderr_tail), ("stdout", &sample.stdout_tail)] {
        if let Some(tail) = tail {
            what += &format!("; it wrote to {stream}:");
            tail.lines().for_each(|line| what += &format!("\n    {line}"));
        }
    }
    let remedy = match problem.contains("metric") {
        true => "check its metric in the plan against what it writes",
        false => "run it by hand; it must exit with status 0",
    };
    Unusable::new(what, remedy)
}

fn failed_command(ending: execute::Ending) -> Ending {
    match ending {
        execute::Ending::Interrupted { signal } => Ending::Interrupted { signal },
        execute::Ending::CommandFailed { problem } => {
            Unusable::new(problem, "run it by hand in the shell: it must exit with status 0").into()
        }
        execute::Ending::Complete | execute::Ending::PlainFailed { .. } => Ending::Complete,
    }
}

/// Does something once for each program.
fn each_program(groups: &[Group<'_>], mut what: impl FnMut(&Group<'_>) -> Result<(), Ending>) -> Result<(), Ending> {
    let mut seen = None;
    for group in groups {
        if seen != Some(&group.program.name) {
            what(group)?;
        }
        seen = Some(&group.program.name);
    }
    Ok(())
}

/// Runs something while this thread, from which programs inherit it, is restricted to these CPUs.
fn on_cpus<T>(cpus: Option<&CpuSet>, what: impl FnOnce() -> T) -> Result<T, Unusable> {
    let Some(cpus) = cpus else { return Ok(what()) };
    let refused =
        |error| Unusable::new(format!("cannot run on the CPUs that the plan says: {error}"), "write pin = \"none\"");
    let before = sched_getaffinity(None).map_err(refused)?;
    sched_setaffinity(None, cpus).map_err(refused)?;
    let result = what();
    sched_setaffinity(None, &before).map_err(refused)?;
    Ok(result)
}

impl Group<'_> {
    fn key(&self, variant: usize, round: Option<u32>) -> Key {
        let lock = self.plan.variants[variant].lock.clone();
        Key { program: self.program.name.clone(), nodes: self.nodes, lock, round }
    }
}

/// The programs at their levels that belong to the shard.
fn groups<'a>(settings: &Settings<'a>) -> Result<Vec<Group<'a>>, Unusable> {
    let plan = settings.plan;
    let levels = plan.programs.iter().flat_map(|program| program.nodes.iter().map(move |nodes| (program, *nodes)));
    let (own, of) = settings.shard;
    // All locks of a program and level stay together: they are compared with each other.
    let chosen = levels.enumerate().filter(|(index, _)| index % of == own).map(|(_, level)| level);
    chosen.map(|(program, nodes)| group(settings, program, nodes)).collect()
}

fn group<'a>(settings: &Settings<'a>, program: &'a Program, nodes: u32) -> Result<Group<'a>, Unusable> {
    let cpus = cpus(settings, nodes).map_err(|what| {
        Unusable::new(
            format!("program '{}' at {nodes} nodes: {what}", program.name),
            "write fewer nodes, or pin = \"none\"",
        )
    })?;
    let shell = |text: &String, envs: &Variables| runner::Program {
        args: ["/bin/sh", "-c", &filled_in(text, nodes)].map(OsString::from).to_vec(),
        envs: envs.clone(),
        folder: program.folder.clone(),
    };
    let prefix: &[&str] = if settings.plan.interleave { &["numactl", "--interleave=all", "--"] } else { &[] };
    let args = |lock: &str| -> Vec<OsString> {
        let words = program.command.iter().map(|word| filled_in(word, nodes).replace("{lock}", lock).into());
        prefix.iter().map(OsString::from).chain(words).collect()
    };
    let own = program.environment.iter().map(|(name, value)| (name.into(), Some(filled_in(value, nodes).into())));
    let own: Variables = own.collect();
    let plain: Variables = own.iter().cloned().chain((settings.environment)(BASELINE)?.1).collect();
    let variant = |lock: &str| -> Result<one::Variant, Unusable> {
        let (preloaded, envs) = (settings.environment)(lock)?;
        let envs = own.iter().cloned().chain(envs).collect();
        let program_on = runner::Program { args: args(lock), envs, folder: program.folder.clone() };
        Ok(one::Variant {
            load: program.load.as_ref().map(|(load, _)| shell(load, &plain)),
            prepare: program.prepare.as_ref().map(|prepare| shell(prepare, &plain)),
            ..one::Variant::new(lock, preloaded, program_on)
        })
    };
    let locks = std::iter::once(BASELINE).chain(program.locks.iter().map(String::as_str));
    let variants = locks.map(variant).collect::<Result<Vec<_>, _>>()?;
    let measure = |(index, quantity): (usize, Quantity)| match program.metrics.is_empty() {
        true => Measure::wall(),
        false => Measure::metric(index, &quantity.name, "", &quantity.unit, quantity.lower_is_better),
    };
    let around = |text: &Option<String>| text.as_ref().map(|text| shell(text, &plain));
    let plan = one::Plan {
        name: program.name.clone(),
        measures: program.quantities().into_iter().enumerate().map(measure).collect(),
        metrics: program.metrics.iter().map(|(_, metric)| metric.clone()).collect(),
        input: program.input.clone(),
        keeps_output: true,
        ready: program.load.as_ref().map(|(_, ready)| ready.clone()),
        window: program.window.as_ref().map(|window| Window {
            after: window.after,
            length: window.length,
            count: shell(&window.count, &plain),
        }),
        setup: around(&program.setup),
        cleanup: around(&program.cleanup),
        ..one::Plan::new(program.command.clone(), variants)
    };
    Ok(Group { program, nodes, cpus, plan })
}

/// The CPUs that a number of nodes stands for; nothing where it restricts nothing.
fn cpus(settings: &Settings<'_>, nodes: u32) -> Result<Option<CpuSet>, String> {
    let count = nodes as usize;
    let all = sched_getaffinity(None).map_err(|error| format!("cannot tell the CPUs that may be used: {error}"))?;
    let may_use = |cpu: usize| cpu < CpuSet::MAX_CPU && all.is_set(cpu);
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| may_use(*cpu)).collect();
    let (have, words, chosen): (usize, &str, Vec<usize>) = match settings.plan.pin {
        Pin::None => return Ok(None),
        Pin::Cpus => (allowed.len(), "CPUs", allowed.iter().copied().take(count).collect()),
        Pin::Nodes => {
            let is_allowed = |cpus: &&Vec<usize>| cpus.iter().any(|cpu| may_use(*cpu));
            let usable: Vec<&Vec<usize>> = settings.nodes.iter().filter(is_allowed).collect();
            let chosen = usable.iter().take(count).flat_map(|cpus| cpus.iter().copied());
            (usable.len(), "NUMA nodes", chosen.filter(|cpu| may_use(*cpu)).collect())
        }
    };
    if count > have {
        return Err(format!("there are {have} {words}"));
    }
    let mut set = CpuSet::new();
    chosen.into_iter().for_each(|cpu| set.set(cpu));
    Ok(Some(set))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "
locks = ['a', 'b']
repetitions = 3
warmup = 1
seed = 3
[[program]]
name = 'one'
nodes = [1, 2]
command = ['sh', '-c', 'echo rate={nodes}$SPEED; echo said >&2; [ \"$SPEED\" != 9 ]']
metric = { regex = 'rate=([0-9]+)', name = 'rate' }
[[program]]
name = 'two'
nodes = [1]
timeout = '2s'
command = ['sh', '-c', '[ \"$SPEED\" != 9 ] || sleep 9']
";

    fn plan(text: &str) -> Plan {
        Plan::read("p", text, |id| Ok(id.to_owned())).unwrap()
    }

    /// Lock b is one on which programs fail.
    fn environment(lock: &str) -> Result<(bool, Variables), Unusable> {
        let speed = if lock == "b" { "9" } else { "5" };
        Ok((lock != BASELINE, vec![("SPEED".into(), Some(speed.into()))]))
    }

    fn settings(plan: &Plan) -> Settings<'_> {
        let (shard, budget, made, nodes) = ((0, 1), None, HashMap::new(), Vec::new());
        Settings { plan, shard, budget, made, environment: &environment, nodes }
    }

    #[derive(Default)]
    struct Log {
        runs: Vec<NewRun>,
        estimates: Vec<u64>,
        left_out: Vec<String>,
        /// After so many runs nothing can be kept.
        full_after: Option<usize>,
    }

    impl Keeper for Log {
        fn estimate(&mut self, runs: u64, _: Duration) {
            self.estimates.push(runs);
        }
        fn left_out(&mut self, program: &str, why: &str) {
            self.left_out.push(format!("{program}: {why}"));
        }
        fn starting(&mut self, _: &Key) {}
        fn measured(&mut self, run: &NewRun, _: &[Quantity]) -> Result<(), Unusable> {
            if self.full_after == Some(self.runs.len()) {
                return Err(Unusable::new("no room", "make some"));
            }
            self.runs.push(run.clone());
            Ok(())
        }
    }

    fn names(runs: &[NewRun]) -> Vec<String> {
        runs.iter().map(|run| format!("{} {} {} {:?}", run.program, run.nodes, run.lock, run.round)).collect()
    }

    #[test]
    fn rounds_hold_everything_in_random_order_and_failures_are_results() {
        let plan = plan(PLAN);
        let interrupt = Interrupt::on(&[]).unwrap();
        let mut log = Log::default();
        let mut whole = settings(&plan);
        assert_eq!(run(&mut whole, &interrupt, &mut log), Ending::Complete);
        // Three trials, then four rounds of three groups on two locks; the lock that hung twice is left out then.
        assert_eq!(log.estimates, [24]);
        assert_eq!(log.runs.len(), 3 + 24 - 2);
        assert!(log.runs[..3].iter().all(|run| run.lock == BASELINE && run.round.is_none() && run.warm_up));
        let rate = |run: &&NewRun| run.program == "one" && run.nodes == 2 && run.lock == "a" && !run.warm_up;
        let rates: Vec<f64> = log.runs.iter().filter(rate).map(|run| run.values[0]).collect();
        assert_eq!(rates, [25.0; 3]);
        let failed = log.runs.iter().find(|run| run.program == "one" && run.lock == "b").unwrap();
        assert_eq!(failed.problem.as_deref(), Some("exit status 1"));
        let kept = failed.sample.as_deref().unwrap();
        let expected = format!("\"stdout_tail\":\"rate={}9\",\"stderr_tail\":\"said\"", failed.nodes);
        assert!(kept.contains(&expected), "{kept}");
        let hung = log.runs.iter().find(|run| run.program == "two" && run.lock == "b").unwrap();
        assert_eq!(hung.problem.as_deref(), Some("timed out after 2 s"));
        let orders: Vec<String> = names(&log.runs[3..15])
            .chunks(6)
            .map(|round| round.iter().map(|name| name.rsplit_once(' ').unwrap().0).collect::<Vec<_>>().join(","))
            .collect();
        assert_ne!(orders[0], orders[1], "each round has an order of its own");

        // Stopped after eight runs and resumed, it makes the others in the same order.
        let mut first = Log { full_after: Some(8), ..Log::default() };
        let mut stopped = settings(&plan);
        let ending = run(&mut stopped, &interrupt, &mut first);
        assert_eq!(ending, Ending::Failed(Unusable::new("no room", "make some")));
        let mut rest = Log::default();
        let mut resumed = Settings { made: stopped.made, ..settings(&plan) };
        assert_eq!(run(&mut resumed, &interrupt, &mut rest), Ending::Complete);
        assert_eq!(names(&[first.runs, rest.runs].concat()), names(&log.runs));
    }

    #[test]
    fn shards_split_programs_and_levels() {
        let plan = plan(&PLAN.replace("repetitions = 3", "repetitions = 1").replace("sleep 9", "exit 1"));
        let interrupt = Interrupt::on(&[]).unwrap();
        let mut all: Vec<String> = Vec::new();
        for shard in 0..2 {
            let mut log = Log::default();
            let ending = run(&mut Settings { shard: (shard, 2), ..settings(&plan) }, &interrupt, &mut log);
            assert_eq!(ending, Ending::Complete);
            all.extend(names(&log.runs));
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!((count, all.len()), (15, 15));
    }

    #[test]
    fn a_metric_that_is_not_there_ends_the_survey_at_once() {
        let plan = plan(&PLAN.replace("'rate=([0-9]+)'", "'speed=([0-9]+)'"));
        let mut log = Log::default();
        let Ending::Failed(why) = run(&mut settings(&plan), &Interrupt::on(&[]).unwrap(), &mut log) else { panic!() };
        let what =
            "one at 1 nodes fails without lockswap: metric not found in the output; it wrote to stderr:\n    said\
                    ; it wrote to stdout:\n    rate=15";
        assert_eq!(why.what, what);
        assert!(log.runs.is_empty());
    }

    #[test]
    fn a_program_that_is_optional_is_left_out_where_it_cannot_be_set_up() {
        let text = PLAN.replace("name = 'one'", "name = 'one'\noptional = true\nsetup = 'echo no library; exit 1'");
        let mut log = Log::default();
        let plan = plan(&text.replace("sleep 9", "exit 1"));
        assert_eq!(run(&mut settings(&plan), &Interrupt::on(&[]).unwrap(), &mut log), Ending::Complete);
        assert_eq!(log.left_out, ["one: the command of setup failed: exit status 1\n    no library"]);
        assert!(log.runs.len() == 9 && log.runs.iter().all(|run| run.program == "two"), "{:?}", names(&log.runs));
        let needed = self::plan(&text.replace("optional = true", ""));
        let ending = run(&mut settings(&needed), &Interrupt::on(&[]).unwrap(), &mut log);
        assert!(matches!(&ending, Ending::Failed(why) if why.what.ends_with("no library")), "{ending:?}");
    }

    #[test]
    fn the_lock_can_stand_in_the_command() {
        let text = "locks = ['a', 'bcd']\nrepetitions = 1\nwarmup = 0\n[[program]]\nname = 'p'\nnodes = [1]\n\
                    command = ['sh', '-c', 'echo ${#1}', 'sh', '{lock}']\nmetric = { regex = '[0-9]+' }\n";
        let mut log = Log::default();
        let plan = plan(text);
        assert_eq!(run(&mut settings(&plan), &Interrupt::on(&[]).unwrap(), &mut log), Ending::Complete);
        log.runs.sort_by(|a, b| a.lock.cmp(&b.lock));
        let lengths: Vec<f64> = log.runs.iter().map(|run| run.values[0]).collect();
        assert_eq!(lengths, [1.0, 3.0, 7.0], "of a, bcd and pthread");
    }

    #[test]
    fn only_a_window_of_a_server_counts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let (up, hits) = (at("up"), at("hits"));
        let text = format!(
            "locks = ['a', 'c']\nrepetitions = 1\nwarmup = 0\n[[program]]\nname = 'server'\nnodes = [1]\n\
             prepare = 'rm -f {up} {hits}'\ncommand = ['sh', '-c', ': > {up}; exec sleep 100']\nready = 'file:{up}'\n\
             load = 'while :; do echo hit >> {hits}; sleep 0.01; done'\n\
             window = {{ after = '200ms', length = '300ms', count = 'wc -l < {hits}' }}\n\
             metric = {{ name = 'hits', regex = '[0-9]+', unit = '1/s' }}\n"
        );
        let plan = plan(&text);
        let mut log = Log::default();
        assert_eq!(run(&mut settings(&plan), &Interrupt::on(&[]).unwrap(), &mut log), Ending::Complete);
        assert_eq!(log.runs.len(), 3);
        for made in &log.runs {
            assert_eq!(made.problem, None);
            assert!(made.values[0] > 1.0 && made.values[0] <= 100.0, "{made:?}");
        }
    }

    #[test]
    fn the_budget_ends_between_rounds() {
        let plan = plan(&PLAN.replace("sleep 9", "exit 1").replace("'echo rate", "'sleep 0.05; echo rate"));
        let mut log = Log::default();
        let mut short = Settings { budget: Some(Duration::from_millis(700)), ..settings(&plan) };
        let ending = run(&mut short, &Interrupt::on(&[]).unwrap(), &mut log);
        let Ending::OutOfTime { rounds, of: 4 } = ending else { panic!("{ending:?}") };
        assert_eq!(log.runs.len(), 3 + 6 * rounds as usize, "whole rounds");
    }

    #[test]
    fn pinned_programs_see_fewer_cpus() {
        let text = "locks = ['a', 'c']\npin = 'cpus'\nrepetitions = 1\n[[program]]\nname = 'p'\nnodes = [1]\n\
                    command = 'nproc'\nmetric = { regex = '[0-9]+' }\n";
        let mut log = Log::default();
        assert_eq!(run(&mut settings(&plan(text)), &Interrupt::on(&[]).unwrap(), &mut log), Ending::Complete);
        assert!(log.runs.iter().all(|run| run.values == [1.0]), "{:?}", log.runs);
        let many = plan(&text.replace("[1]", "[100000]"));
        let Ending::Failed(why) = run(&mut settings(&many), &Interrupt::on(&[]).unwrap(), &mut log) else { panic!() };
        assert!(why.what.starts_with("program 'p' at 100000 nodes: there are "), "{why}");
        let by_node = plan(&text.replace("'cpus'", "'nodes'"));
        let mut nodes = Settings { nodes: vec![vec![100_000], vec![0]], ..settings(&by_node) };
        // Whether this process may use CPU 0 depends on where the test runs.
        let ending = run(&mut nodes, &Interrupt::on(&[]).unwrap(), &mut log);
        assert!(matches!(ending, Ending::Complete | Ending::Failed(_)), "{ending:?}");
    }
}
