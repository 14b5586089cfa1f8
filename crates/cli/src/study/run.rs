//! `lockswap study run`: carries a plan out, into a database.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;
use lockswap_locks::registry::Role;
use lockswap_machine::Machine;
use lockswap_study::runner::{find_in_path, Interrupt};
use lockswap_study::survey::database::{Database, NewRun, Quantity, Source};
use lockswap_study::survey::plan::{Plan, Program};
use lockswap_study::survey::run::{self, Ending, Keeper, Key, Made, Settings, Variables};
use lockswap_study::survey::Unusable;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::compare::strays;
use crate::duration;
use crate::error::{UserError, USAGE};
use crate::selection::{named, Selection, INTERPOSED, PLAIN};
use crate::terminal::{self, say};

const EXAMPLES: &str = "\
A plan names programs, locks and levels of contention; docs/study.md describes it, and studies/
has some. First each program runs once without lockswap; then come rounds, each with every
program, level and lock in an order of its own that the plan's seed decides. Each run is in the
database before the next one begins: a study that was stopped, or killed, goes on with --resume.
What crashes, hangs or prints no metric on a lock is a result of that lock.

Exit status: 0; 1 if a program fails without lockswap; 2 for wrong usage; 3 if runs of some lock
failed; 4 if the budget was used up; 130 after Ctrl-C.

Examples:
  lockswap study run plan.toml
  lockswap study run plan.toml --budget 2h; lockswap study run plan.toml --resume
  lockswap study run plan.toml --shard 1/4 --db shard1.db";

/// Status where all was measured, but runs of some lock failed, as of a comparison.
const SOME_FAILED: u8 = 3;
/// Status where the budget ended the study.
const OUT_OF_TIME: u8 = 4;

/// Runs a plan: programs on locks at several levels of contention.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The plan
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// The database [default: the plan's name with .db]
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,
    /// Goes on where the plan was stopped
    #[arg(long)]
    resume: bool,
    /// Begins no round that would end after so long
    #[arg(long, value_name = "TIME", value_parser = duration::patience)]
    budget: Option<Duration>,
    /// Runs this part of the plan only: the I-th of N
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1", hide_default_value = true)]
    shard: (usize, usize),
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(own, of)| Some((own.parse().ok()?, of.parse().ok()?)));
    parts.filter(|(own, of)| (1..=*of).contains(own)).ok_or_else(|| "write I/N with I from 1 to N, as in 2/4".into())
}

/// Runs the command.
pub fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let name = args.plan.display().to_string();
    let text = std::fs::read_to_string(&args.plan).map_err(|error| {
        UserError::new(format!("cannot read the plan {name}: {error}"), "name a TOML file that you can read")
    })?;
    let usage = |unusable: Unusable| UserError::from(unusable).with_status(USAGE);
    let lock = |id: &str| named(Role::Mutex, id).map_err(|error| error.words());
    let plan = Plan::read(&name, &text, lock).map_err(usage)?;
    check(&plan, &name).map_err(usage)?;
    let path = args.db.clone().unwrap_or_else(|| args.plan.with_extension("db"));
    let mut database = Database::create(&path).map_err(UserError::from)?;
    let (source, made) = source(args, &plan, &text, &mut database, &path)?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut settings = Settings {
        plan: &plan,
        shard: (args.shard.0 - 1, args.shard.1),
        budget: args.budget,
        made,
        environment: &environment,
        nodes: numa_nodes(),
    };
    let mut watcher = Watcher { database, source, bar: terminal::bar(0), made: 0, failed: 0 };
    let ending = run::run(&mut settings, &interrupt, &mut watcher);
    watcher.bar.finish_and_clear();
    let kept = format!("{} runs were added to {}", watcher.made, path.display());
    let resume = format!("'{} --resume' goes on", again(args));
    Ok(match ending {
        Ending::Failed(unusable) => return Err(UserError::from(unusable).into()),
        Ending::Interrupted { signal } => {
            say(&format!("interrupted: {kept}; {resume}"));
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        Ending::OutOfTime { rounds, of } => {
            say(&format!("the budget is used up after {rounds} of {of} rounds: {kept}; {resume}"));
            ExitCode::from(OUT_OF_TIME)
        }
        Ending::Complete => {
            let failed = watcher.failed;
            let failures = if failed > 0 { format!(", {failed} of them failed") } else { String::new() };
            terminal::print(&format!("{kept}{failures}; 'lockswap study report {}' shows them\n", path.display()))?;
            if failed > 0 {
                ExitCode::from(SOME_FAILED)
            } else {
                ExitCode::SUCCESS
            }
        }
    })
}

/// The command that runs the same part of the plan into the same database.
fn again(args: &RunArgs) -> String {
    let mut words = vec!["lockswap".to_owned(), "study".into(), "run".into(), args.plan.display().to_string()];
    if let Some(db) = &args.db {
        words.extend(["--db".into(), db.display().to_string()]);
    }
    if args.shard != (1, 1) {
        words.extend(["--shard".into(), format!("{}/{}", args.shard.0, args.shard.1)]);
    }
    shell_words::join(words)
}

