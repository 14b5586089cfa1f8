//! What an executable file says about itself, read without running it.

mod closure;
mod file;

use std::collections::BTreeSet;

use object::elf;
use object::read::elf::{Dyn, ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym, SymbolTable};

pub use closure::{closure, Loaded};
pub use file::read_program;

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

/// Functions whose definition tells which runtime of a sanitizer is linked into a file, with the name that the runtime gives
/// itself in its reports.
const MARKERS: [(&str, &[u8]); 2] = [("__asan_init", b"\0AddressSanitizer\0"), ("__tsan_init", b"\0ThreadSanitizer\0")];

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
    let is_shared_object = header.e_type(endian) == elf::ET_DYN && image.interpreter.is_none();
    if let Some((entries, link)) = sections.dynamic(endian, data)? {
        let is_program = |entry: &H::Dyn| {
            let flags = entry.d_val(endian).into();
            entry.tag32(endian) == Some(elf::DT_FLAGS_1) && flags & u64::from(elf::DF_1_PIE) != 0
        };
        image.library = is_shared_object && !entries.iter().any(is_program);
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
        let names = if symbol.is_undefined(endian) { &mut image.imports } else { &mut image.exports };
        if !name.is_empty() {
            names.insert(text(name));
        }
    }
    for symbols in [symbols, file.elf_symbol_table()] {
        image.markers.extend(markers(endian, symbols));
    }
    // A stripped program still exports the functions that such a runtime puts before those of the C library.
    if image.exports.contains("pthread_create") {
        let holds = |name: &[u8]| data.windows(name.len()).any(|window| window == name);
        image.markers.extend(MARKERS.into_iter().filter(|(_, name)| holds(name)).map(|(marker, _)| marker));
    }
    Ok(image)
}

fn markers<'a, H: FileHeader<Endian = object::Endianness>>(
    endian: object::Endianness,
    symbols: &'a SymbolTable<'_, H>,
) -> impl Iterator<Item = &'static str> + 'a {
    let defined = symbols.iter().filter(move |symbol| !symbol.is_undefined(endian));
    // A name that cannot be read is none of these.
    let names = defined.filter_map(move |symbol| symbol.name(endian, symbols.strings()).ok());
    names.filter_map(|name| MARKERS.into_iter().map(|(marker, _)| marker).find(|marker| marker.as_bytes() == name))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
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
