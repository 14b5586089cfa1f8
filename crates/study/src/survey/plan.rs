//! A plan for a survey, as its TOML file says: programs, locks, levels of contention, and how often.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockswap_platform::{parse_duration_up_to, Ns};
use lockswap_toml::shortened;
use serde::Deserialize;
use toml::Spanned;

use super::database::Quantity;
use super::Unusable;
use crate::metric::Metric;
use crate::service::Ready;

const READ_THE_DOCS: &str = "docs/study.md describes plans";
const REPETITIONS: u32 = 10;
const WARMUP: u32 = 1;
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    machine: Option<String>,
    locks: Spanned<Vec<String>>,
    #[serde(default)]
    nodes: Vec<u32>,
    #[serde(default)]
    pin: Pin,
    #[serde(default)]
    interleave: bool,
    repetitions: Option<Spanned<u32>>,
    warmup: Option<u32>,
    timeout: Option<Spanned<String>>,
    seed: Option<u64>,
    #[serde(default, rename = "program")]
    programs: Vec<Spanned<FileProgram>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProgram {
    name: String,
    #[serde(default)]
    optional: bool,
    command: Words,
    folder: Option<PathBuf>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    setup: Option<String>,
    prepare: Option<String>,
    cleanup: Option<String>,
    input: Option<PathBuf>,
    load: Option<String>,
    ready: Option<String>,
    window: Option<FileWindow>,
    #[serde(default)]
    metric: OneOrMore,
    nodes: Option<Vec<u32>>,
    locks: Option<Spanned<Vec<String>>>,
    timeout: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWindow {
    after: String,
    length: String,
    count: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Line(String),
    List(Vec<String>),
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum OneOrMore {
    #[default]
    None,
    One(FileMetric),
    More(Vec<FileMetric>),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMetric {
    name: Option<String>,
    regex: Option<String>,
    json: Option<String>,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    lower_is_better: bool,
}

/// What a number of nodes restricts a program to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pin {
    /// To nothing: the number stands in the command only, as its number of threads.
    #[default]
    None,
    /// To so many of the CPUs that this process may use, the first ones.
    Cpus,
    /// To the CPUs of so many NUMA nodes, the first ones.
    Nodes,
}

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// What the machine is called, if the plan says so.
    pub machine: Option<String>,
    /// What a number of nodes restricts programs to.
    pub pin: Pin,
    /// Whether memory is spread over all NUMA nodes.
    pub interleave: bool,
    /// Measured rounds.
    pub repetitions: u32,
    /// Rounds before them that do not count.
    pub warmup: u32,
    /// Seed of the order of runs.
    pub seed: u64,
    /// The programs.
    pub programs: Vec<Program>,
}

/// A program of a plan. `{nodes}` in its texts stands for the number of nodes, `{lock}` in its command for the lock.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called.
    pub name: String,
    /// Whether it is left out where its `setup` fails; otherwise that ends everything.
    pub optional: bool,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs, if not where we do.
    pub folder: Option<PathBuf>,
    /// What its environment has besides ours.
    pub environment: BTreeMap<String, String>,
    /// A command of the shell that runs once before everything.
    pub setup: Option<String>,
    /// One before each run, which does not count it.
    pub prepare: Option<String>,
    /// One at the end.
    pub cleanup: Option<String>,
    /// What it reads.
    pub input: Option<PathBuf>,
    /// The load generator beside it, where it is a server, and what shows that the server is ready.
    pub load: Option<(String, Ready)>,
    /// The part of a run that counts; the whole run without one.
    pub window: Option<Window>,
    /// What its output says, or in a window its counters; wall time where there is none.
    pub metrics: Vec<(Quantity, Metric)>,
    /// Its levels of contention.
    pub nodes: Vec<u32>,
    /// Its locks.
    pub locks: Vec<String>,
    /// Longest run.
    pub timeout: Duration,
}

impl Program {
    /// What is measured: its metrics, or its wall time.
    pub fn quantities(&self) -> Vec<Quantity> {
        let wall = Quantity { name: "wall time".into(), unit: "s".into(), lower_is_better: true };
        match self.metrics.is_empty() {
            true => vec![wall],
            false => self.metrics.iter().map(|(quantity, _)| quantity.clone()).collect(),
        }
    }
}

/// The part of a run that counts.
#[derive(Clone, Debug)]
pub struct Window {
    /// From the start of the load, or of the program where there is none, to its beginning.
    pub after: Duration,
    /// From its beginning to its end.
    pub length: Duration,
    /// A command of the shell that prints the counters.
    pub count: String,
}

