//! A folder of small files kept in one text: a line per file, or per group of files with the same content.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use lockswap_platform::CpuList;

use crate::files::Files;
use crate::quoted;

/// The most that files may take: of 4096 CPUs those that are read take less than half of it.
const MOST_BYTES: usize = 64 << 20;
/// Counted for each file besides its path and its content.
const FILE_BYTES: usize = 64;

/// Files by their path.
#[derive(Clone, Debug, Default)]
pub struct Captured(BTreeMap<String, String>);

impl Captured {
    /// Reads lines of the form `PATH<TAB>CONTENT`. A list in brackets stands for each of its numbers, so that
    /// `cpu[0-1,8]/online` names three files. Lines that begin with `#` say something to the reader.
    ///
    /// A line of another form, or that names a file a second time, is an error, which quotes it; so is the line with
    /// which the files together have more than 64 MiB.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        let mut room = MOST_BYTES;
        let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        for (number, line) in numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let wrong = |what: &str| format!("line {number}: '{}' {what}", quoted(line));
            let (path, content) = line.split_once('\t').ok_or_else(|| wrong("is not PATH<TAB>CONTENT"))?;
            let lists = Lists::of(path).ok_or_else(|| wrong("is not PATH<TAB>CONTENT"))?;
            let bytes = lists.count.saturating_mul(path.len() + content.len() + FILE_BYTES);
            room = room.checked_sub(bytes).ok_or_else(|| wrong("stands for too many files, or too large ones"))?;
            for path in lists.paths() {
                if files.insert(path, format!("{content}\n")).is_some() {
                    return Err(wrong("names a file again"));
                }
            }
        }
        Ok(Self(files))
    }

    /// Puts a file in, in the place of an earlier one.
    pub fn set(&mut self, path: impl Into<String>, content: impl fmt::Display) {
        self.0.insert(path.into(), format!("{content}\n"));
    }

    /// Takes out the files whose path begins with `prefix`.
    pub fn remove(&mut self, prefix: &str) {
        self.0.retain(|path, _| !path.starts_with(prefix));
    }

    /// Writes the files into the folder `dir`.
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        for (path, content) in &self.0 {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
            std::fs::write(path, content)?;
        }
        Ok(())
    }
}

/// A path with lists in brackets.
struct Lists<'a> {
    /// Each list with what is before it.
    lists: Vec<(&'a str, CpuList<'a>)>,
    /// What is behind the last one.
    end: &'a str,
    /// How many paths this stands for.
    count: usize,
}

impl<'a> Lists<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let (mut lists, mut end, mut count) = (Vec::new(), path, 1usize);
        while let Some((before, rest)) = end.split_once('[') {
            let (list, rest) = rest.split_once(']')?;
            let list = CpuList::parse(list.as_bytes())?;
            count = count.saturating_mul(list.cpus().count());
            lists.push((before, list));
            end = rest;
        }
        Some(Self { lists, end, count })
    }

    /// The paths; each number is a digit of a counter.
    fn paths(&self) -> impl Iterator<Item = String> + '_ {
        let numbers: Vec<Vec<usize>> = self.lists.iter().map(|(_, list)| list.cpus().collect()).collect();
        (0..self.count).map(move |mut index| {
            let mut chosen: Vec<usize> = Vec::new();
            for numbers in numbers.iter().rev() {
                chosen.push(numbers[index % numbers.len()]);
                index /= numbers.len();
            }
            let parts = self.lists.iter().zip(chosen.iter().rev());
            parts.map(|((before, _), number)| format!("{before}{number}")).collect::<String>() + self.end
        })
    }
}

impl Files for Captured {
    fn read<'b>(&self, path: fmt::Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let content = self.0.get(&path.to_string())?.as_bytes();
        let buffer = buffer.get_mut(..content.len())?;
        buffer.copy_from_slice(content);
        Some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_may_stand_for_many_files() {
        let files = Captured::parse("# a remark\n\na[0-1,4]/b[2]\t0-3\n").unwrap();
        assert_eq!(files.0.keys().collect::<Vec<_>>(), ["a0/b2", "a1/b2", "a4/b2"]);
        assert_eq!(files.read(format_args!("a4/b2"), &mut [0; 8]), Some(&b"0-3\n"[..]));
        assert_eq!(files.read(format_args!("a4/b2"), &mut [0; 3]), None);
        for nonsense in ["a", "a[\t0", "a[]\t0", "a\t0\na\t1", "a[0-4095]/b[0-4095]\t0"] {
            assert!(Captured::parse(nonsense).is_err(), "{nonsense}");
        }
        let error = Captured::parse("a\t0\n\nb[1\u{7}]").unwrap_err();
        assert_eq!(error, "line 3: 'b[1\\u{7}]' is not PATH<TAB>CONTENT");
    }
}
