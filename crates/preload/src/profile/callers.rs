//! Who has initialised a mutex or locks it first: the functions outside this library that are being run, innermost
//! first.
//!
//! The stack is unwound by the tables that exceptions use (`.eh_frame`), which programs have without debug
//! information, too. A frame without them ends it, as does one that is described by an expression.

use super::modules::Module;
use core::arch::asm;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Pointer, ReaderOffset, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow,
};
use lockswap_profile::Place;

/// Callers that are asked for at most.
const MOST_CALLERS: usize = 16;
/// Frames that are unwound at most: those of this library come first.
const MOST_FRAMES: usize = 40;
/// The largest frame that is believed, bytes.
const MOST_BYTES: usize = 1 << 20;

/// A function that is being run, and what it has called.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Where the call will return.
    pub address: usize,
    pub module: Module,
}

impl Caller {
    /// An address inside the instruction that has called.
    pub fn call(&self) -> usize {
        self.address - 1
    }

    /// Whether the call stands in this place; `offset` is that of the address to which it returns. Of a single address
    /// it is enough that it belongs to the instruction, or is that behind it.
    pub fn is_in(&self, place: &Place<'_>, offset: u64) -> bool {
        /// The longest call of x86-64; those of other machines are of one length.
        const LONGEST_CALL: u64 = 7;
        if place.end - place.begin == 1 {
            (offset.saturating_sub(LONGEST_CALL)..=offset).contains(&place.begin)
        } else {
            (place.begin..place.end).contains(&offset.wrapping_sub(1))
        }
    }
}

/// The callers, which are looked for when somebody asks.
pub struct Callers {
    callers: [Option<Caller>; MOST_CALLERS],
    count: Option<usize>,
}

impl Callers {
    pub fn unknown() -> Self {
        Callers { callers: [None; MOST_CALLERS], count: None }
    }

    /// The callers, innermost first.
    pub fn all(&mut self) -> Found<'_> {
        if self.count.is_none() {
            self.count = Some(unwind(&mut self.callers));
        }
        Found(&self.callers)
    }
}

/// Callers that have been found.
pub struct Found<'a>(&'a [Option<Caller>]);

impl<'a> Found<'a> {
    pub fn iter(&self) -> impl Iterator<Item = &'a Caller> {
        self.0.iter().flatten()
    }

    pub fn first(&self) -> Option<&'a Caller> {
        self.iter().next()
    }
}

#[cfg(target_arch = "x86_64")]
mod machine {
    pub const REGISTERS: usize = 17;
    pub const STACK_POINTER: u16 = 7;
    pub const RETURN_ADDRESS: u16 = 16;
    /// Registers that a function gives back as it found them.
    pub const KEPT: [u16; 6] = [3, 6, 12, 13, 14, 15];
}

#[cfg(target_arch = "aarch64")]
mod machine {
    pub const REGISTERS: usize = 33;
    pub const STACK_POINTER: u16 = 31;
    pub const RETURN_ADDRESS: u16 = 30;
    pub const KEPT: [u16; 12] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30];
}

use machine::{KEPT, REGISTERS, RETURN_ADDRESS, STACK_POINTER};

/// The registers of a frame by their DWARF numbers, as far as they are known, and the address that it is at.
#[derive(Clone)]
struct Frame {
    registers: [Option<usize>; REGISTERS],
    address: usize,
}

impl Frame {
    /// The frame of the function that this is inlined into.
    #[inline(always)]
    fn here() -> Frame {
        let mut found = [0_usize; REGISTERS];
        let address: usize;
        // SAFETY: stores registers in memory of this function.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov [rax + 24], rbx", "mov [rax + 48], rbp", "mov [rax + 56], rsp", "mov [rax + 96], r12",
                "mov [rax + 104], r13", "mov [rax + 112], r14", "mov [rax + 120], r15", "lea {0}, [rip]",
                out(reg) address, in("rax") found.as_mut_ptr(), options(nostack, preserves_flags)
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "stp x19, x20, [{1}, #152]", "stp x21, x22, [{1}, #168]", "stp x23, x24, [{1}, #184]",
                "stp x25, x26, [{1}, #200]", "stp x27, x28, [{1}, #216]", "stp x29, x30, [{1}, #232]",
                "mov {0}, sp", "str {0}, [{1}, #248]", "adr {0}, .",
                out(reg) address, in(reg) found.as_mut_ptr(), options(nostack, preserves_flags)
            );
        }
        let mut registers = [None; REGISTERS];
        for register in KEPT.into_iter().chain([STACK_POINTER]) {
            registers[register as usize] = Some(found[register as usize]);
        }
        Frame { registers, address }
    }

    fn get(&self, register: Register) -> Option<usize> {
        *self.registers.get(register.0 as usize)?
    }

    fn stack(&self) -> Option<usize> {
        self.get(Register(STACK_POINTER))
    }
}

