//! What the arguments ask for.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::str::FromStr;

use lockswap_experiment::hardware::child;
use lockswap_locks::registry::{self, Role};
use lockswap_study::metric::Metric;
use lockswap_study::model::Measure;
use lockswap_study::plan::{Plan, Variant};
use lockswap_study::runner::Program;
use lockswap_study::stats;
use lockswap_workloads::little;

use super::CompareArgs;
use crate::error::{UserError, USAGE};
use crate::profile;
use crate::selection::{all_named, Selection, INTERPOSED, PLAIN, VARIABLES};

/// Locks compared when none are named: the default, and each way of waiting and each family once.
pub const DEFAULT_LOCKS: [&str; 7] = ["auto", "futex", "ttas", "ticket", "mcs_stp", "cna", "shfllock-b"];

/// Rounds, unless that many locks take more for a verdict.
const DEFAULT_RUNS: u32 = 10;

/// Length of a run of the built-in workload: with the default locks and runs the whole takes about 30 seconds.
const BUILT_IN_MILLIS: u64 = 250;

/// Threads of the built-in workload at most, so that larger machines do not measure memory traffic alone.
const BUILT_IN_THREADS: usize = 16;

/// The built-in workload's name in tables.
const BUILT_IN: &str = "built-in key-value workload";

/// Values of one parameter at most.
const MOST_VALUES: usize = 1000;

/// Variables to set, or to remove where there is no value.
pub type Variables = Vec<(OsString, Option<OsString>)>;

/// `--metric`: an expression, and whether a lower number is better.
#[derive(Clone)]
pub struct Direction {
    regex: String,
    lower: bool,
    metric: Metric,
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (regex, lower) = match (text.strip_prefix("lower:"), text.strip_prefix("higher:")) {
            (Some(regex), _) => (regex, true),
            (None, Some(regex)) => (regex, false),
            (None, None) => (text, false),
        };
        let metric = Metric::new(regex).map_err(|error| {
            format!("{error}\n  see https://docs.rs/regex-lite for the syntax; put the expression in single quotes")
        })?;
        Ok(Self { regex: regex.into(), lower, metric })
    }
}

/// `--sweep`: a parameter and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    name: String,
    values: Vec<String>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write NAME=VALUES, as in threads=1-8 or size=10,100";
        let (name, list) = text.split_once('=').ok_or(form)?;
        if name.is_empty() || list.is_empty() || name.contains(['{', '}']) {
            return Err(form.into());
        }
        let mut values: Vec<String> = Vec::new();
        for part in list.split(',') {
            let ends = part.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
            match ends {
                Some((from, to)) if from > to => return Err(format!("{part}: the first number is the larger one")),
                Some((from, to)) if to - from >= MOST_VALUES as u64 => {
                    return Err(format!("{part}: more than {MOST_VALUES} values"))
                }
                Some((from, to)) => values.extend((from..=to).map(|value: u64| value.to_string())),
                None if part.is_empty() => return Err(form.into()),
                None => values.push(part.into()),
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|value| seen.insert(value.clone()));
        match values.len() {
            ..=MOST_VALUES => Ok(Self { name: name.into(), values }),
            more => Err(format!("{more} values, at most {MOST_VALUES} are possible")),
        }
    }
}

/// Reads percents and gives a share.
pub fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').parse().ok();
    let share = number.filter(|number| (0.0..=1000.0).contains(number)).map(|number| number / 100.0);
    share.ok_or_else(|| "write a number of percents from 0 to 1000, as in 2.5".to_owned())
}

