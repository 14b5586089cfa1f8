//! The processes that try mutants.

use super::Target;
use crate::command::Outcome;
use lockswap_check::mutation::{self, Mutant};
use lockswap_check::runner::{self, Budget, Engine};
use lockswap_check::subjects::{self, Subject};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// The hidden command that tries mutants.
pub const WORKER: &str = "mutants-worker";
/// A scenario that does not answer for so long hangs: several times what [`Budget::MUTANT`] allows.
pub const HANGS: Duration = Duration::from_secs(45);

/// A mutant to try, and on what.
#[derive(Serialize, Deserialize)]
pub struct Order {
    pub mutant: Mutant,
    pub target: Target,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    failure: Option<String>,
}

/// Runs one scenario of a lock.
pub fn attempt(subject: &Subject, engine: Engine, scenario: usize, budget: Budget) -> runner::Checked {
    match engine {
        Engine::Explore => runner::explore(subject, &subject.explore[scenario], budget),
        Engine::Loom => runner::weak(&subject.weak[scenario], budget),
    }
}

/// A process that tries mutants, because one may crash or hang.
pub struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    pub fn start() -> Worker {
        let program = std::env::current_exe().expect("Linux knows");
        let mut command = Command::new(program);
        command.arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("this program can be started");
        let orders = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Worker { child, orders, answers }
    }

    /// What fails; a worker that crashed or hangs is gone.
    pub fn ask(mut self, order: &Order) -> (Option<Worker>, Option<String>) {
        let line = serde_json::to_string(order).expect("strings and numbers");
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        match self.answers.recv_timeout(HANGS) {
            Ok(line) => {
                let answer: Answer = serde_json::from_str(&line).expect("a worker writes nothing else");
                (Some(self), answer.failure)
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                let _ = self.child.wait();
                (None, Some(format!("hang: no answer for {} s", HANGS.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                (None, Some(format!("crash: {status}")))
            }
        }
    }

    pub fn end(self) {
        let Worker { mut child, orders, .. } = self;
        drop(orders);
        let _ = child.wait();
    }
}

/// The worker's side.
pub fn work() -> Outcome {
    let subjects: Vec<Subject> = subjects::all();
    // Whether the lock as it is makes executions that are too long: then one of the mutant's says nothing.
    let mut endless = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let target = &order.target;
        let check = || attempt(&subjects[target.subject], target.engine, target.scenario, Budget::MUTANT);
        mutation::set(Some(order.mutant));
        let checked = check();
        mutation::set(None);
        let failure =
            checked.failure.map(|text| text.split("; to see the steps").next().unwrap_or_default().to_owned());
        let failure = failure.or_else(|| {
            let key = (target.subject, target.engine, target.scenario);
            let ends = checked.endless && !*endless.entry(key).or_insert_with(|| check().endless);
            ends.then(|| "an execution does not end".to_owned())
        });
        println!("{}", serde_json::to_string(&Answer { failure }).map_err(|error| error.to_string())?);
    }
    Ok(ExitCode::SUCCESS)
}
