//! What a sweep found, as pictures.

use lockswap_locks::registry::PTHREAD;
use lockswap_plot::{Axis, Chart, Emphasis, Look, Reference, Row, Rows, Series, Shape, Zone};
use lockswap_sim::Workload;
use lockswap_workloads::report::{Distribution, Report};

use super::output;
use super::plan::Plan;
use super::points::Point;

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Operations per second.
    Throughput,
    /// The share of the busier half of the threads.
    Fairness,
    /// How long waits or epochs took.
    Latency,
}

/// With more locks than these only some have a colour.
const FEW: usize = 8;
/// So many, those of the highest throughput.
const BEST: usize = 5;
/// What others are compared with. It has the number of the colour black.
const BASELINE: (&str, usize) = (PTHREAD, 6);
/// More values of a key than these have no line styles of their own.
const STYLES: usize = 4;
/// Up to here the busier half of the threads counts as no busier than the other.
const FAIR: f64 = 0.55;
/// A lock that changes nodes less often in a run may be as unfair as it looks, or may only not have come to its next
/// turn.
const NODE_CHANGES: f64 = 20.0;

/// The file of a picture.
pub fn draw(shown: Shown, plan: &Plan, points: &[Point<'_>], look: Look, footer: &Footer<'_>) -> Vec<u8> {
    let paper = Paper { look, footer };
    match shown {
        Shown::Throughput => {
            let all = Number { what: "Throughput", of: |report| report.throughput / 1e6, lower_is_better: false };
            // The throughput of one thread is far above that of several.
            let is_log = points.iter().all(|point| point.summary.throughput > 0.0);
            let axis = if is_log { Axis::log } else { |title| Axis::linear(title).from_zero() };
            let axis = axis("million operations per second");
            numbers(plan, points, &all, axis, &paper, Vec::new())
        }
        Shown::Fairness => {
            let all = Number { what: "Fairness", of: |report| report.fairness_factor, lower_is_better: true };
            let axis = Axis::linear("share of the busier half of the threads").range(0.48, 1.02);
            let axis = axis.ticks((5..=10).map(|tenths| f64::from(tenths) / 10.0));
            let fair = Zone::horizontal(0.48, FAIR, "fair");
            numbers(plan, points, &all, axis, &paper, vec![fair])
        }
        Shown::Latency => latency(plan, points, footer).render(look),
    }
}

/// The line below a picture, made of facts.
pub type Footer<'a> = dyn Fn(&[String]) -> String + 'a;

/// How a picture looks, and the line below it.
struct Paper<'a> {
    look: Look,
    footer: &'a Footer<'a>,
}

/// A number that runs give.
struct Number {
    what: &'static str,
    of: fn(&Report) -> f64,
    lower_is_better: bool,
}

/// `what` was measured, under which conditions.
fn title(plan: &Plan, what: &str, threads: Option<u32>) -> String {
    // What is swept is told by the axis or the legend.
    let fixed = plan.settings.iter().filter(|(key, _)| !plan.swept.contains(key));
    let settings = fixed.map(|(key, value)| format!("{key}={value}"));
    let threads = threads.map(|n| if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") });
    let conditions: Vec<String> = settings.chain(threads).collect();
    let conditions = if conditions.is_empty() { String::new() } else { format!(" ({})", conditions.join(", ")) };
    format!("{what} of {}{conditions} on {}, simulated", plan.name, plan.machine.title)
}

/// What made a picture; `spread` says what the medians are shown with.
fn origin(plan: &Plan, spread: &str, notes: Vec<String>, footer: &Footer<'_>) -> String {
    let duration = format!("{} of virtual time", output::time(plan.duration as f64));
    let seeds = match &plan.seeds[..] {
        [first, .., last] => format!("seeds {first} to {last} (medians{spread})"),
        seeds => format!("seed {}", seeds.first().copied().unwrap_or_default()),
    };
    footer(&[vec![seeds, duration], notes].concat())
}

/// Which locks have a colour, and which.
struct Colours<'a> {
    coloured: Vec<&'a str>,
    /// Those that have none.
    others: usize,
}

