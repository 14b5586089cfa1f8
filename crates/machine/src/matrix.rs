//! The latency between each two CPUs, as a table of text.
//!
//! ```text
//! # one-way latency, ns            a comment
//! cpu,0,1,2                        optional: the CPUs' numbers, here and before each line
//! 0,0,48,120
//! 1,48,0,118
//! 2,120,118,0
//! ```
//!
//! A line per CPU, values in ns from the line's CPU to the column's; they need not be symmetric. Instead of the whole
//! square a lower triangle will do, with its diagonal (blank or 0) or without. Values are separated by commas, or all
//! by semicolons, or all by blanks. The diagonal is not looked at. Anything that can be read in two ways is refused.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use lockswap_platform::MAX_CPUS;

use crate::{contents, quoted};

/// Latencies between CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    cpus: Vec<usize>,
    /// Row by row; 0 in the diagonal.
    ns: Vec<f64>,
}

/// Why a text is no matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixError {
    line: usize,
    what: String,
}

impl fmt::Display for MatrixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for MatrixError {}

fn error<T>(line: usize, what: impl Into<String>) -> Result<T, MatrixError> {
    Err(MatrixError { line, what: what.into() })
}

impl Matrix {
    /// Reads a file; an error says what is wrong with it, and not which file it is.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = contents(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => io::Error::other("it is not text"),
            _ => error,
        })?;
        Self::parse(&text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    /// A matrix of these CPUs with what `latency` gives for the positions of two in the list, in ns.
    pub fn new(cpus: Vec<usize>, mut latency: impl FnMut(usize, usize) -> f64) -> Self {
        let side = cpus.len();
        let at = |index: usize| (index / side, index % side);
        let ns = (0..side * side).map(at).map(|(a, b)| if a == b { 0.0 } else { latency(a, b) }).collect();
        Self { cpus, ns }
    }

    /// The numbers of the CPUs, in the order of rows and columns.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// How many CPUs there are.
    pub fn side(&self) -> usize {
        self.cpus.len()
    }

    /// The latency from the CPU of one row to that of another, ns.
    pub fn ns(&self, from: usize, to: usize) -> f64 {
        self.ns[from * self.side() + to]
    }

    /// Reads a matrix.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let mut rows = rows(text);
        if rows.is_empty() {
            return error(0, "it holds no latencies");
        }
        let cpus = names(&mut rows)?;
        let side = shape(&mut rows, cpus.as_ref().map(Vec::len))?;
        if side > MAX_CPUS {
            return error(0, format!("{side} CPUs are more than the {MAX_CPUS} that can be told apart"));
        }
        let mut ns = vec![None; side * side];
        for (from, row) in rows.iter().enumerate() {
            for (to, cell) in row.cells.iter().enumerate().filter(|(to, _)| *to != from) {
                ns[from * side + to] = latency(cell, row.line, row.labels + to + 1)?;
            }
        }
        let is_triangle = (0..side).all(|row| (row + 1..side).all(|column| ns[row * side + column].is_none()));
        for row in 0..side {
            for column in (0..side).filter(|column| *column != row) {
                let mirror = ns[column * side + row];
                let cell = &mut ns[row * side + column];
                *cell = if is_triangle && column > row { mirror } else { *cell };
                if cell.is_none() {
                    let line = rows[row.min(rows.len() - 1)].line;
                    return error(line, format!("the latency to the CPU of column {} is missing", column + 1));
                }
            }
        }
        let ns = ns.into_iter().map(Option::unwrap_or_default).collect();
        Ok(Self { cpus: cpus.unwrap_or_else(|| (0..side).collect()), ns })
    }

    /// The text that [`Matrix::parse`] reads.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("# one-way latency, ns, from the line's CPU to the column's\ncpu");
        self.cpus.iter().for_each(|cpu| text += &format!(",{cpu}"));
        for (row, cpu) in self.cpus.iter().enumerate() {
            text += &format!("\n{cpu}");
            (0..self.side()).for_each(|column| text += &format!(",{}", (self.ns(row, column) * 100.0).round() / 100.0));
        }
        text + "\n"
    }
}

struct Row<'a> {
    line: usize,
    /// Cells taken off the front.
    labels: usize,
    cells: Vec<&'a str>,
}

/// The lines that hold anything, cut into cells.
fn rows(text: &str) -> Vec<Row<'_>> {
    let text = text.trim_start_matches('\u{feff}');
    let content = |line: &'_ str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let separator =
        [',', ';'].into_iter().find(|separator| text.lines().any(|line| content(line).contains(*separator)));
    let cells = |line| -> Vec<&str> {
        match separator {
            Some(separator) => str::split(line, separator).map(|cell| cell.trim().trim_matches('"').trim()).collect(),
            None => line.split_whitespace().collect(),
        }
    };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let numbered = lines.enumerate().filter(|(_, line)| !line.is_empty());
    numbered.map(|(index, line)| Row { line: index + 1, labels: 0, cells: cells(line) }).collect()
}

