//! The libraries that the dynamic loader brings in with a program.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::image::text;
use crate::{read_program, Image};

/// An object of a program with where it lies.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its file.
    pub path: PathBuf,
    /// What it says about itself.
    pub image: Image,
}

/// More libraries than this are not looked at: a file can name any number of them.
const MOST_LIBRARIES: usize = 1000;

/// The program and the libraries that the dynamic loader will bring in with it, and the names of those not found.
pub fn closure(mut program: Loaded) -> (Vec<Loaded>, Vec<String>) {
    // `$ORIGIN` is the folder of the file that is executed, and not of a link to it.
    program.path = program.path.canonicalize().unwrap_or(program.path);
    let cache = fs::read("/etc/ld.so.cache").map(|bytes| loader_cache(&bytes)).unwrap_or_default();
    let machine = program.image.machine;
    let mut objects = vec![program];
    let mut seen = BTreeSet::new();
    let mut missing = Vec::new();
    let mut at = 0;
    while at < objects.len() {
        for name in objects[at].image.needed.clone() {
            if seen.len() == MOST_LIBRARIES || !seen.insert(name.clone()) {
                continue;
            }
            match resolve(&name, &objects[at], &objects[0], &cache, machine) {
                Some(found) => objects.push(found),
                None => missing.push(name),
            }
        }
        at += 1;
    }
    (objects, missing)
}

fn resolve(
    name: &str,
    asking: &Loaded,
    program: &Loaded,
    cache: &[(String, PathBuf)],
    machine: (u16, bool),
) -> Option<Loaded> {
    let load = |path: PathBuf| {
        let image = Image::parse(&read_program(&path).ok()?)?.ok()?;
        (image.machine == machine).then_some(Loaded { path, image })
    };
    if name.contains('/') {
        return load(name.into());
    }
    let of = |object: &Loaded, rpath: bool| -> Vec<PathBuf> {
        let origin = object.path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        let wanted =
            object.image.search.iter().filter(|_| object.image.rpath == rpath && !object.image.search.is_empty());
        wanted.map(|dir| dir.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin).into()).collect()
    };
    let mut dirs = of(asking, true);
    dirs.extend(of(program, true));
    dirs.extend(env::var_os("LD_LIBRARY_PATH").iter().flat_map(env::split_paths));
    dirs.extend(of(asking, false));
    let usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
    let from_cache = cache.iter().filter(|(cached, _)| cached == name).map(|(_, path)| path.clone());
    let in_dirs = dirs.iter().filter(|d| d.is_absolute()).map(|d| d.join(name));
    in_dirs.chain(from_cache).chain(usual.iter().map(|d| d.join(name))).find_map(load)
}

/// Names and paths in `/etc/ld.so.cache`, in its current format (glibc 2.2 and later).
pub(crate) fn loader_cache(bytes: &[u8]) -> Vec<(String, PathBuf)> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    // An older format may come first; offsets count from the start of this one.
    let Some(start) = bytes.windows(MAGIC.len()).position(|w| w == MAGIC) else { return Vec::new() };
    let bytes = &bytes[start..];
    let word = |at: usize| -> Option<usize> {
        let word: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(word)).ok()
    };
    let string = |at: usize| -> Option<&[u8]> { bytes.get(at..)?.split(|b| *b == 0).next() };
    let entry = |index: usize| {
        let at = HEADER_BYTES + index * ENTRY_BYTES;
        let (name, path) = (string(word(at + 4)?)?, string(word(at + 8)?)?);
        Some((text(name), PathBuf::from(OsStr::from_bytes(path))))
    };
    (0..word(MAGIC.len()).unwrap_or(0)).map_while(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_loader_cache_is_an_empty_one() {
        assert!(loader_cache(b"").is_empty());
        let mut cut = b"glibc-ld.so.cache1.1".to_vec();
        cut.extend(1000u32.to_ne_bytes());
        assert!(loader_cache(&cut).is_empty());
    }
}
