//! `lockswap topo --measure`: the latency between each two CPUs of this machine, the route, and both kept for later.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use lockswap_machine::costs::sleep::Sleep;
use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::kinds::Source;
use lockswap_machine::matrix::Matrix;
use lockswap_machine::probe::{Plan, ProbeError};
use lockswap_machine::route::Route;
use lockswap_machine::{speed, Kept, Machine};
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{prepare, say, Latencies, TopoArgs, FORMS};
use crate::error::UserError;
use crate::outputs::Outputs;
use crate::picture;

/// Measures, stores and shows.
pub fn run(args: &TopoArgs) -> anyhow::Result<ExitCode> {
    let mut machine = Machine::here()?;
    let cpus = *machine.topology.allowed();
    let plan = Plan::new(&cpus);
    if plan.pairs() == 0 {
        let what = format!("there is nothing to measure: this process may use CPU {cpus} only");
        return Err(UserError::new(what, "start it where it may use several CPUs").into());
    }
    let outputs = Outputs::prepare(&args.outputs, FORMS)?;
    let kept = Kept::here();
    let file = kept.as_ref().map(prepare).transpose()?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    // What an earlier measurement found is measured again.
    let unknown_kinds = matches!(machine.topology.kinds_source(), Source::None | Source::Measured);
    let took = plan.estimate() + if unknown_kinds { speed::estimate(&cpus) } else { Duration::ZERO };
    say(&format!("measuring {} of {} CPUs ({cpus}): about {}", pairs(plan.pairs()), cpus.len(), in_words(took)));
    let here = lockswap_study::machine::Machine::here();
    if here.is_busy() {
        let load = here.load_average;
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
    let mut big = None;
    if unknown_kinds {
        let progress = ProgressBar::new(speed::TURNS as u64);
        big = speed::find_big(&mut machine.topology, &cpus, || step(&progress))
            .context("cannot time a loop on each CPU")?;
        progress.finish_and_clear();
    }
    let sleep = Sleep::here().map_err(refused)?;
    let route = Route::through(&matrix);
    if let (Some(kept), Some(file)) = (&kept, &file) {
        let content = kept.content(&here.cpu_model, &machine, &route, &matrix, big.as_ref());
        picture::replace(file, content.as_bytes())?;
    }
    let stored = kept.as_ref().map(Kept::path);
    let remarks = in_words_of(sleep) + &remarks(&machine, &matrix, big.as_ref(), stored);
    let title = format!("Core-to-core latency, {}", here.cpu_model);
    Latencies { title, matrix, route, machine: Some(&machine), source: None, stored }.show(args, outputs, &remarks)
}

/// What a sleep takes.
fn in_words_of(sleep: Option<Sleep>) -> String {
    let text = |sleep: Sleep| {
        let (us, looks) = (sleep.round_trip / 1e3, sleep.looks());
        format!("a round trip through a sleep takes {us:.1} us, as long as {looks} looks of a waiter that spins\n")
    };
    sleep.map_or(String::new(), text)
}

fn remarks(machine: &Machine, matrix: &Matrix, big: Option<&CpuSet>, stored: Option<&Path>) -> String {
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
