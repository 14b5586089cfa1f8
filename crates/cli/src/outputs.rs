//! Where results go besides the table: files, in the form that their extensions say, and data on standard output.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lockswap_plot::Look;
use lockswap_study::export::{Format, OutputFile};

use crate::error::{UserError, USAGE};
use crate::picture::LookArgs;

/// Arguments about where results go.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct OutputArgs {
    /// Writes a file: .json (everything), .csv (one line per run), .md or .html (the tables), .svg or .png (a
    /// picture). Repeatable
    #[arg(short = 'e', long, value_name = "FILE", global = true)]
    export: Vec<PathBuf>,
    /// What is printed
    #[arg(long, value_name = "FORM", value_enum, default_value_t, global = true)]
    pub format: Print,
    #[command(flatten)]
    pub look: LookArgs,
    /// Old spelling of --export FILE.json
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    export_json: Option<PathBuf>,
    /// Old spelling of --export FILE.csv
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    export_csv: Option<PathBuf>,
    /// Old spelling of --export FILE.md
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    export_md: Option<PathBuf>,
}

impl OutputArgs {
    /// Whether anything but the table is asked for.
    pub fn is_asked(&self) -> bool {
        let old = [&self.export_json, &self.export_csv, &self.export_md];
        self.format != Print::Table || !self.export.is_empty() || old.into_iter().any(Option::is_some)
    }
}

/// What goes to standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Print {
    /// Tables for people
    #[default]
    Table,
    /// Everything
    Json,
    /// One line per run
    Csv,
    /// The tables as Markdown
    Md,
}

impl Print {
    /// The form of the data; `None` for tables for people.
    pub fn data(self) -> Option<Format> {
        match self {
            Print::Table => None,
            Print::Json => Some(Format::Json),
            Print::Csv => Some(Format::Csv),
            Print::Md => Some(Format::Markdown),
        }
    }
}

/// Arguments of a command that prints words or JSON, and nothing else.
#[derive(clap::Args, Clone, Debug)]
pub struct JsonArgs {
    /// What is printed: words for people, or a JSON object
    #[arg(long, value_name = "FORM", default_value = "table", value_parser = ["table", "json"])]
    format: String,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl JsonArgs {
    /// Whether JSON is printed.
    pub fn is_json(&self) -> bool {
        self.json || self.format == "json"
    }
}

/// The extensions of all forms. A command that has fewer names those that it has.
pub const ALL_FORMS: &[&str] = &["json", "csv", "md", "html", "svg", "png"];

/// What stands for a folder in the place of an extension.
const FOLDER: &str = "/";

#[derive(Clone, Copy)]
enum Form {
    Data(Format),
    Picture(lockswap_plot::Format),
    /// A folder that gets several files.
    Folder,
}

/// What a file is to be filled with.
pub enum Wanted {
    /// The results in this form.
    Data(Format),
    /// A picture that looks so.
    Picture(Look),
}

/// All files that the user wants.
pub struct Outputs {
    files: Vec<(Form, OutputFile)>,
    folders: Vec<PathBuf>,
    look: LookArgs,
    /// What could not be written.
    pub failed: Vec<String>,
}

impl Outputs {
    /// Checks names and places before anything is measured. `forms`: the extensions of what the command can write.
    pub fn prepare(args: &OutputArgs, forms: &[&str]) -> Result<Self, UserError> {
        let mut wanted: Vec<(Form, &Path)> = Vec::new();
        for path in &args.export {
            wanted.push((form(path, forms)?, path));
        }
        let old = [
            (&args.export_json, Format::Json, "json"),
            (&args.export_csv, Format::Csv, "csv"),
            (&args.export_md, Format::Markdown, "md"),
        ];
        for (path, format, extension) in old {
            if let Some(path) = path {
                // Stderr may be closed.
                let _ =
                    writeln!(io::stderr(), "note: --export-{extension} FILE is now written --export FILE.{extension}");
                wanted.push((Form::Data(format), path));
            }
        }
        let mut files: Vec<(Form, OutputFile)> = Vec::new();
        let mut folders = Vec::new();
        for (form, path) in wanted {
            if matches!(form, Form::Folder) {
                std::fs::create_dir_all(path).map_err(|error| {
                    let what = format!("cannot make the folder {}: {error}", path.display());
                    UserError::new(what, "name a folder where you can make one; nothing was measured")
                })?;
                folders.push(path.to_owned());
                continue;
            }
            if path == Path::new("-") {
                let remedy = "--format json, csv or md prints it instead of the table";
                return Err(UserError::new("- is no file to export to", remedy).with_status(USAGE));
            }
            let file = OutputFile::prepare(path).map_err(|error| {
                let remedy = "name a file in a folder that you can write to; nothing was measured";
                UserError::new(format!("cannot write {}: {error}", path.display()), remedy)
            })?;
            if !file.is_stream() && files.iter().any(|(_, other)| other.path() == file.path()) {
                let what = format!("two exports go to {}", path.display());
                return Err(UserError::new(what, "give each a file of its own").with_status(USAGE));
            }
            files.push((form, file));
        }
        Ok(Self { files, folders, look: args.look, failed: Vec::new() })
    }

