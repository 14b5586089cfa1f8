//! What is printed and drawn.

use lockswap_plot::{Axis, Chart, Mark, Reference, Series, Shape};
use lockswap_study::summary::human;

use super::curve::{Curve, Medians, Point, Role};
use crate::asl::time_in_words;
use crate::duration;
use crate::terminal;

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
    let highest = curve.measured().map(|(_, slo, _)| slo).max();
    let last = match highest == Some(slo) {
        true => "the knee is the highest target: a higher --to may show a better one\n",
        false => "",
    };
    format!(
        "knee: {}, {gain:.2} times the throughput of {}: the lowest target with 90% of the gain\n\
         in the program:  lockswap_epoch_end({}, {slo});\n\
         from outside:    {environment}lockswap run --lock {lock}{below} --slo {}={} -- {}\n{last}",
        time_in_words(slo as f64),
        curve.fifo,
        curve.epoch,
        curve.epoch,
        duration::as_option(slo),
        curve.command.join(" "),
    )
}

/// Variables that say what the machine is like; what was found with them holds with them.
const MACHINE: [&str; 3] = ["LOCKSWAP_BIG", "LOCKSWAP_LEVEL", "LOCKSWAP_TOPOLOGY"];

/// The variable as a shell takes it, if it is set.
fn declared(name: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(format!("{name}={value} "))
}

const US: f64 = 1e3;

/// Throughput over the targets.
pub fn throughput(curve: &Curve) -> Chart {
    let unit = match &curve.metric {
        Some(_) => "throughput".to_owned(),
        None => format!("epochs {} per second", curve.epoch),
    };
    let mut chart = Chart::new(
        format!("What a target is worth: {}", curve.command.join(" ")),
        Axis::log("target (us)"),
        Axis::linear(unit).from_zero(),
    );
    let points = curve.measured().map(|(_, slo, throughput)| (slo as f64 / US, throughput));
    chart.series.push(Series::new(curve.lock.clone(), points));
    for (role, label) in [(Role::Fifo, curve.fifo.as_str()), (Role::NoTarget, "no target")] {
        if let Some(throughput) = curve.reference(role).and_then(|point| point.throughput) {
            chart.references.push(Reference::horizontal(throughput, label));
        }
    }
    if let Some((slo, throughput)) = curve.knee().and_then(|point| point.slo_ns.zip(point.throughput)) {
        chart.marks.push(Mark::new(slo as f64 / US, throughput, format!("knee, {}", time_in_words(slo as f64))));
    }
    chart
}

/// The 99th percentiles over the targets: little cores should lie on the target's line, big ones below.
pub fn latency(curve: &Curve) -> Chart {
    let mut chart = Chart::new(
        format!("99th percentiles of epoch {}", curve.epoch),
        Axis::log("target (us)"),
        Axis::log("latency (us)"),
    );
    let of = |kind: fn(&Point) -> Option<&Medians>| {
        let p99 = move |(point, slo, _): (&_, u64, f64)| Some((slo as f64 / US, kind(point)?.p99_ns / US));
        curve.measured().filter_map(p99).collect::<Vec<_>>()
    };
    let line = curve.measured().map(|(_, slo, _)| (slo as f64 / US, slo as f64 / US));
    chart.series.push(Series::new("target", line).with_shape(Shape::Plain));
    chart.series.push(Series::new("little cores", of(|point| point.little.as_ref())));
    chart.series.push(Series::new("big cores", of(|point| point.big.as_ref())));
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
        let text = words(&curve(100e3, &rising[..3]), 100);
        assert!(text.contains("knee: 40.0 us") && text.contains("a higher --to may show a better one"), "{text}");
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
