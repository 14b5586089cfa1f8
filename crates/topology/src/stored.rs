//! A route that was measured and stored, for the programs started afterwards on the same machine.
//!
//! ```text
//! lockswap-machine 1              the version of this format
//! id 0123456789abcdef             which machine
//! name AMD EPYC, 2 CPUs           for people
//! route 0,1                       all CPUs that were measured, in the order of the trip
//! steps 25.1 132.0 267.0          optional: see Facts
//! big 0                           optional
//! round-trip-ns 170.2
//! latencies
//! cpu,0,1                         the rest, for `lockswap topo`
//! 0,0,85.1
//! 1,85.1,0
//! ```
//!
//! The file is `lockswap/machine-ID` in the user's cache folder, so that machines may share a home, or where
//! `LOCKSWAP_ROUTE_FILE` says. What is in it counts only if it names this machine.

use core::ffi::CStr;
use core::fmt::{self, Write};

use lockswap_platform::CpuList;

use crate::files::{Files, Reader};
use crate::places::Steps;

/// The longest beginning of a file, up to and including its route.
pub const HEAD_BYTES: usize = 32 * 1024;

/// How a file begins.
pub const MAGIC: &str = "lockswap-machine";
/// The version that is written and read.
pub const VERSION: u32 = 1;

/// What tells one machine from another, the same after a restart: the processor's model, the numbers of the CPUs that
/// are there, and how they are spread over cores, last-level caches and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(pub u64);

impl Identity {
    /// That of the machine whose `/sys` is `files` and whose processor this runs on.
    pub fn of(files: &impl Files) -> Self {
        let mut hash = Hash::new();
        processor(&mut hash);
        let mut reader = Reader::new(files);
        let mut add = |path: fmt::Arguments<'_>| {
            let text = reader.text(path).unwrap_or("?");
            let _ = writeln!(hash, "{text}");
            text != "?"
        };
        add(format_args!("devices/system/cpu/present"));
        // The processor's model where it has no instruction that tells (arm64).
        add(format_args!("devices/system/cpu/cpu0/regs/identification/midr_el1"));
        add(format_args!("devices/system/cpu/cpu0/topology/thread_siblings_list"));
        // The last cache is the third, or the second.
        let _ = add(format_args!("devices/system/cpu/cpu0/cache/index3/shared_cpu_list"))
            || add(format_args!("devices/system/cpu/cpu0/cache/index2/shared_cpu_list"));
        add(format_args!("devices/system/node/possible"));
        let mut node = 0;
        while add(format_args!("devices/system/node/node{node}/cpulist")) {
            node += 1;
        }
        Self(hash.0)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// FNV-1a.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Ok(())
    }
}

/// Adds the family, model and stepping, and the name, as the processor itself gives them.
#[cfg(target_arch = "x86_64")]
fn processor(hash: &mut Hash) {
    // SAFETY: every x86-64 has the instruction. (Newer compilers know that.)
    #[allow(unused_unsafe)]
    let cpuid = |leaf| unsafe { core::arch::x86_64::__cpuid(leaf) };
    let _ = writeln!(hash, "x86_64 {:x}", cpuid(1).eax);
    const NAME: core::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if cpuid(0x8000_0000).eax >= *NAME.end() {
        for part in NAME.map(cpuid) {
            let _ = write!(hash, "{:x} {:x} {:x} {:x} ", part.eax, part.ebx, part.ecx, part.edx);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn processor(hash: &mut Hash) {
    let _ = writeln!(hash, "aarch64");
}

/// Why a file is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It does not begin like such a file.
    NotOne,
    /// It has another version.
    Version,
    /// It belongs to another machine.
    OtherMachine,
    /// Its route is missing, cut off, or names CPUs that cannot exist.
    NoRoute,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unusable::NotOne => "it is no file of lockswap's",
            Unusable::Version => "another version of lockswap wrote it",
            Unusable::OtherMachine => "it was measured on another machine, or this one has changed",
            Unusable::NoRoute => "its route is damaged",
        })
    }
}

/// The route in a file, or in the first [`HEAD_BYTES`] of one.
pub fn route(file: &[u8], machine: Identity) -> Result<CpuList<'_>, Unusable> {
    let mut lines = file.split_inclusive(|byte| *byte == b'\n').map_while(|line| line.strip_suffix(b"\n"));
    let mut field = |name: &str| {
        let line = lines.next()?.strip_prefix(name.as_bytes())?.strip_prefix(b" ")?;
        core::str::from_utf8(line).ok()
    };
    let version = field(MAGIC).ok_or(Unusable::NotOne)?;
    if version.parse() != Ok(VERSION) {
        return Err(Unusable::Version);
    }
    let id = field("id").and_then(|id| u64::from_str_radix(id, 16).ok()).ok_or(Unusable::NotOne)?;
    if id != machine.0 {
        return Err(Unusable::OtherMachine);
    }
    let route = field("name").and_then(|_| field("route")).ok_or(Unusable::NoRoute)?;
    CpuList::parse(route.as_bytes()).ok_or(Unusable::NoRoute)
}

/// What else was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts<'a> {
    /// The times on which the level of locality depends; not where the machine has no such pairs of CPUs.
    pub steps: Option<Steps>,
    /// The fast CPUs, where a timed loop found slower ones.
    pub big: Option<CpuList<'a>>,
}

/// The facts in a file whose route is usable, or in the first [`HEAD_BYTES`] of one; damaged ones are left out.
pub fn facts(file: &[u8]) -> Facts<'_> {
    let lines = file.split_inclusive(|byte| *byte == b'\n').map_while(|line| line.strip_suffix(b"\n"));
    let mut facts = Facts::default();
    for line in lines.take_while(|line| *line != b"latencies") {
        if let Some(list) = line.strip_prefix(b"big ") {
            facts.big = CpuList::parse(list);
        } else if let Some(steps) = line.strip_prefix(b"steps ") {
            facts.steps = core::str::from_utf8(steps).ok().and_then(Steps::parse);
        }
    }
    facts
}

/// Where the file of a machine lies: `file` if it is given, else in the folder for caches, which is `cache` (if it is
/// absolute, as that standard demands) or lies in `home`. `None` if nobody says, or the path is too long.
pub fn path<'b>(
    buffer: &'b mut [u8],
    file: Option<&[u8]>,
    cache: Option<&[u8]>,
    home: Option<&[u8]>,
    machine: Identity,
) -> Option<&'b CStr> {
    let absolute = |path: &Option<&[u8]>| path.is_some_and(|path| path.starts_with(b"/"));
    let mut text = Text { buffer, length: 0 };
    match (file, Some(cache).filter(absolute).flatten(), Some(home).filter(absolute).flatten()) {
        (Some(file), ..) => text.bytes(file).ok()?,
        (_, Some(cache), _) => {
            text.bytes(cache).ok()?;
            write!(text, "/lockswap/machine-{machine}").ok()?;
        }
        (_, _, Some(home)) => {
            text.bytes(home).ok()?;
            write!(text, "/.cache/lockswap/machine-{machine}").ok()?;
        }
        _ => return None,
    }
    text.bytes(b"\0").ok()?;
    CStr::from_bytes_until_nul(text.buffer).ok()
}

struct Text<'b> {
    buffer: &'b mut [u8],
    length: usize,
}

impl Text<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        let end = self.length + bytes.len();
        self.buffer.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(bytes);
        self.length = end;
        Ok(())
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes())
    }
}
