//! The locks' source, in which mutants have their places.

use std::cell::RefCell;
use std::collections::HashMap;

/// Lines between an access and the comment that names its order, at most.
const REACH: usize = 12;

/// Runs `f` on the lines of a file, whose path begins at the workspace's root; on none if there is no such file.
fn with_lines<R>(file: &str, f: impl FnOnce(&[String]) -> R) -> R {
    thread_local! {
        static FILES: RefCell<HashMap<String, Vec<String>>> = RefCell::default();
    }
    FILES.with_borrow_mut(|files| {
        let lines = files.entry(file.to_owned()).or_insert_with(|| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
            let text = std::fs::read_to_string(format!("{root}{file}")).unwrap_or_default();
            text.lines().map(|line| line.trim_end().to_owned()).collect()
        });
        f(lines)
    })
}

/// One line, from 1, without what is around it.
pub fn line(file: &str, line: u32) -> String {
    with_lines(file, |lines| lines.get(line as usize - 1).map_or("", |line| line.trim()).to_owned())
}

/// How many lines a file has.
pub fn length(file: &str) -> u32 {
    with_lines(file, |lines| lines.len() as u32)
}

/// The function that a line lies in, behind its type if it is a method: `Node::is_reusable`; empty if it lies in none.
pub fn item(file: &str, line: u32) -> String {
    with_lines(file, |lines| {
        let before = &lines[..lines.len().min(line as usize)];
        let Some((function, name)) = before.iter().enumerate().rev().find_map(|(at, line)| Some((at, function(line)?)))
        else {
            return String::new();
        };
        if !lines[function].starts_with(' ') {
            return name.to_owned();
        }
        let header = |at: usize| match lines.get(at + 1).filter(|_| !lines[at].ends_with('{')) {
            Some(next) => format!("{}{next}", lines[at]).replace("    for ", " for "),
            None => lines[at].clone(),
        };
        let owner = (0..function).rev().find_map(|at| owner(&header(at)).map(str::to_owned));
        owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}::{name}"))
    })
}

/// The name of the function that begins on this line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let at = line.find("fn ")?;
    let is_one = line[..at]
        .split_whitespace()
        .all(|word| ["pub", "pub(super)", "pub(crate)", "unsafe", "const"].contains(&word));
    let name = line[at + 3..].split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_one && !name.is_empty()).then_some(name)
}

/// The type or trait whose methods begin on this line.
fn owner(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest = rest.strip_prefix("pub ").unwrap_or(rest);
    let subject = if let Some(rest) = rest.strip_prefix("impl") {
        let named = match rest.strip_prefix('<') {
            Some(parameters) => parameters.split_once("> ")?.1,
            None => rest.trim_start(),
        };
        named.rsplit_once(" for ").map_or(named, |(_, subject)| subject)
    } else {
        rest.strip_prefix("trait ")?
    };
    subject.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The names of the orders of the access at a line: those in the nearest comment `// ORDER(names): ...` before it, in
/// the same function.
pub fn orders(file: &str, line: u32) -> Vec<String> {
    with_lines(file, |lines| {
        let last = lines.len().min((line as usize).saturating_sub(1));
        let is_comment = |line: &&String| line.trim_start().starts_with("//");
        let before = lines[last.saturating_sub(REACH)..last].iter().rev();
        let block = before
            .take_while(|line| function(line).is_none())
            .skip_while(|line| !(is_comment(line) && line.contains("ORDER(")))
            .take_while(is_comment);
        let names = block.filter_map(|line| Some(line.split_once("ORDER(")?.1.split_once(')')?.0));
        names.flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect()
    })
}