/// The text with the number of nodes in its place.
pub fn filled_in(text: &str, nodes: u32) -> String {
    text.replace("{nodes}", &nodes.to_string())
}

/// Where in a file something is wrong.
struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, at: &Range<usize>, what: impl std::fmt::Display, remedy: impl Into<String>) -> Unusable {
        let line = self.text[..at.start.min(self.text.len())].matches('\n').count() + 1;
        Unusable::new(format!("{}, line {line}: {what}", self.name), remedy)
    }

    fn time(&self, text: &Spanned<String>) -> Result<Duration, Unusable> {
        let found = time(text.get_ref());
        found.ok_or_else(|| {
            self.wrong(&text.span(), format!("'{}' is no time", text.get_ref()), "write 90s, 5m or 500ms")
        })
    }
}

/// Reads `90s`, `500ms` or `5m`; a bare number is seconds.
fn time(text: &str) -> Option<Duration> {
    let bare = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    parse_duration_up_to(text, Ns::MAX).map(Duration::from_nanos).or_else(bare).filter(|time| !time.is_zero())
}

impl Plan {
    /// Reads a plan; `name` stands for its file in messages. `lock` gives the name of a lock as it is shown, or says
    /// what is wrong with it and how to put it right.
    pub fn read(
        name: &str,
        text: &str,
        lock: impl Fn(&str) -> Result<String, (String, String)>,
    ) -> Result<Self, Unusable> {
        let plan = Self::read_file(name, text, lock);
        plan.map_err(|error| Unusable { what: shortened(&error.what, name), ..error })
    }

    fn read_file(
        name: &str,
        text: &str,
        lock: impl Fn(&str) -> Result<String, (String, String)>,
    ) -> Result<Self, Unusable> {
        let reader = Reader { name, text };
        let file: File =
            lockswap_toml::from_str(text).map_err(|error| Unusable::new(format!("{name}: {error}"), READ_THE_DOCS))?;
        let locks = |named: &Spanned<Vec<String>>| {
            let mut known: Vec<String> = Vec::new();
            for id in named.get_ref() {
                let id = lock(id).map_err(|(what, remedy)| reader.wrong(&named.span(), what, remedy))?;
                if !known.contains(&id) {
                    known.push(id);
                }
            }
            match known.len() {
                0 | 1 => {
                    Err(reader.wrong(&named.span(), "there are fewer than two locks", "name those that are compared"))
                }
                _ => Ok(known),
            }
        };
        let common = Common {
            locks: locks(&file.locks)?,
            nodes: file.nodes.clone(),
            timeout: file.timeout.as_ref().map_or(Ok(TIMEOUT), |text| reader.time(text))?,
        };
        let mut programs: Vec<Program> = Vec::new();
        for spanned in &file.programs {
            let program = spanned.get_ref();
            let wrong = |what: String, remedy: &str| {
                reader.wrong(&spanned.span(), format!("program '{}': {what}", program.name), remedy)
            };
            if programs.iter().any(|known| known.name == program.name) {
                return Err(wrong("there are two of this name".into(), "give each a name of its own"));
            }
            let own_locks = program.locks.as_ref().map(locks).transpose()?;
            let timeout = program.timeout.as_ref().map(|text| reader.time(text)).transpose()?;
            programs.push(
                read_program(program, &common, own_locks, timeout).map_err(|(what, remedy)| wrong(what, remedy))?,
            );
        }
        if programs.is_empty() {
            return Err(Unusable::new(format!("{name}: there is no [[program]]"), READ_THE_DOCS));
        }
        let repetitions = file.repetitions.map_or(Ok(REPETITIONS), |given| match given.get_ref() {
            0 => Err(reader.wrong(&given.span(), "repetitions is 0", "6 or more give verdicts")),
            _ => Ok(*given.get_ref()),
        })?;
        let stem =
            || Path::new(name).file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy().into_owned());
        Ok(Self {
            name: file.name.unwrap_or_else(stem),
            machine: file.machine,
            pin: file.pin,
            interleave: file.interleave,
            repetitions,
            warmup: file.warmup.unwrap_or(WARMUP),
            seed: file.seed.unwrap_or(1),
            programs,
        })
    }
}

/// What the whole plan says where a program does not.
struct Common {
    locks: Vec<String>,
    nodes: Vec<u32>,
    timeout: Duration,
}

