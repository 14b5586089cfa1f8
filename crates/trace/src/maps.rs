//! What is mapped into a process, from `/proc/PID/maps`.

use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A part of a file in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// Whether its content can be run.
    pub executable: bool,
    /// The file's number in its file system.
    pub inode: u64,
    /// The file, under the name that it has or had.
    pub path: PathBuf,
    /// Whether the file has no name any more.
    pub deleted: bool,
}

/// The mapped files, ordered by address; memory without a file is left out.
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// `55d8-55d9 r-xp 00001000 fe:01 1234   /usr/bin/true (deleted)`
fn line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let begin = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[begin..].iter().position(|byte| *byte == b' ').map_or(rest.len(), |length| begin + length);
        let word = std::str::from_utf8(&rest[begin..end]).ok()?;
        rest = &rest[end..];
        Some(word)
    };
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (begin, end) = word()?.split_once('-')?;
    let range = hexadecimal(begin)?..hexadecimal(end)?;
    let executable = word()?.contains('x');
    let offset = hexadecimal(word()?)?;
    let _device = word()?;
    let inode = word()?.parse().ok().filter(|inode| *inode != 0)?;
    let name = &rest[rest.iter().position(|byte| *byte != b' ')?..];
    let (name, deleted) = name.strip_suffix(b" (deleted)").map_or((name, false), |name| (name, true));
    let path = PathBuf::from(std::ffi::OsString::from_vec(without_escapes(name)));
    Some(Mapping { range, offset, executable, inode, path, deleted })
}

/// The kernel writes a line feed in a name as `\012`.
fn without_escapes(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(byte) = rest.first() {
        let taken = match rest.strip_prefix(b"\\012") {
            Some(_) => (b'\n', 4),
            None => (*byte, 1),
        };
        plain.push(taken.0);
        rest = &rest[taken.1..];
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let text = b"55d81c800000-55d81c801000 r-xp 00001000 fe:01 1234          /tmp/a b\\012c\n\
            7ff000000000-7ff000001000 rw-p 00000000 00:00 0             [heap]\n\
            7ff000002000-7ff000003000 r--p 00000000 00:00 0\n\
            7ff000004000-7ff000005000 r--p 00003000 00:17 99            /dev/shm/x (deleted)\n\
            nonsense\n";
        let found = parse(text);
        assert_eq!(found.len(), 2, "{found:?}");
        let first = &found[0];
        assert_eq!((first.range.clone(), first.offset), (0x55d81c800000..0x55d81c801000, 0x1000));
        assert_eq!((first.executable, first.inode, first.deleted), (true, 1234, false));
        assert_eq!(first.path, PathBuf::from("/tmp/a b\nc"));
        assert_eq!((found[1].path.to_str(), found[1].deleted, found[1].executable), (Some("/dev/shm/x"), true, false));
    }

    #[test]
    fn our_own_program_is_among_its_maps() {
        let own = std::env::current_exe().unwrap();
        let maps = parse(&std::fs::read("/proc/self/maps").unwrap());
        let code = our_own_program_is_among_its_maps as *const () as u64;
        assert!(maps.iter().any(|m| m.path == own && m.executable && m.range.contains(&code)));
    }
}
