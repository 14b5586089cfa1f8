//! What a sweep found, as pictures.

use std::path::PathBuf;

use lockswap_plot::{Axis, Chart, Format, Series, Shape};
use lockswap_workloads::report::{Distribution, Report};

use super::output::Point;
use super::Plan;

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Throughput,
    Fairness,
    Latency,
}

/// A picture to draw.
#[derive(Clone, Debug)]
pub struct Picture {
    pub shown: Shown,
    pub file: PathBuf,
    format: Format,
}

/// Reads `throughput=FILE`.
pub fn picture(text: &str) -> Result<Picture, String> {
    let (what, file) = text.split_once('=').ok_or("write WHAT=FILE, as in throughput=curve.svg")?;
    let shown = match what {
        "throughput" => Shown::Throughput,
        "fairness" => Shown::Fairness,
        "latency" => Shown::Latency,
        _ => return Err(format!("'{what}' cannot be drawn: use throughput, fairness or latency")),
    };
    let file = PathBuf::from(file);
    let format = Format::of(&file).map_err(|error| error.to_string())?;
    Ok(Picture { shown, file, format })
}

/// The file of a picture.
pub fn draw(picture: &Picture, plan: &Plan, points: &[Point<'_>]) -> Vec<u8> {
    let chart = match picture.shown {
        Shown::Throughput => {
            let axis = Axis::linear("million operations per second").from_zero();
            over_threads(plan, points, "throughput", axis, |report| report.throughput / 1e6)
        }
        Shown::Fairness => {
            let axis = Axis::linear("fairness factor: 0.5 is fair, 1 is unfair").range(0.48, 1.02);
            let axis = axis.ticks((5..=10).map(|tenths| f64::from(tenths) / 10.0));
            over_threads(plan, points, "fairness", axis, |report| report.fairness_factor)
        }
        Shown::Latency => latency(plan, points),
    };
    chart.render(picture.format)
}

/// `what` was measured, under which conditions.
fn title(plan: &Plan, what: &str, threads: Option<u32>) -> String {
    let settings = plan.settings.iter().map(|(key, value)| format!("{key}={value}"));
    let threads = threads.map(|n| if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") });
    let conditions: Vec<String> = settings.chain(threads).collect();
    let conditions = if conditions.is_empty() { String::new() } else { format!(" ({})", conditions.join(", ")) };
    format!("{what} of {}{conditions} on {}, simulated", plan.name, plan.machine.title)
}

/// A number over the number of threads: medians, and between the least and the most of all seeds a shade.
fn over_threads(plan: &Plan, points: &[Point<'_>], what: &str, axis: Axis, number: fn(&Report) -> f64) -> Chart {
    let threads = Axis::log("threads").ticks(plan.threads.iter().map(|threads| f64::from(*threads)));
    let mut chart = Chart::new(title(plan, what, None), threads, axis);
    for lock in &plan.locks {
        let own = || points.iter().filter(|point| point.lock == lock);
        let line = own().map(|point| (f64::from(point.threads), number(&point.summary)));
        let band = own().filter(|point| point.reports.len() > 1).map(|point| {
            let numbers = || point.reports.iter().map(|report| number(report));
            let ends = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
            (f64::from(point.threads), ends.0, ends.1)
        });
        chart.series.push(Series::new(lock, line).with_band(band));
    }
    chart
}

/// The distribution of times with the most threads that were run.
fn latency(plan: &Plan, points: &[Point<'_>]) -> Chart {
    let most = points.iter().map(|point| point.threads).max().unwrap_or_default();
    let timed = points.first().map_or("wait", |point| point.summary.timed.as_str());
    let mut chart = Chart::new(
        title(plan, &format!("{timed} times"), Some(most)),
        Axis::log(format!("length of one {timed} (ns)")),
        Axis::linear("share of them that is not longer").range(0.0, 1.0),
    );
    for point in points.iter().filter(|point| point.threads == most) {
        let Some(times) = point.summary.latency.get("all") else { continue };
        chart.series.push(Series::new(point.lock, steps(times)).with_shape(Shape::Steps));
    }
    chart
}

/// The share of the times up to each value.
fn steps(times: &Distribution) -> Vec<(f64, f64)> {
    let all: u64 = times.histogram.iter().map(|(_, count)| count).sum();
    // A logarithmic axis has no place for 0 ns.
    let first = times.histogram.first().map(|&(end, _)| (end.max(1) as f64, 0.0));
    let mut below = 0;
    let rest = times.histogram.iter().map(|&(end, count)| {
        below += count;
        (end.max(1) as f64, below as f64 / all.max(1) as f64)
    });
    first.into_iter().chain(rest).collect()
}
