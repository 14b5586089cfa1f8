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
/// A scenario that has not been answered after so much CPU time is given up, undecided: several times what
/// [`Budget::MUTANT`] allows. On a busy machine an unchanged lock takes as much.
pub const GIVEN_UP: Duration = Duration::from_secs(45);
/// The worker's CPU time is looked at this often.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// A mutant to try, and on what.
#[derive(Serialize, Deserialize)]
pub struct Order {
    pub mutant: Mutant,
    pub target: Target,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    /// Nothing fails.
    Holds,
    /// What fails.
    Fails(String),
    /// Why nobody knows.
    Undecided(String),
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

    /// What came of it, and the CPU time that it took; a worker that crashed or was given up is gone.
    pub fn ask(mut self, order: &Order) -> (Option<Worker>, Answer, Duration) {
        let line = serde_json::to_string(order).expect("strings and numbers");
        let start = self.cpu_time();
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        loop {
            let answer = self.answers.recv_timeout(LOOKS_EVERY);
            let took = self.cpu_time().saturating_sub(start);
            match answer {
                Ok(line) => {
                    let answer = serde_json::from_str(&line).expect("a worker writes nothing else");
                    return (Some(self), answer, took);
                }
                Err(RecvTimeoutError::Timeout) if took < GIVEN_UP => {}
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return (
                        None,
                        Answer::Undecided(format!("no answer after {} s of CPU time", took.as_secs())),
                        took,
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                    return (None, Answer::Fails(format!("crash: {status}")), took);
                }
            }
        }
    }

    /// The CPU time of the worker so far; none if it has ended.
    fn cpu_time(&self) -> Duration {
        /// Ticks of the kernel's clock in /proc, a second: the same on every Linux that programs can tell.
        const TICKS: u64 = 100;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name, in brackets, may contain anything; the times in user and system mode are 14th and 15th.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1000 / TICKS)
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
    // Whether the lock as it is makes executions that are too long: then one of the mutant's says nothing. And how far
    // its search went: an end by the clock, on a busy machine, says nothing either.
    let mut unchanged = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let target = &order.target;
        let check = || attempt(&subjects[target.subject], target.engine, target.scenario, Budget::MUTANT);
        mutation::set(Some(order.mutant));
        let checked = check();
        mutation::set(None);
        let answer = if let Some(text) = checked.failure {
            Answer::Fails(text.split("; to see the steps").next().unwrap_or_default().to_owned())
        } else if checked.endless {
            let key = (target.subject, target.engine, target.scenario);
            let (is_endless, executions, complete) = *unchanged.entry(key).or_insert_with(|| {
                let unchanged = check();
                (unchanged.endless, unchanged.executions, unchanged.complete)
            });
            match () {
                () if is_endless => Answer::Holds,
                () if complete || executions >= checked.executions => {
                    Answer::Fails("an execution does not end".to_owned())
                }
                () => Answer::Undecided(
                    "an execution does not end, and the lock as it is was searched less far".to_owned(),
                ),
            }
        } else {
            Answer::Holds
        };
        println!("{}", serde_json::to_string(&answer).map_err(|error| error.to_string())?);
    }
    Ok(ExitCode::SUCCESS)
}
