//! How a file of cells is read: what its keys mean, and what is wrong with it, with the line.

use super::cells::{Cell, Cells, Kind, Real, Targets};
use crate::hardware::program::{Load, Program};
use lockswap_locks::named;
use lockswap_locks::registry::Role;
use lockswap_platform::{parse_duration, Ns};
use lockswap_toml::shortened;
use lockswap_workloads::condvar;
use lockswap_workloads::invalid::{one_of, Invalid};
use lockswap_workloads::workload::Workload;
use serde::Deserialize;
use std::collections::HashSet;
use toml::Spanned;

/// What is said about a mistake in a file.
const READ_THE_DOCS: &str = "docs/regret.md says what each key means";

/// The most locks that may be named as candidates.
const MOST_CANDIDATES: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    candidates: Vec<Spanned<String>>,
    fairness_factor: f64,
    rounds: u32,
    most_rounds: Option<u32>,
    targets: Targets,
    #[serde(default, rename = "machine")]
    machines: Vec<Where>,
    #[serde(rename = "body")]
    bodies: Vec<Spanned<Body>>,
    held_out: HeldOut,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Where {
    id: Spanned<String>,
    threads: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldOut {
    seed: u64,
    cells: Vec<Spanned<String>>,
}

/// What threads do: exactly one of `workload`, `condvar` and `program`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: String,
    workload: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    /// Threads of real-time priority.
    #[serde(default)]
    realtime: usize,
    condvar: Option<condvar::Shape>,
    /// Words of a command line; `{threads}` and `{dir}` are filled in.
    program: Option<String>,
    load: Option<String>,
    ready: Option<String>,
    prepare: Option<String>,
    #[serde(default)]
    needs: Vec<String>,
    metric: Option<String>,
    /// Of this machine; a described one has its own list.
    #[serde(default)]
    threads: Vec<usize>,
    duration: String,
    /// At least so much for each thread.
    per_thread: Option<String>,
}

impl Cells {
    /// Reads a file; `name` stands for it in messages.
    ///
    /// # Errors
    /// What is wrong in it, with the line.
    pub fn read(name: &str, text: &str) -> Result<Self, Invalid> {
        let cells = Self::read_file(name, text);
        cells.map_err(|error| Invalid { what: shortened(&error.what, name), ..error })
    }

    fn read_file(name: &str, text: &str) -> Result<Self, Invalid> {
        let file: File =
            lockswap_toml::from_str(text).map_err(|error| Invalid::new(format!("{name}: {error}"), READ_THE_DOCS))?;
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let wrong = |at: usize, invalid: Invalid| {
            Invalid::new(format!("{name}, line {}: {}", line(at), invalid.what), invalid.remedy)
        };
        let candidates = candidates(&file.candidates).map_err(|(at, invalid)| wrong(at, invalid))?;
        if !(0.5..=1.0).contains(&file.fairness_factor) {
            let what = format!("{name}: fairness_factor is {}, not in 0.5 to 1", file.fairness_factor);
            return Err(Invalid::new(what, "0.5 admits only locks that are fair, 1 admits all"));
        }
        if file.rounds < 2 {
            let remedy = "the best lock is picked in one round and measured in another one";
            return Err(Invalid::new(format!("{name}: rounds is {}, not 2 or more", file.rounds), remedy));
        }
        let most_rounds = file.most_rounds.unwrap_or(file.rounds);
        if most_rounds < file.rounds || !most_rounds.is_multiple_of(file.rounds) {
            let what = format!("{name}: most_rounds is {most_rounds}, not a multiple of rounds, {}", file.rounds);
            return Err(Invalid::new(what, "cells whose intervals are wide get as many rounds again each time"));
        }
        let mut cells = Vec::new();
        let mut known = HashSet::new();
        for place in places(&file.machines).map_err(|(at, invalid)| wrong(at, invalid))? {
            for body in &file.bodies {
                let at = body.span().start;
                let of_body = |invalid: Invalid| {
                    wrong(at, Invalid::new(format!("body '{}': {}", body.get_ref().name, invalid.what), invalid.remedy))
                };
                for cell in body.get_ref().cells(place).map_err(of_body)? {
                    if !known.insert(cell.id.clone()) {
                        let what = format!("there are two cells '{}'", cell.id);
                        return Err(wrong(at, Invalid::new(what, "give each body a name of its own")));
                    }
                    cells.push(cell);
                }
            }
        }
        for id in &file.held_out.cells {
            let cell = cells.iter_mut().find(|cell| cell.id == *id.get_ref());
            let unknown = || {
                let what = format!("there is no cell '{}' to hold out", id.get_ref());
                wrong(id.span().start, Invalid::new(what, one_of_few(id.get_ref(), &known)))
            };
            cell.ok_or_else(unknown)?.is_held_out = true;
        }
        Ok(Self {
            candidates,
            fairness_factor: file.fairness_factor,
            rounds: file.rounds,
            most_rounds,
            targets: file.targets,
            cells,
            bodies: file.bodies.iter().map(|body| body.get_ref().name.clone()).collect(),
            seed: file.held_out.seed,
        })
    }
}

