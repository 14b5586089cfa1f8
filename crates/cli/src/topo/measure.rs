//! `lockswap topo --measure`: the latency between each two CPUs of this machine, the route, and both kept for later.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::kinds::Source;
use lockswap_machine::matrix::Matrix;
use lockswap_machine::probe::{Plan, ProbeError};
use lockswap_machine::route::Route;
use lockswap_machine::speed;
use lockswap_platform::CoreKind;
use lockswap_study::runner::Interrupt;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::kept::Kept;
use super::latency::{draw, words, LatencyArgs};
use super::{say, Machine};
use crate::error::UserError;
use crate::{picture, terminal};

/// What was measured, as data.
#[derive(Serialize)]
struct Data<'a> {
    schema: u32,
    #[serde(flatten)]
    route: super::latency::Data<'a>,
    cpus: &'a [usize],
    latency_ns: Vec<Vec<f64>>,
    stored: Option<PathBuf>,
}

/// Measures, stores and shows.
pub fn run(args: &LatencyArgs, json: bool) -> anyhow::Result<()> {
    let mut machine = Machine::here()?;
    let cpus = *machine.topology.allowed();
    let plan = Plan::new(&cpus);
    if plan.pairs() == 0 {
        let what = format!("there is nothing to measure: this process may use CPU {cpus} only");
        return Err(UserError::new(what, "start it where it may use several CPUs").into());
    }
    let exports = args.exports()?;
    let kept = Kept::here();
    let file = kept.as_ref().map(Kept::prepare).transpose()?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    // What an earlier measurement found is measured again.
    let unknown_kinds = matches!(machine.topology.kinds_source(), Source::None | Source::Measured);
    let took = plan.estimate() + if unknown_kinds { speed::estimate(&cpus) } else { Duration::ZERO };
    say(&format!("measuring {} of {} CPUs ({cpus}): about {}", pairs(plan.pairs()), cpus.len(), in_words(took)));
    let load = lockswap_study::machine::Machine::here();
    if load.is_busy() {
        let load = load.load_average;
        say(&format!("note: the machine is busy (load average {load:.1}): it takes longer, and an idle one is exact"));
    }

    let progress = ProgressBar::new(plan.pairs() as u64);
    progress.set_style(indicatif::ProgressStyle::with_template("{wide_bar} {pos}/{len} pairs, {eta} left\r")?);
    let step = |progress: &ProgressBar| {
        progress.inc(1);
        if let Some(signal) = interrupt.signal() {
            progress.finish_and_clear();
            say("interrupted: nothing is kept, as a route needs the latencies of all pairs");
            std::process::exit(128 + signal);
        }
    };
    let matrix = plan.run(|| step(&progress)).map_err(refused)?;
    progress.finish_and_clear();
    let big = if unknown_kinds { fast(&mut machine, &cpus, step)? } else { None };
    let route = Route::through(&matrix);

    let here = lockswap_study::machine::Machine::here();
    let title = format!("Core-to-core latency, {}", here.cpu_model);
    exports.write(&matrix, &title, &route, Some(&machine))?;
    if let (Some(kept), Some(file)) = (&kept, &file) {
        picture::replace(file, kept.content(&machine, &route, &matrix, big.as_ref()).as_bytes())?;
    }
    let stored = kept.map(|kept| kept.path().to_owned());
    let text = if json {
        let side = matrix.side();
        let latency_ns = (0..side).map(|from| (0..side).map(|to| matrix.ns(from, to)).collect()).collect();
        let route = super::latency::Data::new(&route);
        let data = Data { schema: 1, route, cpus: matrix.cpus(), latency_ns, stored };
        serde_json::to_string(&data)? + "\n"
    } else {
        draw(&matrix, &title) + &words(&route) + &remarks(&machine, &matrix, big.as_ref(), stored)
    };
    Ok(terminal::print(&text)?)
}

/// The CPUs that a timed loop finds fast, if it finds slower ones.
fn fast(machine: &mut Machine, cpus: &CpuSet, step: impl Fn(&ProgressBar)) -> anyhow::Result<Option<CpuSet>> {
    let progress = ProgressBar::new(speed::TURNS as u64);
    let speeds = speed::measure(cpus, || step(&progress)).context("cannot time a loop on each CPU")?;
    progress.finish_and_clear();
    let of = |cpu| speeds.iter().find(|speed| speed.0 == cpu).map(|speed| speed.1);
    let differ = machine.topology.set_speeds(Source::Measured, of);
    let is_big = |cpu: &usize| machine.topology.kind(*cpu) == CoreKind::Big;
    Ok(differ.then(|| cpus.iter().filter(is_big).collect()))
}

fn remarks(machine: &Machine, matrix: &Matrix, big: Option<&CpuSet>, stored: Option<PathBuf>) -> String {
    let mut text = String::new();
    if let Some(big) = big {
        text += &format!("a timed loop is fast on CPUs {big} and slow on the others\n");
    }
    let missing = machine.topology.present().without(&matrix.cpus().iter().copied().collect());
    if !missing.is_empty() {
        text += &format!("not measured: CPUs {missing}, which this process may not use; they come last\n");
    }
    if machine.is_virtual {
        text += "this is a virtual machine: once it is moved to other CPUs, the figures hold no more\n";
    }
    text + &match stored {
        Some(path) => format!("stored in {} for the RON locks of programs started from now on\n", path.display()),
        None => "not stored: set HOME, XDG_CACHE_HOME or LOCKSWAP_ROUTE_FILE\n".into(),
    }
}

fn refused(error: ProbeError) -> UserError {
    let remedy = match &error {
        ProbeError::NoThread(_) => "raise the limit of processes or memory (ulimit -u, ulimit -v)",
        ProbeError::Refused(..) => {
            "leave this CPU out with taskset, for instance 'taskset -c 0-3 lockswap topo --measure'"
        }
        ProbeError::Silent(..) => "leave one of them out with taskset, or stop what keeps them busy",
    };
    UserError::new(format!("cannot measure latencies: {error}"), remedy)
}

fn pairs(count: usize) -> String {
    if count == 1 {
        "1 pair".into()
    } else {
        format!("{count} pairs")
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 1.5 => "1 s".into(),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
