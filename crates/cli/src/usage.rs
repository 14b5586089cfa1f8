//! Wrong usage: what clap's own suggestions leave open.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error, Parser};

/// The arguments of this process; ends it where they are wrong.
pub fn parse<P: Parser>() -> P {
    P::try_parse().unwrap_or_else(|error| suggest(error, P::command(), std::env::args_os()).exit())
}

/// The error with options that may have been meant, for those that clap has no suggestion for.
fn suggest(mut error: Error, mut command: Command, words: impl IntoIterator<Item = OsString>) -> Error {
    if error.kind() == ErrorKind::ValueValidation {
        return in_words(error, &command);
    }
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) => unknown.clone(),
        _ => return error,
    };
    command.build();
    let mut here = &command;
    for word in words.into_iter().skip(1).take_while(|word| *word != *unknown) {
        here = word.to_str().and_then(|word| here.find_subcommand(word)).unwrap_or(here);
    }
    if here.get_positionals().any(|arg| arg.is_trailing_var_arg_set()) && unknown.starts_with('-') {
        // Clap's own tip is to place it behind --, but whoever mistypes an option of ours means none of the program's.
        let tip = "an option of the program stands behind the program's name".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    if let Some(letter) = unknown.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
        let named = |long: &&str| letter.chars().next().is_some_and(|letter| long.starts_with(letter));
        let shown = here.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
        let longs: Vec<String> = shown.filter(named).map(|long| format!("--{long}")).collect();
        match longs.len() {
            0 => {}
            1 => drop(error.insert(ContextKind::SuggestedArg, ContextValue::String(longs[0].clone()))),
            _ => drop(error.insert(ContextKind::SuggestedArg, ContextValue::Strings(longs))),
        }
    }
    error
}

/// The error with a hint in the place of what the standard library says of text that is no number.
fn in_words(error: Error, command: &Command) -> Error {
    let is_of_number = |text: &str| {
        ["invalid digit", "cannot parse integer", "number too", "invalid float"]
            .iter()
            .any(|words| text.contains(words))
    };
    if !error.source().is_some_and(|source| is_of_number(&source.to_string())) {
        return error;
    }
    let mut plain = Error::new(ErrorKind::ValueValidation).with_cmd(command);
    for (kind, value) in error.context() {
        plain.insert(kind, value.clone());
    }
    plain.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec!["write a number in digits, as in 8".into()]));
    plain
}
