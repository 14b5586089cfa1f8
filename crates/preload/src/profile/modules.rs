//! The modules of the program - its executable and its libraries - and where the symbols lie that rules name.
//!
//! glibc knows which module an address belongs to (`_dl_find_object`, since 2.35; it takes no lock and may be asked in
//! a signal handler). The symbols of a module are looked up when it is first met: in its file, and once for all rules.

use super::in_force;
use crate::aside::address_of;
use crate::memory::{self, FileMapping};
use crate::rare_lock::RareLock;
use crate::{cancel, sandbox, tls};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{compiler_fence, AtomicUsize, Ordering};
use elf::abi::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use elf::endian::NativeEndian;
use elf::ElfBytes;
use lockswap_profile::names;

/// glibc's `struct dl_find_object`.
#[repr(C)]
struct Found {
    flags: u64,
    begin: usize,
    end: usize,
    link_map: *const LinkMap,
    eh_frame_hdr: usize,
    reserved: [u64; 7],
}

/// The beginning of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

type Find = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// The address of glibc's function; 0 without one. Relaxed: set while the process has one thread.
static FIND: AtomicUsize = AtomicUsize::new(0);

/// The path of the program's executable, whose name the loader does not know. Written while the process has one
/// thread.
struct Executable(UnsafeCell<[u8; 4096]>);

// SAFETY: read only after it was written, as above.
unsafe impl Sync for Executable {}

static EXECUTABLE: Executable = Executable(UnsafeCell::new([0; 4096]));

/// Finds out what is needed to know modules, and returns whether there is all of it. Called before a second thread
/// exists.
pub fn begin() -> bool {
    // SAFETY: the process has one thread.
    memory::read_link(c"/proc/self/exe", unsafe { &mut *EXECUTABLE.0.get() });
    FIND.store(address_of!("_dl_find_object"), Ordering::Relaxed);
    FIND.load(Ordering::Relaxed) != 0
}

/// A module that an address belongs to.
#[derive(Clone, Copy)]
pub struct Module {
    begin: usize,
    end: usize,
    bias: usize,
    name: &'static CStr,
    /// Where its index of unwind tables begins.
    pub eh_frame_hdr: usize,
}

/// What a symbol is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Variable,
    Function,
}

impl Module {
    /// The module that the address belongs to, if it belongs to one.
    pub fn containing(address: usize) -> Option<Module> {
        let find = FIND.load(Ordering::Relaxed);
        if find == 0 {
            return None;
        }
        // SAFETY: glibc's function, and room for what it says. The name of a module lives as long as the module, which
        // is not unloaded while a mutex or a caller lies in it.
        unsafe {
            let find: Find = core::mem::transmute(find);
            let mut found = MaybeUninit::<Found>::zeroed();
            if find(core::ptr::without_provenance_mut(address), found.as_mut_ptr()) != 0 {
                return None;
            }
            let Found { begin, end, link_map, eh_frame_hdr, .. } = found.assume_init();
            let LinkMap { bias, name } = link_map.read();
            let name = if name.is_null() || *name == 0 {
                CStr::from_ptr(EXECUTABLE.0.get().cast())
            } else {
                CStr::from_ptr(name)
            };
            Some(Module { begin, end, bias, name, eh_frame_hdr })
        }
    }

    /// The first address behind the module.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Whether both are the same.
    pub fn is_same_as(&self, other: &Module) -> bool {
        (self.begin, self.eh_frame_hdr) == (other.begin, other.eh_frame_hdr)
    }

    /// The address as the module's file has it.
    pub fn offset(&self, address: usize) -> u64 {
        address.wrapping_sub(self.bias) as u64
    }

