//! A folder of small files kept in one text: a line per file, or per group of files with the same content.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use lockswap_platform::CpuList;

use crate::files::Files;

/// Files by their path.
#[derive(Clone, Debug, Default)]
pub struct Captured(BTreeMap<String, String>);

impl Captured {
    /// Reads lines of the form `PATH<TAB>CONTENT`. A list in brackets stands for each of its numbers, so that
    /// `cpu[0-1,8]/online` names three files. Lines that begin with `#` say something to the reader.
    ///
    /// A line of another form, or that names a file a second time, is an error, which quotes it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("'{line}' is not PATH<TAB>CONTENT");
            let (path, content) = line.split_once('\t').ok_or_else(wrong)?;
            for path in expand(path).ok_or_else(wrong)? {
                if files.insert(path, format!("{content}\n")).is_some() {
                    return Err(format!("'{line}' names a file again"));
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

/// The paths that a path with lists in brackets stands for.
fn expand(path: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = path.split_once('[') else { return Some(vec![path.to_owned()]) };
    let (list, after) = rest.split_once(']')?;
    let list = CpuList::parse(list.as_bytes())?;
    let after = expand(after)?;
    Some(list.cpus().flat_map(|n| after.iter().map(move |after| format!("{before}{n}{after}"))).collect())
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
        for nonsense in ["a", "a[\t0", "a[]\t0", "a\t0\na\t1"] {
            assert!(Captured::parse(nonsense).is_err(), "{nonsense}");
        }
    }
}
