//! What is printed and drawn.

use lockswap_plot::{Axis, Chart, Mark, Reference, Series, Shape, Zone};
use lockswap_study::summary::human;

use super::curve::{Curve, Edge, Medians, Point, Role};
use crate::asl::time_in_words;
use crate::{duration, picture, terminal};

const HEADINGS: [&str; 10] =
    ["target", "throughput", "x fifo", "little P50", "P99", "P99.9", "big P50", "P99", "P99.9", "note"];

/// How a point is called.
pub fn name(point: &Point, curve: &Curve) -> String {
    match (point.role, point.slo_ns) {
        (Role::Pthread, _) => "pthread".into(),
        (Role::Fifo, _) => curve.fifo.clone(),
        (Role::NoTarget, _) => "no target".into(),
        (Role::Target, slo) => time_in_words(slo.unwrap_or_default() as f64),
    }
}

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
    let source = match &curve.metric {
        Some(regex) => format!("throughput: '{regex}' in the output"),
        None => format!("throughput: runs of epoch {} per second", curve.epoch),
    };
    text += &format!("{source}; medians of {} runs, interleaved\n", curve.runs);
    text += &format!("not met: P99 on little cores more than 10% above the target\n{}\n", curve.machine.words());
    if curve.machine.is_busy() {
        let load = curve.machine.load_average;
        text +=
            &format!("note: the machine was busy before (load average {load:.1}); an idle one gives clearer results\n");
    }
    text + "\n" + &advice(curve)
}

fn cells(point: &Point, curve: &Curve) -> [String; 10] {
    let fifo = curve.reference(Role::Fifo).and_then(|fifo| fifo.throughput);
    let ratio = fifo.zip(point.throughput).map(|(fifo, own)| format!("{:.2}", own / fifo));
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
    [name(point, curve), throughput, ratio, little50, little99, little999, big50, big99, big999, note]
}

fn note(point: &Point, curve: &Curve) -> String {
    let mut notes = point.problems.clone();
    match (point.role, point.is_met()) {
        (Role::Pthread, _) => notes.push("without the library".into()),
        (Role::Fifo, _) => notes.push("first come, first served".into()),
        (Role::NoTarget, _) => notes.push("the longest window".into()),
        (Role::Target, Some(false)) => notes.push("not met".into()),
        (Role::Target, _) => {}
    }
    if point.slo_ns.is_some() && point.slo_ns == curve.knee_slo_ns {
        notes.push("<- knee".into());
    }
    notes.join("; ")
}

fn advice(curve: &Curve) -> String {
    let Some((point, slo)) = curve.knee().and_then(|point| Some((point, point.slo_ns?))) else {
        if !curve.complete {
            return "no knee yet: not all targets were measured\n".into();
        }
        return format!(
            "no knee: no target that is met gains 5% over {}, so there is nothing to put into the program\n",
            curve.fifo
        );
    };
    let fifo = curve.reference(Role::Fifo).and_then(|fifo| fifo.throughput).unwrap_or_default();
    let gain = point.throughput.unwrap_or_default() / fifo;
    let [lock, below] = match curve.lock.strip_prefix("asl-") {
        None => ["asl", ""],
        Some("blocking") => ["asl", " --asl-fifo futex"],
        Some("ticket") => ["asl", " --asl-fifo ticket"],
        Some(_) => ["asl", " --asl-fifo cna"],
    };
    let environment: String = MACHINE.into_iter().filter_map(declared).collect();
    format!(
        "knee: {}, {gain:.2} times the throughput of {}: the lowest target with 90% of the gain\n\
         in the program:  lockswap_epoch_end({}, {slo});\n\
         from outside:    {environment}lockswap run --lock {lock}{below} --slo {}={} -- {}\n",
        time_in_words(slo as f64),
        curve.fifo,
        curve.epoch,
        curve.epoch,
        duration::as_option(slo),
        curve.command.join(" "),
    ) + at_the_edge(curve)
}

/// Variables that say what the machine is like; what was found with them holds with them.
const MACHINE: [&str; 3] = ["LOCKSWAP_BIG", "LOCKSWAP_LEVEL", "LOCKSWAP_TOPOLOGY"];

/// The variable as a shell takes it, if it is set.
fn declared(name: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(format!("{name}={value} "))
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

/// The least and the greatest of some numbers, if there are several.
fn spread(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let numbers: Vec<f64> = numbers.collect();
    let ends = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(*v), m.max(*v)));
    (numbers.len() > 1).then_some(ends)
}

/// What made the picture.
fn footer(curve: &Curve) -> String {
    let runs = match curve.runs {
        1 => "one run with each target".to_owned(),
        runs => format!("medians of {runs} runs with each target, bands from the least to the most"),
    };
    picture::footer(&[runs])
}

/// The ranges of targets that are not met, from the middle between targets to the next middle.
fn not_met(curve: &Curve) -> Vec<Zone> {
    let targets: Vec<(f64, bool)> =
        curve.measured().map(|(point, slo, _)| (slo as f64, point.is_met() == Some(false))).collect();
    let middle = |a: usize, b: usize| (targets[a].0 * targets[b].0).sqrt();
    let mut zones: Vec<Zone> = Vec::new();
    let mut first = 0;
    for run in targets.chunk_by(|a, b| a.1 == b.1) {
        let next = first + run.len();
        if run[0].1 {
            let from = if first == 0 { f64::MIN_POSITIVE } else { middle(first - 1, first) };
            let to = if next == targets.len() { f64::MAX } else { middle(next - 1, next) };
            zones.push(Zone::vertical(from, to, if zones.is_empty() { "not met" } else { "" }));
        }
        first = next;
    }
    zones
}

