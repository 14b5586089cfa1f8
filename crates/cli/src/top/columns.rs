//! The columns of the table.

use std::time::Duration;

use lockswap_study::numbers::{count, percent, time_in_words};
use lockswap_trace::live::{Line, Share};

use crate::terminal::visible;

/// A column.
pub struct Column {
    /// What stands above it.
    pub title: &'static str,
    /// The least room that it needs.
    pub least: u16,
    /// Whether it takes more where there is more: it holds names.
    pub is_wide: bool,
    /// Its place among all columns when there is room for some only.
    rank: u8,
    cell: fn(&Line, f64) -> String,
}

/// All columns.
pub static COLUMNS: [Column; 11] = [
    Column { title: "lock", least: 16, is_wide: true, rank: 0, cell: |line, _| name(line) },
    Column { title: "use", least: 8, is_wide: false, rank: 3, cell: |line, _| short_use(line.object.used).into() },
    Column { title: "waited s/s", least: 10, is_wide: false, rank: 1, cell: waited },
    Column { title: "contended", least: 9, is_wide: false, rank: 5, cell: contended },
    Column { title: "acquired/s", least: 10, is_wide: false, rank: 4, cell: acquired },
    Column {
        title: "held p50",
        least: 8,
        is_wide: false,
        rank: 9,
        cell: |line, _| held(line, line.object.hold.p50_ns),
    },
    Column { title: "p99", least: 7, is_wide: false, rank: 8, cell: |line, _| held(line, line.object.hold.p99_ns) },
    Column { title: "queue", least: 5, is_wide: false, rank: 6, cell: queue },
    Column { title: "other thread", least: 12, is_wide: false, rank: 10, cell: other_thread },
    Column { title: "worst holder", least: 20, is_wide: true, rank: 2, cell: |line, _| function(&line.holder) },
    Column { title: "worst waiter", least: 20, is_wide: true, rank: 7, cell: |line, _| function(&line.waiter) },
];

impl Column {
    /// Whether it holds numbers, which stand at its right.
    pub fn is_number(&self) -> bool {
        !self.is_wide && self.title != "use"
    }

    /// What stands in it of an object, of so long a time.
    pub fn cell(&self, line: &Line, length: Duration) -> String {
        (self.cell)(line, length.as_secs_f64().max(1e-9))
    }
}

/// Blanks between two columns.
pub const GAP: u16 = 1;

/// The columns for which there is room, in their order, each with its width, where the longest name of a lock is so
/// long.
pub fn fitting(room: u16, longest: u16) -> Vec<(&'static Column, u16)> {
    let mut by_rank: Vec<&'static Column> = COLUMNS.iter().collect();
    by_rank.sort_by_key(|column| column.rank);
    let mut left = room;
    let mut shown = 0;
    for column in by_rank {
        let Some(rest) = left.checked_sub(column.least + if shown > 0 { GAP } else { 0 }) else { break };
        (left, shown) = (rest, shown + 1);
    }
    let columns = || COLUMNS.iter().filter(|column| column.rank < shown);
    // Names of locks have the first choice of what is left, functions share the rest.
    let of_names = longest.saturating_sub(COLUMNS[0].least).min(left - left / 3);
    let functions = columns().skip(1).filter(|column| column.is_wide).count().max(1) as u16;
    let more = |column: &Column| match column.rank {
        0 => of_names,
        _ if column.is_wide => (left - of_names) / functions,
        _ => 0,
    };
    columns().map(|column| (column, column.least + more(column))).collect()
}

/// As much of a name as there is room for. Of one like `store::Cache::push` the end says most.
pub fn shortened(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let path = text.find("::").map_or(0, |colons| text[..colons].rfind(' ').map_or(0, |blank| blank + 1));
    let head: String = if text.contains("::") { text[..path].to_owned() + "~" } else { text.into() };
    let tail = room.saturating_sub(head.chars().count());
    head.chars().take(room).chain(text.chars().skip(length - tail.min(length))).collect()
}

/// The name of a lock, with fewer words than in a report.
fn name(line: &Line) -> String {
    let object = &line.object;
    let prefixes = [("initialised in ", "by "), ("first waited for in ", "at "), ("first released in ", "at ")];
    let short = prefixes.iter().find_map(|(long, short)| Some(format!("{short}{}", object.name.strip_prefix(long)?)));
    let name = short.unwrap_or_else(|| object.name.split(": nobody saw").next().unwrap_or_default().to_owned());
    visible(&if object.objects == 1 { name } else { format!("{} x {name}", object.objects) })
}

/// Seconds in each second.
pub fn rate(seconds: f64) -> String {
    match seconds {
        0.0 => "0".into(),
        little if little < 0.0005 => "<0.001".into(),
        some if some < 9.9995 => format!("{some:.3}"),
        much => format!("{much:.1}"),
    }
}

fn short_use(used: &str) -> &str {
    match used {
        "rwlock, read" => "read",
        "rwlock, write" => "write",
        other => other,
    }
}

fn waited(line: &Line, seconds: f64) -> String {
    match line.object.wait.noted {
        0 => "-".into(),
        _ => rate(line.object.wait.total_ns / 1e9 / seconds),
    }
}

fn contended(line: &Line, _: f64) -> String {
    line.object.contended.map_or("-".into(), percent)
}

fn acquired(line: &Line, seconds: f64) -> String {
    match line.object.hold.noted {
        0 => "-".into(),
        _ => count(line.object.acquisitions.value / seconds),
    }
}

fn held(line: &Line, ns: f64) -> String {
    match line.object.hold.noted {
        0 => "-".into(),
        _ => time_in_words(ns),
    }
}

fn queue(line: &Line, _: f64) -> String {
    line.object.longest_queue.max(line.waiting.threads).to_string()
}

fn other_thread(line: &Line, _: f64) -> String {
    match line.object.handed.noted {
        0 => "-".into(),
        _ => percent(line.object.changed_owner),
    }
}

fn function(worst: &Option<Share>) -> String {
    worst.as_ref().map_or("-".into(), |worst| format!("{} {}", percent(worst.share), visible(&worst.function)))
}
