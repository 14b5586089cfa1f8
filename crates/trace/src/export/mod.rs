//! The results in the forms of other programs.

mod firefox;
mod folded;
mod page;
mod pprof;

use std::io;
use std::path::Path;

use crate::gather::Gathered;
use crate::report::{Report, StackReport};

pub use folded::folded;
pub use page::{page, Extent};

/// The form of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything.
    Json,
    /// A line for each stack, with its time behind it, for flame graphs.
    Folded,
    /// A flame graph.
    Svg,
    /// For `pprof`.
    Pprof,
    /// A time line for <https://profiler.firefox.com>.
    Firefox,
    /// A page.
    Html,
}

/// The endings of files' names. One that ends in two of them is meant to have the longer one.
pub const ENDINGS: [(&str, Form); 6] = [
    (".profile.json", Form::Firefox),
    (".json", Form::Json),
    (".folded", Form::Folded),
    (".svg", Form::Svg),
    (".pb.gz", Form::Pprof),
    (".html", Form::Html),
];

impl Form {
    /// The form that the ending of a file's name says.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        ENDINGS.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| form)
    }
}

/// Whose code stands in flame graphs and profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of holders, with the time that others waited for them.
    Holders,
    /// That of waiters, with the time that they waited.
    Waiters,
}

impl Side {
    /// The stacks of this side: the name of the object, its use, and the stack.
    fn stacks(self, report: &Report) -> impl Iterator<Item = (&str, &'static str, &StackReport)> {
        // Nobody is charged with the waits for a condition: there is no holder.
        report.all().flat_map(move |object| {
            let stacks = match self {
                Side::Holders => &object.holders,
                Side::Waiters => &object.waiters,
            };
            let waited = stacks.iter().filter(|stack| stack.waited_ns >= 0.5);
            waited.map(|stack| (object.name.as_str(), object.used, stack))
        })
    }

    /// What the time is.
    fn title(self) -> &'static str {
        match self {
            Side::Holders => "time that others waited, by the code that let them wait",
            Side::Waiters => "time that threads waited, by the code that waited",
        }
    }
}

/// A file of this form.
pub fn render(form: Form, side: Side, report: &Report, gathered: &Gathered) -> io::Result<Vec<u8>> {
    match form {
        Form::Json => Ok(serde_json::to_vec_pretty(report)?),
        Form::Folded => Ok(folded(report, side).into_bytes()),
        Form::Svg => folded::flame_graph(report, side),
        Form::Pprof => pprof::pprof(report, side),
        Form::Firefox => firefox::profile(report, gathered),
        Form::Html => Ok(page(report, Extent::Whole).html().into_bytes()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