    /// Whether a rule calls the module so: by its path, or by its file's name with or without the numbers behind
    /// `.so`.
    pub fn is_named(&self, wanted: &str) -> bool {
        let path = self.name.to_bytes();
        let name =
            if wanted.contains('/') { path } else { path.rsplit(|byte| *byte == b'/').next().unwrap_or_default() };
        let goes_on = |long: &[u8], short: &[u8]| {
            short.windows(3).any(|part| part == b".so")
                && long.strip_prefix(short).is_some_and(|rest| rest.starts_with(b"."))
        };
        name == wanted.as_bytes() || goes_on(name, wanted.as_bytes()) || goes_on(wanted.as_bytes(), name)
    }

    /// Whether the address lies in a symbol of this sort that the rule with this number names.
    pub fn has(&self, rule: usize, sort: Sort, address: usize) -> bool {
        let offset = self.offset(address);
        let has = |range: &Range| {
            usize::from(range.rule) == rule && range.sort == sort && (range.begin..range.end).contains(&offset)
        };
        with(|state| state.ranges_of(self).iter().any(has)).unwrap_or(false)
    }
}

/// Where a symbol lies that a rule names.
#[derive(Clone, Copy)]
struct Range {
    rule: u16,
    sort: Sort,
    begin: u64,
    end: u64,
}

/// A module whose symbols are known: some of the ranges.
#[derive(Clone, Copy)]
struct Known {
    begin: usize,
    eh_frame_hdr: usize,
    first: usize,
    count: usize,
}

const MOST_MODULES: usize = 1024;
const MOST_RANGES: usize = 8192;

/// What is known of modules; all zero at first. Further modules and symbols than there is room for are not known.
struct State {
    modules: *mut Known,
    modules_count: usize,
    ranges: *mut Range,
    ranges_count: usize,
}

/// The state, and the lock that protects it.
struct Modules {
    lock: RareLock,
    state: UnsafeCell<State>,
}

// SAFETY: the state is accessed only while the lock is held.
unsafe impl Sync for Modules {}

static MODULES: Modules = Modules {
    lock: RareLock::new(),
    state: UnsafeCell::new(State { modules: null_mut(), modules_count: 0, ranges: null_mut(), ranges_count: 0 }),
};

/// Runs `f` while the lock is held; not, if this is a signal handler that interrupted its thread in here.
fn with<R>(f: impl FnOnce(&mut State) -> R) -> Option<R> {
    const BIT: u16 = tls::inside::MODULES;
    let thread = tls::thread();
    let inside = thread.inside.get();
    if inside & BIT != 0 {
        return None;
    }
    // A thread that is cancelled here would take the lock with it.
    let deferred = cancel::defer();
    thread.inside.set(inside | BIT);
    // The fences keep the mark around the lock for a handler, which sees the instructions in order.
    compiler_fence(Ordering::SeqCst);
    MODULES.lock.acquire();
    // SAFETY: the lock is held.
    let result = f(unsafe { &mut *MODULES.state.get() });
    // SAFETY: acquired above.
    unsafe { MODULES.lock.release() };
    compiler_fence(Ordering::SeqCst);
    thread.inside.set(inside);
    cancel::undo_defer(deferred);
    Some(result)
}

/// Acquires the lock for a fork, unless this thread was interrupted while it holds it by the signal handler that
/// forks.
pub fn before_fork() {
    let inside = &tls::thread().inside;
    if inside.get() & tls::inside::MODULES == 0 {
        // Other handlers of the fork, and of signals, may use mutexes for the first time: they find the mark as long
        // as this thread may hold the lock.
        inside.set(inside.get() | tls::inside::MODULES | tls::inside::FORKS);
        compiler_fence(Ordering::SeqCst);
        MODULES.lock.acquire();
    }
}

/// Undoes [`before_fork`] in the parent.
pub fn after_fork() {
    // SAFETY: acquired by `before_fork`.
    end_fork(|| unsafe { MODULES.lock.release() });
}

/// Undoes [`before_fork`] in the child.
///
/// # Safety
/// The process has one thread: it is the child of a fork.
pub unsafe fn enter_child() {
    // SAFETY: as for this call; threads that waited for the lock are in the parent.
    end_fork(|| unsafe { MODULES.lock.reset() });
}

