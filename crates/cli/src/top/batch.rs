//! The same as tables, for scripts and files.

use std::thread;
use std::time::{Duration, Instant};

use lockswap_trace::live::{Order, Over};
use signal_hook::iterator::Signals;

use super::columns::COLUMNS;
use super::watched::{View, Watched};
use crate::terminal::{self, lines, table};

/// How long a signal, or the end of the process, waits at most.
const PATIENCE: Duration = Duration::from_millis(20);

/// What is printed.
pub struct Batch {
    /// How often.
    pub interval: Duration,
    /// How many times; nothing: until the process ends.
    pub count: Option<u32>,
    /// How many locks.
    pub top: usize,
}

impl Batch {
    /// Prints until the end, or a signal.
    pub fn run(&self, watched: &Watched<'_>, signals: &mut Signals) -> anyhow::Result<()> {
        let mut view = View::default();
        let mut printed = 0;
        while self.count.is_none_or(|count| printed < count) {
            let next = Instant::now() + self.interval;
            while Instant::now() < next && !watched.has_ended() {
                thread::sleep(PATIENCE.min(next.saturating_duration_since(Instant::now())));
                if signals.pending().next().is_some() {
                    return Ok(());
                }
            }
            view.refresh(watched);
            terminal::print(&self.text(&view))?;
            if let Some(ending) = view.ending {
                terminal::say(ending.words());
                break;
            }
            printed += 1;
        }
        Ok(())
    }

    /// The last interval in words.
    fn text(&self, view: &View) -> String {
        let (length, all) = (view.live.length(Over::Last), view.live.length(Over::All));
        let (length_s, all_s) = (length.as_secs_f64(), all.as_secs_f64());
        let head = format!("the last {length_s:.1} s of {all_s:.1} s; {}\n", view.summary(Over::Last));
        let titles: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
        let numeric: Vec<usize> = (0..COLUMNS.len()).filter(|index| COLUMNS[*index].is_number()).collect();
        let mut rows = table(&titles, &numeric);
        for row in view.live.ranked(Over::Last, Order::Waited).into_iter().take(self.top) {
            let line = view.live.line(row, Over::Last);
            rows.add_row(COLUMNS.iter().map(|column| column.cell(&line, length)));
        }
        head + &lines(&rows) + "\n"
    }
}
