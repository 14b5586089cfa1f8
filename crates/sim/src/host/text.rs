//! The machine file of a probed machine. Each number says where it comes from: *measured* here, *system* for what the
//! kernel tells, or *assumed* where neither was possible.

use std::fmt::Write as _;

use lockswap_machine::costs::Samples;
use lockswap_machine::cpuset::CpuSet;

use super::probe::{Between, Found};
use super::shape::{Level, Shape};
use crate::platform::STEP_CYCLES;

/// What is known besides.
#[derive(Clone, Debug)]
pub struct Facts {
    /// One line for people: the processor.
    pub name: String,
    /// A line that tells this machine from others, see [`Facts::head`].
    pub key: String,
    /// Circumstances, a line each.
    pub remarks: Vec<String>,
}

/// Values of `fabric.migratory`.
const ALWAYS: &str = "\"always\"";
const NEVER: &str = "\"never\"";
/// Every file begins like this.
const MAGIC: &str =
    "# Written by `lockswap sim probe`, version 2: this machine, simulated. docs/simulator.md describes the keys.\n";

impl Facts {
    /// How the file of a machine of this shape begins: what does not begin like that describes another one.
    pub fn head(&self, shape: &Shape) -> String {
        let mut text = format!("{MAGIC}# {}\n", self.key);
        text += "# measured: a quantile of samples taken here. system: as the kernel tells. assumed: cannot be measured here.\n";
        let _ = write!(
            text,
            "title = {}\n\n{}",
            quoted(&format!("{}, {}, probed", self.name, shape.cpus_in_words())),
            topology(shape)
        );
        text
    }
}

/// A value and its origin.
struct Value {
    number: String,
    origin: String,
}

fn assumed(number: f64, why: &str) -> Value {
    Value { number: short(number), origin: format!("assumed{}{why}", if why.is_empty() { "" } else { ": " }) }
}

/// The value of a share of the samples that are smaller; `None` without samples.
fn quantile(samples: &Samples, share: f64, scale: f64) -> Option<Value> {
    let at = |share| samples.quantile(share).map(|value| value * scale);
    let name = if share == 0.5 { "median" } else { "lower quartile" };
    let origin =
        format!("measured: {name} of {}, 10 to 90 %: {} to {}", samples.len(), short(at(0.1)?), short(at(0.9)?));
    Some(Value { number: short(at(share)?), origin })
}

fn median(samples: &Samples) -> Option<Value> {
    quantile(samples, 0.5, 1.0)
}

/// What other programs make longer as long as they run.
fn typical(samples: &Samples) -> Option<Value> {
    quantile(samples, 0.25, 1.0)
}

/// The median, or `least` where that is more: a difference of two measurements may be nothing.
fn at_least(least: f64, samples: &Samples) -> Option<Value> {
    let value = median(samples)?;
    match samples.median() {
        Some(median) if median >= least => Some(value),
        _ => Some(Value { number: short(least), origin: format!("{}; at least half a cycle", value.origin) }),
    }
}

fn flag(on: bool, origin: &str) -> Value {
    Value { number: on.to_string(), origin: origin.to_owned() }
}

/// A difference of values that were measured, at least `least`.
fn computed(number: Option<f64>, least: f64, how: &str) -> Option<Value> {
    Some(Value { number: short(number?.max(least)), origin: format!("measured: {how}") })
}

/// Three digits that count.
fn short(number: f64) -> String {
    let digits = 2 - number.abs().max(1e-3).log10().floor() as i32;
    let rounded = format!("{number:.*}", digits.clamp(0, 4) as usize);
    if digits < 0 {
        let unit = 10f64.powi(-digits);
        return format!("{:.0}", (number / unit).round() * unit);
    }
    match rounded.contains('.') {
        true => rounded.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => rounded,
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.chars().filter(|c| !c.is_control()).collect()).to_string()
}

