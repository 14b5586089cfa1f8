//! The tables: those of the paper's analysis, computed from one number for each cell, and those that look at single
//! runs.

mod changes;
mod coverage;
mod failures;
mod harm;
mod nodes;
mod outliers;
mod pairs;
mod sensitivity;
mod typical;
mod verdicts;

use super::grid::{At, Numbers};
use super::sheet::Sheet;
use super::Margins;

pub use sensitivity::sensitive;
pub use typical::Typical;

/// What the tables are computed with.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What counts as a difference.
    pub margins: Margins,
    /// For each machine the programs that are lock-sensitive, by their places.
    pub programs: Vec<Vec<usize>>,
}

impl Wanted {
    /// The programs that are lock-sensitive by these numbers.
    pub fn new(machines: &[Numbers<'_>], margins: Margins) -> Self {
        Self { margins, programs: machines.iter().map(|numbers| sensitive(numbers, margins.sensitive)).collect() }
    }
}

/// All tables: those of each machine, then those that compare machines.
pub fn all(machines: &[Numbers<'_>], wanted: &Wanted) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for (numbers, programs) in machines.iter().zip(&wanted.programs) {
        let of = Of { numbers, programs, margins: wanted.margins };
        sheets.push(typical::sheet(&of));
        sheets.push(sensitivity::sheet(&of));
        sheets.extend(nodes::sheets(&of));
        sheets.extend(coverage::sheets(&of));
        sheets.extend(pairs::sheets(&of));
        sheets.extend(harm::sheets(&of));
        sheets.push(changes::nodes(&of));
    }
    sheets.extend(changes::machines(machines, wanted));
    sheets
}

/// The tables of a machine that are made of its single runs and therefore have no intervals; of outliers and failures
/// only where there are some.
pub fn of_runs(numbers: &Numbers<'_>, programs: &[usize], tie: f64) -> Vec<Sheet> {
    let verdicts = verdicts::sheet(numbers, programs, tie);
    [Some(verdicts), outliers::sheet(numbers.grid, tie), failures::sheet(numbers.grid)].into_iter().flatten().collect()
}

/// One machine's numbers, and the programs that its tables are about.
pub(crate) struct Of<'a> {
    pub numbers: &'a Numbers<'a>,
    pub programs: &'a [usize],
    pub margins: Margins,
}

impl Of<'_> {
    fn locks(&self) -> &[String] {
        &self.numbers.grid.locks
    }

    fn program(&self, program: usize) -> &str {
        &self.numbers.grid.programs[program]
    }

    fn machine(&self) -> String {
        self.numbers.grid.machine.clone()
    }

    /// The numbers of all locks for each program.
    fn lines(&self, at: At) -> Vec<Vec<Option<f64>>> {
        self.programs.iter().map(|program| self.numbers.line(*program, at)).collect()
    }
}

/// At most and at best nodes, with the names that titles and files have for them.
const BOTH: [(At, &str, &str); 2] = [(At::Most, "max", "max nodes"), (At::Best, "opt", "opt nodes")];

/// The share of what is true; nothing where there is nothing.
fn share(of: impl Iterator<Item = bool>) -> Option<f64> {
    let (mut all, mut held) = (0, 0);
    of.for_each(|is_so| {
        all += 1;
        held += u32::from(is_so);
    });
    (all > 0).then(|| f64::from(held) / f64::from(all))
}