    /// Whether there are files that keep what was measured so far.
    pub fn keeps_files(&self) -> bool {
        self.files.iter().any(|(form, file)| matches!(form, Form::Data(_)) && !file.is_stream())
    }

    /// Writes what `render` makes of the results as they stand. Streams, which keep nothing, and pictures only when
    /// all is `done`. What cannot be written is in [`Self::failed`] then, and the rest goes on.
    pub fn write(&mut self, done: bool, render: impl Fn(Wanted) -> io::Result<Vec<u8>>) {
        for (form, file) in &self.files {
            let wanted = match form {
                Form::Data(_) if file.is_stream() && !done => continue,
                Form::Data(format) => Wanted::Data(*format),
                Form::Picture(_) if !done => continue,
                Form::Folder => continue,
                Form::Picture(format) => Wanted::Picture(self.look.of(*format)),
            };
            if let Err(error) = render(wanted).and_then(|content| file.replace(&content)) {
                let problem = format!("cannot write {}: {error}", file.path().display());
                if !self.failed.contains(&problem) {
                    self.failed.push(problem);
                }
            }
        }
    }

    /// Writes the same files, names with contents, to each folder that is wanted.
    pub fn write_folders(&mut self, render: impl FnOnce() -> io::Result<Vec<(String, Vec<u8>)>>) {
        if self.folders.is_empty() {
            return;
        }
        let files = match render() {
            Ok(files) => files,
            Err(error) => return self.failed.push(format!("cannot render the files of a folder: {error}")),
        };
        for folder in &self.folders {
            for (name, content) in &files {
                let path = folder.join(name);
                if let Err(error) = OutputFile::prepare(&path).and_then(|file| file.replace(content)) {
                    self.failed.push(format!("cannot write {}: {error}", path.display()));
                }
            }
        }
    }

    /// Says on stderr what could not be written; whether all could.
    pub fn tell(&self) -> bool {
        for problem in &self.failed {
            // Stderr may be closed.
            let _ = writeln!(io::stderr(), "error: {problem}");
        }
        self.failed.is_empty()
    }
}

fn form(path: &Path, forms: &[&str]) -> Result<Form, UserError> {
    if forms.contains(&FOLDER) && path.as_os_str().as_encoded_bytes().ends_with(FOLDER.as_bytes()) {
        return Ok(Form::Folder);
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    let extension = match extension.as_deref() {
        Some("markdown") => Some("md"),
        Some("htm") => Some("html"),
        other => other,
    };
    let data = Format::of(path).map(Form::Data);
    let found = data.or_else(|| lockswap_plot::Format::of(path).ok().map(Form::Picture));
    match found {
        Some(form) if extension.is_some_and(|extension| forms.contains(&extension)) => Ok(form),
        // Refused for its name, in words of its own.
        _ if path == Path::new("-") => Ok(Form::Data(Format::Json)),
        _ => {
            let what = match found {
                Some(_) => format!("--export {}: these results have no such form", path.display()),
                None => format!("--export {}: the ending of the name does not say in which form", path.display()),
            };
            Err(UserError::new(what, format!("end it in {}", either(forms))).with_status(USAGE))
        }
    }
}

/// ".json, .csv or .md"
fn either(forms: &[&str]) -> String {
    let mut text = String::new();
    for (index, form) in forms.iter().enumerate() {
        text += match (index, forms.len() - index) {
            (0, _) => "",
            (_, 1) => " or ",
            _ => ", ",
        };
        text += &if *form == FOLDER { form.to_string() } else { format!(".{form}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_a_command_lacks_is_refused_with_those_that_it_has() {
        assert!(matches!(form(Path::new("a.PNG"), ALL_FORMS), Ok(Form::Picture(lockswap_plot::Format::Png))));
        assert!(matches!(form(Path::new("a.markdown"), &["md"]), Ok(Form::Data(Format::Markdown))));
        let refused = |path: &str| match form(Path::new(path), &["json", "csv", "md"]) {
            Ok(_) => panic!("{path} was taken"),
            Err(error) => format!("{error:?}"),
        };
        for path in ["a.svg", "a.html", "a.xml", "a"] {
            assert!(refused(path).contains("end it in .json, .csv or .md"), "{}", refused(path));
        }
    }
}
