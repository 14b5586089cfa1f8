//! A lock for each mutex: follows the rules of the file that `LOCKSWAP_PROFILE` names (`docs/profile.md`).
//!
//! The file is read once, at the start. Each mutex comes here once: when it is initialised, or before its first use
//! where it has a static initialiser; what it gets then stands in the mutex. What rules ask of the program is found
//! out when it is first wanted: which modules there are and where their symbols lie ([`modules`]), and who has called
//! ([`callers`]). Nothing allocates: a mutex may be the allocator's.

mod callers;
mod modules;

pub use modules::{after_fork, before_fork, enter_child};

use crate::counters;
use crate::environment::Environment;
use crate::layout;
use crate::memory;
use crate::message::{complain, Lossy};
use crate::mutex::{self, Choice};
use crate::pool::LOCKS;
use callers::{Caller, Callers};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use lockswap_locks::named::{self, Named};
use lockswap_locks::registry::{self, Role};
use lockswap_profile::{clash, places, Kind, Lock, Rule, MOST_LOCKS, MOST_RULES};
use modules::{Module, Sort};

const _: () = assert!(MOST_LOCKS == LOCKS && MOST_RULES == lockswap_records::counters::MOST_RULES);

/// The longest profile that is read, bytes.
const MOST_BYTES: usize = 1 << 20;

/// The rules, and what they give.
pub struct Profile {
    rules: &'static [Rule<'static>],
    choices: [Choice; MOST_RULES],
    /// What a mutex gets to which no rule applies.
    otherwise: Choice,
    /// The locks by their numbers.
    locks: [Option<Named>; LOCKS],
    /// Whether a rule asks where the mutex lies.
    asks_for_place: bool,
}

/// The profile in force; null without one. Relaxed: set while the process has one thread.
static PROFILE: AtomicPtr<Profile> = AtomicPtr::new(null_mut());

fn in_force() -> Option<&'static Profile> {
    // SAFETY: null, or mapped for ever.
    unsafe { PROFILE.load(Ordering::Relaxed).as_ref() }
}

/// Whether there is a profile.
#[inline(always)]
pub fn is_in_force() -> bool {
    !PROFILE.load(Ordering::Relaxed).is_null()
}

