//! What an executable file says about itself, read without running it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::elf::{Dyn, ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};

/// The ELF facts that decide whether a preload library works on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// ELF machine number and word size: equal for files that can live in one process.
    pub machine: (u16, bool),
    /// The dynamic loader it asks for.
    pub interpreter: Option<String>,
    /// Whether the Go toolchain linked it.
    pub go: bool,
    /// Whether a table of dynamic symbols could be read.
    pub has_symbols: bool,
    /// Names of the libraries it needs.
    pub needed: Vec<String>,
    /// Folders it names for them, with whether `LD_LIBRARY_PATH` comes later (RPATH).
    pub search: Vec<String>,
    /// Whether [`Image::search`] is an RPATH, which comes before LD_LIBRARY_PATH.
    pub rpath: bool,
    /// Names of the dynamic symbols that it imports.
    pub imports: BTreeSet<String>,
}

impl Image {
    /// Reads an ELF file; `None` when `data` is none.
    pub fn parse(data: &[u8]) -> Option<Result<Self, object::Error>> {
        match object::FileKind::parse(data) {
            Ok(object::FileKind::Elf64) => Some(read::<elf::FileHeader64<object::Endianness>>(data)),
            Ok(object::FileKind::Elf32) => Some(read::<elf::FileHeader32<object::Endianness>>(data)),
            _ => None,
        }
    }

    /// Name of the machine.
    pub fn machine_name(&self) -> String {
        match self.machine {
            (elf::EM_X86_64, true) => "x86_64".into(),
            (elf::EM_X86_64, false) => "x32".into(),
            (elf::EM_386, _) => "i386".into(),
            (elf::EM_AARCH64, _) => "aarch64".into(),
            (elf::EM_ARM, _) => "arm".into(),
            (elf::EM_RISCV, _) => "riscv".into(),
            (elf::EM_PPC64, _) => "ppc64".into(),
            (elf::EM_S390, _) => "s390".into(),
            (number, _) => format!("ELF machine {number}"),
        }
    }
}

fn read<H: FileHeader<Endian = object::Endianness>>(data: &[u8]) -> Result<Image, object::Error> {
    let file = ElfFile::<H>::parse(data)?;
    let endian = file.endian();
    let header = file.elf_header();
    let mut image = Image { machine: (header.e_machine(endian), header.is_class_64()), ..Image::default() };
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, data)? {
            image.interpreter = Some(text(path));
        }
    }
    let sections = file.elf_section_table();
    let go = |name: &[u8]| matches!(name, b".go.buildinfo" | b".note.go.buildid");
    image.go = sections.iter().any(|s| sections.section_name(endian, s).is_ok_and(go));
    if let Some((entries, link)) = sections.dynamic(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for entry in entries {
            let Some(tag) = entry.tag32(endian) else { continue };
            let value = || entry.string(endian, strings).map(text);
            match tag {
                elf::DT_NEEDED => image.needed.push(value()?),
                // A RUNPATH makes the RPATH void.
                elf::DT_RUNPATH => {
                    image.search = value()?.split(':').map(str::to_owned).collect();
                    image.rpath = false;
                }
                elf::DT_RPATH if image.search.is_empty() => {
                    image.search = value()?.split(':').map(str::to_owned).collect();
                    image.rpath = true;
                }
                _ => {}
            }
        }
    }
    image.has_symbols = sections.iter().any(|s| s.sh_type(endian) == elf::SHT_DYNSYM);
    let symbols = file.elf_dynamic_symbol_table();
    for symbol in symbols.iter() {
        let name = symbol.name(endian, symbols.strings())?;
        if symbol.is_undefined(endian) && !name.is_empty() {
            image.imports.insert(text(name));
        }
    }
    Ok(image)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An object of a program with where it lies.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its file.
    pub path: PathBuf,
    /// What it says about itself.
    pub image: Image,
}

/// The program and the libraries that the dynamic loader will bring in with it, and the names of those not found.
pub fn closure(program: Loaded) -> (Vec<Loaded>, Vec<String>) {
    let cache = fs::read("/etc/ld.so.cache").map(|bytes| loader_cache(&bytes)).unwrap_or_default();
    let machine = program.image.machine;
    let mut objects = vec![program];
    let mut seen = BTreeSet::new();
    let mut missing = Vec::new();
    let mut at = 0;
    while at < objects.len() {
        for name in objects[at].image.needed.clone() {
            if !seen.insert(name.clone()) {
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
        let image = Image::parse(&fs::read(&path).ok()?)?.ok()?;
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
    dirs.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    dirs.extend(of(asking, false));
    let usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
    let from_cache = cache.iter().filter(|(cached, _)| cached == name).map(|(_, path)| path.clone());
    let in_dirs = dirs.iter().filter(|d| d.is_absolute()).map(|d| d.join(name));
    in_dirs.chain(from_cache).chain(usual.iter().map(|d| d.join(name))).find_map(load)
}

/// Names and paths in `/etc/ld.so.cache`, in its current format (glibc 2.2 and later).
fn loader_cache(bytes: &[u8]) -> Vec<(String, PathBuf)> {
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
        Some((text(name), PathBuf::from(std::ffi::OsStr::from_bytes(path))))
    };
    (0..word(MAGIC.len()).unwrap_or(0)).map_while(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_imports_from_a_library_that_is_found() {
        let path = std::env::current_exe().unwrap();
        let image = Image::parse(&fs::read(&path).unwrap()).expect("an ELF file").unwrap();
        assert_eq!(image.machine_name(), std::env::consts::ARCH);
        assert!(image.interpreter.is_some() && image.has_symbols && !image.go);
        assert!(image.imports.contains("pthread_create") || image.imports.contains("memcpy"), "{:?}", image.imports);
        let (objects, missing) = closure(Loaded { path, image });
        assert!(missing.is_empty(), "{missing:?}");
        assert!(objects.iter().any(|o| o.path.file_name().is_some_and(|n| n == "libc.so.6")));
    }

    #[test]
    fn other_files_are_no_elf() {
        assert!(Image::parse(b"#!/bin/sh\n").is_none());
        assert!(Image::parse(b"").is_none());
        assert!(Image::parse(b"\x7fELF\x02\x01\x01").is_none_or(|r| r.is_err()));
    }

    #[test]
    fn a_broken_loader_cache_is_an_empty_one() {
        assert!(loader_cache(b"").is_empty());
        let mut cut = b"glibc-ld.so.cache1.1".to_vec();
        cut.extend(1000u32.to_ne_bytes());
        assert!(loader_cache(&cut).is_empty());
    }
}
