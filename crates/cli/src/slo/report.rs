//! What is printed.

use lockswap_study::slo::curve::Curve;
use lockswap_study::slo::draw::{latency, throughput};
use lockswap_study::slo::report::{advice, cells, remarks, HEADINGS};

use crate::terminal;

/// The table, both charts and the knee, for a terminal of so many columns.
pub fn words(curve: &Curve, columns: usize) -> String {
    let mut table = terminal::table(&HEADINGS, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for point in curve.points.iter().filter(|point| !point.runs.is_empty()) {
        table.add_row(cells(point, curve));
    }
    terminal::fold_last_column(&mut table);
    let mut text = format!("{}\n\n{}\n", curve.command.join(" "), terminal::lines(&table));
    if curve.measured().count() > 1 {
        text += &format!("{}\n{}\n", throughput(curve).terminal(columns), latency(curve).terminal(columns));
    }
    text += &remarks(curve);
    text + "\n" + &advice(curve, &environment())
}

/// Variables that say what the machine is like; what was found with them holds with them.
const MACHINE: [&str; 3] = ["LOCKSWAP_BIG", "LOCKSWAP_LEVEL", "LOCKSWAP_TOPOLOGY"];

/// The variable as a shell takes it, if it is set.
fn declared(name: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(format!("{name}={value} "))
}

/// What `lockswap run` needs before it for the machine to be what it is here.
pub fn environment() -> String {
    MACHINE.into_iter().filter_map(declared).collect()
}
