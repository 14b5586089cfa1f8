//! The program as it is run: with which environment, and what is around it.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;

use lockswap_advise::choice::Choices;
use lockswap_locks::registry::Role;
use lockswap_study::plan::{Plan, Variant};
use lockswap_study::runner::Program;
use tempfile::TempDir;

use super::AdviseArgs;
use crate::compare::{measured, shell, strays, words, Variables};
use crate::error::UserError;
use crate::profile;
use crate::selection::{spins_before_park, Selection, INTERPOSED, PLAIN};
use crate::trace;

/// All ways to run the program.
pub struct Programs {
    /// The plan that all runs have in common; its only variant is the plain program.
    pub template: Plan,
    /// The command as it is shown.
    pub shown: Vec<String>,
    command: Vec<OsString>,
    only: Variables,
    /// Profiles that are tried.
    folder: TempDir,
    profiles: Cell<u32>,
}

impl Programs {
    /// Those of the arguments.
    pub fn new(args: &AdviseArgs) -> anyhow::Result<Self> {
        trace::check(&args.command)?;
        if let Some(input) = &args.input {
            fs::File::open(input).map_err(|error| {
                UserError::new(format!("--input {}: {error}", input.display()), "name a file that you can read")
            })?;
        }
        let folder = tempfile::Builder::new().prefix("lockswap-advise-").tempdir().map_err(|error| {
            let remedy = "set TMPDIR to a folder that you can write to; nothing was run";
            UserError::new(format!("no folder for the profiles that are tried: {error}"), remedy)
        })?;
        let shown = words(&args.command);
        let variant = Variant::new(PLAIN, false, Program::default());
        let mut plan = Plan::new(shown.clone(), vec![variant]);
        (plan.measures, plan.metrics) = measured(&args.metric);
        (plan.timeout, plan.seed, plan.ignore_failure) = (args.timeout, args.seed, args.ignore_failure);
        (plan.smallest_effect, plan.input) = (args.smallest_effect, args.input.clone());
        (plan.shows_output, plan.ready, plan.counts) = (args.show_output, args.ready.clone(), true);
        let only = args.only.variable()?.into_iter().collect();
        let mut programs =
            Self { template: plan, shown, command: args.command.clone(), only, folder, profiles: Cell::new(0) };
        let plain = programs.plain()?;
        let around = |text: &Option<String>| text.as_ref().map(|text| shell(text, plain.envs.clone()));
        let (load, prepare) = (around(&args.load), around(&args.prepare));
        programs.template.variants = vec![Variant { load, prepare, ..Variant::new(PLAIN, false, plain) }];
        Ok(programs)
    }

    /// The program without the library.
    pub fn plain(&self) -> Result<Program, UserError> {
        self.on(
            Selection { lock: Some(PLAIN.into()), rwlock: Some(PLAIN.into()), spin: Some(PLAIN.into()) },
            Vec::new(),
        )
    }

    /// The program on glibc's own locks behind the library.
    pub fn interposed(&self, more: Variables) -> Result<Program, UserError> {
        let lock = |id: &str| Some(id.to_owned());
        self.on(Selection { lock: lock(INTERPOSED), rwlock: lock(PLAIN), spin: lock(PLAIN) }, more)
    }

    /// The program with these choices.
    pub fn with(&self, choices: &Choices, more: Variables) -> Result<Program, UserError> {
        if choices.is_plain() {
            return self.plain();
        }
        let glibcs = |id: &str| if id == PLAIN { INTERPOSED } else { id }.to_owned();
        let selection = Selection {
            lock: Some(glibcs(choices.mutexes())),
            rwlock: Some(choices.rwlocks().into()),
            // Where a lock is chosen for everything, spinlocks get the one that they have by default.
            spin: (choices.mutexes() == PLAIN).then(|| PLAIN.into()),
        };
        let mut variables = more;
        if choices.profile().is_some() {
            let locks = choices.rules().iter().map(|rule| (Role::Mutex, rule.lock.as_str()));
            variables.extend(spins_before_park(locks));
            variables.push((profile::VARIABLE.into(), Some(self.profile(choices)?)));
        }
        self.on(selection, variables)
    }

    /// Writes the profile of these choices to a file of its own.
    fn profile(&self, choices: &Choices) -> Result<OsString, UserError> {
        let number = self.profiles.get();
        self.profiles.set(number + 1);
        let path = self.folder.path().join(format!("{number}.toml"));
        fs::write(&path, choices.text(Vec::new(), |_| Vec::new())).map_err(|error| {
            UserError::new(format!("cannot write {}: {error}", path.display()), "make room there, or set TMPDIR")
        })?;
        Ok(path.into_os_string())
    }

    fn on(&self, selection: Selection, more: Variables) -> Result<Program, UserError> {
        selection.check()?;
        let mut envs = selection.environment()?;
        envs.extend(self.only.iter().cloned());
        envs.extend(more);
        envs.extend(strays(&envs));
        Ok(Program { args: self.command.clone(), envs, ..Program::default() })
    }
}
