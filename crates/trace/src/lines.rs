//! Where the code of a line of the source lies in a program or library, as its debug information says.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use gimli::{constants, AttributeValue, Dwarf, EndianSlice, LineProgramHeader, RunTimeEndian, Unit};
use object::{CompressionFormat, Endianness, Object, ObjectSection};

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// Why no code was found.
#[derive(Debug)]
pub enum NoCode {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is no ELF file, or its debug information makes no sense.
    Broken(String),
    /// It has no debug information.
    NoDebugInformation,
    /// It is compressed.
    Compressed,
    /// No code belongs to that line.
    NoLine,
}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCode::Unreadable(error) => write!(f, "cannot be read: {error}"),
            NoCode::Broken(why) => write!(f, "cannot be understood: {why}"),
            NoCode::NoDebugInformation => f.write_str("has no debug information (compile it with -g)"),
            NoCode::Compressed => f.write_str("has compressed debug information (link it without -gz)"),
            NoCode::NoLine => f.write_str("has no code of that line"),
        }
    }
}

impl From<gimli::Error> for NoCode {
    fn from(error: gimli::Error) -> Self {
        NoCode::Broken(error.to_string())
    }
}

impl From<object::Error> for NoCode {
    fn from(error: object::Error) -> Self {
        NoCode::Broken(error.to_string())
    }
}

/// The addresses of the code of this line, in order, as the file has them: that of the line itself, and that of
/// functions which the compiler has put in the place of calls there. `file` is the end of the source's path, in whole
/// parts.
///
/// # Errors
/// Why there are none.
pub fn code_of_line(module: &Path, file: &str, line: u32) -> Result<Vec<Range<u64>>, NoCode> {
    let data = fs::read(module).map_err(NoCode::Unreadable)?;
    let object = object::File::parse(&*data)?;
    let endian = match object.endianness() {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let mut is_compressed = false;
    let mut is_empty = true;
    let dwarf = Dwarf::load(|id| -> Result<Bytes<'_>, object::Error> {
        let Some(section) = object.section_by_name(id.name()) else { return Ok(EndianSlice::new(&[], endian)) };
        let content = section.compressed_data()?;
        is_compressed |= content.format != CompressionFormat::None;
        is_empty &= content.data.is_empty() || id != gimli::SectionId::DebugInfo;
        Ok(EndianSlice::new(content.data, endian))
    })?;
    if is_compressed {
        return Err(NoCode::Compressed);
    }
    if is_empty {
        return Err(NoCode::NoDebugInformation);
    }
    let mut found = Vec::new();
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        in_unit(&dwarf, &unit, file, u64::from(line), &mut found)?;
    }
    found.retain(|range| range.start < range.end && range.start != 0);
    found.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in found {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    if merged.is_empty() {
        Err(NoCode::NoLine)
    } else {
        Ok(merged)
    }
}

fn in_unit(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    file: &str,
    line: u64,
    found: &mut Vec<Range<u64>>,
) -> Result<(), gimli::Error> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut known: HashMap<u64, bool> = HashMap::new();
    let mut is_wanted = |header: &LineProgramHeader<Bytes<'_>>, index: u64| {
        *known.entry(index).or_insert_with(|| is_file(dwarf, unit, header, index, file))
    };
    let header = program.header().clone();
    let mut rows = program.rows();
    let mut begin = None;
    while let Some((header, row)) = rows.next_row()? {
        if let Some(begin) = begin.take() {
            found.push(begin..row.address());
        }
        let is_line = !row.end_sequence() && row.line().is_some_and(|found| found.get() == line);
        if is_line && is_wanted(header, row.file_index()) {
            begin = Some(row.address());
        }
    }
    // Calls in the line that the compiler has replaced by the function: its code belongs to other lines.
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() != constants::DW_TAG_inlined_subroutine {
            continue;
        }
        let call_line = entry.attr_value(constants::DW_AT_call_line).and_then(|value| value.udata_value());
        let Some(AttributeValue::FileIndex(index)) = entry.attr_value(constants::DW_AT_call_file) else { continue };
        if call_line == Some(line) && is_wanted(&header, index) {
            let mut ranges = dwarf.die_ranges(unit, entry)?;
            while let Some(range) = ranges.next()? {
                found.push(range.begin..range.end);
            }
        }
    }
    Ok(())
}

/// Whether the file with this number has a path that ends in `wanted`.
fn is_file(
    dwarf: &Dwarf<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    header: &LineProgramHeader<Bytes<'_>>,
    index: u64,
    wanted: &str,
) -> bool {
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
    let Some(entry) = header.file(index) else { return false };
    let Some(name) = text(entry.path_name()) else { return false };
    let directory = entry.directory(header).and_then(text).unwrap_or_default();
    Path::new(&directory).join(name).ends_with(wanted)
}
