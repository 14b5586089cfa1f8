//! The places of all CPUs in a file that `lockswap run` keeps up to date while its program runs, and that the preload
//! library maps instead of reading the machine itself. `LOCKSWAP_MACHINE` names it.
//!
//! All numbers have the machine's own byte order. A word of the table changes as a whole; nothing orders two words.

use lockswap_platform::{Place, Places, MAX_CPUS};

/// What the file begins with: tells the layout, and the level of locality and the source of the kinds in words for the
/// user.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Header {
    magic: u32,
    /// Bytes of `said`.
    length: u32,
    /// [`crate::places::Settings::fingerprint`] of what the file was made for.
    fingerprint: u64,
    said: [u8; HEADER_BYTES - 16],
}

const HEADER_BYTES: usize = 512;

/// Changes with the layout of the file or of a [`Place`].
const MAGIC: u32 = 0x4c53_0002;

/// The file.
#[repr(C)]
pub struct Shared {
    header: Header,
    places: Places,
}

/// Bytes of the file.
pub const FILE_BYTES: usize = size_of::<Shared>();

impl Shared {
    /// The places, if the file has this layout and was made for the settings with this fingerprint.
    pub fn places_for(&self, fingerprint: u64) -> Option<&Places> {
        (self.header.magic == MAGIC && self.header.fingerprint == fingerprint).then_some(&self.places)
    }

    /// What the header says to the user.
    pub fn said(&self) -> &str {
        let length = (self.header.length as usize).min(self.header.said.len());
        core::str::from_utf8(&self.header.said[..length]).unwrap_or("")
    }
}

/// The bytes that the file begins with; `said` is cut off where it is too long.
pub fn header(fingerprint: u64, said: &str) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let cut = (0..=said.len().min(HEADER_BYTES - 16)).rev().find(|&end| said.is_char_boundary(end)).unwrap_or(0);
    bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[4..8].copy_from_slice(&(cut as u32).to_ne_bytes());
    bytes[8..16].copy_from_slice(&fingerprint.to_ne_bytes());
    bytes[16..16 + cut].copy_from_slice(&said.as_bytes()[..cut]);
    bytes
}

/// The bytes of a place, and where in the file those of `cpu` are. `None` for a CPU of [`MAX_CPUS`] or above.
pub fn entry(cpu: usize, place: Place) -> Option<(u64, [u8; 4])> {
    (cpu < MAX_CPUS).then_some(((HEADER_BYTES + 4 * cpu) as u64, place.word().to_ne_bytes()))
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES && FILE_BYTES == HEADER_BYTES + 4 * MAX_CPUS);