fn topology(shape: &Shape) -> String {
    let cluster =
        |(kind, cores): &(usize, usize)| format!("{{ kind = \"{}\", cores = {cores} }}", shape.kinds[*kind].name);
    let clusters: Vec<String> = shape.clusters.iter().map(cluster).collect();
    let clusters = match clusters.len() {
        1 => format!("[{}]", clusters[0]),
        _ => format!("[\n  {},\n]", clusters.chunks(4).map(|row| row.join(", ")).collect::<Vec<_>>().join(",\n  ")),
    };
    let cpus: Vec<String> = shape.cpus().iter().map(usize::to_string).collect();
    let mut text = format!("# system; simulated CPUs 0, 1, ... are this machine's {}\n", cpus.join(","));
    shape.notes.iter().for_each(|note| _ = writeln!(text, "# note: {note}"));
    let _ = writeln!(
        text,
        "[topology]\ncpus = {}\nsockets = {}\nnodes_per_socket = {}\nclusters = {clusters}\nllc = \"{}\"\n\
         numbering = \"{}\"\nplacement = \"spread\"",
        cpus.len(),
        shape.sockets,
        shape.nodes_per_socket,
        if shape.llc_is_node { "node" } else { "cluster" },
        if shape.siblings_adjacent { "siblings-adjacent" } else { "cores-first" },
    );
    text
}

/// The file.
pub(super) fn file(shape: &Shape, found: &Found, facts: &Facts) -> String {
    let mut text = facts.head(shape);
    let mut section = |head: &str, lines: Vec<(String, Value)>| {
        let _ = writeln!(text, "\n{head}");
        for (key, Value { number, origin }) in lines {
            let _ = writeln!(text, "{:<32} # {origin}", format!("{key} = {number}"));
        }
    };
    for (number, kind) in shape.kinds.iter().enumerate() {
        let own: CpuSet =
            shape.cores.iter().filter(|core| core.kind == number).flat_map(|core| core.cpus.clone()).collect();
        let speeds: Samples =
            found.speeds.iter().filter(|speed| own.contains(speed.0)).map(|speed| f64::from(speed.1)).collect();
        let speed = speeds.median();
        let speed =
            speed.map_or(Value { number: "1.0".into(), origin: "system: all CPUs are of one kind".into() }, |speed| {
                let speed = (speed / 1024.0).clamp(0.01, 1.0);
                Value {
                    number: format!("{speed:.3}"),
                    origin: "measured: a timed loop, against the fastest kind".into(),
                }
            });
        let system = |text: String| Value { number: text, origin: "system".into() };
        let lines = [
            ("name", system(quoted(&kind.name))),
            ("threads", system(kind.threads.to_string())),
            ("little", system(kind.little.to_string())),
            ("speed", speed),
        ];
        section("[[kind]]", lines.map(|(key, value)| (key.to_owned(), value)).into());
    }
    section(
        "# Of a line that one CPU has written and another reads, ns, and of lines that no core has.\n[latency]",
        latencies(shape, found),
    );
    section("[core]", core(found));
    section("[fabric]", fabric(found));
    section("# ns, of the system calls that locks make.\n[scheduler]", scheduler(shape, found));
    facts.remarks.iter().for_each(|remark| _ = writeln!(text, "# {remark}"));
    text
}

type Lines = Vec<(String, Value)>;

fn lines<const N: usize>(list: [(&str, Value); N]) -> Lines {
    list.map(|(key, value)| (key.to_owned(), value)).into()
}