/// The plan for these arguments.
pub fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let built_in = args.command.is_empty();
    if built_in && !args.metric.is_empty() {
        let what = "--metric needs a program: the built-in workload has its own metric";
        return Err(UserError::new(what, "name a program after --").with_status(USAGE).into());
    }
    let (command, shown) =
        if built_in { built_in_command(args)? } else { (args.command.clone(), words(&args.command)) };
    if let Some(input) = &args.input {
        std::fs::File::open(input).map_err(|error| {
            UserError::new(format!("--input {}: {error}", input.display()), "name a file that you can read")
        })?;
    }
    let measures = measures(args, built_in);
    let metrics = match built_in {
        true => vec![Metric::new(child::KEY_VALUE_METRIC).map_err(anyhow::Error::msg)?],
        false => args.metric.iter().map(|asked| asked.metric.clone()).collect(),
    };
    let variants = variants(args, &command)?;
    let tested = variants.iter().filter(|v| !matches!(v.lock.as_str(), PLAIN | INTERPOSED)).count();
    let uses_wall = metrics.is_empty() && args.load.is_none();
    let loading = uses_wall.then(|| loading(args)).transpose()?;
    let plain = variants[0].program.envs.clone();
    let shell = |command: &Option<String>| command.as_ref().map(|text| shell(text, plain.clone()));
    let mut plan = Plan::new(shown, variants);
    plan.name = args.name.clone().unwrap_or(plan.name);
    plan.runs = args.runs.unwrap_or_else(|| DEFAULT_RUNS.max(stats::fewest_rounds(tested * measures.len())));
    (plan.measures, plan.metrics) = (measures, metrics);
    plan.warmup = args.warmup.max(1);
    (plan.counts, plan.confirms) = (true, !args.no_confirm);
    (plan.timeout, plan.seed, plan.ignore_failure) = (args.timeout, args.seed, args.ignore_failure);
    (plan.smallest_effect, plan.loading) = (args.smallest_effect, loading);
    (plan.input, plan.shows_output, plan.ready) = (args.input.clone(), args.show_output, args.ready.clone());
    (plan.setup, plan.cleanup) = (shell(&args.setup), shell(&args.cleanup));
    Ok(plan)
}

/// The command as it is shown.
pub fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|a| a.to_string_lossy().into_owned()).collect()
}

fn built_in_command(args: &CompareArgs) -> std::io::Result<(Vec<OsString>, Vec<String>)> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, BUILT_IN_THREADS);
    let own = std::env::current_exe()?.into_os_string();
    let options = [child::KEY_VALUE, "--threads", &threads.to_string(), "--millis", &BUILT_IN_MILLIS.to_string()]
        .map(OsString::from);
    let little = args.little.as_ref().map(|little| OsString::from(format!("--little={little}")));
    let mut shown = format!("{BUILT_IN}, {threads} threads, {BUILT_IN_MILLIS} ms");
    if let Some(little) = &args.little {
        shown += &format!(", little CPUs {little}");
    }
    Ok((std::iter::once(own).chain(options).chain(little).collect(), vec![shown]))
}

fn measures(args: &CompareArgs, built_in: bool) -> Vec<Measure> {
    if built_in {
        return vec![Measure::metric(0, "throughput", child::KEY_VALUE_METRIC, child::KEY_VALUE_UNIT, false)];
    }
    measures_of(&args.metric, args.lower_is_better)
}

/// What is compared: the metrics, or the wall time where there are none. `lower`: lower is better for all of them.
fn measures_of(asked: &[Direction], lower: bool) -> Vec<Measure> {
    let measure = |(index, asked): (usize, &Direction)| {
        let name = asked.metric.name().map_or_else(|| asked.regex.clone(), str::to_owned);
        Measure::metric(index, &name, &asked.regex, "", asked.lower || lower)
    };
    match asked.is_empty() {
        true => vec![Measure::wall()],
        false => asked.iter().enumerate().map(measure).collect(),
    }
}

/// What these metrics measure, and how they are found.
pub fn measured(asked: &[Direction]) -> (Vec<Measure>, Vec<Metric>) {
    (measures_of(asked, false), asked.iter().map(|asked| asked.metric.clone()).collect())
}

/// The locks of one row: its label, the lock, and the rwlock.
struct Locks {
    label: String,
    lock: String,
    rwlock: Option<String>,
}

