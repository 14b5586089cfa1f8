//! The form of `pprof`: a compressed protocol buffer, as
//! <https://github.com/google/pprof/blob/main/proto/profile.proto> describes it. The messages here have the fields
//! that are written, under the numbers that they have there.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;

use super::Side;
use crate::names::Frame;
use crate::report::Report;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub key: i64,
    #[prost(int64, tag = "2")]
    pub str: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "5")]
    pub filename: i64,
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    pub has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    #[prost(int64, tag = "2")]
    pub line: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(int64, tag = "2")]
    pub name: i64,
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

/// Numbers of things, each once, in the order in which they came.
struct Numbered<T>(HashMap<T, usize>, Vec<T>);

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn number(&mut self, thing: &T) -> usize {
        if let Some(number) = self.0.get(thing) {
            return *number;
        }
        self.1.push(thing.clone());
        self.0.insert(thing.clone(), self.1.len() - 1);
        self.1.len() - 1
    }
}

struct Strings(Numbered<String>);

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        self.0.number(&text.to_owned()) as i64
    }
}

/// The profile of one side, with numbers of events and times.
pub fn pprof(report: &Report, side: Side) -> io::Result<Vec<u8>> {
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    file.write_all(&profile(report, side).encode_to_vec())?;
    file.finish()
}

pub(super) fn profile(report: &Report, side: Side) -> Profile {
    // The first string is the empty one.
    let mut strings = Strings(Numbered(HashMap::new(), Vec::new()));
    strings.number("");
    let mut frames: Numbered<Frame> = Numbered(HashMap::new(), Vec::new());
    let mut functions: Numbered<(String, Option<String>)> = Numbered(HashMap::new(), Vec::new());
    let mut value = |of: &str, unit: &str| ValueType { r#type: strings.number(of), unit: strings.number(unit) };
    let sample_type = vec![value("contentions", "count"), value("delay", "nanoseconds")];
    let mut sample = Vec::new();
    for (name, used, stack) in side.stacks(report) {
        let label = [("lock", name), ("use", used)];
        sample.push(Sample {
            // Numbers begin with 1.
            location_id: stack.frames.iter().map(|frame| frames.number(frame) as u64 + 1).collect(),
            value: vec![stack.count.round() as i64, stack.waited_ns.round() as i64],
            label: label.map(|(key, str)| Label { key: strings.number(key), str: strings.number(str) }).to_vec(),
        });
    }
    // The first file is taken for the program.
    let mut modules: Numbered<String> = Numbered(HashMap::new(), Vec::new());
    if let Some(program) = report.command.first() {
        modules.number(&program.rsplit('/').next().unwrap_or_default().to_owned());
    }
    let location = frames.1.iter().zip(1..).map(|(frame, id)| {
        let mapping_id = frame.module.as_ref().map_or(0, |module| modules.number(module) as u64 + 1);
        let function_id = functions.number(&(frame.function.clone(), frame.file.clone())) as u64 + 1;
        Location { id, mapping_id, line: vec![Line { function_id, line: frame.line.unwrap_or_default().into() }] }
    });
    let location = location.collect();
    // Nothing is left to be looked up.
    let mapping = modules.1.iter().zip(1..).map(|(module, id)| Mapping {
        id,
        filename: strings.number(module),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    });
    let mapping = mapping.collect();
    let function = functions.1.iter().zip(1..).map(|((name, file), id)| {
        let name = strings.number(name);
        Function { id, name, system_name: name, filename: strings.number(file.as_deref().unwrap_or_default()) }
    });
    let function = function.collect();
    let comment = vec![strings.number(side.title())];
    let duration_nanos = report.duration_ns as i64;
    Profile { sample_type, sample, mapping, location, function, string_table: strings.0 .1, duration_nanos, comment }
}
