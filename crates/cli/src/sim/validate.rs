//! `lockswap sim validate`: the same workloads on the same locks, on hardware and simulated, side by side.

use std::io;
use std::process::ExitCode;

use indicatif::ProgressBar;
use lockswap_experiment::host::today;
use lockswap_experiment::validate::hardware::Run;
use lockswap_experiment::validate::plan::{callable, is_callable, workload, Plan, Wanted as Comparison};
use lockswap_experiment::validate::rounds::{self, Measured};
use lockswap_experiment::validate::{output, report, simulate, Findings, Watch};
use lockswap_experiment::Progress;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_study::export::Format;
use lockswap_study::machine::Machine as About;
use lockswap_study::page::Page;
use lockswap_study::runner::Interrupt;
use lockswap_workloads::workload::Workload;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{bar, give_up, host, print_data, say, shown, starting, DURATIONS};
use crate::duration::within;
use crate::error::UserError;
use crate::outputs::{OutputArgs, Outputs, Wanted};
use crate::picture::footer;
use crate::selection::{all_named, no_such_lock, spins_before_park};
use crate::setting::pair;
use crate::terminal;

const EXAMPLES: &str = "\
Each lock's throughput is divided by the geometric mean over all locks of the same workload and
number of threads, on hardware (medians of rounds) and simulated. The ratio of the two is 1 where
the simulation ranks the lock as the hardware does. Where the rounds leave the simulated value
possible, nothing disagrees (~).

Examples:
  lockswap sim validate
  lockswap sim validate --lock mcs_spin,ticket,ttas --workloads counter,kv --threads 2 --runs 9
  lockswap sim validate --workloads counter:inside=100:outside=400,readers --set core.hit=0.5
  lockswap sim validate --all --export all.json
  lockswap sim validate --export docs/validation-here.md";

/// Compares the simulated machine with this one: the same workloads and locks on both, and how far the results differ
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ValidateArgs {
    /// Machine to simulate: host as stored, a name, or a file [default: this one, probed now]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Locks [default: a dozen of all families]
    #[arg(long, alias = "locks", value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// All locks that can be simulated
    #[arg(long)]
    all: bool,
    /// Workloads, with other values for their keys: counter, oversub, kv, ncs, readers, ncs:ncs=5000:lines=4
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE]",
        value_delimiter = ',',
        default_value = "counter,oversub,kv,ncs:ncs=1000"
    )]
    workloads: Vec<String>,
    /// Numbers of threads, pinned as the simulated ones [default: 1, 2, 4, ... and as many as there are CPUs]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// Runs of every lock, workload and number of threads on hardware, interleaved
    #[arg(long, alias = "rounds", value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measured time of each run on hardware; at least 200ms with more threads than CPUs
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = within(DURATIONS))]
    duration: Ns,
    /// Measured virtual time of each simulated run; the same
    #[arg(long, value_name = "TIME", default_value = "4ms", value_parser = within(DURATIONS))]
    simulated: Ns,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Another value for a key of the machine, as in latency.memory=90; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

/// The plan that the arguments ask for.
fn plan(args: &ValidateArgs, host: &lockswap_experiment::host::Host) -> Result<Plan, UserError> {
    let workloads = args.workloads.iter().map(|text| Ok((text.clone(), workload(text)?)));
    let workloads = workloads.collect::<Result<Vec<(String, Workload)>, UserError>>()?;
    let roles: Vec<_> = workloads.iter().map(|(_, workload)| workload.role()).collect();
    let role_of = |lock: &str| {
        let id = lock.split(':').next().unwrap_or_default().trim();
        roles.iter().copied().find(|role| is_callable(*role, id)).ok_or_else(|| {
            let what = format!("there is no lock '{id}' for these workloads to simulate");
            no_such_lock(what, id, roles.iter().flat_map(|role| callable(*role)))
        })
    };
    let by_role = args.lock.iter().map(|lock| Ok((role_of(lock)?, lock))).collect::<Result<Vec<_>, UserError>>()?;
    let mut locks = Vec::new();
    for role in [Role::Mutex, Role::RwLock] {
        locks.extend(all_named(role, by_role.iter().filter(|(of, _)| *of == role).map(|(_, lock)| lock))?);
    }
    Ok(Plan::new(
        Comparison {
            locks,
            workloads,
            all: args.all,
            threads: args.threads.clone(),
            rounds: args.runs,
            duration: args.duration,
            simulated: args.simulated,
            seed: args.seed,
            machine: args.machine.as_ref().map(|name| host::machine(name, &args.set)).transpose()?,
            settings: args.set.clone(),
        },
        host,
    )?)
}

