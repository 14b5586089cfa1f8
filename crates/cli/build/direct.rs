//! Finds in the preload library what it takes to make its symbols lead to the functions of one lock directly: see
//! `crates/preload/src/mutex/direct.rs`.

use std::collections::HashMap;

use object::elf::{R_AARCH64_RELATIVE, R_X86_64_RELATIVE, SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{Object, ObjectSegment, ObjectSymbol, RelocationFlags};

/// The symbols, in the order of the functions in the table.
const SYMBOLS: [&str; 3] = ["pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_unlock"];

/// The exported table of the library.
const TABLE: &str = "lockswap_direct";

/// Bytes of an id in the table, and of all that it has for a lock.
const ID_BYTES: u64 = 32;
const LOCK_BYTES: u64 = ID_BYTES + 8 * SYMBOLS.len() as u64;

/// Of an entry in the table of symbols: its size, and where the address and the size of what it names are in it.
const ENTRY_BYTES: usize = 24;
const ADDRESS_AND_SIZE: usize = 8;

/// An expression of the type `Direct` in `library.rs`; nothing if the library has no such functions, or no table of
/// its own symbols, which says how large they are.
pub fn find(image: &[u8]) -> Result<Option<String>, object::Error> {
    let file = ElfFile64::<object::Endianness>::parse(image)?;
    let Some(table) = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(TABLE)) else { return Ok(None) };
    let sizes: HashMap<u64, u64> = file.symbols().map(|symbol| (symbol.address(), symbol.size())).collect();
    let is_relative = |flags| match flags {
        RelocationFlags::Elf { r_type } => [R_X86_64_RELATIVE, R_AARCH64_RELATIVE].contains(&r_type),
        _ => false,
    };
    let pointers: HashMap<u64, u64> = file
        .dynamic_relocations()
        .into_iter()
        .flatten()
        .filter(|(_, relocation)| is_relative(relocation.flags()))
        .map(|(place, relocation)| (place, relocation.addend() as u64))
        .collect();
    let mut locks = String::new();
    for number in 0..table.size() / LOCK_BYTES {
        let lock = table.address() + number * LOCK_BYTES;
        let id = file.segments().find_map(|segment| segment.data_range(lock, ID_BYTES).ok().flatten());
        let id = id.map(|bytes| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string());
        let function = |number| {
            let address = *pointers.get(&(lock + ID_BYTES + 8 * number))?;
            let size = *sizes.get(&address)?;
            Some([address, size].map(|word| word.to_le_bytes()).concat())
        };
        let functions: Option<Vec<_>> = (0..SYMBOLS.len() as u64).map(function).collect();
        let (Some(id), Some(functions)) = (id, functions) else { return Ok(None) };
        locks += &format!("({id:?}, {functions:?}),\n");
    }
    let entries = SYMBOLS.map(|name| entries(&file, name));
    Ok(Some(format!("Direct {{ entries: {}, locks: &[{locks}] }}", slices(&entries))))
}

/// Where in the file the address and the size of each symbol of this name are, whatever its version: for the dynamic
/// linker, and for debuggers.
fn entries(file: &ElfFile64<'_>, name: &str) -> Vec<usize> {
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, file.data()).expect("parsed before");
    let start = |kind| {
        let section = sections.iter().find(|section| section.sh_type(endian) == kind);
        section.map_or(0, |section| section.sh_offset(endian) as usize)
    };
    let (of_linker, of_debuggers) = (start(SHT_DYNSYM), start(SHT_SYMTAB));
    let of_linker = file.dynamic_symbols().map(|symbol| (of_linker, symbol));
    let of_debuggers = file.symbols().map(|symbol| (of_debuggers, symbol));
    let named = of_linker.chain(of_debuggers).filter(|(_, symbol)| symbol.name() == Ok(name));
    named.map(|(start, symbol)| start + symbol.index().0 * ENTRY_BYTES + ADDRESS_AND_SIZE).collect()
}

fn slices(lists: &[Vec<usize>]) -> String {
    let slices: Vec<String> = lists.iter().map(|list| format!("&{list:?}")).collect();
    format!("[{}]", slices.join(", "))
}