/// The plan's place in the database, and what was made of it before.
fn source(
    args: &RunArgs,
    plan: &Plan,
    text: &str,
    database: &mut Database,
    path: &Path,
) -> Result<(i64, HashMap<Key, Made>), UserError> {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machine = plan.machine.clone().unwrap_or_else(host);
    let shard = format!("{}/{}", args.shard.0, args.shard.1);
    let here = lockswap_study::machine::Machine::here();
    if let Some(note) = here.busy_note() {
        say(&note);
    }
    let is_same = |source: &Source| {
        let details: serde_json::Value = serde_json::from_str(&source.details).unwrap_or_default();
        source.kind == "plan" && source.name == plan.name && source.machine == machine && details["shard"] == *shard
    };
    let mut known = database.sources()?.into_iter().find(|(_, source)| is_same(source));
    if let Some((id, _)) = &known {
        // A plan whose programs did not even run without lockswap was never begun.
        if database.made(*id)?.keys().all(|key| key.round.is_none()) {
            database.forget(*id)?;
            known = None;
        }
    }
    let Some((id, found)) = known else {
        let details = json!({ "plan": text, "shard": shard, "lockswap": env!("CARGO_PKG_VERSION"), "host": here });
        let source = Source { kind: "plan".into(), machine, name: plan.name.clone(), details: details.to_string() };
        return Ok((database.add(&source, &[], &[])?, HashMap::new()));
    };
    if !args.resume {
        let what = format!("{} has runs of the plan {} already", path.display(), plan.name);
        let remedy = "--resume goes on with it; --db FILE begins another database";
        return Err(UserError::new(what, remedy).with_status(USAGE));
    }
    let details: serde_json::Value = serde_json::from_str(&found.details).unwrap_or_default();
    if details["plan"] != text {
        let what = format!("the plan {} is not the one that {} was begun with", plan.name, path.display());
        let remedy = "its old text is in the database (SELECT details FROM source); --db FILE begins another database";
        return Err(UserError::new(what, remedy).with_status(USAGE));
    }
    Ok((id, database.made(id)?))
}

/// Refuses programs that are not there.
fn check(plan: &Plan, name: &str) -> Result<(), Unusable> {
    let is_there = |program: &str, folder: Option<&PathBuf>| {
        let path =
            folder.filter(|_| program.contains('/')).map_or_else(|| program.into(), |folder| folder.join(program));
        find_in_path(path.as_os_str()).is_some_and(|found| found.exists())
    };
    if plan.interleave && !is_there("numactl", None) {
        return Err(Unusable::new(format!("{name}: interleave needs numactl"), "install the package numactl"));
    }
    // What a setup may make is looked for when the program runs.
    let is_made = |program: &Program| program.setup.is_some() && program.command[0].contains('/');
    let missing = |program: &&Program| !is_made(program) && !is_there(&program.command[0], program.folder.as_ref());
    if let Some(program) = plan.programs.iter().find(missing) {
        let what = format!("{name}: program '{}': there is no command {}", program.name, program.command[0]);
        return Err(Unusable::new(what, "install it, give its path, or add its folder to PATH"));
    }
    let folder = |program: &&Program| program.folder.as_ref().is_some_and(|folder| !folder.is_dir());
    if let Some(program) = plan.programs.iter().find(folder) {
        return Err(Unusable::new(format!("{name}: program '{}': its folder is not there", program.name), "make it"));
    }
    let unread = |program: &Program| {
        let error = std::fs::File::open(program.input.as_ref()?).err()?;
        Some(Unusable::new(
            format!("{name}: program '{}': input: {error}", program.name),
            "name a file that you can read",
        ))
    };
    plan.programs.iter().find_map(unread).map_or(Ok(()), Err)
}

/// What the environment of a program on this lock has that ours has not, and whether it loads the preload library.
fn environment(lock: &str) -> Result<(bool, Variables), Unusable> {
    let glibcs = [PLAIN, INTERPOSED].contains(&lock).then(|| PLAIN.to_owned());
    let selection = Selection { lock: Some(lock.into()), rwlock: glibcs.clone(), spin: glibcs };
    let words = |error: UserError| {
        let (what, remedy) = error.words();
        Unusable::new(what, remedy)
    };
    selection.check().map_err(words)?;
    let cannot = |error| Unusable::new(format!("cannot prepare the lock {lock}: {error}"), "see 'lockswap doctor'");
    let mut envs = selection.environment().map_err(|error| cannot(error.to_string()))?;
    envs.extend(strays(&envs));
    Ok((!selection.is_plain(), envs))
}

/// The CPUs of each NUMA node; none where the machine does not tell.
fn numa_nodes() -> Vec<Vec<usize>> {
    let Ok(machine) = Machine::here() else { return Vec::new() };
    let members =
        |node| machine.topology.members(lockswap_machine::topology::Group::Node, node).iter().collect::<Vec<usize>>();
    machine.topology.nodes().map(members).filter(|cpus| !cpus.is_empty()).collect()
}

/// Shows how the study goes on, and keeps each run.
struct Watcher {
    database: Database,
    source: i64,
    bar: ProgressBar,
    made: u64,
    failed: u64,
}

impl Keeper for Watcher {
    fn estimate(&mut self, runs: u64, time: Duration) {
        self.bar.set_length(runs);
        self.bar.set_position(0);
        say(&format!("{runs} runs, about {} if no lock slows the programs down", in_words(time)));
    }

    fn left_out(&mut self, program: &str, why: &str) {
        say(&format!("{program} is left out: {why}"));
    }

    fn starting(&mut self, key: &Key) {
        // Drawn here only, between runs: a ticking thread would take its share of the CPUs that are measured.
        self.bar.set_message(format!("{} at {} on {}", key.program, key.nodes, key.lock));
    }

    fn measured(&mut self, run: &NewRun, quantities: &[Quantity]) -> Result<(), Unusable> {
        self.database.append(self.source, quantities, run)?;
        self.made += 1;
        self.failed += u64::from(run.problem.is_some());
        self.bar.inc(1);
        Ok(())
    }
}

/// A time for people: 3 h 20 min, 5 min, 12 s.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{} s", seconds.max(1)),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