/// Shows the runs on hardware.
struct Shown(ProgressBar);

impl Progress for Shown {
    fn expect(&self, steps: u64) {
        self.0.inc_length(steps);
    }

    fn begins(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn done(&self) {
        self.0.inc(1);
    }
}

pub fn run(args: &ValidateArgs, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let mut files = Outputs::prepare(output, &["json", "csv", "md", "html"])?;
    // What is wrong with the arguments shows before anything is measured.
    let host = host::here()?;
    let mut plan = plan(args, &host)?;
    let about = About::here();
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    say(&format!("about {}", plan.estimate()));
    let progress = Shown(bar(rounds::runs(&plan)));
    let interrupted = || interrupt.signal().is_some();
    let program = std::env::current_exe()?;
    let make = |run: &Run, time| {
        let spins = spins_before_park([(run.workload.role(), run.lock.as_str())]);
        run.measured(&program, &spins.into_iter().collect(), time).map_err(|error| error.to_string())
    };
    let measured = rounds::measure(&plan, &host, &make, &progress, &interrupted).map_err(host::failed)?;
    progress.0.finish_and_clear();
    let hardware = hardware_alone(&plan, &measured);
    let end = |signal| {
        if measured.is_empty() {
            give_up(signal, "nothing was measured");
        }
        // A closed stdout changes nothing any more.
        let _ = terminal::print(&hardware);
        give_up(signal, "the table shows what was measured on hardware; nothing is compared")
    };
    if let Some(signal) = interrupt.signal() {
        end(signal);
    }
    if plan.machine.is_none() {
        plan.simulate(host.file(&measured.probed()).map_err(host::failed)?)?;
    }
    let bar = bar(0);
    let watch = Watch {
        next: &|runs| {
            bar.set_length(runs);
            bar.set_position(0);
        },
        starting: &starting(&bar),
        look: &|rows| {
            bar.set_position(rows.iter().flatten().count() as u64);
            if let Some(signal) = interrupt.signal() {
                bar.finish_and_clear();
                end(signal);
            }
        },
    };
    let findings = simulate(plan, about, &measured, &watch)?;
    bar.finish_and_clear();
    match output.format.data() {
        None => terminal::print(&shown(&report::page(&findings)))?,
        Some(format) => print_data(&render(format, &findings)?)?,
    }
    files.write(true, |wanted| match wanted {
        Wanted::Data(format) => render(format, &findings),
        Wanted::Picture(_) => Err(io::ErrorKind::Unsupported.into()),
    });
    Ok(if files.tell() && findings.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(format: Format, findings: &Findings) -> io::Result<Vec<u8>> {
    match format {
        Format::Json => Ok(output::json(findings)?),
        Format::Csv => output::csv(findings),
        Format::Markdown => {
            let file = findings
                .plan
                .probed
                .iter()
                .map(|file| format!("\nThe machine as it was probed:\n```toml\n{file}```\n"));
            Ok((page(findings).markdown() + &file.collect::<String>()).into_bytes())
        }
        Format::Html => Ok(page(findings).html().into_bytes()),
    }
}

/// What was found, and how to find it again.
fn page(findings: &Findings) -> Page {
    let command = footer(&[today(), format!("load average before {:.1}", findings.about.load_average)]);
    let mut page = report::page(findings);
    page.notes.push(format!("{command}. Another machine or day gives other numbers."));
    page
}

/// The table of what was measured, for those who do not wait for what is simulated.
fn hardware_alone(plan: &Plan, measured: &Measured) -> String {
    let mut table = terminal::table(&["workload", "lock", "M ops/s on hardware"], &[2]);
    for (number, case) in plan.cases.iter().enumerate() {
        for (lock, name) in case.locks.iter().enumerate() {
            let throughputs: Vec<f64> = measured.runs(number, lock).map(|run| run.0).collect();
            let median = lockswap_study::descriptive::median(&throughputs);
            let shown = median.map_or("-".to_owned(), |median| format!("{:.3}", median / 1e6));
            table.add_row([case.title(), name.clone(), shown]);
        }
    }
    let rounds = match measured.count() - measured.left_out() {
        1 => "One round".to_owned(),
        rounds => format!("Medians of {rounds} rounds"),
    };
    format!("{}\n{rounds}; - was not measured.\n", terminal::lines(&table))
}
