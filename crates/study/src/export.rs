//! Files with results: JSON (everything), CSV (one line per run), Markdown and HTML (the tables).

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::columns::Column;
use crate::model::{Comparison, Exit, Measure, Phase, Sample, Source};
use crate::notes;
use crate::page::{self, Page};
use crate::problems::problem;
use crate::summary::{self, Row};

/// A file that always holds a whole result: each write replaces it by a rename.
#[derive(Clone, Debug)]
pub struct OutputFile {
    path: PathBuf,
    mode: u32,
    stream: bool,
}

impl OutputFile {
    /// Checks that `path` can be written, without touching what it holds. Devices and pipes are written directly.
    pub fn prepare(path: &Path) -> io::Result<Self> {
        // A symbolic link stays one: what it points at is replaced.
        let resolved = fs::canonicalize(path).or_else(|_| in_real_folder(path)).unwrap_or_else(|_| path.to_owned());
        let file = match fs::metadata(&resolved) {
            Ok(found) if found.is_dir() => return Err(io::Error::other("it is a directory")),
            Ok(found) if found.file_type().is_fifo() => Self { path: resolved, mode: 0, stream: true },
            Ok(found) if !found.is_file() => {
                OpenOptions::new().write(true).open(&resolved)?;
                Self { path: resolved, mode: 0, stream: true }
            }
            Ok(found) => {
                OpenOptions::new().append(true).open(&resolved)?;
                Self { path: resolved, mode: found.permissions().mode() & 0o7777, stream: false }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self { path: resolved, mode: 0, stream: false },
            Err(error) => return Err(error),
        };
        if !file.stream {
            let dir = file.folder();
            let missing = |error: io::Error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other(format!("there is no folder {}", dir.display())),
                _ => error,
            };
            fs::metadata(dir).map_err(missing)?;
            let refused = |e: io::Error| io::Error::new(e.kind(), format!("no files can be made in {}", dir.display()));
            file.temporary().map_err(refused)?;
        }
        Ok(file)
    }

    /// Whether this is a device or a pipe, which takes a result once and keeps nothing.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts `content` in the place of whatever the file held.
    pub fn replace(&self, content: &[u8]) -> io::Result<()> {
        if self.stream {
            return OpenOptions::new().write(true).open(&self.path)?.write_all(content);
        }
        let mut temporary = self.temporary()?;
        temporary.write_all(content)?;
        if self.mode != 0 {
            temporary.as_file().set_permissions(Permissions::from_mode(self.mode))?;
        }
        temporary.persist(&self.path)?;
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        // The umask takes its share of 666, as for any new file.
        tempfile::Builder::new()
            .prefix(".lockswap-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(self.folder())
    }
}

/// The path of a file that is not there yet, by the real path of its folder: two names of one file are then equal.
fn in_real_folder(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(fs::canonicalize(folder)?.join(name))
}

/// The form of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Everything, raw samples included.
    Json,
    /// One line per run.
    Csv,
    /// The tables and how to read them.
    Markdown,
    /// The same as a page.
    Html,
}

impl Format {
    /// The form that the extension of a file's name stands for.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "md" | "markdown" => Some(Format::Markdown),
            "html" | "htm" => Some(Format::Html),
            _ => None,
        }
    }
}

/// The comparison in the given form.
pub fn render(format: Format, comparison: &Comparison) -> io::Result<String> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(comparison)? + "\n"),
        Format::Csv => csv(comparison),
        Format::Markdown => Ok(page(comparison).markdown()),
        Format::Html => Ok(page(comparison).html()),
    }
}

