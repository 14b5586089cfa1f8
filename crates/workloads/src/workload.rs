//! The workloads by name, and their parameters by key: the same on hardware and in simulation.

use crate::crew::Timing;
use crate::epochs::Length;
use crate::invalid::Invalid;
use crate::record::Detail;
use crate::{bursts, calls, counter, epochs, kv, locktorture, ncs, phases, readers, shares};
use lockswap_locks::registry::Role;
use lockswap_platform::{parse_duration, Ns};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::RangeInclusive;

/// What the threads do, with all its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Count under one lock; `oversub` is the same with computations inside and outside.
    Counter(counter::Config),
    /// Use a key-value map.
    Kv(kv::Config),
    /// Touch an array, then stay outside for a time.
    Ncs(ncs::Config),
    /// Run epochs of several critical sections.
    Epochs(epochs::Config),
    /// Hold a lock for different times.
    Shares(shares::Config),
    /// Take a lock in bursts.
    Bursts(bursts::Config),
    /// Go through phases together.
    Phases(phases::Config),
    /// Read and write under a read-write lock.
    Readers(readers::Config),
    /// Take a lock as the kernel's own test does.
    Locktorture(locktorture::Config),
    /// Make system calls that take locks.
    Calls(calls::Config),
}

/// The parameters of a workload; times are in ns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Config {
    /// Of `counter`, and of `oversub` on mutexes.
    Counter(counter::Config),
    /// Of `kv`.
    Kv(kv::Config),
    /// Of `ncs`.
    Ncs(ncs::Config),
    /// Of `epochs` and its variants.
    Epochs(epochs::Config),
    /// Of `shares` and `shares-store`.
    Shares(shares::Config),
    /// Of `bursts`.
    Bursts(bursts::Config),
    /// Of `phases`.
    Phases(phases::Config),
    /// Of `readers`, and of `oversub` on read-write locks.
    Readers(readers::Config),
    /// Of `locktorture`.
    Locktorture(locktorture::Config),
    /// Of `lock1`, `lock2`, `open1` and `open2`.
    Calls(calls::Config),
}

/// Threads until somebody says.
const THREADS: usize = 1;

/// A workload as its source has it, for so many threads.
type Preset = fn(usize) -> Workload;

/// Names and presets.
const PRESETS: &[(&str, Preset)] = &[
    ("counter", |threads| Workload::Counter(counter::Config::bare(threads))),
    ("kv", |threads| Workload::Kv(kv::Config { external: 0, ..kv::Config::new(threads) })),
    ("ncs", |threads| Workload::Ncs(ncs::Config::new(threads))),
    ("epochs", |threads| Workload::Epochs(epochs::Config::contended(threads))),
    ("epochs-variable", |threads| Workload::Epochs(epochs::Config::variable(threads))),
    ("epochs-mixed", |threads| Workload::Epochs(epochs::Config::mixed(threads, 50))),
    ("epochs-scalability", |threads| Workload::Epochs(epochs::Config::scalability(threads))),
    ("epochs-contention", |threads| Workload::Epochs(epochs::Config::contention(threads, 0))),
    ("epochs-oversub", |threads| Workload::Epochs(epochs::Config::contended(threads))),
    ("oversub", |threads| Workload::Counter(counter::Config::oversubscribed(threads))),
    ("shares", |threads| Workload::Shares(shares::Config::toy(threads))),
    ("shares-store", |threads| Workload::Shares(shares::Config::store(threads))),
    ("bursts", |threads| Workload::Bursts(bursts::Config::new(threads))),
    ("phases", |threads| Workload::Phases(phases::Config::new(threads))),
    ("readers", |threads| Workload::Readers(readers::Config::new(threads))),
    ("locktorture", |threads| Workload::Locktorture(locktorture::Config::new(threads))),
    ("lock1", |threads| Workload::Calls(calls::Config::lock1(threads))),
    ("lock2", |threads| Workload::Calls(calls::Config::lock2(threads))),
    ("open1", |threads| Workload::Calls(calls::Config::open1(threads))),
    ("open2", |threads| Workload::Calls(calls::Config::open2(threads))),
];

