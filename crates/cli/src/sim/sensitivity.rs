//! `lockswap sim sensitivity`: how far the papers' claims move when the parameters of the machines do.

use std::io;
use std::ops::RangeInclusive;
use std::process::ExitCode;

use lockswap_experiment::claims::sensitivity::output::{csv, json, page};
use lockswap_experiment::claims::sensitivity::{shorten, Moved, Plan, Wanted as Sought};
use lockswap_experiment::host::today;
use lockswap_experiment::simulated::{run_each, Row};
use lockswap_platform::Ns;
use lockswap_sim::Machine;
use lockswap_study::export::Format;
use lockswap_study::page::Page;
use lockswap_study::runner::Interrupt;
use lockswap_workloads::invalid::Invalid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::reproduce::chosen;
use super::{advance, bar, print_data, shown, starting, Interrupted, DURATIONS};
use crate::duration::within;
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted};
use crate::picture::footer;
use crate::terminal;

/// Seeds of the machine as described, which tell how far chance moves a claim.
const CHANCE_SEEDS: u32 = 5;
/// By how many percent a parameter may be moved.
const PERCENT: RangeInclusive<f64> = 1.0..=100.0;

const EXAMPLES: &str = "\
Each number of the machine files, and each number in the claims' set-ups that no paper states, is
made larger and smaller while the others stay, and the claims are simulated again: elementary
effects, after Morris (1991). With --bases 4 the same is done at three more points, at which all
parameters are drawn from the same range. All claims take long (hours); --only, --machine,
--parameter and --duration choose less.

Examples:
  lockswap sim sensitivity --only cna-2,cna-70
  lockswap sim sensitivity --machine xeon-e5-2699v3 --duration 20ms --export sensitivity.md
  lockswap sim sensitivity --only ron-handover --parameter latency,fabric.near --bases 4 --by 10";

/// Moves the parameters of the machines, and prints how far what the papers claim moves with them
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SensitivityArgs {
    /// Claims whose names begin so: cna, ron, shfl, m1, cna-70
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Claims about this machine
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Parameters whose names begin so: latency, core.hit, kv.inside
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    parameter: Vec<String>,
    /// By how many percent a parameter is made larger; smaller by the same factor
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0, value_parser = percent)]
    by: f64,
    /// Points from which parameters are moved: the machine as described, and others around it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    bases: u32,
    /// Runs at each point, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Measured virtual time of each run, at most [default: as long as the claim says]
    #[arg(long, value_name = "TIME", value_parser = within(DURATIONS))]
    duration: Option<Ns>,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().map_err(|_| "write a number, as in 20".to_owned())?;
    match PERCENT.contains(&number) {
        true => Ok(number),
        false => Err(format!("{number} is not in {} to {}", PERCENT.start(), PERCENT.end())),
    }
}

fn plan(args: &SensitivityArgs) -> Result<Plan, UserError> {
    let mut claims = chosen(&args.only)?;
    if let Some(machine) = &args.machine {
        Machine::built_in(machine, &[])?;
        let mut known: Vec<String> = claims.iter().map(|claim| claim.machine.clone()).collect();
        known.dedup();
        claims.retain(|claim| claim.machine == *machine);
        if claims.is_empty() {
            let what = format!("none of these claims is about {machine}");
            let unknown = Invalid::unknown(what, machine, known.iter().map(String::as_str));
            return Err(UserError::from(unknown).with_status(USAGE));
        }
    }
    if let Some(longest) = args.duration {
        shorten(&mut claims, longest);
    }
    Ok(Plan::new(Sought {
        claims,
        parameters: args.parameter.clone(),
        factor: 1.0 + args.by / 100.0,
        bases: args.bases,
        seeds: args.seeds,
        chance_seeds: CHANCE_SEEDS,
    })?)
}

const MOVES: Interrupted = ("no parameter had been moved", "the tables show the moves that were simulated until then");

/// Runs the command.
pub fn run(args: &SensitivityArgs, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let mut files = Outputs::prepare(output, &["json", "csv", "md", "html"])?;
    let jobs = plan.jobs();
    let mut finish = |rows: &[Option<Row>]| -> anyhow::Result<bool> {
        let findings = plan.findings(&jobs, rows);
        match output.format.data() {
            None => terminal::print(&shown(&page(&plan, &findings)))?,
            Some(format) => print_data(&render(format, &plan, &findings)?)?,
        }
        files.write(true, |wanted| match wanted {
            Wanted::Data(format) => render(format, &plan, &findings),
            Wanted::Picture(_) => Err(io::ErrorKind::Unsupported.into()),
        });
        Ok(files.tell())
    };
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let bar = bar(jobs.jobs.len() as u64);
    let rows = run_each(&jobs.jobs, starting(&bar), |rows| {
        advance(&bar, &interrupt, rows, MOVES, || {
            let is_any = plan.findings(&jobs, rows).iter().any(|moved| !moved.effects.is_empty());
            if is_any {
                finish(rows)?;
            }
            Ok(is_any)
        })
    })?;
    bar.finish_and_clear();
    Ok(if finish(&rows)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(format: Format, plan: &Plan, findings: &[Moved]) -> io::Result<Vec<u8>> {
    let whole = || {
        let mut page = page(plan, findings);
        page.notes.push(footer(&[today()]));
        page
    };
    match format {
        Format::Json => Ok(json(plan, findings)?),
        Format::Csv => csv(findings),
        Format::Markdown => Ok(Page::markdown(&whole()).into_bytes()),
        Format::Html => Ok(Page::html(&whole()).into_bytes()),
    }
}