/// The nearest ids, without all the others.
fn one_of_few(word: &str, known: &HashSet<String>) -> String {
    let mut known: Vec<&str> = known.iter().map(String::as_str).collect();
    known.sort_unstable();
    let all = one_of(word, known);
    all.split(" use one of: ").next().filter(|guess| guess.contains('?')).unwrap_or("write MACHINE/BODY/THREADS").into()
}

/// The candidates, each with the name that the registry has for it.
fn candidates(names: &[Spanned<String>]) -> Result<Vec<String>, (usize, Invalid)> {
    let at = names.first().map_or(0, |first| first.span().start);
    if names.is_empty() || names.len() > MOST_CANDIDATES {
        let what = format!("there are {} candidates", names.len());
        return Err((at, Invalid::new(what, format!("name 1 to {MOST_CANDIDATES} of them"))));
    }
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let named = named::read(Role::Mutex, name.get_ref());
        let lock = named.map_err(|_| {
            let what = format!("there is no mutex lock '{}'", name.get_ref());
            (name.span().start, Invalid::new(what, "'lockswap list' shows all"))
        })?;
        let lock = lock.to_string();
        if found.contains(&lock) {
            let what = format!("the candidate {lock} stands there twice");
            return Err((name.span().start, Invalid::new(what, "name each lock once")));
        }
        found.push(lock);
    }
    Ok(found)
}

/// A machine with the numbers of threads on it.
type Place<'a> = Option<(&'a str, &'a [usize])>;

/// The machines, or this one if there are none.
fn places(machines: &[Where]) -> Result<Vec<Place<'_>>, (usize, Invalid)> {
    let known = || lockswap_sim::Machine::ids();
    for machine in machines {
        let (id, at) = (machine.id.get_ref(), machine.id.span().start);
        if !known().any(|known| known == id) {
            return Err((at, Invalid::unknown(format!("there is no machine '{id}'"), id, known())));
        }
        if machine.threads.is_empty() {
            return Err((at, Invalid::new(format!("the machine '{id}' has no threads"), "write threads = [1, 2]")));
        }
    }
    if machines.is_empty() {
        return Ok(vec![None]);
    }
    Ok(machines.iter().map(|machine| Some((machine.id.get_ref().as_str(), &*machine.threads))).collect())
}

impl Body {
    fn cells(&self, place: Place<'_>) -> Result<Vec<Cell>, Invalid> {
        let threads = match place {
            Some(_) if !self.threads.is_empty() => {
                return Err(Invalid::new("a described machine says the numbers of threads", "leave threads out"));
            }
            Some((_, threads)) => threads,
            None if self.threads.is_empty() => {
                return Err(Invalid::new("it has no threads", "write threads = [1, 2]"));
            }
            None => &self.threads,
        };
        threads.iter().map(|&threads| self.cell(place.map(|(machine, _)| machine), threads)).collect()
    }

    fn cell(&self, machine: Option<&str>, threads: usize) -> Result<Cell, Invalid> {
        let time = |text: &String| {
            let remedy = "write a time with its unit, as in 50ms";
            parse_duration(text)
                .filter(|ns| *ns > 0)
                .ok_or_else(|| Invalid::new(format!("'{text}' is no time"), remedy))
        };
        let per_thread = self.per_thread.as_ref().map(time).transpose()?.unwrap_or_default();
        let duration = time(&self.duration)?.max(per_thread * threads as Ns);
        let kind = self.kind(threads, duration)?;
        if machine.is_some() && !matches!(&kind, Kind::Workload(workload, 0) if workload.role() == Role::Mutex) {
            return Err(Invalid::new(
                "it cannot be simulated",
                "simulate a workload of mutexes without real-time threads",
            ));
        }
        let id = format!("{}{}/{threads}", machine.map_or(String::new(), |id| format!("{id}/")), self.name);
        let (machine, body) = (machine.map(str::to_owned), self.name.clone());
        Ok(Cell { id, machine, body, threads, kind, duration, is_held_out: false })
    }