/// Keys that have options of their own.
const OTHERS: [&str; 3] = ["threads", "timing", "detail"];

/// Keys whose values are times: a unit may be given.
const TIMES: [&str; 7] = ["ncs", "slo", "window", "lengths", "pause", "phase", "delay"];

/// The most steps of one computation: some seconds.
const STEPS: RangeInclusive<u64> = 0..=1_000_000_000;

/// Lines of memory of one critical section.
const LINES: RangeInclusive<u64> = 1..=1_000_000;

/// The longest time that a parameter may be, ns: an hour, which is also LibASL's longest window.
const LONGEST: Ns = 3_600_000_000_000;

/// The most threads of a workload.
pub const MOST_THREADS: usize = 10_000;

/// Runs `$body` with the configuration, whichever it is, as `$config`.
macro_rules! each {
    ($self:expr, $config:ident => $body:expr) => {
        match $self {
            Workload::Counter($config) => $body,
            Workload::Kv($config) => $body,
            Workload::Ncs($config) => $body,
            Workload::Epochs($config) => $body,
            Workload::Shares($config) => $body,
            Workload::Bursts($config) => $body,
            Workload::Phases($config) => $body,
            Workload::Readers($config) => $body,
            Workload::Locktorture($config) => $body,
            Workload::Calls($config) => $body,
        }
    };
}

impl Workload {
    /// The names that [`Workload::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The workload called `name`, as its source has it, with one thread.
    ///
    /// # Errors
    /// No workload is called so.
    pub fn named(name: &str) -> Result<Self, Invalid> {
        let preset = PRESETS.iter().find(|(known, _)| *known == name).map(|(_, preset)| preset(THREADS));
        preset.ok_or_else(|| Invalid::unknown(format!("there is no workload '{name}'"), name, Self::names()))
    }

    /// What its threads lock.
    pub fn role(&self) -> Role {
        match self {
            Workload::Readers(_) => Role::RwLock,
            _ => Role::Mutex,
        }
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        each!(self, config => config.threads)
    }

    /// How long.
    pub fn timing(&self) -> Timing {
        each!(self, config => config.timing)
    }

    /// How many locks it takes.
    pub fn locks(&self) -> usize {
        match self {
            Workload::Epochs(config) => config.locks,
            Workload::Calls(config) => config.lock_count(),
            _ => 1,
        }
    }

    /// The same with so many threads, for so long, with hand-offs and waits noted where it can.
    pub fn with(self, threads: usize, duration: Ns) -> Self {
        self.noting(threads, duration, Detail::Handoffs)
    }

    /// The same with so many threads, for so long, and `noted` where it can.
    pub fn noting(mut self, threads: usize, duration: Ns, noted: Detail) -> Self {
        each!(&mut self, config => (config.threads, config.timing) = (threads, Timing::lasting(duration)));
        match &mut self {
            Workload::Counter(counter::Config { detail, .. })
            | Workload::Kv(kv::Config { detail, .. })
            | Workload::Ncs(ncs::Config { detail, .. })
            | Workload::Epochs(epochs::Config { detail, .. })
            | Workload::Bursts(bursts::Config { detail, .. })
            | Workload::Phases(phases::Config { detail, .. })
            | Workload::Locktorture(locktorture::Config { detail, .. })
            | Workload::Calls(calls::Config { detail, .. }) => *detail = noted,
            Workload::Shares(_) | Workload::Readers(_) => {}
        }
        if let Workload::Epochs(epochs::Config { timing, length: Length::Phases, .. }) = &mut self {
            // Its phases are parts of the whole run.
            timing.warm_up = 0;
        }
        self
    }

