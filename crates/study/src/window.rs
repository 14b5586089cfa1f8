//! The steady-state window of a long-lived program: what counts is how its counters grow from one moment of its run to
//! another, not how it begins and ends.

use std::time::{Duration, Instant};

use crate::metric::Metric;
use crate::model::Exit;
use crate::runner::{run_once, Interrupt, Limits, Program};

/// Longest time that the command may take that prints the counters.
const LIMIT: Duration = Duration::from_secs(10);

/// Bytes kept of what it prints.
const KEPT: usize = 1 << 20;

/// Which part of a run counts.
#[derive(Clone, Debug)]
pub struct Window {
    /// From the start of the load generator, or of the program where there is none, to the beginning of the window.
    pub after: Duration,
    /// From its beginning to its end, with which the run ends.
    pub length: Duration,
    /// Prints the counters.
    pub count: Program,
}

/// The counters at both ends of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    texts: [String; 2],
    between: Duration,
}

impl Counters {
    /// By how much the counter that the metric finds grew in a second.
    pub fn rate(&self, metric: &Metric) -> Option<f64> {
        let [first, last] = self.texts.each_ref().map(|text| metric.find(text));
        Some((last? - first?) / self.between.as_secs_f64())
    }
}

/// What a look at the window brought.
#[derive(Debug, PartialEq)]
pub(crate) enum Look {
    /// Nothing is to be done for so long.
    Later(Duration),
    /// The window is over, or its counters cannot be read, for the reason that is said.
    Over(Result<Counters, String>),
}

/// A window while the program runs.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    window: &'a Window,
    first: Option<(String, Instant)>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(window: &'a Window) -> Self {
        Self { window, first: None }
    }

    /// Reads the counters if it is time to. The run began at `begin`.
    pub(crate) fn look(&mut self, begin: Instant, interrupt: Option<&Interrupt>) -> Look {
        let due = match &self.first {
            None => begin + self.window.after,
            // From the first reading on, which may have been late: the window has the length that was asked for.
            Some((_, at)) => *at + self.window.length,
        };
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Look::Later(left);
        }
        let (text, at) = match self.read(interrupt) {
            Ok(Some(reading)) => reading,
            // The caller notices the interruption.
            Ok(None) => return Look::Later(Duration::ZERO),
            Err(problem) => return Look::Over(Err(problem)),
        };
        match self.first.take() {
            None => {
                self.first = Some((text, at));
                Look::Later(self.window.length)
            }
            Some((first, start)) => Look::Over(Ok(Counters { texts: [first, text], between: at - start })),
        }
    }

    /// The counters, and when they were read: half-way through the command. Nothing after an interruption.
    fn read(&self, interrupt: Option<&Interrupt>) -> Result<Option<(String, Instant)>, String> {
        let limits = Limits { timeout: LIMIT, capture_stdout: true, keep_bytes: KEPT, ..Limits::default() };
        let begin = Instant::now();
        let Some(run) = run_once(&self.window.count, limits, interrupt) else { return Ok(None) };
        if run.exit == (Exit::Code { code: 0 }) {
            let text = String::from_utf8_lossy(&run.stdout).into_owned();
            return Ok(Some((text, begin + begin.elapsed() / 2)));
        }
        let said = String::from_utf8_lossy(&run.stderr);
        let said = said.lines().last().map_or(String::new(), |line| format!(": {line}"));
        Err(format!("the command that counts failed: {}{said}", run.exit.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Run;

    fn shell(script: &str) -> Program {
        Program { args: ["/bin/sh", "-c", script].map(Into::into).to_vec(), ..Program::default() }
    }

    /// Runs a program with a window of 0.4 s after 0.2 s.
    fn run(script: &str, count: &str) -> Run {
        let [after, length] = [200, 400].map(Duration::from_millis);
        let window = Window { after, length, count: shell(count) };
        let limits = Limits { timeout: Duration::from_secs(20), window: Some(&window), ..Limits::default() };
        run_once(&shell(script), limits, None).unwrap()
    }

    #[test]
    fn only_the_window_counts_and_the_run_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("counter").display().to_string();
        // A thousand at once in the beginning, then one each 10 ms or a little more.
        let script = format!(
            "n=1000; while :; do n=$((n+1)); echo count $n > {file}.new; mv {file}.new {file}; sleep 0.01; done"
        );
        let ended = run(&script, &format!("cat {file}"));
        assert!(ended.wall >= Duration::from_millis(600) && ended.wall < Duration::from_secs(15), "{ended:?}");
        assert_eq!(ended.exit, Exit::Code { code: 0 });
        let counters = ended.counters.unwrap().unwrap();
        let rate = counters.rate(&Metric::new("count ([0-9]+)").unwrap()).unwrap();
        assert!(rate > 1.0 && rate <= 100.0, "{rate}: {counters:?}");
        assert_eq!(counters.rate(&Metric::new("other ([0-9]+)").unwrap()), None);
    }

    #[test]
    fn a_window_that_cannot_be_read_says_why() {
        let words = |script: &str, count: &str| run(script, count).counters.unwrap().unwrap_err();
        assert_eq!(words("sleep 50", "echo gone >&2; exit 3"), "the command that counts failed: exit status 3: gone");
        assert_eq!(words("sleep 0.3", "echo 1"), "it ended before the window did");
        let crashed = run("kill -SEGV $$", "echo 1");
        assert_eq!(crashed.exit.words(), "crashed: SIGSEGV");
    }

    #[test]
    fn a_program_that_ignores_the_request_to_end_is_killed() {
        let ended = run("trap '' TERM; while :; do sleep 0.05; done", "echo 5");
        assert_eq!(ended.counters.unwrap().unwrap().rate(&Metric::new("[0-9]+").unwrap()), Some(0.0));
    }
}
