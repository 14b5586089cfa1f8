//! The data that the authors of LiTL published with their study: a line for each run, with the columns `bench`,
//! `node`, `strategy` and `throughput`, and in some files `latency`.

use std::io;

use super::database::{NewRun, Quantity};
use super::Unusable;

const NEEDED: [&str; 4] = ["bench", "node", "strategy", "throughput"];
const LATENCY: &str = "latency";

/// What a file held.
#[derive(Debug)]
pub struct File {
    /// What was measured, in the order of the runs' values.
    pub quantities: Vec<Quantity>,
    /// The runs.
    pub runs: Vec<NewRun>,
    /// Columns that mean nothing to us.
    pub left_out: Vec<String>,
}

/// Reads a file; errors name it as `name`, and the line.
pub fn read(name: &str, input: impl io::Read) -> Result<File, Unusable> {
    let mut reader = csv::Reader::from_reader(input);
    let headings = reader.headers().map_err(|error| unreadable(name, &error))?.clone();
    let place = |column: &str| headings.iter().position(|heading| heading == column);
    let missing: Vec<&str> = NEEDED.into_iter().filter(|column| place(column).is_none()).collect();
    let [Some(bench), Some(node), Some(strategy), Some(throughput)] = NEEDED.map(place) else {
        let what = format!("{name} has no column {}", missing.join(", "));
        return Err(Unusable::new(what, format!("its first line must name the columns {}", NEEDED.join(", "))));
    };
    let latency = place(LATENCY);
    let mut runs = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| unreadable(name, &error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |column: usize| record.get(column).unwrap_or_default().trim();
        let text = |column: usize| match field(column) {
            "" => Err(wrong(name, line, &headings[column], "", "nothing")),
            text => Ok(text.to_owned()),
        };
        let number = |column: usize| match field(column).parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(wrong(name, line, &headings[column], field(column), "not a number from 0 up")),
        };
        let nodes = field(node).parse::<u32>().ok().filter(|nodes| *nodes > 0);
        let nodes = nodes.ok_or_else(|| wrong(name, line, NEEDED[1], field(node), "not a whole number from 1 up"))?;
        let values = std::iter::once(throughput).chain(latency).map(number).collect::<Result<Vec<f64>, _>>()?;
        runs.push(NewRun {
            program: text(bench)?,
            nodes,
            lock: text(strategy)?,
            round: None,
            warm_up: false,
            // A run that got nothing done has no ratio to any other one.
            problem: values.contains(&0.0).then(|| "nothing was done".into()),
            values,
            sample: None,
        });
    }
    if runs.is_empty() {
        return Err(Unusable::new(
            format!("{name} has no runs"),
            "it needs a line for each run below the columns' names",
        ));
    }
    let quantity = |name: &str, lower_is_better| Quantity { name: name.into(), unit: String::new(), lower_is_better };
    let mut quantities = vec![quantity("throughput", false)];
    quantities.extend(latency.map(|_| quantity(LATENCY, true)));
    let is_known = |heading: &&str| NEEDED.contains(heading) || *heading == LATENCY;
    let left_out = headings.iter().filter(|heading| !is_known(heading)).map(str::to_owned).collect();
    Ok(File { quantities, runs, left_out })
}

fn wrong(name: &str, line: u64, column: &str, found: &str, what: &str) -> Unusable {
    let quoted = if found.is_empty() { String::new() } else { format!("'{}', ", found.escape_debug()) };
    Unusable::new(format!("{name}, line {line}: {column} is {quoted}{what}"), "correct the line, or leave it out")
}

fn unreadable(name: &str, error: &csv::Error) -> Unusable {
    let remedy = "each line needs as many fields as the first one, with commas between them";
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Unusable::new(format!("{name}, line {line}: {len} fields where there must be {expected_len}"), remedy)
        }
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Unusable::new(format!("{name}, line {line}: it is not text in UTF-8"), remedy)
        }
        _ => Unusable::new(format!("cannot read {name}: {error}"), "name a CSV file that you can read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<File, String> {
        read("f.csv", text.as_bytes()).map_err(|error| error.what)
    }

    #[test]
    fn runs_with_and_without_latency() {
        let file = of("bench,node,strategy,throughput,latency\nssl,1,ttas,37.5,800\nssl,8,mcs,0,0\n").unwrap();
        assert_eq!(file.quantities.iter().map(|q| q.name.as_str()).collect::<Vec<_>>(), ["throughput", "latency"]);
        assert_eq!((file.runs[0].lock.as_str(), file.runs[0].values.as_slice()), ("ttas", &[37.5, 800.0][..]));
        assert_eq!((file.runs[1].nodes, file.runs[1].problem.as_deref()), (8, Some("nothing was done")));
        // In another order, with one column more.
        let file = of("tpp,throughput,strategy,node,bench\n9,2.5,a,4,p\n").unwrap();
        assert_eq!((file.left_out.join(","), file.runs[0].values.clone()), ("tpp".into(), vec![2.5]));
    }

    #[test]
    fn bad_lines_are_named() {
        let head = "bench,node,strategy,throughput\n";
        let error = |lines: &str| of(&format!("{head}p,1,a,5\n{lines}")).unwrap_err();
        assert_eq!(error("p,1,a,fast\n"), "f.csv, line 3: throughput is 'fast', not a number from 0 up");
        assert_eq!(error("p,1,a,nan\n"), "f.csv, line 3: throughput is 'nan', not a number from 0 up");
        assert_eq!(error("p,1,a,-1\n"), "f.csv, line 3: throughput is '-1', not a number from 0 up");
        assert_eq!(error("p,x,a,1\n"), "f.csv, line 3: node is 'x', not a whole number from 1 up");
        assert_eq!(error("p,0,a,1\n"), "f.csv, line 3: node is '0', not a whole number from 1 up");
        assert_eq!(error("p,1,,1\n"), "f.csv, line 3: strategy is nothing");
        assert_eq!(error("p,1,a\n"), "f.csv, line 3: 3 fields where there must be 4");
        assert_eq!(of(head).unwrap_err(), "f.csv has no runs");
        assert_eq!(of("bench,node,lock\n").unwrap_err(), "f.csv has no column strategy, throughput");
        assert_eq!(of("").unwrap_err(), "f.csv has no column bench, node, strategy, throughput");
        let latin = read("f.csv", [head.as_bytes(), b"p\xe9,1,a,5\n"].concat().as_slice()).unwrap_err();
        assert_eq!(latin.what, "f.csv, line 2: it is not text in UTF-8");
    }
}