    /// Sets one of the workload's own keys, which are those of its configuration in JSON. Times may have a unit, lists
    /// have commas, `null` takes away what may be absent.
    ///
    /// # Errors
    /// There is no such key, or it cannot have that value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Invalid> {
        let mut changed = self.clone();
        each!(&mut changed, config => set(config, key, value))?;
        changed.check()?;
        *self = changed;
        Ok(())
    }

    /// The value of one of its own keys, if it is a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        serde_json::to_value(self.config()).ok()?.get(key)?.as_f64()
    }

    /// Whether the value of a key is a time, ns.
    pub fn is_time(key: &str) -> bool {
        TIMES.contains(&key)
    }

    /// Whether the value of a key is a list.
    pub fn is_list(&self, key: &str) -> bool {
        serde_json::to_value(self.config()).is_ok_and(|config| config[key].is_array())
    }

    /// The configuration.
    pub fn config(&self) -> Config {
        match self.clone() {
            Workload::Counter(config) => Config::Counter(config),
            Workload::Kv(config) => Config::Kv(config),
            Workload::Ncs(config) => Config::Ncs(config),
            Workload::Epochs(config) => Config::Epochs(config),
            Workload::Shares(config) => Config::Shares(config),
            Workload::Bursts(config) => Config::Bursts(config),
            Workload::Phases(config) => Config::Phases(config),
            Workload::Readers(config) => Config::Readers(config),
            Workload::Locktorture(config) => Config::Locktorture(config),
            Workload::Calls(config) => Config::Calls(config),
        }
    }

    /// Refuses parameters with which it cannot run.
    ///
    /// # Errors
    /// A value lies outside its range.
    pub fn check(&self) -> Result<(), Invalid> {
        within("threads", self.threads() as u64, 1..=MOST_THREADS as u64)?;
        match self {
            Workload::Counter(config) => {
                within("inside", config.inside, STEPS)?;
                within("outside", config.outside, STEPS)
            }
            Workload::Kv(config) => {
                within("keys", config.keys, 1..=100_000_000)?;
                percentage("updates", config.updates)?;
                within("inside", config.inside, STEPS)?;
                within("external", config.external, STEPS)
            }
            Workload::Ncs(config) => {
                within("lines", config.lines as u64, 0..=*LINES.end())?;
                within("inside", config.inside, STEPS)?;
                within("ncs", config.ncs, 0..=LONGEST)
            }
            Workload::Epochs(config) => {
                within("locks", config.locks as u64, 1..=1000)?;
                within("the number of sections", config.sections.len() as u64, 1..=1000)?;
                config.sections.iter().try_for_each(|&lines| within("sections", lines as u64, LINES))?;
                within("inside", config.inside, STEPS)?;
                within("between", config.between, STEPS)?;
                percentage("long", config.long)?;
                within("factor", config.factor, 1..=1_000_000)?;
                within("slo", config.slo.unwrap_or(0), 0..=LONGEST)?;
                within("window", config.window.unwrap_or(0), 0..=LONGEST)
            }
            Workload::Shares(config) => {
                within("the number of lengths", config.lengths.len() as u64, 1..=1000)?;
                config.lengths.iter().try_for_each(|&length| within("lengths", length, 0..=LONGEST))?;
                within("pause", config.pause, 0..=LONGEST)?;
                percentage("spread", config.spread)?;
                within("the number of nice", config.nice.len() as u64, 1..=1000)?;
                config.nice.iter().try_for_each(|&nice| within("nice", u64::from(nice), 0..=19))
            }
            Workload::Bursts(config) => {
                within("inside", config.inside, STEPS)?;
                within("outside", config.outside, STEPS)?;
                within("burst", config.burst, 1..=1_000_000)?;
                within("away", config.away, STEPS)
            }
            Workload::Phases(config) => {
                for (name, steps) in [("inside", &config.inside), ("outside", &config.outside)] {
                    within(&format!("the number of {name}"), steps.len() as u64, 1..=1000)?;
                    steps.iter().try_for_each(|&steps| within(name, steps, STEPS))?;
                }
                within("phase", config.phase, 1..=LONGEST)
            }
            Workload::Readers(config) => {
                percentage("reads", config.reads)?;
                within("lines", config.lines as u64, LINES)?;
                within("reading", config.reading, STEPS)?;
                within("writing", config.writing, STEPS)?;
                within("outside", config.outside, STEPS)
            }
            Workload::Locktorture(config) => {
                within("inside", config.inside, STEPS)?;
                within("outside", config.outside, STEPS)?;
                within("delay", config.delay, 0..=LONGEST)?;
                within("seldom", u64::from(config.seldom), 1..=1_000_000)
            }
            Workload::Calls(config) => {
                let sections = config.locks.len() as u64;
                within("the number of locks", sections, 1..=1000)?;
                config.locks.iter().try_for_each(|&lock| within("locks", lock as u64, 0..=999))?;
                config.lines.iter().try_for_each(|&lines| within("lines", lines as u64, 0..=*LINES.end()))?;
                within("the number of lines", config.lines.len() as u64, sections..=sections)?;
                for (name, steps) in [("before", &config.before), ("inside", &config.inside)] {
                    within(&format!("the number of {name}"), steps.len() as u64, sections..=sections)?;
                    steps.iter().try_for_each(|&steps| within(name, steps, STEPS))?;
                }
                Ok(())
            }
        }
    }
}