/// What is wrong with the file at `path`, said in one line; its rules if nothing is.
fn read(path: &core::ffi::CStr, otherwise: &Named) -> Option<&'static [Rule<'static>]> {
    let shown = Lossy(path.to_bytes());
    let ignored = |why: core::fmt::Arguments<'_>| {
        complain(format_args!("LOCKSWAP_PROFILE={shown} is ignored: {why}"));
        None
    };
    let Some(memory) = memory::map(MOST_BYTES) else { return ignored(format_args!("no memory")) };
    // SAFETY: new memory, ours alone for ever.
    let buffer = unsafe { core::slice::from_raw_parts_mut(memory.cast::<u8>(), MOST_BYTES) };
    let bytes = match memory::try_read_file(path, buffer) {
        Err(error) => return ignored(format_args!("it cannot be read: error {error}")),
        Ok(bytes) if bytes.len() == MOST_BYTES => return ignored(format_args!("it is longer than {MOST_BYTES} bytes")),
        Ok(bytes) => bytes,
    };
    let Ok(text) = core::str::from_utf8(bytes) else { return ignored(format_args!("it is not UTF-8 text")) };
    let room = (text.len() + 1) * size_of::<lockswap_profile::Token>();
    let (Some(tokens), Some(rules)) = (memory::map(room), memory::map(MOST_RULES * size_of::<Rule<'_>>())) else {
        return ignored(format_args!("no memory"));
    };
    // SAFETY: new memory, aligned to a page; the rules stay, the tokens are unmapped after their last use.
    let (places, rules) = unsafe {
        (
            core::slice::from_raw_parts_mut(tokens.cast::<MaybeUninit<lockswap_profile::Token>>(), text.len() + 1),
            core::slice::from_raw_parts_mut(rules.cast::<MaybeUninit<Rule<'static>>>(), MOST_RULES),
        )
    };
    let result = lockswap_profile::tokens(text, places).map(|tokens| lockswap_profile::read(text, tokens, rules));
    let rules = match result {
        Some(Ok(rules)) => rules,
        Some(Err(problem)) => return ignored(format_args!("{problem}")),
        None => return ignored(format_args!("it has too many parts")),
    };
    // SAFETY: mapped above, and used no more.
    unsafe { memory::unmap(tokens, room) };
    if let Some(clash) = clash(rules, otherwise) {
        return ignored(format_args!("{clash}"));
    }
    if lockswap_profile::locks(rules, otherwise).count() > LOCKS {
        return ignored(format_args!(
            "its rules and the lock of everything else name more than {LOCKS} different locks"
        ));
    }
    Some(rules)
}

/// Reads the profile that the environment names, if it names one; it is in force after [`install`]. `otherwise` is the
/// lock of mutexes to which no rule applies.
///
/// # Safety
/// As for [`Environment::get`].
pub unsafe fn load(environment: &Environment, otherwise: &Named, verbose: bool) -> Option<&'static Profile> {
    // SAFETY: as for this call.
    let path = unsafe { environment.get("LOCKSWAP_PROFILE") }?;
    let rules = read(path, otherwise)?;
    let mut locks = [None; LOCKS];
    for (place, lock) in locks.iter_mut().zip(lockswap_profile::locks(rules, otherwise)) {
        *place = Some(lock);
    }
    let number = |named: &Named| {
        let known = locks.iter().flatten().position(|known| core::ptr::eq(known.entry, named.entry));
        Choice::Numbered(known.unwrap_or_default() as u8)
    };
    let id = otherwise.entry.info.id;
    let glibcs = |adaptive| Choice::Glibcs { adaptive };
    let otherwise = if registry::is_glibcs(id) { glibcs(id == registry::PTHREAD_ADAPTIVE) } else { number(otherwise) };
    let mut choices = [otherwise; MOST_RULES];
    for (choice, rule) in choices.iter_mut().zip(rules) {
        *choice = match &rule.lock {
            Lock::Glibcs { adaptive } => glibcs(*adaptive),
            Lock::Ours(named) => number(named),
        };
    }
    let asks_for_place = rules.iter().any(|rule| rule.symbol.is_some() || rule.at.is_some() || rule.module.is_some());
    let asks = asks_for_place || rules.iter().any(Rule::asks_for_callers);
    if asks && !modules::begin() {
        complain(format_args!(
            "LOCKSWAP_PROFILE: rules with symbol, function, module or at need glibc 2.35: they apply to no mutex here"
        ));
    }
    if rules.iter().any(|rule| rule.source.is_some()) {
        complain(format_args!(
            "LOCKSWAP_PROFILE: rules with line apply to no mutex here: 'lockswap run --profile' finds lines"
        ));
    }
    if verbose {
        complain(format_args!("profile {}: {} rules", Lossy(path.to_bytes()), rules.len()));
    }
    let memory = memory::map(size_of::<Profile>())?.cast::<Profile>();
    // SAFETY: new memory, large enough and aligned to a page, which stays.
    unsafe {
        memory.write(Profile { rules, choices, otherwise, locks, asks_for_place });
        Some(&*memory)
    }
}

/// Puts the profile in force.
pub fn install(profile: &'static Profile) {
    PROFILE.store(core::ptr::from_ref(profile).cast_mut(), Ordering::Relaxed);
}

impl Profile {
    /// The locks of the process's mutexes, in the order of their numbers.
    pub fn locks(&self) -> impl Iterator<Item = &Named> {
        self.locks.iter().flatten()
    }

    /// Whether a mutex may stay glibc's.
    pub fn keeps_some(&self) -> bool {
        let is_glibcs = |choice: &Choice| matches!(choice, Choice::Glibcs { .. });
        is_glibcs(&self.otherwise) || self.choices.iter().take(self.rules.len()).any(is_glibcs)
    }
}

