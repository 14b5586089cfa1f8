//! The traced processes: which files lie where in their memory, and how their copied stacks are unwound.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use framehop::{
    CacheNative, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder, UnwinderNative,
};
use lockswap_records::trace::Event;

use crate::image::{Bytes, Image};
use crate::maps::{self, Mapping};

/// Frames of a stack at most: the outermost of a deeper one are left out.
const MOST_FRAMES: usize = 192;

/// Processes that are remembered at most.
const MOST_PROCESSES: usize = 1024;

/// How long what a process had mapped is believed although an address is not in it.
const BELIEVED: Duration = Duration::from_millis(100);

/// A place in a file, or, where there is none, in the memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The number of the file in [`Images`].
    pub image: u32,
    /// In the file's own addresses.
    pub address: u64,
}

impl Place {
    /// In no file.
    const NOWHERE: u32 = u32::MAX;
    /// Where the rest of a stack was not copied, or could not be unwound.
    pub const CUT: Self = Self { image: Self::NOWHERE - 1, address: 0 };

    /// An address that lies in no file.
    pub fn nowhere(address: u64) -> Self {
        Self { image: Self::NOWHERE, address }
    }

    /// Whether it is in a file.
    pub fn is_in_file(self) -> bool {
        self.image < Self::CUT.image
    }
}

/// All files that were found mapped, each once.
#[derive(Clone, Default)]
pub struct Images(Vec<Arc<Image>>);

impl Images {
    /// The file with this number.
    pub fn get(&self, number: u32) -> Option<&Image> {
        self.0.get(number as usize).map(|image| &**image)
    }
}

/// A file in the memory of a process.
struct Loaded {
    range: Range<u64>,
    /// What is added to its own addresses.
    bias: u64,
    image: u32,
}

/// What is known of a process; it stays when the process has ended.
struct Process {
    loaded: Vec<Loaded>,
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    looked: Instant,
    used: u64,
}

/// The processes that were seen, and their files.
#[derive(Default)]
pub struct Processes {
    /// Their files.
    pub images: Images,
    numbers: HashMap<(PathBuf, u64), u32>,
    known: HashMap<u32, Process>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    uses: u64,
}

impl Processes {
    /// Reads what this process has mapped now. Nothing changes if it has ended.
    pub fn look_at(&mut self, process: u32) {
        let maps = std::fs::read(format!("/proc/{process}/maps")).map(|text| maps::parse(&text)).unwrap_or_default();
        let code = maps.iter().filter(|mapping| mapping.executable);
        let mut loaded: Vec<Loaded> = Vec::new();
        for mapping in code {
            let number = self.number(process, mapping);
            let Some(image) = self.images.get(number) else { continue };
            let bias = image.bias(mapping);
            let own = image.addresses();
            let range = match own.is_empty() {
                true => mapping.range.clone(),
                // Data that begins as zeros lies behind the file in memory without one.
                false => own.start.wrapping_add(bias)..own.end.wrapping_add(bias),
            };
            if !loaded.iter().any(|other| (other.image, other.bias) == (number, bias) && other.range == range) {
                loaded.push(Loaded { range, bias, image: number });
            }
        }
        match self.known.get_mut(&process) {
            Some(known) if loaded.is_empty() => known.looked = Instant::now(),
            _ => {
                let (unwinder, looked) = (self.unwinder(&loaded), Instant::now());
                self.make_room();
                self.known.insert(process, Process { loaded, unwinder, looked, used: self.uses });
            }
        }
    }

    /// The number of the file of a mapping.
    fn number(&mut self, process: u32, mapping: &Mapping) -> u32 {
        let key = (mapping.path.clone(), mapping.inode);
        *self.numbers.entry(key).or_insert_with(|| {
            self.images.0.push(Arc::new(Image::of(process, mapping)));
            self.images.0.len() as u32 - 1
        })
    }

    fn unwinder(&self, loaded: &[Loaded]) -> UnwinderNative<Bytes, MayAllocateDuringUnwind> {
        let mut unwinder = UnwinderNative::new();
        for Loaded { range, bias, image } in loaded {
            if let Some(image) = self.images.get(*image) {
                unwinder.add_module(Module::new(image.name(), range.clone(), *bias, image.sections()));
            }
        }
        unwinder
    }

    fn make_room(&mut self) {
        if self.known.len() >= MOST_PROCESSES {
            let oldest = self.known.iter().min_by_key(|(_, process)| process.used).map(|(number, _)| *number);
            oldest.map(|number| self.known.remove(&number));
        }
    }