/// Throughput over the targets.
pub fn throughput(curve: &Curve) -> Chart {
    let unit = match &curve.metric {
        Some(_) => "throughput".to_owned(),
        None => format!("runs of epoch {} per second", curve.epoch),
    };
    let mut chart = Chart::new(
        format!("What a target is worth: {}", curve.command.join(" ")),
        Axis::log("target").time(),
        Axis::linear(unit).from_zero(),
    );
    let points = curve.measured().map(|(_, slo, throughput)| (slo as f64, throughput));
    let band = curve.measured().filter_map(|(point, slo, _)| {
        let (low, high) = spread(point.good().filter_map(|run| run.throughput(curve.metric.is_some())))?;
        Some((slo as f64, low, high))
    });
    chart.series.push(Series::new(curve.lock.clone(), points).with_band(band));
    chart.zones = not_met(curve);
    chart.footer = footer(curve);
    for (role, label) in [(Role::Fifo, curve.fifo.as_str()), (Role::NoTarget, "no target")] {
        if let Some(throughput) = curve.reference(role).and_then(|point| point.throughput) {
            chart.references.push(Reference::horizontal(throughput, label));
        }
    }
    if let Some((slo, throughput)) = curve.knee().and_then(|point| point.slo_ns.zip(point.throughput)) {
        let label = match curve.edge() {
            None => format!("knee, {}", time_in_words(slo as f64)),
            Some(Edge::Lowest) => "knee, or lower: the range begins here".into(),
            Some(Edge::Highest) => "knee, or higher: the range ends here".into(),
        };
        chart.marks.push(Mark::new(slo as f64, throughput, label));
    }
    chart
}

/// The 99th percentiles over the targets: little cores should lie on the target's line, big ones below.
pub fn latency(curve: &Curve) -> Chart {
    let mut chart = Chart::new(
        format!("99th percentiles of epoch {}", curve.epoch),
        Axis::log("target").time(),
        Axis::log("latency").time(),
    );
    let of = |name: &str, kind: fn(&Point) -> Option<&Medians>, key: &'static str| {
        let p99 = move |(point, slo, _): (&_, u64, f64)| Some((slo as f64, kind(point)?.p99_ns));
        let band = curve.measured().filter_map(|(point, slo, _)| {
            let figures = point.good().flat_map(|run| &run.latencies).filter(|figures| figures.kind == key);
            spread(figures.map(|figures| figures.p99_ns)).map(|(low, high)| (slo as f64, low, high))
        });
        Series::new(name, curve.measured().filter_map(p99)).with_band(band)
    };
    let line = curve.measured().map(|(_, slo, _)| (slo as f64, slo as f64));
    chart.series.push(Series::new("target", line).with_shape(Shape::Plain));
    chart.series.push(of("little cores", |point| point.little.as_ref(), "little"));
    chart.series.push(of("big cores", |point| point.big.as_ref(), "big"));
    chart.zones = not_met(curve);
    chart.footer = footer(curve);
    chart
}

#[cfg(test)]
mod tests {
    use super::super::curve::tests::curve;
    use super::*;

    #[test]
    fn the_report_marks_the_knee_and_says_what_to_write() {
        let rising = [(10_000, 100e3, 14_000.0), (20_000, 150e3, 19e3), (40_000, 195e3, 41e3), (80_000, 200e3, 80e3)];
        let text = words(&curve(100e3, &rising), 100);
        let row = |slo: &str| text.lines().find(|line| line.trim_start().starts_with(slo)).unwrap().to_owned();
        assert!(row("10.0 us").ends_with("not met"), "{text}");
        assert!(row("40.0 us").contains("1.95") && row("40.0 us").ends_with("<- knee"), "{text}");
        assert!(text.contains("lockswap_epoch_end(5, 40000);"), "{text}");
        assert!(text.contains("lockswap run --lock asl --slo 5=40us -- ./program"), "{text}");
        assert!(!text.contains("higher --to"), "{text}");
    }

    #[test]
    fn a_knee_at_the_end_of_the_range_comes_with_a_note() {
        let text = words(&curve(100e3, &[(10_000, 195e3, 9_000.0), (20_000, 200e3, 19e3)]), 100);
        assert!(text.contains("<- knee") && text.contains("repeat with a lower --from"), "{text}");
        let text = words(&curve(100e3, &[(10_000, 150e3, 9_000.0), (20_000, 200e3, 19e3)]), 100);
        assert!(text.contains("repeat with a higher --to"), "{text}");
    }

    #[test]
    fn targets_that_are_not_met_are_shaded() {
        let targets = [(10_000, 1e5, 5e4), (20_000, 1.5e5, 5e4), (40_000, 1.9e5, 39e3), (80_000, 2e5, 200e3)];
        let curve = curve(1e5, &targets);
        assert_eq!(not_met(&curve).len(), 2);
        let svg = String::from_utf8(throughput(&curve).render(lockswap_plot::Format::Svg)).unwrap();
        assert!(svg.contains("not met") && svg.contains("10 us") && svg.contains("one run with each"), "{svg}");
    }

    #[test]
    fn without_a_gain_there_is_no_advice() {
        let text = words(&curve(100e3, &[(10_000, 101e3, 9_000.0), (20_000, 102e3, 19e3)]), 100);
        assert!(text.contains("no knee") && !text.contains("lockswap_epoch_end"), "{text}");
    }

    #[test]
    fn pictures_are_drawn_even_of_nothing() {
        for curve in [curve(1.0, &[]), curve(100.0, &[(10_000, 150.0, 9_000.0)])] {
            assert!(throughput(&curve).render(lockswap_plot::Format::Svg).starts_with(b"<svg"));
            assert!(latency(&curve).render(lockswap_plot::Format::Png).starts_with(b"\x89PNG"));
        }
    }
}
