//! What is said about an epoch over its targets, and its forms as data.

use std::io;

use super::curve::{Curve, Edge, Medians, Point, Role};
use crate::export::Format;
use crate::numbers::{as_option, digits, human, time_in_words};
use crate::page::{Page, Row, Table};
use crate::summary::Judgement;

/// What the table shows, and where it was measured.
pub fn remarks(curve: &Curve) -> String {
    let mut text = String::new();
    let source = match &curve.metric {
        Some(regex) => format!("throughput: '{regex}' in the output"),
        None => format!("throughput: runs of epoch {} per second", curve.epoch),
    };
    text += &format!("{source}; medians of {} runs, interleaved\n", curve.runs);
    let reference = if curve.has_lock_below() { "the lock below" } else { "the lock without targets" };
    text += &format!("x fifo: how many times the throughput of {reference}; with 6 runs and more, its 95% interval\n");
    text += &format!("not met: P99 on little cores more than 10% above the target\n{}\n", curve.machine.words());
    if let Some(note) = curve.machine.busy_note() {
        text += &format!("{note}\n");
    }
    text
}

/// The headings of the table.
pub const HEADINGS: [&str; 10] =
    ["target", "throughput", "x fifo", "little P50", "P99", "P99.9", "big P50", "P99", "P99.9", "note"];

/// The row of a point.
pub fn cells(point: &Point, curve: &Curve) -> [String; 10] {
    let ratio = match (point.role, point.ratio, point.ratio_low.zip(point.ratio_high)) {
        (Role::Fifo, ..) => Some(digits(1.0)),
        (_, Some(ratio), Some((low, high))) => Some(format!("{} [{}, {}]", digits(ratio), digits(low), digits(high))),
        (_, ratio, _) => ratio.map(digits),
    };
    let dash = || "-".to_owned();
    let times = |kind: &Option<Medians>| match kind {
        Some(kind) => [kind.p50_ns, kind.p99_ns, kind.p999_ns].map(time_in_words),
        None => [dash(), dash(), dash()],
    };
    let ([little50, little99, little999], [big50, big99, big999]) = (times(&point.little), times(&point.big));
    let unit = if curve.metric.is_some() { "" } else { "/s" };
    let throughput = point.throughput.map_or_else(dash, |value| human(value, "").trim_end().to_owned() + unit);
    let ratio = ratio.unwrap_or_else(dash);
    let note = note(point, curve);
    [curve.name_of(point), throughput, ratio, little50, little99, little999, big50, big99, big999, note]
}

fn note(point: &Point, curve: &Curve) -> String {
    let mut notes = point.problems.clone();
    match (point.role, point.is_met()) {
        (Role::Pthread, _) => notes.push("without the library".into()),
        (Role::Fifo, _) if curve.has_lock_below() => notes.push("first come, first served".into()),
        (Role::Fifo, _) => notes.push("nobody stands back".into()),
        (Role::NoTarget, _) => notes.push("the longest window".into()),
        (Role::Target, Some(false)) => notes.push("not met".into()),
        (Role::Target, _) => {}
    }
    if point.slo_ns.is_some() && point.slo_ns == curve.knee_slo_ns {
        notes.push("<- knee".into());
    }
    notes.join("; ")
}

/// The curve in a form; `environment` is that of [`advice`].
///
/// # Errors
/// A number that JSON has no form for.
pub fn render(format: Format, curve: &Curve, environment: &str) -> io::Result<String> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(curve)? + "\n"),
        Format::Csv => csv(curve),
        Format::Markdown => Ok(page(curve, environment).markdown()),
        Format::Html => Ok(page(curve, environment).html()),
    }
}

fn page(curve: &Curve, environment: &str) -> Page {
    let lines = |text: String| text.lines().map(str::to_owned).collect();
    let measured = curve.points.iter().filter(|point| !point.runs.is_empty());
    let numeric = |(column, heading): (usize, &&str)| ((*heading).to_owned(), column + 1 < HEADINGS.len());
    let row = |point| Row { cells: cells(point, curve).to_vec(), judgement: Judgement::Same };
    let table = Table {
        columns: HEADINGS.iter().enumerate().map(numeric).collect(),
        rows: measured.map(row).collect(),
        ..Table::default()
    };
    Page {
        title: curve.command.join(" "),
        conclusion: lines(advice(curve, environment)),
        tables: vec![table],
        notes: lines(remarks(curve)),
        ..Page::default()
    }
}

