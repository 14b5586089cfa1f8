//! A line that another CPU has written last.
//!
//! The first CPU writes to each line of an array, then the second one reads them. In *random* order each address comes
//! from the line before, so that neither prefetching nor several loads at once help: the time per line is the latency
//! of a modified line, one way, without anybody who competes for it. In ascending order, as programs go through
//! arrays, all loads may be under way at once: what is left of the latency then is the cost per line of a *sweep*. Two
//! more costs tell what the core does: of a read-modify-write of a line that it has just read, which the line must
//! come for once more unless the read has brought it along with the right to write; and of read-modify-writes of lines
//! of the other CPU's, whose addresses are known beforehand, which are shorter than the latency if the core overlaps
//! them.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::{each, on_both, Samples};
use crate::probe::ProbeError;

/// Lines that are read in one sample.
const LINES: usize = 64;
/// Distance, in cells, of two lines that are read in random order: between them lie others, for CPUs that fetch
/// neighbours.
const APART: usize = 2;
/// Samples of each sort that one call adds.
const ROUNDS: u32 = 100;

/// Costs in ns.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// A modified line of the other CPU's.
    pub line: Samples,
    /// A line of many that are read in ascending order.
    pub sweep: Samples,
    /// A read-modify-write of a modified line of the other CPU's that this one has just read.
    pub upgrade: Samples,
    /// A read-modify-write of one of many modified lines of the other CPU's, all known beforehand.
    pub exchange: Samples,
}

impl Costs {
    /// Adds all samples of `others`.
    pub fn extend(&mut self, others: Self) {
        self.line.extend(others.line);
        self.sweep.extend(others.sweep);
        self.upgrade.extend(others.upgrade);
        self.exchange.extend(others.exchange);
    }
}

/// What two neighbouring lines hold: the number of the cell to read next.
#[repr(align(128))]
#[derive(Default)]
struct Cell(AtomicUsize);

/// Adds samples of lines that `second` reads after `first` has written them.
pub fn measure(first: usize, second: usize, costs: &mut Costs) -> Result<(), ProbeError> {
    let cells: Vec<Cell> = (0..LINES * APART).map(|_| Cell::default()).collect();
    let random = fastrand::Rng::with_seed(1);
    let write = |turn: &super::Turn| {
        let mut random = random.clone();
        let mut order: Vec<usize> = (0..LINES).map(|line| line * APART).collect();
        for round in 0..ROUNDS {
            random.shuffle(&mut order);
            for (place, cell) in order.iter().enumerate() {
                cells[*cell].0.store(order[(place + 1) % LINES], Ordering::Relaxed);
            }
            turn.pass(6 * round + 1);
            if !turn.wait(6 * round + 2) {
                return;
            }
            cells.iter().for_each(|cell| cell.0.store(round as usize, Ordering::Relaxed));
            turn.pass(6 * round + 3);
            if !turn.wait(6 * round + 4) {
                return;
            }
            cells.iter().for_each(|cell| cell.0.store(0, Ordering::Relaxed));
            turn.pass(6 * round + 5);
            if !turn.wait(6 * round + 6) {
                return;
            }
        }
    };
    let read = |turn: &super::Turn| {
        let mut random = random.clone();
        let mut order: Vec<usize> = (0..LINES).map(|line| line * APART).collect();
        let mut found = Costs::default();
        for round in 0..ROUNDS {
            if !turn.wait(6 * round + 1) {
                break;
            }
            let start = Instant::now();
            let mut cell = 0;
            for _ in 0..LINES {
                cell = cells[cell % cells.len()].0.load(Ordering::Relaxed);
            }
            black_box(cell);
            found.line.push(each(start, LINES as u32));
            let start = Instant::now();
            let mut cell = 0;
            for _ in 0..LINES {
                cell = cells[cell % cells.len()].0.fetch_add(0, Ordering::Relaxed);
            }
            black_box(cell);
            found.upgrade.push(each(start, LINES as u32));
            turn.pass(6 * round + 2);
            if !turn.wait(6 * round + 3) {
                break;
            }
            let start = Instant::now();
            black_box(cells.iter().map(|cell| cell.0.load(Ordering::Relaxed)).fold(0, usize::wrapping_add));
            found.sweep.push(each(start, cells.len() as u32));
            turn.pass(6 * round + 4);
            if !turn.wait(6 * round + 5) {
                break;
            }
            random.shuffle(&mut order);
            let start = Instant::now();
            order.iter().for_each(|cell| _ = black_box(cells[*cell].0.fetch_add(1, Ordering::Relaxed)));
            found.exchange.push(each(start, LINES as u32));
            turn.pass(6 * round + 6);
        }
        found
    };
    let ((), found) = on_both((first, write), (second, read))?;
    costs.extend(found);
    Ok(())
}