fn within(key: &str, value: u64, range: RangeInclusive<u64>) -> Result<(), Invalid> {
    if range.contains(&value) {
        return Ok(());
    }
    let (from, to) = (range.start(), range.end());
    Err(Invalid::new(format!("{key} is {value}, not in {from} to {to}"), format!("use {from} to {to}")))
}

fn percentage(key: &str, value: u32) -> Result<(), Invalid> {
    within(key, u64::from(value), 0..=100)
}

fn set<C: Serialize + DeserializeOwned>(config: &mut C, key: &str, value: &str) -> Result<(), Invalid> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(&*config) else {
        unreachable!("a configuration is an object")
    };
    let known: Vec<&str> = fields.keys().map(String::as_str).filter(|key| !OTHERS.contains(key)).collect();
    if !known.contains(&key) {
        return Err(Invalid::unknown(format!("the workload has no key '{key}'"), key, known));
    }
    let is_list = fields[key].is_array();
    let read = read(key, value, is_list);
    fields.insert(key.to_owned(), read);
    *config = serde_json::from_value(Value::Object(fields)).map_err(|error| {
        let remedy = match key {
            "lengths" => "write times with their units and commas, as in 10us,1us",
            key if TIMES.contains(&key) => "write a time with its unit, as in 50us",
            "sections" => "write whole numbers with commas, as in 4,10,20,30",
            "nice" => "write whole numbers with commas, as in 0,5",
            "length" => "write constant, phases or mixed",
            _ if is_list => "write whole numbers with commas, as in 50,500",
            _ => "write a whole number that is not negative",
        };
        Invalid::new(format!("cannot use {key}={value}: {error}"), remedy)
    })?;
    Ok(())
}

