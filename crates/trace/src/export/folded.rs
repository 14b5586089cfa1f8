//! Folded stacks, and the flame graph of them.

use std::fmt::Write;
use std::io;

use inferno::flamegraph::{from_lines, Options};

use super::Side;
use crate::report::Report;

/// A line for each stack, with the time in ns behind it: `queue_lock (mutex);main;worker;push 1234`. The outermost
/// frame is the object.
pub fn folded(report: &Report, side: Side) -> String {
    let mut text = String::new();
    for (name, used, stack) in side.stacks(report) {
        text += &frame(&format!("{name} ({used})"));
        if stack.frames.is_empty() {
            text += ";[no stack]";
        }
        for function in stack.frames.iter().rev() {
            text.push(';');
            text += &frame(&function.function);
        }
        let _ = writeln!(text, " {:.0}", stack.waited_ns);
    }
    text
}

/// Without the signs that separate frames.
fn frame(name: &str) -> String {
    name.replace(';', ":").replace(|sign: char| sign.is_control(), " ")
}

/// A flame graph as SVG.
pub fn flame_graph(report: &Report, side: Side) -> io::Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = format!("lockswap: {}", side.title());
    options.count_name = "ns".into();
    options.deterministic = true;
    let mut lines = folded(report, side);
    if lines.is_empty() {
        lines = "nobody was seen waiting 1\n".into();
    }
    let mut svg = Vec::new();
    from_lines(&mut options, lines.lines(), &mut svg).map_err(io::Error::other)?;
    Ok(svg)
}