    fn kind(&self, threads: usize, takes: Ns) -> Result<Kind, Invalid> {
        match (&self.workload, self.condvar, &self.program) {
            (Some(name), None, None) => {
                let mut workload = Workload::named(name)?;
                for setting in &self.set {
                    let (key, value) = setting
                        .split_once('=')
                        .ok_or_else(|| Invalid::new(format!("cannot read '{setting}'"), "write KEY=VALUE"))?;
                    workload.set(key, value)?;
                }
                workload.clone().with(threads, takes).check()?;
                if workload.role() == Role::RwLock || self.realtime >= threads.max(1) {
                    let what = "a workload needs mutexes, and one thread without real-time priority";
                    return Err(Invalid::new(what, "choose another workload, or more threads"));
                }
                Ok(Kind::Workload(workload, self.realtime))
            }
            (None, Some(shape), None) if threads >= 2 => Ok(Kind::Condvar(condvar::Config::new(shape, threads))),
            (None, Some(_), None) => Err(Invalid::new("condvar needs two threads", "write threads = [2]")),
            (None, None, Some(program)) => self.real(program, threads, takes).map(Kind::Program),
            _ => {
                let what = "it needs exactly one of workload, condvar and program";
                Err(Invalid::new(what, "write what the threads do"))
            }
        }
    }

    fn real(&self, program: &str, threads: usize, takes: Ns) -> Result<Real, Invalid> {
        let command: Vec<String> =
            program.replace("{threads}", &threads.to_string()).split_whitespace().map(str::to_owned).collect();
        let words = |text: &String| -> Vec<String> {
            text.replace("{threads}", &threads.to_string()).split_whitespace().map(str::to_owned).collect()
        };
        let load = match (&self.load, &self.ready) {
            (None, None) => None,
            (Some(load), Some(ready)) => Some(Load { command: words(load), ready: ready.clone() }),
            _ => return Err(Invalid::new("load and ready belong together", "write both or none")),
        };
        let Some(first) = command.first() else {
            return Err(Invalid::new("the program is empty", "write its name and its arguments"));
        };
        let mut needs = self.needs.clone();
        needs.extend([first.clone()].into_iter().chain(load.as_ref().and_then(|load| load.command.first().cloned())));
        let program = Program { threads, command, load, metric: self.metric.clone(), takes };
        Ok(Real { program, prepare: self.prepare.clone(), needs })
    }
}