/// What `value` says in JSON: of a list each part.
fn read(key: &str, value: &str, is_list: bool) -> Value {
    if is_list {
        let parts = value.trim_start_matches('[').trim_end_matches(']').split(',');
        return parts.filter(|part| !part.is_empty()).map(|part| read(key, part, false)).collect();
    }
    let time = || parse_duration(value).filter(|_| TIMES.contains(&key)).map(Value::from);
    serde_json::from_str(value).ok().or_else(time).unwrap_or_else(|| Value::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_is_within_its_own_ranges() {
        for name in Workload::names() {
            let workload = Workload::named(name).expect(name);
            assert_eq!((workload.check(), workload.threads()), (Ok(()), 1), "{name}");
            let workload = workload.with(7, 35_000_000);
            assert_eq!((workload.threads(), workload.timing().duration), (7, 35_000_000), "{name}");
            assert_eq!(workload.timing().warm_up == 0, name == "epochs-variable", "{name}");
        }
    }

    #[test]
    fn keys_are_set_as_people_write_them() {
        let set = |name: &str, key: &str, value: &str| {
            let mut workload = Workload::named(name).expect(name);
            workload.set(key, value).map(|()| serde_json::to_value(workload.config()).expect("JSON")[key].clone())
        };
        assert_eq!(set("kv", "keys", "4096"), Ok(Value::from(4096)));
        assert_eq!(set("ncs", "ncs", "20us"), Ok(Value::from(20_000)));
        assert_eq!(set("ncs", "ncs", "20000"), Ok(Value::from(20_000)));
        assert_eq!(set("epochs", "sections", "2,3"), Ok(Value::from(vec![2, 3])));
        assert_eq!(set("epochs", "sections", "[4]"), Ok(Value::from(vec![4])));
        assert_eq!(set("epochs", "window", "1.5us"), Ok(Value::from(1500)));
        assert_eq!(set("epochs-variable", "slo", "null"), Ok(Value::Null));
        assert_eq!(set("epochs", "length", "mixed"), Ok(Value::from("mixed")));
        assert_eq!(set("shares", "lengths", "10us,500"), Ok(Value::from(vec![10_000, 500])));
        assert_eq!(set("shares", "nice", "0,5"), Ok(Value::from(vec![0, 5])));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_a_remedy() {
        for (name, key, value, what, remedy) in [
            ("kv", "kees", "1", "the workload has no key 'kees'", "did you mean 'keys'? use one of: "),
            ("kv", "threads", "1", "the workload has no key 'threads'", "use one of: "),
            ("kv", "keys", "0", "keys is 0, not in 1 to 100000000", "use 1 to 100000000"),
            ("kv", "keys", "many", "cannot use keys=many", "whole number"),
            ("kv", "updates", "101", "updates is 101, not in 0 to 100", "use 0 to 100"),
            ("kv", "updates", "-1", "cannot use updates=-1", "not negative"),
            ("ncs", "ncs", "fast", "cannot use ncs=fast", "unit"),
            ("ncs", "ncs", "2h", "cannot use ncs=2h", "unit"),
            ("epochs", "sections", "", "the number of sections is 0", "use 1 to 1000"),
            ("epochs", "sections", "8,0", "sections is 0, not in 1 to", "use 1 to"),
            ("epochs", "locks", "0", "locks is 0", "use 1 to 1000"),
            ("epochs", "length", "short", "cannot use length=short", "constant, phases or mixed"),
            ("counter", "inside", "99999999999", "inside is 99999999999", "use 0 to"),
            ("shares", "lengths", "", "the number of lengths is 0", "use 1 to 1000"),
            ("shares", "lengths", "10us,long", "cannot use lengths=10us,long", "as in 10us,1us"),
            ("shares", "nice", "0,20", "nice is 20, not in 0 to 19", "use 0 to 19"),
            ("bursts", "burst", "0", "burst is 0", "use 1 to 1000000"),
            ("phases", "phase", "0", "phase is 0", "use 1 to"),
            ("phases", "inside", "", "the number of inside is 0", "use 1 to 1000"),
            ("phases", "outside", "50,many", "cannot use outside=50,many", "as in 50,500"),
            ("readers", "lines", "0", "lines is 0", "use 1 to"),
        ] {
            let mut workload = Workload::named(name).expect(name);
            let before = workload.clone();
            let error = workload.set(key, value).expect_err(key);
            assert!(error.what.contains(what) && error.remedy.contains(remedy), "{key}={value}: {error:?}");
            assert_eq!(workload, before, "{key}={value}");
        }
        let unknown = Workload::named("epoch").expect_err("no such name");
        assert!(unknown.remedy.starts_with("did you mean 'epochs'?"), "{unknown:?}");
    }
}