/// Room for what a table says of a frame: more registers than any function saves.
struct InPlace;

impl<T: ReaderOffset> UnwindContextStorage<T> for InPlace {
    type Rules = [(Register, RegisterRule<T>); REGISTERS];
    type Stack = [UnwindTableRow<T, Self>; 4];
}

/// Finds the callers outside this library, and returns how many there are.
#[inline(never)]
fn unwind(callers: &mut [Option<Caller>; MOST_CALLERS]) -> usize {
    let mut frame = Frame::here();
    let Some(own) = Module::containing(frame.address) else { return 0 };
    let mut module = own;
    let mut context = UnwindContext::<usize, InPlace>::new_in();
    let mut count = 0;
    for _ in 0..MOST_FRAMES {
        let Some(next) = next(&frame, &module, &mut context) else { break };
        frame = next;
        let Some(found) = Module::containing(frame.address) else { break };
        module = found;
        if !module.is_same_as(&own) {
            callers[count] = Some(Caller { address: frame.address, module });
            count += 1;
            if count == MOST_CALLERS {
                break;
            }
        }
    }
    count
}

/// The frame of the function that has called this one's.
fn next(frame: &Frame, module: &Module, context: &mut UnwindContext<usize, InPlace>) -> Option<Frame> {
    let bytes = |begin: usize| {
        let length = module.end().checked_sub(begin).filter(|_| begin != 0)?;
        // SAFETY: of the module, from here to its end, only what the index and its tables say is read, which is
        // mapped.
        let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(begin), length) };
        Some(EndianSlice::new(bytes, LittleEndian))
    };
    let bases = BaseAddresses::default().set_eh_frame_hdr(module.eh_frame_hdr as u64);
    let index = EhFrameHdr::from(bytes(module.eh_frame_hdr)?).parse(&bases, 8).ok()?;
    let Pointer::Direct(tables) = index.eh_frame_ptr() else { return None };
    let eh_frame = EhFrame::from(bytes(tables as usize)?);
    let bases = bases.set_eh_frame(tables);
    // An address inside the call: what follows it may be another function.
    let address = frame.address as u64 - 1;
    let row =
        index.table()?.unwind_info_for_address(&eh_frame, &bases, context, address, EhFrame::cie_from_offset).ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let base = frame.get(*register)?.wrapping_add_signed(*offset as isize);
    let stack = frame.stack()?;
    if base <= stack || base - stack > MOST_BYTES || base % 8 != 0 {
        return None;
    }
    let mut registers = [None; REGISTERS];
    for register in KEPT.into_iter().chain([RETURN_ADDRESS]) {
        registers[register as usize] = match row.register(Register(register)) {
            None | Some(RegisterRule::SameValue) => frame.get(Register(register)),
            Some(RegisterRule::Offset(offset)) => {
                let place = base.wrapping_add_signed(offset as isize);
                if !(stack.wrapping_sub(128)..base).contains(&place) || place % 8 != 0 {
                    return None;
                }
                // SAFETY: on this thread's stack, between two frames of it.
                Some(unsafe { core::ptr::with_exposed_provenance::<usize>(place).read() })
            }
            Some(RegisterRule::ValOffset(offset)) => Some(base.wrapping_add_signed(offset as isize)),
            Some(RegisterRule::Register(other)) => frame.get(other),
            Some(_) => None,
        };
    }
    /// The bits of an address that are part of it; in the others some machines keep a signature.
    const ADDRESS: usize = (1 << 48) - 1;
    let address = registers[RETURN_ADDRESS as usize]? & ADDRESS;
    registers[STACK_POINTER as usize] = Some(base);
    (address > 4096).then_some(Frame { registers, address })
}