/// The baselines, then the chosen locks, each once.
fn locks(args: &CompareArgs) -> Result<Vec<Locks>, UserError> {
    let chosen: Vec<&str> = match (args.all, args.lock.is_empty()) {
        (true, _) => registry::ids(Role::Mutex).collect(),
        // Rwlocks alone are compared with mutexes as they are.
        (false, true) if args.rwlock.len() > 1 => vec![PLAIN],
        (false, true) => DEFAULT_LOCKS.to_vec(),
        (false, false) => args.lock.iter().map(String::as_str).collect(),
    };
    let mutexes = all_named(Role::Mutex, chosen)?;
    let mut rwlocks: Vec<Option<String>> = all_named(Role::RwLock, &args.rwlock)?.into_iter().map(Some).collect();
    let several = rwlocks.len() > 1;
    if rwlocks.is_empty() {
        rwlocks.push(None);
    }
    let baseline = |id: &str| Locks { label: id.into(), lock: id.into(), rwlock: Some(PLAIN.into()) };
    let mut rows = vec![baseline(PLAIN), baseline(INTERPOSED)];
    for lock in mutexes {
        for rwlock in &rwlocks {
            let glibcs = matches!(lock.as_str(), PLAIN | INTERPOSED);
            if glibcs && rwlock.as_deref().is_none_or(|id| id == PLAIN) {
                continue;
            }
            let label = match rwlock {
                Some(rwlock) if glibcs => rwlock.clone(),
                Some(rwlock) if several => format!("{lock}+{rwlock}"),
                _ => lock.clone(),
            };
            // With a rwlock of ours the library is there in any case; its name says what mutexes then run on.
            let lock = if lock == PLAIN { INTERPOSED } else { &lock };
            rows.push(Locks { label, lock: lock.into(), rwlock: rwlock.clone() });
        }
    }
    Ok(rows)
}

fn variants(args: &CompareArgs, command: &[OsString]) -> Result<Vec<Variant>, UserError> {
    let locks = locks(args)?;
    check_sweeps(args)?;
    let mut variants = Vec::new();
    for setting in settings(&args.sweep) {
        let command: Vec<OsString> = command.iter().map(|arg| filled_in_bytes(arg, &setting)).collect();
        let plain = environment(args, &locks[0])?.1;
        let around = |text: &Option<String>| text.as_ref().map(|t| shell(&filled_in(t, &setting), plain.clone()));
        for row in &locks {
            let (is_plain, envs) = environment(args, row)?;
            variants.push(Variant {
                lock: row.label.clone(),
                setting: setting.clone(),
                preloaded: !is_plain,
                program: Program { args: command.clone(), envs, ..Program::default() },
                load: around(&args.load),
                prepare: around(&args.prepare),
            });
        }
    }
    Ok(variants)
}

/// What the program's environment has on these locks that ours has not; and whether they are all glibc's, without the
/// library.
fn environment(args: &CompareArgs, row: &Locks) -> Result<(bool, Variables), UserError> {
    let spin = match row.label.as_str() {
        PLAIN | INTERPOSED => Some(PLAIN.to_owned()),
        _ => args.spin.clone(),
    };
    let selection = Selection { lock: Some(row.lock.clone()), rwlock: row.rwlock.clone(), spin };
    selection.check()?;
    let mut envs = selection.environment()?;
    envs.extend(args.only.variable()?);
    envs.extend(strays(&envs));
    if let Some(little) = &args.little {
        envs.extend(little::environment(&little.seats()?));
    }
    Ok((selection.is_plain(), envs))
}

/// What removes variables of our own environment that must not change what is compared, unless they are set.
pub fn strays(set: &Variables) -> Variables {
    let ours =
        VARIABLES.into_iter().chain(["LOCKSWAP_STATS", "LOCKSWAP_LATENCIES", "LOCKSWAP_ONLY", profile::VARIABLE]);
    ours.filter(|variable| !set.iter().any(|(name, _)| name == variable)).map(|name| (name.into(), None)).collect()
}

/// All combinations of values, the last parameter the fastest.
fn settings(sweeps: &[Sweep]) -> Vec<Vec<(String, String)>> {
    sweeps.iter().fold(vec![Vec::new()], |settings, sweep| {
        let with = |setting: &Vec<(String, String)>| {
            let value = |value: &String| [setting.clone(), vec![(sweep.name.clone(), value.clone())]].concat();
            sweep.values.iter().map(value).collect::<Vec<_>>()
        };
        settings.iter().flat_map(with).collect()
    })
}