fn end_fork(free: impl FnOnce()) {
    let inside = &tls::thread().inside;
    if inside.get() & tls::inside::FORKS != 0 {
        free();
        compiler_fence(Ordering::SeqCst);
        inside.set(inside.get() & !(tls::inside::MODULES | tls::inside::FORKS));
    }
}

impl State {
    /// Where what rules name lies in this module.
    fn ranges_of(&mut self, module: &Module) -> &[Range] {
        let known =
            self.known().iter().find(|known| (known.begin, known.eh_frame_hdr) == (module.begin, module.eh_frame_hdr));
        let Known { first, count, .. } = match known {
            Some(known) => *known,
            None => self.learn(module),
        };
        // SAFETY: so many have been written.
        unsafe { slice(self.ranges.wrapping_add(first), count) }
    }

    fn known(&self) -> &[Known] {
        // SAFETY: so many have been written.
        unsafe { slice(self.modules, self.modules_count) }
    }

    #[cold]
    fn learn(&mut self, module: &Module) -> Known {
        let first = self.ranges_count;
        let nothing = Known { begin: module.begin, eh_frame_hdr: module.eh_frame_hdr, first, count: 0 };
        if self.modules.is_null() {
            let (modules, ranges) =
                (memory::map(MOST_MODULES * size_of::<Known>()), memory::map(MOST_RANGES * size_of::<Range>()));
            let (Some(modules), Some(ranges)) = (modules, ranges) else { return nothing };
            (self.modules, self.ranges) = (modules.cast(), ranges.cast());
        }
        if self.modules_count == MOST_MODULES {
            return nothing;
        }
        self.read_symbols(module);
        let known = Known { count: self.ranges_count - first, ..nothing };
        // SAFETY: there is room for one more.
        unsafe { self.modules.add(self.modules_count).write(known) };
        self.modules_count += 1;
        known
    }

    /// Reads the symbols of the module's file that rules name. A file that cannot be read has none.
    fn read_symbols(&mut self, module: &Module) -> Option<()> {
        let rules = in_force()?.rules;
        let may_name = |rule: &lockswap_profile::Rule<'_>| {
            (rule.symbol.is_some() || rule.function.is_some())
                && rule.module.is_none_or(|wanted| module.is_named(wanted))
        };
        // A filter on system calls may kill for those that follow.
        if !rules.iter().any(may_name) || !sandbox::is_free() {
            return None;
        }
        let file = FileMapping::of(module.name)?;
        let elf = ElfBytes::<NativeEndian>::minimal_parse(file.bytes()).ok()?;
        let exported = || elf.dynamic_symbol_table().ok().flatten();
        let (symbols, texts) = elf.symbol_table().ok().flatten().or_else(exported)?;
        for symbol in symbols.iter() {
            let (begin, size) = (symbol.st_value, symbol.st_size);
            let sort = match symbol.st_symtype() {
                STT_FUNC | STT_GNU_IFUNC => Sort::Function,
                STT_OBJECT => Sort::Variable,
                _ => continue,
            };
            let Ok(name) = texts.get(symbol.st_name as usize) else { continue };
            if begin == 0 || size == 0 {
                continue;
            }
            for (rule, wanted) in rules.iter().enumerate().filter(|(_, rule)| may_name(rule)) {
                let wanted = if sort == Sort::Function { wanted.function } else { wanted.symbol };
                if wanted.is_some_and(|wanted| names::is_called(name, wanted)) && self.ranges_count < MOST_RANGES {
                    let range = Range { rule: rule as u16, sort, begin, end: begin.saturating_add(size) };
                    // SAFETY: there is room for one more.
                    unsafe { self.ranges.add(self.ranges_count).write(range) };
                    self.ranges_count += 1;
                }
            }
        }
        Some(())
    }
}

/// # Safety
/// So many have been written there.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: as for this call.
    unsafe { core::slice::from_raw_parts(first, count) }
}
