//! Programs and libraries that may be anything, and the cache of the dynamic loader.

use lockswap_fuzz::{reading, MIB};

use super::Image;
use crate::closure::loader_cache;

fn elf(input: &[u8]) {
    let Some(Ok(image)) = reading(input, MIB, || Image::parse(input)) else { return };
    assert!(!image.machine_name().is_empty());
    assert!(image.interpreter.is_none_or(|path| path.len() <= 3 * input.len()));
}

fn ld_so_cache(input: &[u8]) {
    let found = reading(input, MIB, || loader_cache(input));
    assert!(found.len() <= input.len() / 24);
}

lockswap_fuzz::tests!(elf, 32, super::elf);
lockswap_fuzz::tests!(ld_so_cache, 16, super::ld_so_cache);

/// A file with one text of `bytes` bytes, in which the names of `symbols` symbols begin.
fn overlapping(symbols: usize, bytes: usize) -> Vec<u8> {
    const HEADER: usize = 64;
    const SECTION: usize = 64;
    const SYMBOL: usize = 24;
    let symbols_at = HEADER + 3 * SECTION;
    let strings_at = symbols_at + symbols * SYMBOL;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(strings_at, 0);
    let mut put = |at: usize, value: usize, bytes: usize| {
        file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    };
    // ET_DYN for x86-64, version 1; three sections behind the header, whose names are in the last one.
    let header = [(16, 3, 2), (18, 62, 2), (20, 1, 4), (40, HEADER, 8), (52, HEADER, 2), (58, SECTION, 2)];
    header.iter().chain(&[(60, 3, 2), (62, 2, 2)]).for_each(|(at, value, bytes)| put(*at, *value, *bytes));
    // SHT_DYNSYM, whose strings are in section 2, and SHT_STRTAB.
    for (section, fields) in [
        (1, [(4, 11, 4), (24, symbols_at, 8), (32, symbols * SYMBOL, 8), (40, 2, 4), (56, SYMBOL, 8)]),
        (2, [(4, 3, 4), (24, strings_at, 8), (32, bytes + 1, 8), (48, 1, 8), (56, 0, 8)]),
    ] {
        fields.iter().for_each(|(at, value, bytes)| put(HEADER + section * SECTION + at, *value, *bytes));
    }
    // Each begins one byte further on, so that all names differ.
    (0..symbols).for_each(|symbol| put(symbols_at + symbol * SYMBOL, symbol, 4));
    file.resize(strings_at + bytes, b'x');
    file.push(0);
    file
}

#[test]
fn names_that_overlap_do_not_fill_the_memory() {
    let small = Image::parse(&overlapping(3, 10)).expect("an ELF file").expect("not damaged");
    assert_eq!(small.imports.iter().map(String::len).sum::<usize>(), 10 + 9 + 8);
    let large = overlapping(4_000, 100_000);
    let error = reading(&large, MIB, || Image::parse(&large)).expect("an ELF file").expect_err("too large");
    assert_eq!(error.to_string(), "its names overlap");
}