/// A cell's latency, `None` if it is blank.
fn latency(cell: &str, line: usize, column: usize) -> Result<Option<f64>, MatrixError> {
    if cell.is_empty() || cell == "-" {
        return Ok(None);
    }
    match cell.parse::<f64>() {
        Ok(ns) if (0.0..=LONGEST_NS).contains(&ns) => Ok(Some(ns)),
        Ok(ns) if ns < 0.0 => error(line, format!("column {column}: the latency {cell:.20} is negative")),
        Ok(_) => error(line, format!("column {column}: {cell:.20} is not a latency")),
        Err(_) => error(line, format!("column {column}: '{}' is not a number of ns", quoted(cell))),
    }
}

/// A second: longer ones are no latencies between CPUs.
const LONGEST_NS: f64 = 1e9;

fn is_number(cell: &str) -> bool {
    cell.parse::<f64>().is_ok()
}

/// The number of a CPU: `7`, `cpu7` or `CPU 7`.
fn cpu(cell: &str) -> Option<usize> {
    let digits = cell.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    digits.parse().ok().filter(|cpu| *cpu < MAX_CPUS)
}

/// Takes the CPUs' numbers off the first line and off the beginnings of the others, if they are there.
fn names(rows: &mut Vec<Row<'_>>) -> Result<Option<Vec<usize>>, MatrixError> {
    let first = &rows[0];
    let counts = |cells: &[&str]| cells.iter().enumerate().all(|(index, cell)| cell.parse() == Ok(index));
    let word = |cell: &&&str| !cell.is_empty() && **cell != "-" && !is_number(cell);
    // `,0,1,2`: a CPU is never at 0 ns from another, so these are numbers of CPUs.
    let bare_corner = first.cells[0].is_empty() && first.cells.len() > 2 && counts(&first.cells[1..]);
    let no_corner = first.cells.len() > 1 && rows.len() == first.cells.len() + 1 && counts(&first.cells);
    let has_words =
        first.cells.iter().skip(1).any(|cell| word(&cell)) || (word(&&first.cells[0]) && cpu(first.cells[0]).is_none());
    let mut header = None;
    if bare_corner || no_corner || has_words {
        header = Some(rows.remove(0));
    }
    let Some(first) = rows.first() else { return error(1, "there is nothing below the names of the CPUs") };
    let corner = header.as_ref().is_some_and(|header| header.cells[0].is_empty() || cpu(header.cells[0]).is_none());
    let labelled = corner || (header.is_none() && word(&&first.cells[0]));
    let number = |cell: &str, line| match cpu(cell) {
        Some(cpu) => Ok(cpu),
        None => error(line, format!("'{}' is neither a number of ns nor a CPU such as 7 or cpu7", quoted(cell))),
    };
    let mut labels = Vec::new();
    for row in rows.iter_mut().filter(|_| labelled) {
        labels.push(number(row.cells[0], row.line)?);
        row.cells.remove(0);
        row.labels = 1;
    }
    let cpus = match header {
        Some(header) => {
            let cells = header.cells.iter().skip(usize::from(corner));
            let cpus = cells.map(|cell| number(cell, header.line)).collect::<Result<Vec<usize>, _>>()?;
            // A triangle without a diagonal may leave out the first line.
            if labelled && labels != cpus && Some(&labels[..]) != cpus.get(1..) {
                return error(header.line, "the CPUs named here are not those that begin the lines, in the same order");
            }
            cpus
        }
        None if labelled => labels,
        None => return Ok(None),
    };
    match (1..cpus.len()).find(|index| cpus[..*index].contains(&cpus[*index])) {
        Some(twice) => error(rows[0].line, format!("CPU {} is named twice", cpus[twice])),
        None => Ok(Some(cpus)),
    }
}