type Wrong = (String, &'static str);

fn read_program(
    file: &FileProgram,
    common: &Common,
    locks: Option<Vec<String>>,
    timeout: Option<Duration>,
) -> Result<Program, Wrong> {
    let command = match &file.command {
        Words::List(words) => words.clone(),
        Words::Line(line) => shell_words::split(line)
            .map_err(|error| (format!("its command: {error}"), "quote it as in the shell, or write a list of words"))?,
    };
    if command.is_empty() {
        return Err(("its command is empty".into(), "write the program and its arguments"));
    }
    if file.optional && file.setup.is_none() {
        return Err(("it is optional, but has no setup".into(), "write a setup that fails where it cannot run"));
    }
    let mut nodes = file.nodes.clone().unwrap_or_else(|| common.nodes.clone());
    nodes.sort_unstable();
    nodes.dedup();
    if nodes.first().is_none_or(|fewest| *fewest == 0) {
        return Err((
            "it has no numbers of nodes from 1 up".into(),
            "write nodes = [1, 2, 4], for it or for all programs",
        ));
    }
    let load = match (&file.load, &file.ready) {
        (Some(load), Some(ready)) => {
            let ready = Ready::parse(ready).map_err(|error| (format!("ready: {error}"), READ_THE_DOCS))?;
            Some((load.clone(), ready))
        }
        (None, None) => None,
        _ => return Err(("load and ready belong together".into(), "write both, or neither")),
    };
    let timeout = timeout.unwrap_or(common.timeout);
    let window = file.window.as_ref().map(|window| read_window(window, timeout)).transpose()?;
    let metrics = match &file.metric {
        OneOrMore::None => Vec::new(),
        OneOrMore::One(metric) => vec![metric.clone()],
        OneOrMore::More(metrics) => metrics.clone(),
    };
    if window.is_some() && metrics.is_empty() {
        return Err(("it has a window, but no metric".into(), "say which of the counters are measured"));
    }
    Ok(Program {
        name: file.name.clone(),
        optional: file.optional,
        command,
        folder: file.folder.clone(),
        environment: file.environment.clone(),
        setup: file.setup.clone(),
        prepare: file.prepare.clone(),
        cleanup: file.cleanup.clone(),
        input: file.input.clone(),
        load,
        window,
        metrics: metrics.iter().map(read_metric).collect::<Result<_, _>>()?,
        nodes,
        locks: locks.unwrap_or_else(|| common.locks.clone()),
        timeout,
    })
}

fn read_window(file: &FileWindow, timeout: Duration) -> Result<Window, Wrong> {
    let read = |key: &str, text: &str| {
        time(text).ok_or_else(|| (format!("window: {key}: '{text}' is no time"), "write 90s, 5m or 500ms"))
    };
    let window =
        Window { after: read("after", &file.after)?, length: read("length", &file.length)?, count: file.count.clone() };
    match window.after + window.length < timeout {
        true => Ok(window),
        false => Err(("its window ends after its timeout".into(), "give it a longer timeout, or a shorter window")),
    }
}

fn read_metric(file: &FileMetric) -> Result<(Quantity, Metric), Wrong> {
    let (metric, expression) = match (&file.regex, &file.json) {
        (Some(regex), None) => {
            let metric =
                Metric::new(regex).map_err(|error| (error, "see https://docs.rs/regex-lite for the syntax"))?;
            (metric, regex)
        }
        (None, Some(path)) => (Metric::json(path), path),
        _ => {
            return Err(("a metric has a regex or a json path".into(), "write metric = { regex = 'rate: ([0-9.]+)' }"))
        }
    };
    let name = file.name.clone().or_else(|| metric.name().map(str::to_owned)).unwrap_or_else(|| expression.clone());
    Ok((Quantity { name, unit: file.unit.clone(), lower_is_better: file.lower_is_better }, metric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Plan, String> {
        let lock = |id: &str| match id {
            "x" => Err(("there is no lock 'x'".into(), "use another".into())),
            id => Ok(id.to_owned()),
        };
        Plan::read("p.toml", text, lock).map_err(|error| error.what)
    }

    const GOOD: &str = "
locks = ['a', 'b', 'a']
nodes = [2, 1, 2]
timeout = '5m'
[[program]]
name = 'one'
command = \"run 'two words' -t {nodes}\"
[[program]]
name = 'two'
command = ['run', 'it']
nodes = [4]
locks = ['c', 'd']
timeout = '500ms'
metric = [{ regex = 'p99=(?<p99>[0-9]+)', lower_is_better = true, unit = 'us' }, { json = 'a.b', name = 'rate' }]
load = 'curl'
ready = 'port:80'
";

    #[test]
    fn plans_are_read_with_their_defaults() {
        let plan = read(GOOD).unwrap();
        assert_eq!(
            (plan.name.as_str(), plan.pin, plan.repetitions, plan.warmup, plan.seed),
            ("p", Pin::None, 10, 1, 1)
        );
        let [one, two] = &plan.programs[..] else { panic!("{plan:?}") };
        assert_eq!(one.command, ["run", "two words", "-t", "{nodes}"]);
        assert_eq!(
            (one.nodes.as_slice(), one.locks.join(" "), one.timeout.as_secs()),
            (&[1, 2][..], "a b".into(), 300)
        );
        assert_eq!(one.quantities()[0].name, "wall time");
        assert_eq!((two.nodes.as_slice(), two.locks.join(" "), two.timeout.as_millis()), (&[4][..], "c d".into(), 500));
        let names: Vec<String> = two.quantities().into_iter().map(|quantity| quantity.name).collect();
        assert_eq!(names, ["p99", "rate"]);
        assert!(two.load.is_some() && two.window.is_none());
        assert_eq!(filled_in("-t {nodes} {x}", 8), "-t 8 {x}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = |old: &str, new: &str| read(&GOOD.replacen(old, new, 1)).unwrap_err();
        assert!(error("nodes = [2, 1, 2]", "threads = [1]").contains("unknown field `threads`"));
        assert_eq!(error("'c', 'd'", "'c', 'x'"), "p.toml, line 12: there is no lock 'x'");
        assert_eq!(error("'a', 'b', 'a'", "'a'"), "p.toml, line 2: there are fewer than two locks");
        assert_eq!(error("'two'", "'one'"), "p.toml, line 8: program 'one': there are two of this name");
        assert_eq!(error("'500ms'", "'soon'"), "p.toml, line 13: 'soon' is no time");
        assert_eq!(
            error("nodes = [4]", "nodes = [0]"),
            "p.toml, line 8: program 'two': it has no numbers of nodes from 1 up"
        );
        assert!(error("p99=(?<p99>[0-9]+)", "(").contains("program 'two'"));
        assert!(error("json = 'a.b', ", "").ends_with("a metric has a regex or a json path"));
        assert!(error("ready = 'port:80'", "").ends_with("load and ready belong together"));
        let window = |window: &str| error("ready = ", &format!("window = {window}\nready = "));
        assert!(window("{ after = '1s' }").contains("missing field `length`"));
        let late = window("{ after = '0.3', length = '200ms', count = 'stats' }");
        assert!(late.ends_with("program 'two': its window ends after its timeout"), "{late}");
        assert!(window("{ after = 'x', length = '1s', count = '' }").ends_with("window: after: 'x' is no time"));
        let alone = "window = { after = '1s', length = '2s', count = 'stats' }\ncommand = ['run', 'it']";
        assert!(error("command = ['run', 'it']", alone).ends_with("its window ends after its timeout"));
        let unread =
            error("command = \"run", "window = { after = '1s', length = '2s', count = 'stats' }\ncommand = \"run");
        assert!(unread.ends_with("program 'one': it has a window, but no metric"), "{unread}");
        let optional = error("command = ['run', 'it']", "optional = true\ncommand = ['run', 'it']");
        assert!(optional.ends_with("program 'two': it is optional, but has no setup"), "{optional}");
        assert!(error("port:80", "door").contains("ready: give port:N"));
        assert!(error("\"run 'two words' -t {nodes}\"", "\"run 'two\"").contains("its command: "));
        assert_eq!(read("locks = ['a', 'b']").unwrap_err(), "p.toml: there is no [[program]]");
        assert!(error("timeout = '5m'", "repetitions = 0").ends_with("repetitions is 0"));
    }

    #[test]
    fn times() {
        let of = |text| time(text).map(|time| time.as_millis());
        assert_eq!(
            [of("2h"), of("5m"), of("90"), of("1.5s"), of("20ms")].map(Option::unwrap),
            [7_200_000, 300_000, 90_000, 1500, 20]
        );
        assert_eq!((of("0"), of("-1s"), of("x"), of("1e999s")), (None, None, None, None));
    }
}