fn csv(comparison: &Comparison) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut parameters: Vec<&str> = Vec::new();
    for (name, _) in comparison.locks.iter().flat_map(|lock| &lock.setting) {
        if !parameters.contains(&name.as_str()) {
            parameters.push(name);
        }
    }
    let mut headings: Vec<&str> = vec!["lock"];
    headings.extend(&parameters);
    headings.extend(["preloaded", "round", "phase", "wall_s", "user_s", "system_s"]);
    headings.extend(["voluntary_switches", "involuntary_switches", "calls_ours", "calls_glibc"]);
    let metrics: Vec<_> = comparison.measures.iter().filter(|m| m.source != Source::Wall).collect();
    headings.extend(metrics.iter().map(|measure| measure.name.as_str()));
    headings.extend(["ended", "status", "problem"]);
    writer.write_record(&headings)?;
    for lock in &comparison.locks {
        let expected = comparison.expected_exit(lock);
        let calls = lock.counted.map(|counted| counted.calls.all());
        let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        for sample in &lock.samples {
            let (ended, status) = ending(sample);
            let mut record = vec![lock.lock.clone()];
            let value = |name: &&str| lock.setting.iter().find(|(parameter, _)| parameter == name);
            record.extend(parameters.iter().map(|name| value(name).map(|(_, v)| v.clone()).unwrap_or_default()));
            record.extend([
                lock.preloaded.to_string(),
                sample.round.to_string(),
                phase(sample).to_owned(),
                sample.wall_s.to_string(),
                sample.usage.user_s.to_string(),
                sample.usage.system_s.to_string(),
                sample.usage.voluntary_switches.to_string(),
                sample.usage.involuntary_switches.to_string(),
                number(calls.map(|calls| calls.ours)),
                number(calls.map(|calls| calls.total() - calls.ours)),
            ]);
            record.extend(metrics.iter().map(|m| m.value(sample).map(|v| v.to_string()).unwrap_or_default()));
            let problem = comparison.measures.iter().find_map(|m| problem(sample, m, expected));
            record.extend([ended.into(), status, problem.unwrap_or_default()]);
            writer.write_record(&record)?;
        }
    }
    let bytes = writer.into_inner().map_err(|e| io::Error::other(e.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn phase(sample: &Sample) -> &'static str {
    match sample.phase {
        Phase::WarmUp => "warm-up",
        Phase::Measured => "measured",
        Phase::Confirmation => "confirmation",
    }
}

fn ending(sample: &Sample) -> (&'static str, String) {
    match &sample.exit {
        Exit::Code { code } => ("exit", code.to_string()),
        Exit::Signal { name, .. } => ("signal", name.clone()),
        Exit::TimedOut { .. } => ("timeout", String::new()),
        Exit::NotStarted { .. } => ("not started", String::new()),
    }
}

/// One table of the report: its title, and its cells with the headings first.
pub struct Table {
    /// What it shows, where there are several.
    pub title: Option<String>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The measure that it shows.
    pub measure: Measure,
    /// The rows in the order in which they are shown.
    pub rows: Vec<Row>,
}

impl Table {
    /// The cells of a row.
    pub fn cells<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = String> + 'a {
        self.columns.iter().map(|column| column.cell(row, &self.measure))
    }
}

/// The tables of a comparison, one for each measure and setting, for lines of so many characters. Those after the
/// first measure say only what differs.
pub fn tables(comparison: &Comparison, width: usize) -> Vec<Table> {
    let mut tables = Vec::new();
    let nothing = summary::nothing_replaced(comparison).is_some();
    for setting in comparison.settings() {
        for (index, (measure, rows)) in comparison.measures.iter().zip(&comparison.summary).enumerate() {
            let mut columns = Column::for_width(width);
            if index > 0 {
                columns.retain(|c| !matches!(c, Column::Cpu | Column::Switches | Column::Calls));
            }
            if nothing {
                columns.retain(|c| *c != Column::Ratio);
            }
            let several = comparison.measures.len() > 1;
            let title = match (setting.is_empty(), several) {
                (true, false) => None,
                (true, true) => Some(measure.name.clone()),
                (false, false) => Some(summary::in_words(setting)),
                (false, true) => Some(format!("{}, {}", measure.name, summary::in_words(setting))),
            };
            let rows = summary::sorted(comparison, rows).into_iter().filter(|row| row.setting == setting);
            tables.push(Table { title, columns, measure: measure.clone(), rows: rows.cloned().collect() });
        }
    }
    tables
}

/// The notes below the tables.
pub fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = notes::notes(comparison);
    notes.push(comparison.machine.words());
    notes.push(runs_in_words(comparison));
    notes.extend(comparison.machine.busy_note());
    notes
}

/// What is said where nothing was replaced.
pub fn nothing_in_words(comparison: &Comparison) -> Option<String> {
    let (why, remedy) = summary::nothing_replaced(comparison)?;
    Some(format!("No lock was replaced, so the times say nothing about locks: {why}. Remedy: {remedy}."))
}

/// The conclusion, in sentences.
pub fn conclusion(comparison: &Comparison) -> Vec<String> {
    nothing_in_words(comparison).map_or_else(|| notes::conclusion(comparison), |nothing| vec![nothing])
}

/// The tables and what is said about them.
fn page(comparison: &Comparison) -> Page {
    let table = |table: Table| page::Table {
        columns: table.columns.iter().map(|column| (column.heading().to_owned(), column.is_numeric())).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| page::Row { cells: table.cells(row).collect(), judgement: row.judgement })
            .collect(),
        title: table.title,
        ..page::Table::default()
    };
    Page {
        title: comparison.name.clone(),
        conclusion: conclusion(comparison),
        tables: tables(comparison, usize::MAX).into_iter().map(table).collect(),
        notes: notes(comparison),
        ..Page::default()
    }
}

