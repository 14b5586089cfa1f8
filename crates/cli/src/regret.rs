//! What `lockswap bench regret` and `lockswap sim regret` have in common: which cells are looked at.

use crate::error::{UserError, USAGE};
use crate::terminal::say;
use lockswap_experiment::regret::cells::{Cell, Cells};
use lockswap_experiment::regret::output::USED_UP;
use std::path::PathBuf;

/// What is said with the time that the first rounds take.
pub const MORE: &str = ", and more rounds where an interval is wide";

/// Options about cells.
#[derive(clap::Args)]
pub struct Choice {
    /// Cells whose names begin so
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// The held-out third of the cells instead of the others. A look at them uses them up: what is changed afterwards
    /// has been chosen with them in view
    #[arg(long)]
    pub held_out: bool,
    /// Cells of another file [default: those that are fixed in the program]
    #[arg(long, value_name = "FILE.toml")]
    cells: Option<PathBuf>,
}

/// The cells of the file, or of the one in the program, and those of them that are to be looked at.
pub fn read(choice: &Choice, name: &str, text: &str) -> Result<(Cells, Vec<Cell>), UserError> {
    let cells = match &choice.cells {
        None => Cells::read(name, text),
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let what = format!("cannot read the cells {}: {error}", file.display());
                UserError::new(what, "name a TOML file that you can read; docs/regret.md describes it")
                    .with_status(USAGE)
            })?;
            Cells::read(&file.display().to_string(), &text)
        }
    };
    let usage = |invalid| UserError::from(invalid).with_status(USAGE);
    let cells = cells.map_err(usage)?;
    let chosen = cells.chosen(choice.held_out, &choice.only).map_err(usage)?;
    if choice.held_out {
        say(&format!("note: {USED_UP}"));
    }
    Ok((cells, chosen))
}