impl<'a> Colours<'a> {
    fn of(plan: &'a Plan, points: &[Point<'_>]) -> Self {
        let mut locks: Vec<&str> = plan.locks.iter().map(String::as_str).collect();
        let all = locks.len();
        if all > FEW {
            let most = points.iter().map(|point| point.setting.workload.threads()).max().unwrap_or_default();
            let throughput = |lock: &str| -> f64 {
                let own = points.iter().filter(|p| p.setting.lock == lock && p.setting.workload.threads() == most);
                own.map(|point| point.summary.throughput).sum()
            };
            locks.sort_by(|a, b| throughput(b).total_cmp(&throughput(a)));
            let mut rank = 0..;
            locks.retain(|lock| rank.next().is_some_and(|rank| rank < BEST) || *lock == BASELINE.0);
        }
        Self { others: all - locks.len(), coloured: locks }
    }

    /// The number of a lock's colour.
    fn number(&self, lock: &str) -> Option<usize> {
        if lock == BASELINE.0 {
            return Some(BASELINE.1);
        }
        let place = self.coloured.iter().filter(|other| **other != BASELINE.0).position(|other| *other == lock)?;
        Some(place + usize::from(place >= BASELINE.1))
    }

    /// Adds a line for each lock and for each of what `--set` says, unless that lies along the axis: the colour tells
    /// the lock and the style of the line the value.
    fn add_lines(&self, chart: &mut Chart, plan: &Plan, along: bool, line: impl Fn(&str, Option<&str>) -> Series) {
        let values: Vec<Option<&str>> = match along {
            true => vec![None],
            false => plan.workloads.iter().map(|(name, _)| Some(name.as_str())).collect(),
        };
        let has_styles = (2..=STYLES).contains(&values.len());
        if has_styles {
            chart.styles = values.iter().flatten().map(|value| (*value).to_owned()).collect();
        }
        let mut others = Some(self.others);
        let grey = plan.locks.iter().map(String::as_str).filter(|lock| self.number(lock).is_none());
        for lock in grey.chain(self.coloured.iter().copied()) {
            for (style, value) in values.iter().enumerate() {
                let series = line(lock, *value);
                let name = match value.filter(|value| !value.is_empty()) {
                    _ if has_styles && style > 0 => String::new(),
                    Some(value) if !has_styles => format!("{lock}, {value}"),
                    _ => lock.to_owned(),
                };
                chart.series.push(match self.number(lock) {
                    None => {
                        let name = others.take().map_or(String::new(), |count| format!("{count} others"));
                        Series { name, band: Vec::new(), ..series }.faded()
                    }
                    Some(_) if values.len() > STYLES => Series { name, ..series },
                    Some(number) => Series { name, ..series }.coloured(number).dashed(style),
                });
            }
        }
    }
}

/// A number over the number of threads, or over the values of a key if there is one number of threads, or as bars if
/// there is one value, too: medians, and their spread over the seeds.
fn numbers(
    plan: &Plan,
    points: &[Point<'_>],
    number: &Number,
    axis: Axis,
    paper: &Paper<'_>,
    zones: Vec<Zone>,
) -> Vec<u8> {
    let swept = match (&plan.threads[..], &plan.swept[..]) {
        ([_], [key]) if points.iter().all(|point| point.setting.workload.number(key).is_some()) => Some(key.as_str()),
        ([_], _) => return bars(plan, points, number, &axis.title, paper),
        _ => None,
    };
    let x = |point: &Point<'_>| match swept {
        Some(key) => point.setting.workload.number(key).unwrap_or_default(),
        None => point.setting.workload.threads() as f64,
    };
    let name = swept.unwrap_or("threads");
    // A logarithmic axis has no place for 0.
    let across = if points.iter().any(|point| x(point) <= 0.0) { Axis::linear(name) } else { Axis::log(name) };
    let across = if swept.is_some_and(Workload::is_time) { across.time() } else { across };
    let threads = swept.map(|_| plan.threads[0]);
    let mut ticks: Vec<f64> = points.iter().map(x).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let mut chart = Chart::new(title(plan, number.what, threads), across.ticks(ticks), axis);
    chart.zones = zones;
    chart.footer = origin(plan, ", bands from the least to the most", notes(number, points), paper.footer);
    Colours::of(plan, points).add_lines(&mut chart, plan, swept.is_some(), |lock, name| {
        let own = || {
            let is_own =
                |point: &&Point<'_>| point.setting.lock == lock && name.is_none_or(|name| point.setting.name == name);
            points.iter().filter(is_own)
        };
        let band = own().filter_map(|point| spread(point, number).map(|(low, high)| (x(point), low, high)));
        Series::new("", own().map(|point| (x(point), (number.of)(&point.summary)))).with_band(band)
    });
    chart.render(paper.look)
}

/// The least and the greatest number of all seeds, if there are several.
fn spread(point: &Point<'_>, number: &Number) -> Option<(f64, f64)> {
    let numbers = || point.reports.iter().map(|report| (number.of)(report));
    let ends = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max));
    (point.reports.len() > 1).then_some(ends)
}

/// A number with one number of threads.
fn bars(plan: &Plan, points: &[Point<'_>], number: &Number, axis: &str, paper: &Paper<'_>) -> Vec<u8> {
    let colours = Colours::of(plan, points);
    let row = |point: &Point<'_>| {
        let Point { setting, summary, .. } = point;
        let name = if setting.name.is_empty() { String::new() } else { format!(", {}", setting.name) };
        let value = (number.of)(summary);
        let row = Row::new(format!("{}{name}", setting.lock), value).note(format!("{value:.2}"));
        let row = spread(point, number).map_or(row.clone(), |(low, high)| row.interval(low, high));
        row.emphasis(match colours.number(setting.lock) {
            Some(_) if setting.lock == BASELINE.0 => Emphasis::Baseline,
            Some(_) => Emphasis::Good,
            None => Emphasis::Quiet,
        })
    };
    let threads = plan.threads.first().copied();
    let mut rows = Rows::bars(title(plan, number.what, threads), axis, points.iter().map(row).collect());
    rows.lower_is_better = number.lower_is_better;
    rows.footer = origin(plan, ", lines from the least to the most", notes(number, points), paper.footer);
    rows.render(paper.look)
}

