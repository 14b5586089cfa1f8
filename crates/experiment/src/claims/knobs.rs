//! What can be moved on a machine and in the set-up of a claim, and which of it is a guess.
//!
//! A number of a machine file has a source if a comment names one: on its line, or above it, or above its section.
//! What says "estimated", "fitted" or "assumed" there, and what says nothing, is a guess. Defaults that a file leaves
//! out are guesses, too, and so are the keys of a workload that `changes.toml` lists as free.

use toml::{Table, Value};

/// Parameters that a machine file may leave out, with their defaults.
const DEFAULTS: [(&str, &str, f64); 6] = [
    ("fabric", "jitter", 0.1),
    ("scheduler", "start", 2000.0),
    ("scheduler", "settle", 150.0),
    ("scheduler", "interrupt", 850.0),
    ("scheduler", "interrupt_each", 100.0),
    ("scheduler", "interrupted", 170.0),
];
/// The sections with numbers that the model is made of.
const SECTIONS: [&str; 4] = ["latency", "core", "fabric", "scheduler"];
/// Words of comments about numbers without a source.
const DOUBTS: [&str; 4] = ["estimated", "fitted", "assumed", "guess"];

/// A parameter of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// As `--set` takes it: `latency.remote`.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Whether no source is named for it.
    pub is_guess: bool,
}

/// The numbers of a machine file that are not 0.
pub fn of_file(text: &str) -> Vec<Knob> {
    let table: Table = text.parse().expect("a machine file that has been read before");
    let comments = Comments::of(text);
    let mut knobs = Vec::new();
    for section in SECTIONS {
        let Some(Value::Table(entries)) = table.get(section) else { continue };
        for (key, value) in entries {
            let is_guess = comments.is_guess(section, None, key);
            let name = format!("{section}.{key}");
            match value {
                Value::Table(parts) => knobs.extend(parts.iter().map(|(part, value)| Knob {
                    key: format!("{name}.{part}"),
                    value: value.clone(),
                    is_guess,
                })),
                value => knobs.push(Knob { key: name, value: value.clone(), is_guess }),
            }
        }
    }
    for (section, key, value) in DEFAULTS {
        let name = format!("{section}.{key}");
        if !knobs.iter().any(|knob| knob.key == name) {
            knobs.push(Knob { key: name, value: Value::Float(value), is_guess: true });
        }
    }
    let kinds = table.get("kind").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
    for (index, kind) in kinds.enumerate() {
        let name = kind.get("name").and_then(Value::as_str).unwrap_or_default();
        for (key, value) in kind.iter().filter(|(key, _)| *key != "threads") {
            let is_guess = comments.is_guess("kind", Some(index), key);
            knobs.push(Knob { key: format!("kind.{name}.{key}"), value: value.clone(), is_guess });
        }
    }
    knobs.retain(|knob| scaled(&knob.value, 2.0).is_some_and(|twice| twice != knob.value));
    knobs
}

/// The value times `factor`; a list number by number, whole numbers rounded. `None` for what is no number.
pub fn scaled(value: &Value, factor: f64) -> Option<Value> {
    match value {
        Value::Float(number) => Some(Value::Float(number * factor)),
        Value::Integer(number) => Some(Value::Integer((*number as f64 * factor).round() as i64)),
        Value::Array(list) => list.iter().map(|value| scaled(value, factor)).collect::<Option<_>>().map(Value::Array),
        _ => None,
    }
}

/// The comments of a machine file that say where its numbers come from.
struct Comments {
    /// Section, its number among those of the same name, key, and the comment that counts for it.
    lines: Vec<(String, usize, String, String)>,
}

impl Comments {
    fn of(text: &str) -> Self {
        let (mut block, mut of_section, mut section, mut index) = (String::new(), String::new(), String::new(), 0);
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix('#') {
                block += comment;
                continue;
            }
            if let Some(name) = line.strip_prefix('[').filter(|_| line.ends_with(']') && !line.contains(',')) {
                let name = name.trim_matches(['[', ']']);
                index = if name == section { index + 1 } else { 0 };
                (section, of_section) = (name.to_owned(), block.clone());
            } else if let Some((key, rest)) = line.split_once('=') {
                let own = rest.split_once('#').map_or("", |(_, comment)| comment);
                let comment = [own, &block, &of_section].into_iter().find(|comment| !comment.is_empty());
                let comment = comment.unwrap_or_default().to_lowercase();
                lines.push((section.clone(), index, key.trim().to_owned(), comment));
            }
            block.clear();
        }
        Self { lines }
    }

    fn is_guess(&self, section: &str, index: Option<usize>, key: &str) -> bool {
        let is_it = |line: &&(String, usize, String, String)| {
            line.0 == section && line.1 == index.unwrap_or_default() && line.2 == key
        };
        let comment = self.lines.iter().find(is_it).map_or("", |line| line.3.as_str());
        comment.is_empty() || DOUBTS.iter().any(|doubt| comment.contains(doubt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# About the machine.
title = \"two\"

[[kind]]
name = \"big\"

# The vendor's manual.
[[kind]]
name = \"little\"
threads = 2
speed = 0.5
stream = 0.3 # estimated

# Somebody's measurements.
[latency]
sibling = 8
cluster = { big = 40, little = 50 }
memory = 90 # a guess
nodes = [
  [0, 100],
  [100, 0],
]

[core]
hit = 1
rmw = 8 # 20 cycles
# Fog's tables.
pause = 4

# Estimated.
[fabric]
hold = 4
link = 0
jitter = 0.2

[scheduler]
slice = 3e6
migrate = true
";

    #[test]
    fn numbers_without_a_source_are_guesses() {
        let knobs = of_file(FILE);
        let guess = |key: &str| knobs.iter().find(|knob| knob.key == key).map(|knob| knob.is_guess);
        for key in
            ["latency.sibling", "latency.cluster.big", "latency.nodes", "core.rmw", "core.pause", "kind.little.speed"]
        {
            assert_eq!(guess(key), Some(false), "{key}");
        }
        for key in [
            "latency.memory",
            "core.hit",
            "fabric.hold",
            "fabric.jitter",
            "scheduler.slice",
            "scheduler.start",
            "kind.little.stream",
        ] {
            assert_eq!(guess(key), Some(true), "{key}");
        }
        for key in ["fabric.link", "scheduler.migrate", "kind.little.name", "kind.little.threads", "title"] {
            assert_eq!(guess(key), None, "{key} is no number to move");
        }
        assert_eq!(knobs.iter().filter(|knob| knob.key == "fabric.jitter").count(), 1, "the file's, not the default");
    }

    #[test]
    fn every_kind_of_number_is_scaled() {
        let values = |text: &str| text.parse::<Table>().unwrap()["v"].clone();
        for (value, twice) in [("v = 1.5", "v = 3.0"), ("v = 3", "v = 6"), ("v = [[0, 2.5]]", "v = [[0, 5.0]]")] {
            assert_eq!(scaled(&values(value), 2.0), Some(values(twice)));
        }
        assert_eq!(scaled(&values("v = true"), 2.0), None);
    }
}