/// Makes row i that of CPU i, and returns how many CPUs there are.
fn shape(rows: &mut Vec<Row<'_>>, named: Option<usize>) -> Result<usize, MatrixError> {
    let is_blank = |cell: &str| cell.is_empty() || cell == "-" || cell.parse() == Ok(0.0);
    let has_diagonal = rows.iter().all(|row| row.cells.last().is_some_and(|cell| is_blank(cell)));
    let count = rows.len();
    let rises = |first: usize| rows.iter().enumerate().all(|(index, row)| row.cells.len() == index + first);
    let side = match () {
        () if rises(1) && (has_diagonal || named == Some(count)) => count,
        () if rises(1) => {
            let none = rows.iter().position(|row| row.cells.last().is_some_and(|cell| is_blank(cell)));
            if let Some(row) = none {
                return error(rows[row].line, "in a triangle either all lines end in a 0 or a blank, or none does");
            }
            rows.insert(0, Row { line: 0, labels: 0, cells: Vec::new() });
            count + 1
        }
        () if rises(0) && named == Some(count) => count,
        () => {
            for row in rows.iter_mut().filter(|row| row.cells.len() == count + 1) {
                // A separator at the end of the line.
                if row.cells.last() == Some(&"") {
                    row.cells.pop();
                }
            }
            if let Some(row) = rows.iter().find(|row| row.cells.len() != count) {
                let (is, lines) = (row.cells.len(), if count == 1 { "line" } else { "lines" });
                let values = if is == 1 { "value" } else { "values" };
                let form = "a matrix is a square or a lower triangle";
                return error(row.line, format!("{is} {values}, with {count} {lines} in all: {form}"));
            }
            count
        }
    };
    match named {
        Some(named) if named != side => {
            error(rows[0].line, format!("{named} CPUs are named, but there are lines for {side}"))
        }
        _ => Ok(side),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(text: &str) -> Vec<f64> {
        Matrix::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")).ns
    }

    const THREE: [f64; 9] = [0.0, 48.0, 120.0, 48.0, 0.0, 118.5, 120.0, 118.5, 0.0];

    #[test]
    fn squares_and_triangles_are_the_same_matrix() {
        for text in [
            "0,48,120\n48,0,118.5\n120,118.5,0\n",
            "# ns\n\n 0, 48 ,120,\n48,0,118.5, # two\r\n120,118.5,0,\n",
            "0 48 120\n48 0 118.5\n120\t118.5 0",
            "0;48;120\n48;0;118.5\n120;118.5;0",
            "7,48,120\n48,7,118.5\n120,118.5,nan",
            ",,\n48,,\n120,118.5,\n",
            "0\n48,0\n120,118.5,0",
            "-\n48,-\n120,118.5,-",
            "48\n120,118.5",
            "cpu,0,1,2\n0,0,48,120\n1,48,0,118.5\n2,120,118.5,0",
            ",0,1,2\n0,0,48,120\n1,48,0,118.5\n2,120,118.5,0",
            "0,1,2\n0,48,120\n48,0,118.5\n120,118.5,0",
            "cpu0 cpu1 cpu2\n0 48 120\n48 0 118.5\n120 118.5 0",
            "cpu0,0\ncpu1,48,0\ncpu2,120,118.5,0",
            "\u{feff}\"0\",\"48\",\"120\"\n48,0,118.5\n120,118.5,0",
        ] {
            assert_eq!(square(text), THREE, "{text}");
        }
        assert_eq!(square("0,1,2\n3,0,4\n5,6,0"), [0.0, 1.0, 2.0, 3.0, 0.0, 4.0, 5.0, 6.0, 0.0], "asymmetric");
        assert_eq!((square("0"), square("35")), (vec![0.0], vec![0.0, 35.0, 35.0, 0.0]));
    }

    #[test]
    fn cpus_keep_the_numbers_that_they_are_given() {
        let matrix = Matrix::parse("cpu,4,9\n4,0,35\n9,35,0").unwrap();
        assert_eq!((matrix.cpus(), matrix.ns(0, 1)), (&[4, 9][..], 35.0));
        assert_eq!(Matrix::parse(&matrix.to_csv()), Ok(matrix));
    }

    #[test]
    fn bad_input_gets_one_line_that_says_where() {
        for (text, wanted) in [
            ("", "it holds no latencies"),
            ("# nothing\n\n", "it holds no latencies"),
            ("0,48\n48,0,3\n", "line 2: 3 values, with 2 lines in all"),
            ("0,48,120\n48,0\n120,118,0", "line 2: 2 values, with 3 lines in all"),
            ("0,48\n48,0\n50,60", "line 1: 2 values, with 3 lines in all"),
            ("0,48\n-48,0", "line 2: column 1: the latency -48 is negative"),
            ("0,NaN\n48,0", "line 1: column 2: NaN is not a latency"),
            ("0,48\ninf,0", "line 2: column 1: inf is not a latency"),
            ("0,48\n1e10,0", "line 2: column 1: 1e10 is not a latency"),
            ("0,48\n48ns,0", "line 2: column 1: '48ns' is not a number of ns"),
            ("0,48\n\n# x\n4 8,0", "line 4: column 1: '4 8' is not a number of ns"),
            ("0,,7\n48,0,8\n7,8,0", "line 1: the latency to the CPU of column 2 is missing"),
            ("0\n48,5\n1,2,0", "line 1: in a triangle either all lines end"),
            ("cpu,0,0\n0,0,4\n0,4,0", "line 2: CPU 0 is named twice"),
            ("cpu,0,1\n0,0,4\n2,4,0", "line 1: the CPUs named here"),
            ("cpu,0,1,2\n0,0,4\n1,4,0", "line 1: the CPUs named here"),
            ("cpu,0,one\n0,0,4\n1,4,0", "line 1: 'one' is neither"),
            ("latencies", "nothing below the names"),
            ("latencies\n0,0", "line 1: the CPUs named here"),
            ("0,\u{1b}[7m\n1,0", "line 1: '\\u{1b}[7m' is neither"),
        ] {
            let error = Matrix::parse(text).map(|matrix| matrix.ns).unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
