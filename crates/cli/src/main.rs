//! `lockswap`: runs unmodified programs on other locks and says what that is worth.

#![forbid(unsafe_code)]

mod advise;
mod asl;
mod bench;
mod compare;
mod doctor;
mod duration;
mod error;
mod hidden;
mod install_docs;
mod library;
mod list;
mod old;
mod only;
mod outputs;
mod picture;
mod preload_path;
mod profile;
mod regret;
mod run;
mod selection;
mod setting;
mod sim;
mod slo;
mod study;
mod terminal;
mod top;
mod topo;
mod torture;
mod trace;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use lockswap_experiment::hardware::child;

/// Help has at most so many columns, however wide the terminal is.
const WIDTH: usize = 100;

/// Runs unmodified programs on other lock algorithms and says honestly whether they got faster.
#[derive(Parser)]
#[command(name = "lockswap", version, after_help = EXAMPLES, max_term_width = WIDTH)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  lockswap compare                          a built-in workload on several locks
  lockswap compare -- ./program --threads 8 a program of yours on several locks
  lockswap run --lock mcs_stp -- ./server   a program of yours on one lock
  lockswap trace -- ./server                which locks it waits for, and who holds them
  lockswap advise -- ./server               which lock each mutex should have, if any helps
  lockswap top --pid PID                    the same, live, of a program that lockswap run started
  lockswap slo --epoch 5 --from 10us --to 1ms -- ./program
                                            a latency target for one of its epochs
  lockswap topo --measure                   what this machine is like, and the best route for RON
  lockswap doctor ./program                 can it work on this program?";

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Slo(slo::SloArgs),
    Trace(trace::TraceArgs),
    Top(top::TopArgs),
    Advise(advise::AdviseArgs),
    List(list::ListArgs),
    Doctor(doctor::DoctorArgs),
    Topo(topo::TopoArgs),
    PreloadPath(preload_path::PreloadPathArgs),
    /// Measures the locks themselves on this machine.
    Bench(bench::BenchArgs),
    Sim(sim::SimArgs),
    Study(study::StudyArgs),
    Torture(torture::TortureArgs),
    InstallDocs(install_docs::InstallDocsArgs),
    #[command(name = child::KEY_VALUE, hide = true)]
    KeyValue(hidden::KeyValueArgs),
    #[command(name = child::MEASURE, hide = true)]
    BenchHere(hidden::JobArgs),
    #[command(name = child::VALIDATE, hide = true)]
    ValidateHere(hidden::JobArgs),
    #[command(name = child::LOADED, hide = true)]
    Loaded,
    #[command(name = child::YIELD, hide = true)]
    Yield,
    #[command(name = child::SETTLE, hide = true)]
    Settle,
    #[command(name = child::TORTURE, hide = true)]
    TortureHere(hidden::JobArgs),
}

/// Ends the process at once when a thread panics: the others might wait for it for ever.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

fn main() -> ExitCode {
    abort_on_panic();
    let command = usage::parse::<Args>().command;
    old::tell(Args::command(), std::env::args_os());
    let result = match command {
        Command::Run(args) => run::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Slo(args) => slo::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Top(args) => top::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::List(args) => list::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Topo(args) => topo::run(args),
        Command::PreloadPath(args) => preload_path::run(args),
        Command::Bench(args) => bench::run(args),
        Command::KeyValue(args) => hidden::key_value(args),
        Command::BenchHere(args) => hidden::bench(&args),
        Command::ValidateHere(args) => hidden::validate(&args),
        Command::Loaded => hidden::loaded(),
        Command::Yield => hidden::try_yield(),
        Command::Settle => hidden::try_settle(),
        Command::Sim(args) => sim::run(args),
        Command::Study(args) => study::run(args),
        Command::Torture(args) => torture::run(args),
        Command::InstallDocs(args) => install_docs::run(&args, &Args::command()),
        Command::TortureHere(args) => hidden::torture(&args),
    };
    result.unwrap_or_else(|error| error::report(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wider is broken once more, after a word or two.
    fn check_width(command: &clap::Command) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
        assert!(wide.is_empty(), "help of {}: more than {WIDTH} columns: {wide:#?}", command.get_name());
        command.get_subcommands().for_each(check_width);
    }

    #[test]
    fn no_line_of_help_is_broken_twice() {
        check_width(&Args::command());
    }
}