/// How many runs a comparison rests on, in words.
pub fn runs_in_words(comparison: &Comparison) -> String {
    let state = if comparison.complete { "" } else { " (not all of them made)" };
    let plural = |n: u32| if n == 1 { "round" } else { "rounds" };
    format!(
        "{} {} of all locks in random order{state}, after {} warm-up {}; lockswap {}, seed {}",
        comparison.runs,
        plural(comparison.runs),
        comparison.warmup,
        plural(comparison.warmup),
        comparison.tool_version,
        comparison.seed
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::model::{LockRuns, Usage, SCHEMA};
    use std::os::unix::fs::MetadataExt;

    pub(crate) fn comparison() -> Comparison {
        let sample = |round, wall_s| Sample {
            round,
            phase: if round == 0 { Phase::WarmUp } else { Phase::Measured },
            wall_s,
            usage: Usage { user_s: wall_s, ..Usage::default() },
            metrics: Vec::new(),
            exit: Exit::Code { code: 0 },
            failure: None,
            stdout_tail: None,
            stderr_tail: None,
        };
        let lock = |name: &str, preloaded, wall: f64| LockRuns {
            lock: name.into(),
            setting: Vec::new(),
            preloaded,
            counted: None,
            left_out: None,
            samples: (0..9).map(|r| sample(r, wall + f64::from(r) / 1000.0)).collect(),
        };
        let mut broken = lock("a,\"b\"|c", true, 1.0);
        broken.samples[3].exit = Exit::Signal { number: 11, name: "SIGSEGV".into() };
        let mut all = Comparison {
            schema: SCHEMA,
            tool_version: "0.1.0".into(),
            started_unix_s: 1,
            machine: Machine::default(),
            seed: 1,
            name: "prog <x>".into(),
            command: vec!["prog".into(), "x".into()],
            measures: vec![Measure::wall()],
            runs: 8,
            warmup: 1,
            timeout_s: 60.0,
            smallest_effect: 0.01,
            loading_s: None,
            complete: true,
            locks: vec![lock("pthread", false, 2.0), lock("quick", true, 1.0), broken],
            summary: Vec::new(),
            winners: Vec::new(),
        };
        all.summarise();
        all
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let all = comparison();
        let text = render(Format::Json, &all).unwrap();
        let back: Comparison = serde_json::from_str(&text).unwrap();
        assert_eq!(back.locks, all.locks);
        assert_eq!(back.summary, all.summary);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["locks"][2]["samples"][3]["exit"]["name"], "SIGSEGV");
    }

    #[test]
    fn csv_has_a_line_per_run_and_quotes_what_needs_it() {
        let text = render(Format::Csv, &comparison()).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 27);
        assert_eq!((&records[21][0], &records[21][3]), ("a,\"b\"|c", "measured"));
        assert_eq!((&records[21][11], &records[21][12]), ("signal", "SIGSEGV"));
        assert_eq!(&records[21][13], "crashed: SIGSEGV");
    }

    #[test]
    fn markdown_is_a_table() {
        let text = render(Format::Markdown, &comparison()).unwrap();
        let table: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
        assert_eq!(table.len(), 5);
        for line in table {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 9, "{line}");
        }
        assert!(text.contains("x faster") && text.contains("crashed: SIGSEGV, in 1 of 9 runs"), "{text}");
    }

    #[test]
    fn a_page_shows_names_as_they_are() {
        let page = render(Format::Html, &comparison()).unwrap();
        assert!(page.contains("<h1>prog &lt;x&gt;</h1>") && page.contains("a,&quot;b&quot;|c"), "{page}");
        assert!(page.contains("class=\"better\"") && page.ends_with("</html>\n"));
    }

    #[test]
    fn the_extension_names_the_form() {
        assert_eq!(Format::of(Path::new("a/b.JSON")), Some(Format::Json));
        assert_eq!(Format::of(Path::new("b.md")), Some(Format::Markdown));
        assert_eq!(Format::of(Path::new("b.svg")), None);
        assert_eq!(Format::of(Path::new("json")), None);
    }

    #[test]
    fn a_file_is_replaced_not_rewritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        fs::write(&path, "first").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let reader = fs::File::open(&path).unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        let file = OutputFile::prepare(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first", "the check must not touch the content");
        file.replace(b"second").unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before);
        assert_eq!(after.permissions().mode() & 0o777, 0o640);
        assert_eq!(io::read_to_string(reader).unwrap(), "first", "who had it open keeps a whole file");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn links_stay_links_and_streams_are_written_directly() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        OutputFile::prepare(&link).unwrap().replace(b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        let null = OutputFile::prepare(Path::new("/dev/null")).unwrap();
        assert!(null.is_stream());
        null.replace(b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn unwritable_places_are_refused_before_anything_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        assert!(OutputFile::prepare(&dir.path().join("no/such/dir/f")).is_err());
        assert!(OutputFile::prepare(dir.path()).is_err());
    }
}