fn latencies(shape: &Shape, found: &Found) -> Lines {
    let between = |level| found.lines.get(&Between::Cores(level)).and_then(|costs| median(&costs.line));
    // A level of which there is no pair: of a cluster with one core, say.
    let nearest = || found.nearest().and_then(|costs| costs.line.median());
    let unused = |usual: f64| assumed(usual, "there is no such pair of cores");
    let mut list = lines([("sibling", between(Level::Core).unwrap_or_else(|| unused(10.0)))]);
    for (number, kind) in shape.kinds.iter().enumerate() {
        let value = between(Level::Cluster(number)).unwrap_or_else(|| unused(nearest().unwrap_or(50.0)));
        list.push((format!("cluster.{}", kind.name), value));
    }
    if shape.clusters.len() > 1 {
        list.push(("node".into(), between(Level::Node).unwrap_or_else(|| unused(100.0))));
    }
    let nodes = shape.sockets * shape.nodes_per_socket;
    if found.lines.keys().any(|between| matches!(between, Between::Nodes(..))) {
        let at = |one: usize, other: usize| {
            let costs = found.lines.get(&Between::Nodes(one.min(other), one.max(other)));
            short(costs.and_then(|costs| costs.line.median()).unwrap_or(0.0))
        };
        let row = |one| (0..nodes).map(|other| at(one, other)).collect::<Vec<_>>().join(", ");
        let rows = (0..nodes).map(|one| format!("[{}]", row(one))).collect::<Vec<_>>().join(", ");
        let origin = "measured: medians, node by node".into();
        list.push(("nodes".into(), Value { number: format!("[{rows}]"), origin }));
    } else {
        if shape.nodes_per_socket > 1 {
            list.push(("socket".into(), between(Level::Socket).unwrap_or_else(|| unused(150.0))));
        }
        if shape.sockets > 1 {
            list.push(("remote".into(), between(Level::Machine).unwrap_or_else(|| unused(250.0))));
        }
    }
    let unmeasured = |usual: f64| assumed(usual, "caches not shown, or too little memory");
    list.extend(lines([
        ("shared_cache", typical(&found.memory.last_level).unwrap_or_else(|| unmeasured(15.0))),
        ("memory", median(&found.memory.memory).unwrap_or_else(|| unmeasured(100.0))),
    ]));
    list
}

fn core(found: &Found) -> Lines {
    let costs = &found.core;
    let missing = || assumed(1.0, "");
    // Beside a read-modify-write accesses take no time of their own; but a core makes no more than about two in a
    // cycle.
    let half_a_cycle = costs.step.median().map_or(0.1, |step| step / (2 * STEP_CYCLES) as f64);
    // Of the nearest cores: in a sweep all loads are under way at once.
    let stream = found.nearest().and_then(|costs| Some(costs.sweep.median()? / costs.line.median()?));
    let stream =
        computed(stream.map(|share| share.min(1.0)), 0.0, "a line of an array of modified lines, against a single one");
    let overlaps = found.nearest().and_then(|costs| {
        let (exchange, line) = (costs.exchange.median()?, costs.line.median()?);
        let origin =
            format!("measured: a read-modify-write of one of many modified lines takes {} ns", short(exchange));
        Some(flag(exchange < line / 2.0, &origin))
    });
    let factor = |samples: &Samples| quantile(samples, 0.5, 1.0).filter(|_| samples.median() >= Some(1.0));
    lines([
        ("cycle", quantile(&costs.step, 0.5, 1.0 / STEP_CYCLES as f64).unwrap_or_else(missing)),
        ("hit", at_least(half_a_cycle, &costs.access).unwrap_or_else(missing)),
        ("rmw", median(&costs.rmw).unwrap_or_else(missing)),
        ("pause", median(&costs.pause).unwrap_or_else(missing)),
        ("clock", median(&costs.clock).unwrap_or_else(missing)),
        ("counter", median(&costs.counter).unwrap_or_else(missing)),
        ("store_buffer", assumed(56.0, "")),
        ("writes_ahead", overlaps.unwrap_or_else(|| flag(false, "assumed: there is one core"))),
        ("stream", stream.unwrap_or_else(|| assumed(0.4, "there is one core"))),
        ("sibling_busy", factor(&found.siblings.busy).unwrap_or_else(|| assumed(1.0, "no siblings, or not slower"))),
        ("sibling_spinning", factor(&found.siblings.spinning).unwrap_or_else(|| assumed(1.0, "as above"))),
    ])
}

