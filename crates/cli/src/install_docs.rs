//! `lockswap install-docs`: completions for shells, and man pages.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use lockswap_locks::registry::{self, Role};

use crate::error::UserError;
use crate::{picture, terminal};

/// Installs completions for bash, zsh and fish, and man pages, for you alone
#[derive(clap::Args)]
#[command(after_help = "\
They go to $XDG_DATA_HOME, or ~/.local/share where that is not set: to
bash-completion/completions, zsh/site-functions, fish/vendor_completions.d and
man/man1 in it. Files of an earlier version are replaced. Names of locks are
completed, too.

Examples:
  lockswap install-docs
  lockswap install-docs --into /usr/local/share   for everybody, as root")]
pub struct InstallDocsArgs {
    /// Writes to the same folders within this one instead
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Runs `lockswap install-docs`.
pub fn run(args: &InstallDocsArgs, command: &Command) -> anyhow::Result<ExitCode> {
    let folder = args.into.clone().map_or_else(data_folder, Ok)?;
    let command = shown(command);
    let completed = completed(&command);
    let mut text = String::new();
    let fpath = folder.join("zsh/site-functions");
    for (shell, place, remains) in [
        (
            Shell::Bash,
            "bash-completion/completions/lockswap",
            "with the package bash-completion, new shells have them".into(),
        ),
        (
            Shell::Zsh,
            "zsh/site-functions/_lockswap",
            format!(
                "unless $fpath has that folder: put  fpath=({} $fpath)  before compinit in ~/.zshrc",
                fpath.display()
            ),
        ),
        (Shell::Fish, "fish/vendor_completions.d/lockswap.fish", "new shells have them".into()),
    ] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut completed.clone(), "lockswap", &mut script);
        let path = folder.join(place);
        write(&path, &script)?;
        text += &format!("{shell}: {}\n    {remains}\n", path.display());
    }
    let manuals = folder.join("man/man1");
    let mut pages = Vec::new();
    let mut command = command.disable_help_subcommand(true);
    command.build();
    man_pages(command, &mut pages)?;
    for (name, page) in &pages {
        write(&manuals.join(name), page)?;
    }
    text += &format!(
        "man: {}, {} pages\n    try  man lockswap-run ; if it is not found:  export MANPATH={}:\n",
        manuals.display(),
        pages.len(),
        folder.join("man").display()
    );
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Where a user's own data lie.
fn data_folder() -> Result<PathBuf, UserError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    folder.ok_or_else(|| {
        let what = "neither HOME nor XDG_DATA_HOME names a folder for completions and man pages";
        UserError::new(what, "set HOME, or name a folder with --into DIR")
    })
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| {
            let what = format!("cannot make the folder {}: {error}", folder.display());
            UserError::new(what, "name a folder that you can write to with --into DIR")
        })?;
    }
    picture::replace(&picture::prepare(path)?, content)
}

/// The command without the subcommands that only it itself starts.
fn shown(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    let plain = Command::new("lockswap").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    let plain = command.get_about().cloned().into_iter().fold(plain, Command::about);
    command.get_after_help().cloned().into_iter().fold(plain, Command::after_help)
}

/// What is completed: no hidden options, and the names of locks as values of the options that take them. As they stand
/// those are read, and refused, one by one.
fn completed(command: &Command) -> Command {
    let names = |arg: Arg| {
        let role = match arg.get_id().as_str() {
            "lock" | "id" => Role::Mutex,
            "rwlock" => Role::RwLock,
            "spin" => Role::Spin,
            _ => return arg,
        };
        arg.value_parser(PossibleValuesParser::new(registry::ids(role)))
    };
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let plain = Command::new(command.get_name().to_owned()).args(args.map(names));
    let plain = command.get_about().cloned().into_iter().fold(plain, Command::about);
    plain.subcommands(command.get_subcommands().map(completed))
}

/// A page for the command and one for each subcommand, by the names of the files.
fn man_pages(command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    for subcommand in command.get_subcommands() {
        man_pages(subcommand.clone(), pages)?;
    }
    let manual = Man::new(command);
    let mut page = Vec::new();
    manual.render(&mut page).context("cannot make the man pages")?;
    pages.push((manual.get_filename(), page));
    Ok(())
}
