//! The environment of the process, from wherever it can be read at the time.

use crate::memory;
use crate::message::{complain, die, Lossy};
use core::ffi::{c_char, c_void, CStr};
use lockswap_locks::named::{self, Named, Wrong};
use lockswap_locks::nearest::nearest;
use lockswap_locks::parameters::{self, MOST_SPINS_BEFORE_PARK, SPINS_BEFORE_PARK};
use lockswap_locks::registry::{self, Role};
use lockswap_platform::CpuList;

/// Bytes of `/proc/self/environ` that are read at most.
const MOST_BYTES: usize = 1 << 20;

/// The process's environment: none of it, a list of pointers, or one text after the other.
#[derive(Clone, Copy)]
pub enum Environment {
    /// Nothing is set.
    Empty,
    /// As `main` gets it: a list that ends with a null pointer.
    List(*const *const c_char),
    /// As `/proc/self/environ` holds it: each text ends with a zero byte.
    Block(&'static [u8]),
}

impl Environment {
    /// The environment of this process. `list` is what the dynamic linker passes to a constructor; null where the
    /// caller is none: then the C library's `environ` is asked, and where the C library has not set that yet, the
    /// kernel.
    ///
    /// A program that runs with more rights than its user (set-user-ID, file capabilities) has no environment for us:
    /// that comes from the user.
    pub fn of_process(list: *const *const c_char) -> Environment {
        extern "C" {
            static environ: *const *const c_char;
        }
        // SAFETY: reads the auxiliary vector and the C library's variable.
        let (is_secure, list) =
            unsafe { (libc::getauxval(libc::AT_SECURE) != 0, if list.is_null() { environ } else { list }) };
        if is_secure {
            Environment::Empty
        } else if list.is_null() {
            Self::from_kernel()
        } else {
            Environment::List(list)
        }
    }

    /// The memory stays: values are used as long as the process lives.
    fn from_kernel() -> Environment {
        let Some(memory) = memory::map(MOST_BYTES) else { return Environment::Empty };
        // SAFETY: so many zero bytes, ours alone for ever.
        let buffer = unsafe { core::slice::from_raw_parts_mut(memory.cast::<u8>(), MOST_BYTES) };
        // What has no end does not count: a text that was cut off.
        let read = memory::read_file(c"/proc/self/environ", buffer);
        let ended = read.iter().rposition(|byte| *byte == 0).map_or(0, |last| last + 1);
        Environment::Block(&read[..ended])
    }

    /// The value of the variable `name`, if it is set and not empty.
    ///
    /// # Safety
    /// The list is the process's environment and does not change meanwhile.
    pub unsafe fn get(&self, name: &str) -> Option<&'static CStr> {
        let value_of = |entry: &'static CStr| {
            let value = entry.to_bytes_with_nul().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            CStr::from_bytes_with_nul(value).ok().filter(|value| !value.is_empty())
        };
        match *self {
            Environment::Empty => None,
            Environment::List(mut next) => {
                // SAFETY: as for this call.
                unsafe {
                    while !(*next).is_null() {
                        if let Some(value) = value_of(CStr::from_ptr(*next)) {
                            return Some(value);
                        }
                        next = next.add(1);
                    }
                }
                None
            }
            Environment::Block(block) => block
                .split_inclusive(|byte| *byte == 0)
                .filter_map(|e| CStr::from_bytes_with_nul(e).ok())
                .find_map(value_of),
        }
    }

    /// The CPUs that the variable `name` lists, if it is set and not empty.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    pub unsafe fn cpus(&self, name: &str) -> Option<CpuList<'static>> {
        // SAFETY: as for this call.
        let text = unsafe { self.get(name) }?.to_bytes();
        match CpuList::parse(text) {
            None => die(format_args!("{name}={} is not a list of CPUs, for instance 0-3,8", Lossy(text))),
            list => list,
        }
    }

    /// So many looks last as long as a round trip through a sleep, if the environment says how many.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    pub unsafe fn spins_before_park(&self) -> Option<u32> {
        // SAFETY: as for this call.
        let text = unsafe { self.get(SPINS_BEFORE_PARK) }?;
        match text.to_str().ok().and_then(parameters::read_spins_before_park) {
            None => die(format_args!(
                "{SPINS_BEFORE_PARK}={} is not a number from 1 to {MOST_SPINS_BEFORE_PARK}",
                Lossy(text.to_bytes())
            )),
            looks => looks,
        }
    }

    /// The file that the variable `name` names, mapped; `None` if it is not set or the file is not fit.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    pub unsafe fn map_file(&self, name: &str, bytes: usize, verbose: bool) -> Option<*mut c_void> {
        // SAFETY: as for this call.
        let path = unsafe { self.get(name) }?;
        let mapping = memory::map_file(path, bytes);
        if let (Err(error), true) = (mapping, verbose) {
            complain(format_args!("{name}={}: not used: error {error}", Lossy(path.to_bytes())));
        }
        mapping.ok()
    }

    /// The lock that the variable `name` chooses for `role`, with its parameters; `default` if it chooses none.
    ///
    /// # Safety
    /// As for [`Environment::get`].
    pub unsafe fn lock(&self, name: &str, role: Role, default: &'static str) -> Named {
        // SAFETY: as for this call.
        let value = unsafe { self.get(name) };
        let text = value.map_or(default, |value| value.to_str().unwrap_or_default());
        let shown = Lossy(value.unwrap_or_default().to_bytes());
        match named::read(role, text) {
            Ok(named) => named,
            Err(Wrong::NoLock(id)) => {
                let (role, meant) = (role.name(), nearest(id, registry::ids(role)));
                let blank = if meant.is_empty() { "" } else { " " };
                die(format_args!("{name}={shown} names no {role} lock; {meant}{blank}'lockswap list' shows all"))
            }
            Err(wrong) => die(format_args!("{name}={shown}: {wrong}")),
        }
    }
}