/// Which of so many cells are held out: one of every three that stand together in the file, drawn with a seed, so
/// that each body and each machine is in both parts. The files list what this drew once; it is here so that everybody
/// can see that the held-out cells were drawn and not chosen.
pub fn draw(count: usize, seed: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let of_three = |first: usize| first + random.usize(..3);
    (0..count).step_by(3).map(of_three).filter(|cell| *cell < count).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cells::{HARDWARE, SIMULATED};
    use super::*;

    const SMALL: &str = r#"
candidates = ["futex", "mcs_spin"]
fairness_factor = 0.8
rounds = 4
targets = { worst = 0.8, mean = 0.95 }

[[body]]
name = "short"
workload = "counter"
set = ["inside=10"]
threads = [1, 2]
duration = "1ms"
per_thread = "1ms"

[held_out]
seed = 1
cells = ["short/2"]
"#;

    fn refused(from: &str, to: &str) -> Invalid {
        assert!(SMALL.contains(from), "{from}");
        Cells::read("a.toml", &SMALL.replace(from, to)).expect_err(to)
    }

    #[test]
    fn a_file_is_cells() {
        let cells = Cells::read("a.toml", SMALL).expect("cells");
        let ids: Vec<_> = cells.cells.iter().map(|cell| (cell.id.as_str(), cell.duration, cell.is_held_out)).collect();
        assert_eq!(ids, [("short/1", 1_000_000, false), ("short/2", 2_000_000, true)]);
        let chosen = |held_out, only: &[&str]| {
            let only: Vec<String> = only.iter().map(|text| (*text).to_owned()).collect();
            cells.chosen(held_out, &only).map(|cells| cells.into_iter().map(|cell| cell.id).collect::<Vec<_>>())
        };
        assert_eq!(chosen(false, &[]), Ok(vec!["short/1".to_owned()]));
        assert_eq!(chosen(true, &["sh"]), Ok(vec!["short/2".to_owned()]));
        let hidden = chosen(false, &["short/2"]).expect_err("held out");
        assert!(hidden.what.contains("'short/2'") && hidden.remedy.contains("1 held-out cell"), "{hidden:?}");
        assert!(chosen(true, &["long"]).expect_err("none").remedy.contains("short/2"));
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        for (from, to, what, remedy) in [
            ("rounds = 4", "rouds = 4", "line 4", "docs/regret.md"),
            ("rounds = 4", "rounds = 1", "rounds is 1", "picked in one round"),
            ("rounds = 4", "rounds = 4\nmost_rounds = 3", "most_rounds is 3, not a multiple", "as many rounds again"),
            ("rounds = 4", "rounds = 4\nmost_rounds = 0", "most_rounds is 0, not a multiple", "as many rounds again"),
            ("\"mcs_spin\"", "\"mcs_spn\"", "line 2: there is no mutex lock 'mcs_spn'", "lockswap list"),
            ("\"mcs_spin\"", "\"FUTEX\"", "line 2: the candidate futex stands there twice", "once"),
            ("\"mcs_spin\"", &["\"a\""; 10].join(", "), "line 2: there are 11 candidates", "1 to 10"),
            ("= 0.8\n", "= 0.3\n", "fairness_factor is 0.3", "admits"),
            (
                "\"counter\"",
                "\"countr\"",
                "line 7: body 'short': there is no workload 'countr'",
                "did you mean 'counter'?",
            ),
            ("inside=10", "insid=10", "body 'short': the workload has no key 'insid'", "'inside'"),
            ("set = [\"inside=10\"]\n", "realtime = 2\n", "one thread without real-time priority", "more threads"),
            ("\"1ms\"", "\"1\"", "'1' is no time", "50ms"),
            ("threads = [1, 2]", "threads = []", "body 'short': it has no threads", "threads = [1, 2]"),
            ("threads = [1, 2]", "threads = [1, 1]", "two cells 'short/1'", "name of its own"),
            ("short/2", "short/3", "line 17: there is no cell 'short/3' to hold out", "'short/2'"),
            ("workload = \"counter\"", "condvar = \"ring\"", "body 'short': condvar needs two threads", "[2]"),
            ("workload = \"counter\"", "", "exactly one of workload, condvar and program", "what the threads do"),
        ] {
            let error = refused(from, to);
            assert!(error.what.starts_with("a.toml"), "{error:?}");
            assert!(error.what.contains(what) && error.remedy.contains(remedy), "{to}: {error:?}");
        }
        let simulated = SMALL.replace("[[body]]", "[[machine]]\nid = \"apple-m2\"\nthreads = [1]\n[[body]]");
        let error = Cells::read("a.toml", &simulated).expect_err("no such machine");
        assert!(error.what.contains("line 8: there is no machine 'apple-m2'"), "{error:?}");
        let error = Cells::read("a.toml", &simulated.replace("apple-m2", "apple-m1")).expect_err("threads");
        assert!(error.what.contains("numbers of threads"), "{error:?}");
    }

    /// Nobody chose them: the lists in the files are what their seeds draw.
    #[test]
    fn a_third_of_the_cells_was_drawn_and_is_held_out() {
        for (name, text) in [("hardware.toml", HARDWARE), ("simulated.toml", SIMULATED)] {
            let cells = Cells::read(name, text).unwrap_or_else(|error| panic!("{error:?}"));
            let drawn: Vec<String> =
                draw(cells.cells.len(), cells.seed).into_iter().map(|index| cells.cells[index].id.clone()).collect();
            let listed: Vec<String> =
                cells.cells.iter().filter(|cell| cell.is_held_out).map(|cell| cell.id.clone()).collect();
            assert_eq!(drawn, listed, "{name}: held_out.cells = {drawn:?}");
        }
    }
}