/// What a mutex gets that is to have the lock of this name, with these parameters, if the process has it; and counts
/// that.
pub fn chosen(text: &str) -> Option<Choice> {
    let profile = in_force()?;
    let named = named::read(Role::Mutex, text).ok()?;
    let id = named.entry.info.id;
    let choice = if registry::is_glibcs(id) {
        layout::may_be_kept().then_some(Choice::Glibcs { adaptive: id == registry::PTHREAD_ADAPTIVE })?
    } else {
        let number = profile.locks().position(|known| {
            core::ptr::eq(known.entry, named.entry) && (named.is_plain() || known.clash(&named).is_none())
        });
        Choice::Numbered(number? as u8)
    };
    let rule = profile.rules.iter().position(|rule| {
        let same = |known: Named| core::ptr::eq(known.entry, named.entry);
        rule.is_chosen && rule.named().map_or(registry::is_glibcs(id), same)
    });
    counters::count_rule(rule.unwrap_or(MOST_RULES));
    Some(choice)
}

/// What is known of a mutex that is to get a lock.
struct Mutex {
    address: usize,
    kind: u32,
    module: Option<Module>,
    callers: Callers,
}

/// What the mutex at this address gets, which is of this kind and not in use yet, and by which rule: for
/// [`counters::count_rule`], once it has got that.
pub fn choice(address: usize, kind: u32) -> (Choice, usize) {
    let Some(profile) = in_force() else { return (Choice::Numbered(0), MOST_RULES) };
    let module = if profile.asks_for_place { Module::containing(address) } else { None };
    let mut mutex = Mutex { address, kind, module, callers: Callers::unknown() };
    let applies = |(index, rule): &(usize, &Rule<'_>)| mutex.meets(*index, rule);
    match profile.rules.iter().enumerate().find(applies) {
        Some((index, _)) => (profile.choices[index], index),
        None => (profile.otherwise, MOST_RULES),
    }
}

impl Mutex {
    /// Whether the rule with this number applies.
    fn meets(&mut self, index: usize, rule: &Rule<'_>) -> bool {
        let kind = rule.kind.is_none_or(|kind| {
            self.kind
                == match kind {
                    Kind::Normal => mutex::NORMAL,
                    Kind::Recursive => mutex::RECURSIVE,
                    Kind::ErrorCheck => mutex::ERRORCHECK,
                    Kind::Adaptive => mutex::ADAPTIVE,
                }
        });
        let in_module = |module: &Module| rule.module.is_none_or(|wanted| module.is_named(wanted));
        let lies = |module: &Module| in_module(module) && module.has(index, Sort::Variable, self.address);
        let called =
            |caller: &Caller| in_module(&caller.module) && caller.module.has(index, Sort::Function, caller.call());
        kind && !rule.is_chosen
            && rule.source.is_none()
            && rule.symbol.is_none_or(|_| self.module.as_ref().is_some_and(lies))
            && rule.function.is_none_or(|_| self.callers.all().iter().any(called))
            && rule.at.is_none_or(|at| self.is_at(at))
            && (rule.symbol.is_some()
                || rule.function.is_some()
                || rule.module.is_none()
                || self.module.as_ref().is_some_and(in_module)
                || self.callers.all().first().is_some_and(|caller| in_module(&caller.module)))
    }

    /// Whether the mutex lies in one of these places, or was initialised or first locked from there.
    fn is_at(&mut self, at: &str) -> bool {
        let lies = |module: &Option<Module>, address| {
            let Some(module) = module else { return false };
            let offset = module.offset(address);
            places(at)
                .flatten()
                .any(|place| (place.begin..place.end).contains(&offset) && module.is_named(place.module))
        };
        lies(&self.module, self.address)
            || self.callers.all().iter().any(|caller| {
                let offset = caller.module.offset(caller.address);
                places(at).flatten().any(|place| caller.is_in(&place, offset) && caller.module.is_named(place.module))
            })
    }
}