fn fabric(found: &Found) -> Lines {
    let migratory = found.nearest().and_then(|costs| {
        let (upgrade, line) = (costs.upgrade.median()?, costs.line.median()?);
        let own = found.core.rmw.median()?;
        let origin = format!("measured: a read-modify-write of a line just read takes {} ns", short(upgrade));
        let number = if upgrade - own < line / 2.0 { ALWAYS } else { NEVER };
        Some(Value { number: number.into(), origin })
    });
    // The exchanges that fit into the way of the next request, which begins when the line has come.
    let request = found.nearest().and_then(|costs| {
        let (exchanges, rmw) = (found.exchanges.median()?, found.core.rmw.median()?);
        let share = (exchanges * rmw / costs.line.median()?).min(1.0);
        computed(Some(share), 0.0, &format!("{} exchanges to a look of another core, times rmw", short(exchanges)))
    });
    lines([
        (
            "migratory",
            migratory.unwrap_or_else(|| Value { number: NEVER.into(), origin: "assumed: there is one core".into() }),
        ),
        ("request", request.unwrap_or_else(|| assumed(0.5, "there is one core"))),
        ("serve", assumed(2.5, "")),
        ("invalidate", assumed(1.0, "")),
        ("home", assumed(3.0, "")),
        ("link", assumed(3.0, "")),
        ("three_hops", assumed(0.0, "")),
        ("near", assumed(0.5, "")),
        ("jitter", assumed(0.1, "")),
    ])
}

fn scheduler(shape: &Shape, found: &Found) -> Lines {
    let costs = &found.system;
    let several = shape.cpus().len() > 1;
    let granularity = 1e6 * f64::from(1 + shape.cpus().len().clamp(1, 8).ilog2());
    let (park, unpark) = (costs.park.typical(), costs.unpark.typical());
    // What is left of a change of threads without its two calls, each about as long as one that has nothing to do: the
    // one that wakes may be interrupted by the woken thread at once, so that it tells nothing by itself.
    let switch = costs.hop.typical().and_then(|hop| Some(hop - 2.0 * park?));
    let wake = costs.wake.typical().and_then(|all| Some(all - unpark? - switch? - park? / 2.0));
    let late = costs.late.typical().and_then(|late| Some(late - switch?));
    let unpark = typical(&costs.unpark).or_else(|| Some(assumed(park?, "as park: no other CPU is idle")));
    lines([
        ("slice", typical(&costs.slice).unwrap_or_else(|| assumed(3e6, ""))),
        ("wakeup_granularity", assumed(granularity, "1 ms, times 1 + log2 of the CPUs, at most 4 (Linux until 6.5)")),
        (
            "switch",
            computed(switch, 100.0, "from thread to thread on one CPU by futex, less twice park")
                .unwrap_or_else(|| assumed(1500.0, "")),
        ),
        ("yield", typical(&costs.yield_cpu).unwrap_or_else(|| assumed(300.0, ""))),
        ("park", typical(&costs.park).unwrap_or_else(|| assumed(600.0, ""))),
        ("unpark", unpark.unwrap_or_else(|| assumed(800.0, ""))),
        (
            "wake",
            computed(wake, 0.0, "from the call to the woken thread on an idle CPU, less unpark, switch, park/2")
                .unwrap_or_else(|| assumed(0.0, "no other CPU is idle")),
        ),
        (
            "timer_slack",
            computed(late, 0.0, "how late a sleep of 50 us ends, less switch").unwrap_or_else(|| assumed(50_000.0, "")),
        ),
        ("migrate", flag(several, "as Linux does, where there are several CPUs")),
        ("patience", flag(true, "as the shipped library waits")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases =
            [(0.27361, "0.274"), (1.0, "1"), (24.536, "24.5"), (4020702.0, "4020000"), (0.0, "0"), (0.00012, "0.0001")];
        for (number, expected) in cases {
            assert_eq!(short(number), expected);
        }
    }
}