fn check_sweeps(args: &CompareArgs) -> Result<(), UserError> {
    let around = [&args.load, &args.prepare].into_iter().flatten().cloned();
    let texts: Vec<String> = words(&args.command).into_iter().chain(around).collect();
    for (index, sweep) in args.sweep.iter().enumerate() {
        let name = &sweep.name;
        if args.sweep[..index].iter().any(|other| other.name == *name) {
            let what = format!("--sweep names {name} twice");
            return Err(UserError::new(what, format!("write all values in one, as in {name}=1,2")).with_status(USAGE));
        }
        if !texts.iter().any(|text| text.contains(&format!("{{{name}}}"))) {
            let what = format!("--sweep {name}: no argument of the program holds {{{name}}}");
            let remedy = format!("write it where the value belongs, as in -- ./program --{name} {{{name}}}");
            return Err(UserError::new(what, remedy).with_status(USAGE));
        }
    }
    Ok(())
}

fn filled_in(text: &str, setting: &[(String, String)]) -> String {
    setting.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

fn filled_in_bytes(text: &OsString, setting: &[(String, String)]) -> OsString {
    // Arguments need not be text; those that are not hold no parameter.
    let whole = std::str::from_utf8(text.as_bytes());
    whole.map_or_else(|_| text.clone(), |text| OsString::from_vec(filled_in(text, setting).into_bytes()))
}

/// A command of the user's, in the shell.
pub fn shell(command: &str, envs: Variables) -> Program {
    Program { args: ["/bin/sh", "-c", command].map(OsString::from).to_vec(), envs, ..Program::default() }
}

/// Ourselves, doing next to nothing, without the library and with it.
fn loading(args: &CompareArgs) -> anyhow::Result<[Program; 2]> {
    let own = std::env::current_exe()?.into_os_string();
    let program = |id: &str| -> anyhow::Result<Program> {
        let row = Locks { label: id.into(), lock: id.into(), rwlock: Some(PLAIN.into()) };
        let mut envs = environment(args, &row)?.1;
        // Which would keep the library from starting in us.
        envs.retain(|(name, _)| name != "LOCKSWAP_ONLY");
        Ok(Program { args: vec![own.clone(), child::LOADED.into()], envs, ..Program::default() })
    };
    Ok([program(PLAIN)?, program(INTERPOSED)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_parameter() {
        let values = |text: &str| text.parse::<Sweep>().map(|sweep| sweep.values.join(" "));
        assert_eq!(values("threads=1-4").unwrap(), "1 2 3 4");
        assert_eq!(values("t=1,2,4-5,4,on").unwrap(), "1 2 4 5 on");
        assert_eq!(values("t=-1,a-b").unwrap(), "-1 a-b");
        for wrong in ["threads", "=1", "t=", "t=1,,2", "t=8-1", "t=1-100000", "{t}=1", "t=0-18446744073709551615"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_combinations() {
        let sweeps = ["a=1,2", "b=x,y"].map(|text| text.parse::<Sweep>().unwrap());
        let shown: Vec<String> = settings(&sweeps).iter().map(|s| lockswap_study::summary::in_words(s)).collect();
        assert_eq!(shown, ["a=1, b=x", "a=1, b=y", "a=2, b=x", "a=2, b=y"]);
        assert_eq!(filled_in("-t {a} {b} {c}", &settings(&sweeps)[1]), "-t 1 y {c}");
        assert_eq!(settings(&[]), [[]]);
    }

    #[test]
    fn percents() {
        assert_eq!((percent("1"), percent("2.5%"), percent("0")), (Ok(0.01), Ok(0.025), Ok(0.0)));
        for wrong in ["-1", "x", "", "nan", "1e9"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn metrics_have_directions() {
        let read = |text: &str| text.parse::<Direction>().map(|d| (d.regex, d.lower));
        assert_eq!(read("lower:p99=(.*)"), Ok(("p99=(.*)".into(), true)));
        assert_eq!(read("higher:x"), Ok(("x".into(), false)));
        assert_eq!(read("a:b"), Ok(("a:b".into(), false)));
        assert!(read("(").is_err());
    }
}
