//! Files with results: JSON (everything), CSV (one line per run) and Markdown (the table).

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::model::{Comparison, Exit, Sample};
use crate::summary;

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
        let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
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
            fs::metadata(dir)
                .map_err(|e| io::Error::new(e.kind(), format!("folder {}: {}", dir.display(), e.kind())))?;
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

/// The form of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Everything, raw samples included.
    Json,
    /// One line per run.
    Csv,
    /// The table and how to read it.
    Markdown,
}

/// One file that a comparison is written to.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its form.
    pub format: Format,
    /// The file.
    pub file: OutputFile,
}

impl Export {
    /// Writes the comparison as it stands.
    pub fn write(&self, comparison: &Comparison) -> io::Result<()> {
        self.file.replace(render(self.format, comparison)?.as_bytes())
    }
}

/// The comparison in the given form.
pub fn render(format: Format, comparison: &Comparison) -> io::Result<String> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(comparison)? + "\n"),
        Format::Csv => csv(comparison),
        Format::Markdown => Ok(markdown(comparison)),
    }
}

fn csv(comparison: &Comparison) -> io::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["lock", "preloaded", "round", "warmup", "wall_s", "metric", "ended", "status", "problem"])?;
    let expected = comparison.expected_exit();
    for lock in &comparison.locks {
        for sample in &lock.samples {
            let (ended, status) = ending(sample);
            writer.write_record([
                lock.lock.clone(),
                lock.preloaded.to_string(),
                sample.round.to_string(),
                sample.warmup.to_string(),
                sample.wall_s.to_string(),
                sample.metric.map(|m| m.to_string()).unwrap_or_default(),
                ended.into(),
                status,
                summary::problem(sample, &comparison.measure, expected).unwrap_or_default(),
            ])?;
        }
    }
    let bytes = writer.into_inner().map_err(|e| io::Error::other(e.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn ending(sample: &Sample) -> (&'static str, String) {
    match &sample.exit {
        Exit::Code { code } => ("exit", code.to_string()),
        Exit::Signal { name, .. } => ("signal", name.clone()),
        Exit::TimedOut { .. } => ("timeout", String::new()),
        Exit::NotStarted { .. } => ("not started", String::new()),
    }
}

fn markdown(comparison: &Comparison) -> String {
    let escaped = |cell: String| cell.replace('|', "\\|");
    let headings = summary::HEADINGS.map(|h| h.to_owned());
    let rows = comparison.summary.iter().map(|row| summary::cells(row, &comparison.measure).map(escaped));
    let table: Vec<[String; 5]> = std::iter::once(headings).chain(rows).collect();
    let mut widths = [0; 5];
    for row in &table {
        row.iter().zip(&mut widths).for_each(|(cell, width)| *width = (*width).max(cell.chars().count()));
    }
    let mut text = format!("`{}`\n\n", comparison.command.join(" ").replace('`', "'"));
    for (index, row) in table.iter().enumerate() {
        let line: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += &format!("| {} |\n", line.join(" | "));
        if index == 0 {
            let rule = ["-", ":", ":", ":", "-"];
            let dash = |(width, end): (usize, &str)| match end {
                ":" => format!("{}:", "-".repeat(width + 1)),
                _ => "-".repeat(width + 2),
            };
            text += &format!("|{}|\n", widths.into_iter().zip(rule).map(dash).collect::<Vec<_>>().join("|"));
        }
    }
    text += "\n";
    let mut notes = vec![comparison.machine.words()];
    notes.push(runs_in_words(comparison));
    notes.extend(summary::legend(comparison));
    if comparison.machine.is_busy() {
        notes.push(format!("the machine was busy before: load average {:.1}", comparison.machine.load_average));
    }
    notes.iter().for_each(|note| text += &format!("- {}\n", note.replace('|', "\\|")));
    text
}

/// How many runs a comparison rests on, in words.
pub fn runs_in_words(comparison: &Comparison) -> String {
    let state = if comparison.complete { "" } else { " (not all of them made)" };
    let plural = |n: u32| if n == 1 { "run" } else { "runs" };
    format!(
        "{} {} per lock{state}, interleaved, after {} warm-up {} each; lockswap {}, seed {}",
        comparison.runs,
        plural(comparison.runs),
        comparison.warmup,
        plural(comparison.warmup),
        comparison.tool_version,
        comparison.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::model::{LockRuns, Measure, SCHEMA};
    use std::os::unix::fs::MetadataExt;

    fn comparison() -> Comparison {
        let sample = |round, wall_s| Sample {
            round,
            warmup: round == 0,
            wall_s,
            metric: None,
            exit: Exit::Code { code: 0 },
            stderr_tail: None,
        };
        let lock = |name: &str, preloaded, wall: f64| LockRuns {
            lock: name.into(),
            preloaded,
            left_out: None,
            samples: (0..7).map(|r| sample(r, wall + f64::from(r) / 1000.0)).collect(),
        };
        let mut broken = lock("a,\"b\"|c", true, 1.0);
        broken.samples[3].exit = Exit::Signal { number: 11, name: "SIGSEGV".into() };
        let mut all = Comparison {
            schema: SCHEMA,
            tool_version: "0.1.0".into(),
            started_unix_s: 1,
            machine: Machine::default(),
            seed: 1,
            command: vec!["prog".into(), "x".into()],
            measure: Measure::wall(),
            runs: 6,
            warmup: 1,
            timeout_s: 60.0,
            complete: true,
            locks: vec![lock("pthread", false, 2.0), lock("quick", true, 1.0), broken],
            summary: Vec::new(),
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
        assert_eq!(value["schema"], 1);
        assert_eq!(value["locks"][2]["samples"][3]["exit"]["name"], "SIGSEGV");
    }

    #[test]
    fn csv_has_a_line_per_run_and_quotes_what_needs_it() {
        let text = render(Format::Csv, &comparison()).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 21);
        assert_eq!(&records[17][0], "a,\"b\"|c");
        assert_eq!((&records[17][6], &records[17][7]), ("signal", "SIGSEGV"));
        assert_eq!(&records[17][8], "crashed: SIGSEGV");
    }

    #[test]
    fn markdown_is_a_table_of_five_columns() {
        let text = render(Format::Markdown, &comparison()).unwrap();
        let table: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
        assert_eq!(table.len(), 5);
        for line in table {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 6, "{line}");
        }
        assert!(text.contains("x faster") && text.contains("crashed: SIGSEGV, in 1 of 7 runs"), "{text}");
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