/// One line per run.
fn csv(curve: &Curve) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = ["point", "slo_ns", "round", "wall_s", "user_s", "system_s", "throughput"];
    let latencies = ["count", "missed", "p50_ns", "p99_ns", "p999_ns", "max_ns"];
    let of_kinds = ["big", "little"].iter().flat_map(|kind| latencies.map(|name| format!("{kind}_{name}")));
    writer.write_record(head.map(str::to_owned).into_iter().chain(of_kinds).chain(["problem".to_owned()]))?;
    for point in &curve.points {
        for run in &point.runs {
            let text = |number: Option<String>| number.unwrap_or_default();
            let mut record = vec![
                match point.role {
                    Role::Target => "target".to_owned(),
                    _ => curve.name_of(point),
                },
                text(point.slo_ns.map(|ns| ns.to_string())),
                run.sample.round.to_string(),
                run.sample.wall_s.to_string(),
                run.sample.usage.user_s.to_string(),
                run.sample.usage.system_s.to_string(),
                text(run.throughput(curve.metric.is_some()).map(|value| value.to_string())),
            ];
            for kind in ["big", "little"] {
                match run.latencies.iter().find(|figures| figures.kind == kind) {
                    Some(f) => record.extend([
                        f.count.to_string(),
                        f.missed.to_string(),
                        f.p50_ns.to_string(),
                        f.p99_ns.to_string(),
                        f.p999_ns.to_string(),
                        f.max_ns.to_string(),
                    ]),
                    None => record.extend(latencies.map(|_| String::new())),
                }
            }
            record.push(run.problem.clone().unwrap_or_default());
            writer.write_record(&record)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// What the knee is worth and how to use it. `environment`: what `lockswap run` needs before it, as a shell takes it.
pub fn advice(curve: &Curve, environment: &str) -> String {
    let Some((point, slo)) = curve.knee().and_then(|point| Some((point, point.slo_ns?))) else {
        if !curve.complete {
            return "no knee yet: not all targets were measured\n".into();
        }
        return format!(
            "no knee: no target that is met gains 5% over {}, so there is nothing to put into the program\n",
            curve.fifo
        );
    };
    let gain = digits(point.ratio.unwrap_or_default());
    format!(
        "knee: {}, {gain} times the throughput of {}: the lowest target with 90% of the gain\n\
         in the program:  lockswap_epoch_end({}, {slo});\n\
         from outside:    {environment}lockswap run --lock {} --slo {}={} -- {}\n",
        time_in_words(slo as f64),
        curve.fifo,
        curve.epoch,
        curve.lock,
        curve.epoch,
        as_option(slo),
        curve.command.join(" "),
    ) + at_the_edge(curve)
}

/// What to say about a knee at an end of the range.
fn at_the_edge(curve: &Curve) -> &'static str {
    match curve.edge() {
        Some(Edge::Lowest) => {
            "note: the knee is the lowest target tried; a lower one may bring as much: repeat with a lower --from\n"
        }
        Some(Edge::Highest) => {
            "note: the knee is the highest target tried; a higher one may bring more: repeat with a higher --to\n"
        }
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve::tests::curve;
    use super::*;

    fn words(curve: &Curve) -> String {
        let rows = curve.points.iter().map(|point| cells(point, curve).join("  ") + "\n");
        rows.collect::<String>() + &advice(curve, "LOCKSWAP_BIG=0 ")
    }

    #[test]
    fn the_report_marks_the_knee_and_says_what_to_write() {
        let rising = [(10_000, 100e3, 14_000.0), (20_000, 150e3, 19e3), (40_000, 195e3, 41e3), (80_000, 200e3, 80e3)];
        let text = words(&curve(100e3, &rising));
        let row = |slo: &str| text.lines().find(|line| line.trim_start().starts_with(slo)).unwrap().to_owned();
        assert!(row("10.0 us").ends_with("not met"), "{text}");
        assert!(row("40.0 us").contains("1.95") && row("40.0 us").ends_with("<- knee"), "{text}");
        assert!(text.contains("lockswap_epoch_end(5, 40000);"), "{text}");
        assert!(text.contains("LOCKSWAP_BIG=0 lockswap run --lock asl --slo 5=40us -- ./program"), "{text}");
        assert!(!text.contains("higher --to"), "{text}");
    }

    #[test]
    fn a_knee_at_the_end_of_the_range_comes_with_a_note() {
        let text = words(&curve(100e3, &[(10_000, 195e3, 9_000.0), (20_000, 200e3, 19e3)]));
        assert!(text.contains("<- knee") && text.contains("repeat with a lower --from"), "{text}");
        let text = words(&curve(100e3, &[(10_000, 150e3, 9_000.0), (20_000, 200e3, 19e3)]));
        assert!(text.contains("repeat with a higher --to"), "{text}");
    }

    #[test]
    fn without_a_gain_there_is_no_advice() {
        let text = words(&curve(100e3, &[(10_000, 101e3, 9_000.0), (20_000, 102e3, 19e3)]));
        assert!(text.contains("no knee") && !text.contains("lockswap_epoch_end"), "{text}");
    }

    #[test]
    fn all_forms_hold_what_was_measured() {
        let curve = curve(100e3, &[(10_000, 150e3, 9_000.0), (20_000, 200e3, 19e3)]);
        let render = |format| render(format, &curve, "").unwrap();
        let table = render(Format::Csv);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!((rows.len(), rows[0].len()), (5, 20), "{table}");
        assert_eq!((rows[3][0], rows[3][1], rows[3][6], rows[3][16]), ("target", "10000", "150000", "9000"), "{table}");
        assert!(render(Format::Json).contains("\"knee_slo_ns\": 20000"));
        assert!(render(Format::Markdown).contains("| 20.0 us") && render(Format::Html).contains("<td>&lt;- knee</td>"));
    }
}
