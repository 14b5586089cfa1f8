//! How a program is linked, which decides whether a preload library can get into it.

use std::path::{Path, PathBuf};

use crate::{read_program, Finding, Image};

const NAME: &str = "linking";

/// The oldest glibc that the preload library works with.
const OLDEST: (u32, u32) = (2, 34);

/// What the linking of `image` means; an error if the library cannot get into it.
pub fn check(image: &Image) -> Result<Finding, Finding> {
    if image.library {
        let remedy = "its locks are replaced in a program that lockswap works on: examine the program, too";
        return Ok(Finding::note(NAME, "a shared library, which a program loads", remedy));
    }
    let Some(interpreter) = &image.interpreter else {
        let (what, remedy) = if image.go {
            (
                "a static Go program: Go has its own locks and ignores LD_PRELOAD; it runs as without lockswap",
                "use Go's own profiling of its locks",
            )
        } else {
            (
                "static: no dynamic loader reads LD_PRELOAD; it runs as without lockswap",
                "link it dynamically (without -static)",
            )
        };
        return Err(Finding::problem(NAME, what, remedy));
    };
    if interpreter.contains("ld-musl") {
        let what = format!("for musl ({interpreter}), not glibc: it runs as without lockswap");
        return Err(Finding::problem(NAME, what, "use a build of it for glibc"));
    }
    let here = own_loader();
    match Path::new(interpreter).canonicalize() {
        Err(error) => {
            let what = format!("its dynamic loader cannot be used: {interpreter}: {error}");
            Err(Finding::problem(NAME, what, "install the C library that it was built for"))
        }
        Ok(loader) if here.as_ref() == Some(&loader) => {
            Ok(Finding::ok(NAME, format!("dynamic, loaded by {interpreter}")))
        }
        Ok(loader) => foreign(interpreter, &loader),
    }
}

/// A program with a dynamic loader that is not this command's, and so with a C library of its own.
fn foreign(interpreter: &str, loader: &Path) -> Result<Finding, Finding> {
    let libc = loader.with_file_name("libc.so.6");
    let found = read_program(&libc).ok().and_then(|bytes| glibc_version(&bytes));
    match found {
        Some(version) if version < OLDEST => {
            let (major, minor) = version;
            let what = format!(
                "dynamic, loaded by {interpreter} with glibc {major}.{minor}, older than {}.{}: lockswap cannot be loaded into it",
                OLDEST.0, OLDEST.1
            );
            let remedy = "start it without 'lockswap run', or use a build of it for a newer glibc";
            Err(Finding::problem(NAME, what, remedy))
        }
        Some((major, minor)) => {
            Ok(Finding::ok(NAME, format!("dynamic, loaded by {interpreter} with glibc {major}.{minor}")))
        }
        None => Ok(Finding::note(
            NAME,
            format!("dynamic, loaded by {interpreter}, which is not this system's loader; its glibc is not known"),
            format!("it must be {}.{} or later: 'lockswap run --summary' says whether it is", OLDEST.0, OLDEST.1),
        )),
    }
}

/// The dynamic loader of this command.
fn own_loader() -> Option<PathBuf> {
    let own = read_program(&std::env::current_exe().ok()?).ok()?;
    let interpreter = Image::parse(&own)?.ok()?.interpreter?;
    Path::new(&interpreter).canonicalize().ok()
}

/// The version in the banner that glibc carries: "GNU C Library (...) stable release version 2.36."
fn glibc_version(libc: &[u8]) -> Option<(u32, u32)> {
    const BANNER: &[u8] = b"GNU C Library";
    const WORDS: &str = "release version ";
    let at = libc.windows(BANNER.len()).position(|window| window == BANNER)?;
    let line = String::from_utf8_lossy(&libc[at..libc.len().min(at + 200)]);
    let version = &line[line.find(WORDS)? + WORDS.len()..];
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner(input: &[u8]) {
        let version = lockswap_fuzz::reading(input, lockswap_fuzz::MIB, || glibc_version(input));
        assert!(version.is_none() || input.windows(13).any(|part| part == b"GNU C Library"));
    }

    lockswap_fuzz::tests!(glibc_banner, 16, super::banner);

    #[test]
    fn glibc_says_its_version() {
        let of = |text: &str| glibc_version(text.as_bytes());
        assert_eq!(of("\0GNU C Library (Debian GLIBC 2.31-13) release version 2.31.\nCopyright"), Some((2, 31)));
        assert_eq!(of("GNU C Library (GNU libc) stable release version 2.17, by Roland"), Some((2, 17)));
        assert_eq!(of("GNU C Library"), None);
        assert_eq!(of(""), None);
    }
}