    /// The process among those that are known whose files these are, read again where `address` is in none of them.
    fn with(&mut self, process: u32, address: u64) -> Option<u32> {
        self.uses += 1;
        let is_in = |known: &Process| known.loaded.iter().any(|loaded| loaded.range.contains(&address));
        let stale = match self.known.get(&process) {
            Some(known) => !is_in(known) && known.looked.elapsed() > BELIEVED,
            None => true,
        };
        if stale {
            self.look_at(process);
        }
        let uses = self.uses;
        let known = self.known.get_mut(&process)?;
        known.used = uses;
        if !known.loaded.is_empty() {
            return Some(process);
        }
        // It ended before anybody looked. A child that ran no other program had what its parent has, at the same
        // places; those of unrelated processes are random.
        self.known.iter().find(|(_, other)| is_in(other)).map(|(number, _)| *number)
    }

    /// Where an address of a process is.
    pub fn place(&mut self, process: u32, address: u64) -> Place {
        self.with(process, address).map_or(Place::nowhere(address), |process| self.known_place(process, address))
    }

    fn known_place(&self, process: u32, address: u64) -> Place {
        let loaded =
            self.known.get(&process).and_then(|known| known.loaded.iter().find(|l| l.range.contains(&address)));
        loaded.map_or(Place::nowhere(address), |loaded| Place {
            image: loaded.image,
            address: address.wrapping_sub(loaded.bias),
        })
    }

    /// The files that a process had mapped when it was looked at last, and what is added to their own addresses.
    pub fn loaded(&self, process: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let loaded = self.known.get(&process).into_iter().flat_map(|known| &known.loaded);
        loaded.map(|loaded| (loaded.image, loaded.bias))
    }

    fn is_ours(&self, place: Place) -> bool {
        self.images.get(place.image).is_some_and(Image::is_ours)
    }

    /// The frames of a copied stack, the innermost first, without those of the preload library.
    pub fn unwind(&mut self, event: &Event, stack: &[u64]) -> Vec<Place> {
        let mut frames = Vec::new();
        let Some(process) = self.with(event.process, event.pc) else { return vec![Place::nowhere(event.pc)] };
        let Some(known) = self.known.get(&process) else { return frames };
        let mut read = |address: u64| {
            let offset = address.checked_sub(event.sp).filter(|offset| offset % 8 == 0).ok_or(())?;
            usize::try_from(offset / 8).ok().and_then(|index| stack.get(index).copied()).ok_or(())
        };
        let mut registers = registers(event, known.unwinder.max_known_code_address());
        // What was noted outside the preload library is where its function returns to.
        let mut frame = match self.is_ours(self.known_place(process, event.pc)) {
            true => Some(FrameAddress::from_instruction_pointer(event.pc)),
            false => FrameAddress::from_return_address(event.pc),
        };
        while let Some(address) = frame {
            let place = self.known_place(process, address.address_for_lookup());
            if !self.is_ours(place) {
                frames.push(place);
            }
            if frames.len() == MOST_FRAMES {
                frames.push(Place::CUT);
                break;
            }
            match known.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read) {
                Ok(next) => frame = next.and_then(FrameAddress::from_return_address),
                Err(_) => {
                    frames.push(Place::CUT);
                    break;
                }
            }
        }
        frames
    }
}

#[cfg(target_arch = "aarch64")]
fn registers(event: &Event, highest: u64) -> UnwindRegsNative {
    // Return addresses can be signed, in the bits above those of addresses.
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(highest);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, event.lr, event.sp, event.fp)
}

#[cfg(target_arch = "x86_64")]
fn registers(event: &Event, _highest: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(event.pc, event.sp, event.fp)
}

#[cfg(test)]
mod tests {
    use super::*;

    static DATA: [u8; 3] = [1; 3];

    #[test]
    fn places_of_our_own_process() {
        let mut processes = Processes::default();
        let own = std::process::id();
        let code = processes.place(own, places_of_our_own_process as *const () as u64);
        let data = processes.place(own, &raw const DATA as u64);
        let heap = processes.place(own, &raw const *Box::new(1_u8) as u64);
        assert!(code.is_in_file() && data.image == code.image && !heap.is_in_file(), "{code:?} {data:?} {heap:?}");
        let name = processes.images.get(code.image).map(Image::name).unwrap();
        assert!(name.starts_with("lockswap_trace"), "{name}");
    }

    #[test]
    fn a_child_that_is_gone_has_what_others_have_at_the_same_place() {
        let mut processes = Processes::default();
        let code = processes.place(std::process::id(), registers as *const () as u64);
        let gone = u32::MAX;
        assert_eq!(processes.place(gone, registers as *const () as u64), code);
        assert_eq!(processes.place(gone, 8), Place::nowhere(8));
        assert_eq!(processes.unwind(&Event { process: gone, pc: 8, ..Event::default() }, &[]), [Place::nowhere(8)]);
    }
}
