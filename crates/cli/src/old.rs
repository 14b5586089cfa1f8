//! Names that options had in earlier versions: they go on working, and whoever uses one is told the new name.

use std::ffi::OsString;
use std::io::Write;

use clap::{Arg, Command};

/// Says on stderr which of the `words` of a command line that `command` has read were given by their old names.
pub fn tell(mut command: Command, words: impl IntoIterator<Item = OsString>) {
    command.build();
    for note in notes(&command, words.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned())) {
        // Stderr may be closed.
        let _ = writeln!(std::io::stderr(), "note: {note}");
    }
}

fn notes(command: &Command, words: impl IntoIterator<Item = String>) -> Vec<String> {
    let (mut notes, mut here, mut path) = (Vec::new(), command, Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--").filter(|option| !option.is_empty()) else {
            // A subcommand, or the begin of what belongs to a program.
            let Some(next) = here.find_subcommand(&word) else { break };
            here = next;
            path.push(next.get_name());
            continue;
        };
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let Some(arg) = here.get_arguments().find(|arg| is_called(arg, name)) else { continue };
        let takes_one = arg.get_action().takes_values() && value.is_none();
        let value = match words.next_if(|next| takes_one && !next.starts_with("--")) {
            Some(next) => Some(next),
            None => value.map(str::to_owned),
        };
        notes.extend(note(arg, name, value.as_deref().unwrap_or_default(), path.first() == Some(&"bench")));
    }
    notes
}

fn is_called(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

fn note(arg: &Arg, name: &str, value: &str, of_bench: bool) -> Option<String> {
    let long = arg.get_long()?;
    if name != long {
        return Some(format!("--{name} is now called --{long}"));
    }
    if of_bench && arg.is_hide_set() && arg.get_action().takes_values() && !long.starts_with("export-") {
        // Keys of workloads that are options, too.
        return Some(format!("--{name} is now called --set {name}={value}"));
    }
    let renamed = |known: &clap::builder::PossibleValue| {
        known.get_name() != value && known.get_name_and_aliases().any(|alias| alias == value)
    };
    let known = arg.get_possible_values().into_iter().find(renamed)?;
    Some(format!("--{name} {value} is now called --{name} {}", known.get_name()))
}
