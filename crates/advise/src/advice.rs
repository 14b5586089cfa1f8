//! All that was found, as data and as a page.

use lockswap_plot::{Format, Look};
use lockswap_study::draw::draw;
use lockswap_study::export;
use lockswap_study::model::Comparison;
use lockswap_study::numbers::{count, percent, time_in_words};
use lockswap_study::page::{Page, Picture, Row, Table};
use lockswap_study::summary::Judgement;
use serde::Serialize;

use crate::answer::{tried_in_words, Answer};
use crate::budget::Budget;
use crate::cause::{Cause, Run};
use crate::suspect::{Suspect, LEAST_WEIGHT};
use crate::trial::{Confirmation, Trial};

/// Version of this form.
pub const SCHEMA: u32 = 1;

/// Locks that are listed.
pub const LISTED: usize = 10;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of lockswap.
    pub tool_version: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The run that was traced.
    pub run: Run,
    /// The locks for which its threads waited, those first for which they waited longest.
    pub locks: Vec<Suspect>,
    /// What holds the program up that no lock changes.
    pub causes: Vec<Cause>,
    /// How much was tried, if anything.
    pub budget: Option<Budget>,
    /// What was tried, mutex by mutex.
    pub trials: Vec<Trial>,
    /// Fresh runs of what was chosen.
    pub confirmation: Option<Confirmation>,
    /// The locks in a run with what was chosen, as far as it was traced.
    pub after: Vec<Suspect>,
    /// The answer.
    pub answer: Answer,
    /// What to run, if some lock helps.
    pub run_with: Option<String>,
    /// The profile's text, if there is one.
    pub profile: Option<String>,
    /// How long all that took, seconds.
    pub took_s: f64,
}

impl Advice {
    /// The page for people.
    pub fn page(&self) -> Page {
        let mut page = Page { title: format!("lockswap advise: {}", self.command.join(" ")), ..Page::default() };
        let change = self.run_with.iter().map(|command| format!("Run it so: {command}"));
        page.conclusion = change.chain(self.answer.sentences.iter().cloned()).collect();
        if !self.locks.is_empty() {
            page.tables.push(self.locks_table());
        }
        for trial in &self.trials {
            page.tables.extend(tables(&trial.comparison, &tried_in_words(trial)));
        }
        if let Some(Confirmation { comparison, .. }) = &self.confirmation {
            page.tables.extend(tables(comparison, "Fresh runs of what was chosen, and of single locks"));
        }
        let picture = self.picture(String::new(), Look::new(Format::Svg));
        let caption = "Ratios to glibc's own locks".to_owned();
        page.pictures.extend(picture.map(|svg| Picture { caption, svg, is_wide: false }));
        page.notes = self.notes();
        page
    }

    /// The ratios of the fresh runs, or, where there are none, of the first trial, as a picture with this last line;
    /// nothing where nothing was tried.
    pub fn picture(&self, footer: String, look: Look) -> Option<Vec<u8>> {
        let fresh = self.confirmation.as_ref().map(|confirmation| &confirmation.comparison);
        let comparison = fresh.or(self.trials.first().map(|trial| &trial.comparison))?;
        Some(draw(comparison, footer, look))
    }

    fn locks_table(&self) -> Table {
        let names = ["lock", "what", "weight", "threads", "acquired", "held p50", "held", "think", "queue", "holder"];
        let row = |lock: &Suspect| {
            let holder =
                lock.worst_place().map_or("-".to_owned(), |(place, share)| format!("{} {place}", percent(share)));
            let cells = vec![
                lock.called(),
                lock.kind.name().to_owned(),
                percent(lock.weight),
                lock.threads.to_string(),
                count(lock.acquisitions),
                time_in_words(lock.hold_p50_ns),
                percent(lock.held_share),
                time_in_words(lock.think_ns),
                lock.longest_queue.to_string(),
                holder,
            ];
            Row { cells, judgement: Judgement::Same }
        };
        Table {
            title: Some("Locks for which threads waited longest, in one traced run on glibc's own locks".into()),
            columns: names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), (2..9).contains(&i))).collect(),
            rows: self.locks.iter().map(row).collect(),
            ..Table::default()
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.locks.is_empty() {
            notes.push(format!(
                "weight: share of the threads' time, without waits for conditions, in which they waited for it; \
                 below {} nothing is tried",
                percent(LEAST_WEIGHT)
            ));
            notes.push(
                "held: share of the run; think: from a thread's release to its next acquisition, estimated".into(),
            );
        }
        if !self.trials.is_empty() {
            notes.push("ratio: how many times better than pthread (above 1 is better), with its 95% interval".into());
            notes.push("pthread: in a trial, what was chosen before it, with glibc's own lock for this one".into());
        }
        if let Some(comparison) = self.trials.first().map(|trial| &trial.comparison) {
            notes.push(comparison.machine.words());
            notes.extend(comparison.machine.busy_note());
        }
        notes.push(format!("lockswap {}; took {:.0} s", self.tool_version, self.took_s));
        notes
    }
}

/// The tables of a comparison, the first under this title.
fn tables(comparison: &Comparison, title: &str) -> Vec<Table> {
    let shown = export::tables(comparison, usize::MAX).into_iter();
    let mut tables: Vec<Table> = shown
        .map(|table| Table {
            columns: table.columns.iter().map(|column| (column.heading().to_owned(), column.is_numeric())).collect(),
            rows: table
                .rows
                .iter()
                .map(|row| Row { cells: table.cells(row).collect(), judgement: row.judgement })
                .collect(),
            title: table.title,
            ..Table::default()
        })
        .collect();
    if let Some(first) = tables.first_mut() {
        first.title = Some(title.to_owned());
    }
    tables
}
