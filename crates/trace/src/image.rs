//! An ELF file that processes have mapped: where its parts belong in memory, how frames of its functions are unwound,
//! and the names of its data.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::elf::PF_X;
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind};

use crate::demangle::demangled;
use crate::maps::Mapping;

/// Bytes of a section, shared by all processes that have the file mapped.
pub type Bytes = Arc<[u8]>;

/// How the preload library's file is called, whatever stands behind.
const OURS: &str = "liblockswap";

/// Most symbols of data that are kept of a file.
const MOST_SYMBOLS: usize = 1_000_000;

/// A file.
pub struct Image {
    /// The name by which it was mapped.
    pub path: PathBuf,
    /// The number that its linker gave it, in hexadecimal digits.
    pub build_id: Option<String>,
    /// Held open: the file can lose its name.
    file: Option<File>,
    segments: Vec<Segment>,
    sections: ExplicitModuleSectionInfo<Bytes>,
}

/// A part of the file that is mapped.
#[derive(Clone, Debug)]
struct Segment {
    /// Bytes of the file.
    file: Range<u64>,
    /// Where it says that they belong.
    address: u64,
    /// How much memory it takes: more than bytes of the file where data begins as zeros.
    memory: u64,
    executable: bool,
}

impl Image {
    /// The file of a mapping of a process. Nothing is known of one that cannot be opened or is damaged, but its name.
    pub fn of(process: u32, mapping: &Mapping) -> Self {
        let mut image = Self {
            path: mapping.path.clone(),
            build_id: None,
            file: None,
            segments: Vec::new(),
            sections: ExplicitModuleSectionInfo::default(),
        };
        let Some(file) = open(process, mapping) else { return image };
        let cache = ReadCache::new(&file);
        if let Ok(elf) = object::File::parse(&cache) {
            image.read(&elf);
        }
        image.file = Some(file);
        image
    }

    fn read<'d>(&mut self, elf: &object::File<'d, &'d ReadCache<&File>>) {
        let id = elf.build_id().ok().flatten();
        self.build_id = id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect());
        for segment in elf.segments() {
            let (offset, bytes) = segment.file_range();
            self.segments.push(Segment {
                file: offset..offset.saturating_add(bytes),
                address: segment.address(),
                memory: segment.size(),
                executable: matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0),
            });
        }
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().saturating_add(section.size()))
        };
        let data = |name: &str| {
            let data = elf.section_by_name(name)?.uncompressed_data().ok()?;
            Some(Bytes::from(&*data)).filter(|data| !data.is_empty())
        };
        self.sections = ExplicitModuleSectionInfo {
            text_svma: range(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        };
        if self.sections.eh_frame.is_none() {
            self.sections.debug_frame = data(".debug_frame");
        }
    }

    /// The file's name without its folder.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Whether it is the preload library.
    pub fn is_ours(&self) -> bool {
        self.name().starts_with(OURS)
    }

    /// Whether it is the C library, or the part of it that had the thread functions until 2.34.
    pub fn is_libc(&self) -> bool {
        let name = self.name();
        ["libc.so", "libc-2", "libpthread.so", "libpthread-2"].iter().any(|begin| name.starts_with(begin))
    }

    /// What has to be added to the file's own addresses where it is mapped so.
    pub fn bias(&self, mapping: &Mapping) -> u64 {
        const PAGE: u64 = 4096;
        // Two segments can share a page of the file, which is mapped for each then.
        let begins = |segment: &&Segment| {
            let pages = segment.file.start & !(PAGE - 1)..segment.file.end;
            segment.executable == mapping.executable && pages.contains(&mapping.offset)
        };
        // Where nothing is known of the file, its own addresses are taken for places in it.
        let own = self.segments.iter().find(begins).map_or(mapping.offset, |segment| {
            segment.address.wrapping_sub(segment.file.start).wrapping_add(mapping.offset)
        });
        mapping.range.start.wrapping_sub(own)
    }

    /// All of its own addresses; empty where nothing is known of it.
    pub fn addresses(&self) -> Range<u64> {
        let begin = self.segments.iter().map(|segment| segment.address).min().unwrap_or_default();
        let end = self.segments.iter().map(|segment| segment.address.saturating_add(segment.memory)).max();
        begin..end.unwrap_or_default()
    }

    /// What unwinding needs.
    pub fn sections(&self) -> ExplicitModuleSectionInfo<Bytes> {
        self.sections.clone()
    }

    /// Where it can be opened now: under its name if that is still the same file.
    pub fn file(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        let own = file.metadata().ok()?;
        let is_same = |named: fs::Metadata| (named.dev(), named.ino()) == (own.dev(), own.ino());
        if fs::metadata(&self.path).is_ok_and(is_same) {
            return Some(self.path.clone());
        }
        Some(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// The symbols of data, ordered by address; those of a separate file with debug information where it has none
    /// itself.
    pub fn data_symbols(&self) -> Vec<DataSymbol> {
        let own = self.file.as_ref().map(data_symbols).unwrap_or_default();
        if !own.iter().all(|symbol| symbol.is_dynamic) {
            return own;
        }
        let separate = self.build_id.as_deref().and_then(separate_file).map(|file| data_symbols(&file));
        separate.filter(|symbols| !symbols.is_empty()).unwrap_or(own)
    }
}

/// A variable of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSymbol {
    /// Where, in the file's own addresses.
    pub address: u64,
    /// Bytes; 0: not known.
    pub size: u64,
    /// As it is written in the source.
    pub name: String,
    is_dynamic: bool,
}

