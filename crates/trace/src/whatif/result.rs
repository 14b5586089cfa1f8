//! What an experiment found.

use lockswap_study::numbers::{as_option, count, digits, short, time_in_words};
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::stats::{fewest_rounds, Difference};
use lockswap_study::summary::Judgement;
use schemars::JsonSchema;
use serde::Serialize;

use super::PHASE;

/// Version of this form.
pub const SCHEMA: u32 = 1;

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Each section got longer by so many ns.
    DelayNs(u64),
    /// Each section was treated as if it were shorter by so many percent of its length.
    ShortenPercent(f64),
}

/// What was counted in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Phase {
    /// How long it lasted, ns.
    pub duration_ns: u64,
    /// Of which other threads came to owe so much: it would have been shorter by that.
    pub shortened_ns: u64,
    /// Sections that ended.
    pub sections: u64,
    /// How long they were, ns.
    pub sections_ns: u64,
    /// Releases of what measures progress.
    pub progress: u64,
}

impl Phase {
    /// Its length if sections had been shorter, s.
    fn virtual_seconds(&self) -> f64 {
        // Nearly all of a phase can be in sections that take no time; what is left then is an error of measurement.
        let least = self.duration_ns / 1000;
        self.duration_ns.saturating_sub(self.shortened_ns).max(least).max(1) as f64 / 1e9
    }

    fn rate(&self) -> f64 {
        self.progress as f64 / self.virtual_seconds()
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            duration_ns: self.duration_ns + other.duration_ns,
            shortened_ns: self.shortened_ns + other.shortened_ns,
            sections: self.sections + other.sections,
            sections_ns: self.sections_ns + other.sections_ns,
            progress: self.progress + other.progress,
        }
    }
}

/// Two phases, one after the other, in random order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pair {
    /// Without the change.
    pub as_it_is: Phase,
    /// With the change.
    pub changed: Phase,
}

/// What would be if the sections of a lock were longer or shorter, as `lockswap trace --delay` and `--shorten`
/// estimate it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WhatIf {
    /// Version of this form.
    pub schema: u32,
    /// What was done.
    #[serde(flatten)]
    pub facts: Facts,
    /// The mean length of sections without the change, ns.
    pub mean_section_ns: Option<f64>,
    /// Progress per second, without the change.
    pub rate: Option<f64>,
    /// With it.
    pub changed_rate: Option<f64>,
    /// How many times as fast the program gets on with the change.
    pub ratio: Option<f64>,
    /// Its interval, with 95 % confidence; nothing where there are too few pairs.
    pub interval: Option<(f64, f64)>,
    /// What the result is from.
    pub pairs: Vec<Pair>,
    /// Pairs that are left out because there was no progress in one of their phases.
    pub idle_pairs: u64,
}

/// The experiment itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Facts {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The locks that it ran on: for mutexes, rwlocks and spinlocks.
    pub locks: Vec<String>,
    /// The lock whose sections were changed, as it was named.
    pub lock: String,
    /// The lock whose releases measure progress, as it was named.
    pub progress: String,
    /// What was changed.
    pub change: Change,
    /// Sections that the program ran in all, also between phases and before them.
    pub sections: u64,
    /// What has gone wrong, in words.
    pub problems: Vec<String>,
}

impl WhatIf {
    /// What follows from pairs of phases.
    pub fn new(facts: Facts, pairs: &[Pair]) -> Self {
        let is_busy = |pair: &&Pair| pair.as_it_is.progress > 0 && pair.changed.progress > 0;
        let busy: Vec<Pair> = pairs.iter().filter(is_busy).copied().collect();
        let sum = |of: fn(&Pair) -> &Phase| busy.iter().map(of).fold(Phase::default(), Phase::plus);
        let (as_it_is, changed) = (sum(|pair| &pair.as_it_is), sum(|pair| &pair.changed));
        let rates: Vec<(f64, f64)> = busy.iter().map(|pair| (pair.changed.rate(), pair.as_it_is.rate())).collect();
        let difference = Difference::of(&rates);
        Self {
            schema: SCHEMA,
            facts,
            mean_section_ns: (as_it_is.sections > 0).then(|| as_it_is.sections_ns as f64 / as_it_is.sections as f64),
            rate: difference.map(|_| as_it_is.rate()),
            changed_rate: difference.map(|_| changed.rate()),
            ratio: difference.and_then(|difference| difference.ratio()),
            interval: difference.and_then(|difference| difference.ratio_interval()),
            idle_pairs: (pairs.len() - busy.len()) as u64,
            pairs: busy,
        }
    }

    /// The result for people.
    pub fn page(&self) -> Page {
        let mut page = Page { title: self.facts.command.join(" "), conclusion: vec![self.answer()], ..Page::default() };
        page.notes.clone_from(&self.facts.problems);
        if let (Some(rate), Some(changed)) = (self.rate, self.changed_rate) {
            let row = |what: String, rate: f64| {
                let cells = vec![what, format!("{}/s", count(rate))];
                Row { cells, judgement: Judgement::Baseline }
            };
            page.tables.push(Table {
                columns: vec![(format!("sections of {}", self.facts.lock), false), (self.measured(), true)],
                rows: vec![row("as they are".into(), rate), row(self.change_in_words(), changed)],
                ..Table::default()
            });
            let mean = self.mean_section_ns.map(|mean| format!(", {} long on average", time_in_words(mean)));
            page.notes.push(format!(
                "{} sections{}; {} pairs of phases of {}.",
                count(self.facts.sections as f64),
                mean.unwrap_or_default(),
                self.pairs.len(),
                as_option(PHASE.as_nanos() as u64)
            ));
        }
        if self.idle_pairs > 0 {
            page.notes.push(format!("{} pairs without progress are left out.", self.idle_pairs));
        }
        page
    }

    fn measured(&self) -> String {
        if self.facts.progress == self.facts.lock {
            "passed".into()
        } else {
            format!("releases of {}", self.facts.progress)
        }
    }

    fn change_in_words(&self) -> String {
        match self.facts.change {
            Change::DelayNs(ns) => format!("{} longer", time_in_words(ns as f64)),
            Change::ShortenPercent(percent) => format!("{} % shorter", short(percent)),
        }
    }

    fn answer(&self) -> String {
        let lock = &self.facts.lock;
        let needed = u64::from(fewest_rounds(1));
        let (Some(ratio), Some((low, high))) = (self.ratio, self.interval) else {
            let seconds = short(2.0 * needed as f64 * PHASE.as_secs_f64());
            let had = self.pairs.len();
            return format!(
                "Nothing can be said of sections of {lock}: it takes {needed} pairs of phases with progress, {seconds} s, \
                 and there were {had}"
            );
        };
        let would = if matches!(self.facts.change, Change::DelayNs(_)) { "gets through" } else { "would get through" };
        let what = if self.facts.progress == self.facts.lock {
            "them".into()
        } else {
            format!("those of {}", self.facts.progress)
        };
        format!(
            "With sections of {lock} {}, the program {would} {what} {} times as often ({} to {} with 95 % confidence)",
            self.change_in_words(),
            digits(ratio),
            digits(low),
            digits(high)
        )
    }
}
