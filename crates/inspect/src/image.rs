//! What an executable file says about itself, read without running it.

#[cfg(test)]
mod fuzz;

use std::collections::BTreeSet;
use std::fmt;

use object::elf;
use object::read::elf::{Dyn, ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};

/// The ELF facts that decide whether a preload library works on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// ELF machine number and word size: equal for files that can live in one process.
    pub machine: (u16, bool),
    /// The dynamic loader it asks for.
    pub interpreter: Option<String>,
    /// Whether it is a shared library, which a program loads.
    pub library: bool,
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
    /// Names of the dynamic symbols that it exports.
    pub exports: BTreeSet<String>,
    /// `__asan_init` and `__tsan_init`, if a runtime that defines them is linked into it.
    pub markers: BTreeSet<&'static str>,
}

/// Functions whose definition tells which runtime of a sanitizer is linked into a file, with the name that the runtime
/// gives itself in its reports.
const MARKERS: [(&str, &[u8]); 2] = [("__asan_init", b"\0AddressSanitizer\0"), ("__tsan_init", b"\0ThreadSanitizer\0")];

/// Why an ELF file cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is damaged.
    Damaged(object::Error),
    /// Its names overlap, so that together they are many times larger than the file.
    Overlapping,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Damaged(error) => error.fmt(f),
            Unreadable::Overlapping => f.write_str("its names overlap"),
        }
    }
}

impl From<object::Error> for Unreadable {
    fn from(error: object::Error) -> Self {
        Unreadable::Damaged(error)
    }
}

/// Bytes of names that may still be looked at. A name is no more than an offset, from which it reaches to the next
/// zero byte: all names of a file may be the same long text.
struct Names {
    room: usize,
}

impl Names {
    /// Names of a file of so many bytes. Linkers let a name be the end of another one, so that the sum may be larger.
    fn of(data: &[u8]) -> Self {
        Names { room: 16 * data.len() }
    }

    fn look<'a>(&mut self, name: &'a [u8]) -> Result<&'a [u8], Unreadable> {
        self.room = self.room.checked_sub(name.len()).ok_or(Unreadable::Overlapping)?;
        Ok(name)
    }

    fn text(&mut self, name: &[u8]) -> Result<String, Unreadable> {
        self.look(name).map(text)
    }
}

impl Image {
    /// Reads an ELF file; `None` when `data` is none.
    pub fn parse(data: &[u8]) -> Option<Result<Self, Unreadable>> {
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

fn read<H: FileHeader<Endian = object::Endianness>>(data: &[u8]) -> Result<Image, Unreadable> {
    let file = ElfFile::<H>::parse(data)?;
    let endian = file.endian();
    let header = file.elf_header();
    let mut names = Names::of(data);
    let mut image = Image { machine: (header.e_machine(endian), header.is_class_64()), ..Image::default() };
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, data)? {
            image.interpreter = Some(names.text(path)?);
        }
    }
    let sections = file.elf_section_table();
    for section in sections.iter() {
        // A name that cannot be read is none of these.
        let name = names.look(sections.section_name(endian, section).unwrap_or_default())?;
        image.go |= matches!(name, b".go.buildinfo" | b".note.go.buildid");
    }
    let is_shared_object = header.e_type(endian) == elf::ET_DYN && image.interpreter.is_none();
    if let Some((entries, link)) = sections.dynamic(endian, data)? {
        let is_program = |entry: &H::Dyn| {
            let flags = entry.d_val(endian).into();
            entry.tag32(endian) == Some(elf::DT_FLAGS_1) && flags & u64::from(elf::DF_1_PIE) != 0
        };
        image.library = is_shared_object && !entries.iter().any(is_program);
        let strings = sections.strings(endian, data, link)?;
        for entry in entries {
            let mut value = || names.text(entry.string(endian, strings)?);
            match entry.tag32(endian) {
                Some(elf::DT_NEEDED) => image.needed.push(value()?),
                // A RUNPATH makes the RPATH void.
                Some(elf::DT_RUNPATH) => {
                    image.search = value()?.split(':').map(str::to_owned).collect();
                    image.rpath = false;
                }
                Some(elf::DT_RPATH) if image.search.is_empty() => {
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
        let name = names.look(symbol.name(endian, symbols.strings())?)?;
        let list = if symbol.is_undefined(endian) { &mut image.imports } else { &mut image.exports };
        if !name.is_empty() {
            list.insert(text(name));
        }
    }
    for symbols in [symbols, file.elf_symbol_table()] {
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            let name = names.look(symbol.name(endian, symbols.strings()).unwrap_or_default())?;
            let known = MARKERS.into_iter().map(|(marker, _)| marker);
            image.markers.extend(known.filter(|marker| marker.as_bytes() == name));
        }
    }
    // A stripped program still exports the functions that such a runtime puts before those of the C library.
    if image.exports.contains("pthread_create") {
        let holds = |name: &[u8]| data.windows(name.len()).any(|window| window == name);
        image.markers.extend(MARKERS.into_iter().filter(|(_, name)| holds(name)).map(|(marker, _)| marker));
    }
    Ok(image)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{closure, Loaded};
    use std::fs;

    #[test]
    fn this_test_imports_from_a_library_that_is_found() {
        let path = std::env::current_exe().unwrap();
        let image = Image::parse(&fs::read(&path).unwrap()).expect("an ELF file").unwrap();
        assert_eq!(image.machine_name(), std::env::consts::ARCH);
        assert!(image.interpreter.is_some() && image.has_symbols && !image.go && !image.library);
        assert!(image.imports.contains("pthread_create") || image.imports.contains("memcpy"), "{:?}", image.imports);
        let (objects, missing) = closure(Loaded { path, image });
        assert!(missing.is_empty(), "{missing:?}");
        let libc = objects.iter().find(|o| o.path.file_name().is_some_and(|n| n == "libc.so.6")).unwrap();
        assert!(libc.image.exports.contains("pthread_create"));
    }

    #[test]
    fn other_files_are_no_elf() {
        assert!(Image::parse(b"#!/bin/sh\n").is_none());
        assert!(Image::parse(b"").is_none());
        assert!(Image::parse(b"\x7fELF\x02\x01\x01").is_none_or(|r| r.is_err()));
    }
}