/// Debug information that Debian and others keep apart.
fn separate_file(build_id: &str) -> Option<File> {
    let (folder, name) = build_id.split_at_checked(2)?;
    File::open(Path::new("/usr/lib/debug/.build-id").join(folder).join(format!("{name}.debug"))).ok()
}

fn data_symbols(file: &File) -> Vec<DataSymbol> {
    fn read<'d, R: ReadRef<'d>>(elf: &object::File<'d, R>) -> Vec<DataSymbol> {
        let symbol = |symbol: object::Symbol<'d, '_, R>, is_dynamic| {
            let is_data = symbol.kind() == SymbolKind::Data && symbol.is_definition();
            let name = symbol.name().ok().filter(|name| is_data && !name.is_empty())?;
            Some(DataSymbol { address: symbol.address(), size: symbol.size(), name: demangled(name), is_dynamic })
        };
        let whole = elf.symbols().filter_map(|found| symbol(found, false));
        let dynamic = elf.dynamic_symbols().filter_map(|found| symbol(found, true));
        whole.chain(dynamic).take(MOST_SYMBOLS).collect()
    }
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else { return Vec::new() };
    let mut symbols = read(&elf);
    symbols.sort_by(|a, b| a.address.cmp(&b.address).then(a.is_dynamic.cmp(&b.is_dynamic)));
    symbols.dedup_by_key(|symbol| symbol.address);
    symbols
}

/// Opens a mapped file: under its name, as the process sees it, or, where it has none, by what the kernel keeps of it.
fn open(process: u32, mapping: &Mapping) -> Option<File> {
    let of_process = |rest: &str| PathBuf::from(format!("/proc/{process}/{rest}"));
    let Range { start, end } = mapping.range;
    let inside = mapping.path.strip_prefix("/").ok().map(|path| of_process("root").join(path));
    let places = [
        (!mapping.deleted).then(|| mapping.path.clone()),
        inside.filter(|_| !mapping.deleted),
        Some(of_process(&format!("map_files/{start:x}-{end:x}"))),
        Some(of_process("exe")),
    ];
    let opened = |place: &PathBuf| -> io::Result<File> {
        // Other sorts of files could keep us waiting.
        if !fs::metadata(place)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        File::open(place)
    };
    let files: Vec<File> = places.iter().flatten().filter_map(|place| opened(place).ok()).collect();
    let is_it = |file: &&File| file.metadata().is_ok_and(|found| found.ino() == mapping.inode);
    let found = files.iter().position(|file| is_it(&file));
    // File systems that lie over others show numbers of their own.
    let found = found.or((!mapping.deleted && opened(&mapping.path).is_ok()).then_some(0))?;
    files.into_iter().nth(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::parse;

    /// What the test looks for in its own process.
    static LOCKSWAP_TRACE_TEST_DATA: [u8; 100] = [1; 100];

    /// Our own file, by the mapping of its code.
    fn own() -> (Mapping, Image) {
        let code = own as *const () as u64;
        let maps = parse(&fs::read("/proc/self/maps").unwrap());
        let mapping = maps.into_iter().find(|mapping| mapping.range.contains(&code)).unwrap();
        let image = Image::of(std::process::id(), &mapping);
        (mapping, image)
    }

    #[test]
    fn our_own_file_is_read() {
        let code = own as *const () as u64;
        let (mapping, image) = own();
        assert_eq!(image.file(), std::env::current_exe().ok());
        let sections = image.sections();
        let text = sections.text_svma.clone().unwrap();
        assert!(text.contains(&(code - image.bias(&mapping))), "{text:?}");
        assert!(sections.eh_frame.is_some() && sections.eh_frame_hdr.is_some());
        assert!(!image.is_ours() && !image.is_libc());
    }

    #[test]
    fn data_has_names_and_addresses() {
        let address = &raw const LOCKSWAP_TRACE_TEST_DATA as u64;
        let (mapping, image) = own();
        let symbols = image.data_symbols();
        let found = symbols.iter().find(|symbol| symbol.name.ends_with("::LOCKSWAP_TRACE_TEST_DATA")).unwrap();
        assert_eq!((found.address.wrapping_add(image.bias(&mapping)), found.size), (address, 100));
        assert!(symbols.is_sorted_by_key(|symbol| symbol.address));
    }

    #[test]
    fn a_file_that_is_gone_keeps_its_name() {
        let mapping = Mapping {
            range: 0x1000..0x2000,
            offset: 0x1000,
            executable: true,
            inode: 1,
            path: "/nowhere/libx.so".into(),
            deleted: true,
        };
        let image = Image::of(u32::MAX, &mapping);
        assert_eq!((image.name().as_str(), image.file(), image.bias(&mapping)), ("libx.so", None, 0));
    }

    #[test]
    fn a_file_that_lost_its_name_can_still_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libcopy.so");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let mapping = Mapping { range: 0..1, offset: 0, executable: true, inode, path: path.clone(), deleted: false };
        let image = Image::of(std::process::id(), &mapping);
        assert_eq!(image.file(), Some(path.clone()));
        fs::remove_file(&path).unwrap();
        let kept = image.file().unwrap();
        assert!(kept.starts_with("/proc/self/fd") && File::open(kept).is_ok());
    }
}
