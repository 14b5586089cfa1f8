//! Pictures of an epoch over its targets.

use lockswap_plot::{Axis, Chart, Mark, Reference, Series, Shape, Zone};

use super::curve::{Curve, Edge, Medians, Point, Role};
use crate::numbers::time_in_words;

/// The least and the greatest of some numbers, if there are several.
fn spread(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let numbers: Vec<f64> = numbers.collect();
    let ends = numbers.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(*v), m.max(*v)));
    (numbers.len() > 1).then_some(ends)
}

/// What the points of both pictures are.
pub fn facts(curve: &Curve) -> String {
    match curve.runs {
        1 => "one run with each target".to_owned(),
        runs => format!("medians of {runs} runs with each target, bands from the least to the most"),
    }
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
    chart
}

#[cfg(test)]
mod tests {
    use super::super::curve::tests::curve;
    use super::*;

    #[test]
    fn targets_that_are_not_met_are_shaded() {
        let targets = [(10_000, 1e5, 5e4), (20_000, 1.5e5, 5e4), (40_000, 1.9e5, 39e3), (80_000, 2e5, 200e3)];
        let curve = curve(1e5, &targets);
        assert_eq!(not_met(&curve).len(), 2);
        let svg = String::from_utf8(throughput(&curve).render(lockswap_plot::Format::Svg)).unwrap();
        assert!(svg.contains("not met") && svg.contains("10 us"), "{svg}");
        assert_eq!(facts(&curve), "one run with each target");
    }

    #[test]
    fn pictures_are_drawn_even_of_nothing() {
        for curve in [curve(1.0, &[]), curve(100.0, &[(10_000, 150.0, 9_000.0)])] {
            assert!(throughput(&curve).render(lockswap_plot::Format::Svg).starts_with(b"<svg"));
            assert!(latency(&curve).render(lockswap_plot::Format::Png).starts_with(b"\x89PNG"));
        }
    }
}