fn notes(number: &Number, points: &[Point<'_>]) -> Vec<String> {
    let too_short = too_short(points).filter(|_| number.lower_is_better);
    too_short.map(|locks| format!("too short to judge the fairness of {locks}")).into_iter().collect()
}

/// The locks that look unfair and changed NUMA nodes so rarely that a longer run might come out fair, with the numbers
/// of threads.
pub fn too_short(points: &[Point<'_>]) -> Option<String> {
    let within = |report: &Report| report.handoffs.as_ref().map_or(1.0, |handoffs| handoffs.within_node);
    let changes = |report: &&Report| report.handoffs.as_ref().map(|h| h.count as f64 * (1.0 - h.within_node));
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for point in points.iter().filter(|point| point.summary.fairness_factor > FAIR) {
        let threads = point.setting.workload.threads();
        // Some lock shows that the threads are on several nodes.
        let mut alike = points.iter().filter(|other| other.setting.workload.threads() == threads);
        let on_several_nodes = alike.any(|other| within(&other.summary) < 1.0);
        let least = point.reports.iter().filter_map(changes).fold(f64::INFINITY, f64::min);
        if !on_several_nodes || least >= NODE_CHANGES {
            continue;
        }
        let threads = threads.to_string();
        match found.iter_mut().find(|(lock, _)| *lock == point.setting.lock) {
            Some((_, all)) if all.contains(&threads) => {}
            Some((_, all)) => all.push(threads),
            None => found.push((point.setting.lock, vec![threads])),
        }
    }
    const SHOWN: usize = 3;
    let shown = found.iter().take(SHOWN).map(|(lock, threads)| format!("{lock} ({} threads)", threads.join(", ")));
    let more = found.len().checked_sub(SHOWN + 1).map(|rest| format!("{} more", rest + 1));
    let words: Vec<String> = shown.chain(more).collect();
    let (last, others) = words.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) })
}

/// Which share of the times is longer than each length, with the most threads that were run: on a logarithmic axis,
/// because it is the rare long ones that matter.
fn latency(plan: &Plan, points: &[Point<'_>], footer: &Footer<'_>) -> Chart {
    let threads = |point: &Point<'_>| point.setting.workload.threads() as u32;
    let most = points.iter().map(threads).max().unwrap_or_default();
    let timed = points.first().map_or("wait", |point| point.summary.timed.as_str());
    let shown = || points.iter().filter(|point| threads(point) == most);
    let counts = shown().filter_map(|point| point.summary.latency.get("all")).map(|times| times.count);
    // The share of one of them, as a power of ten.
    let least = 10f64.powf((100.0 / counts.max().unwrap_or_default().max(1) as f64).log10().floor()).clamp(1e-6, 0.01);
    let axis = Axis::log(format!("{timed}s that are longer (%)")).range(least, 100.0);
    let mut chart = Chart::new(
        title(plan, &format!("Lengths of {timed}s"), Some(most)),
        Axis::log(format!("length of a {timed}")).time(),
        axis.ticks((-6..=2).map(|power| 10f64.powi(power))),
    );
    chart.footer = origin(plan, "", Vec::new(), footer).replace(" (medians)", "");
    chart.references = vec![Reference::horizontal(1.0, "P99"), Reference::horizontal(0.1, "P99.9")];
    Colours::of(plan, points).add_lines(&mut chart, plan, false, |lock, name| {
        let own = shown().find(|point| point.setting.lock == lock && Some(point.setting.name) == name);
        let times = own.and_then(|point| point.summary.latency.get("all"));
        Series::new("", times.map_or(Vec::new(), |times| steps(times, least))).with_shape(Shape::Steps)
    });
    chart
}

/// The share of the times that is longer than each value, percent; at the last value `least`, because a logarithmic
/// axis has no place for 0.
fn steps(times: &Distribution, least: f64) -> Vec<(f64, f64)> {
    let all: u64 = times.histogram.iter().map(|(_, count)| count).sum();
    let first = times.histogram.first().map(|&(end, _)| (end.max(1) as f64, 100.0));
    let mut longer = all;
    let rest = times.histogram.iter().map(|&(end, count)| {
        longer -= count;
        (end.max(1) as f64, (100.0 * longer as f64 / all.max(1) as f64).max(least))
    });
    first.into_iter().chain(rest).collect()
}
