//! The list of all locks. Adding one takes its file and one line here.

use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::Parameters;
use crate::{RawLock, RawRwLock};
use lockswap_platform::Native;

/// Which pthread object a lock can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `pthread_mutex_t`, `mtx_t`
    Mutex,
    /// `pthread_rwlock_t`
    RwLock,
    /// `pthread_spinlock_t`
    Spin,
}

impl Role {
    /// The name shown to users, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Mutex => "mutex",
            Role::RwLock => "rwlock",
            Role::Spin => "spin",
        }
    }

    /// The lock that the preload library uses for this role when none is named.
    pub const fn default_id(self) -> &'static str {
        match self {
            Role::Mutex => "auto",
            Role::RwLock => "rw-futex",
            Role::Spin => "ttas",
        }
    }
}

/// One selectable lock.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What it can replace.
    pub role: Role,
    /// What is known about the algorithm; the id is that of the list below, which for a composite is not its type's.
    pub info: LockInfo,
    /// What users may choose at run time.
    pub parameters: Parameters,
    /// Bytes the lock occupies inside the pthread object.
    pub body_bytes: usize,
    /// Bytes allocated beside the pthread object for each lock.
    pub extra_bytes_per_lock: usize,
    /// Bytes a thread needs for each such lock that it holds or waits for.
    pub bytes_per_acquisition: usize,
    /// Whether selecting it loads the preload library.
    pub preloaded: bool,
    /// The path of its type, with `$crate` for this crate; empty for glibc's locks.
    pub path: &'static str,
}

impl Entry {
    /// The folders and the file of its source inside `crates/locks/src`, without the file's extension; nothing for
    /// glibc's locks.
    pub fn source(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.path.split("::").count();
        self.path.split("::").map(str::trim).skip(1).take(parts.saturating_sub(2))
    }
}

/// Calls `$callback!` with every lock of the catalogue: `id => type constructor`, by role.
#[macro_export]
macro_rules! for_each_lock {
    ($callback:ident) => {
        $callback! {
            mutex {
                "auto" => $crate::auto::lock::Auto,
                "futex" => $crate::flat::futex::Futex,
                "ttas" => $crate::flat::ttas::Ttas,
                "backoff" => $crate::flat::backoff::Backoff,
                "spinlock" => $crate::flat::ttas::Spinlock,
                "spinlock-ls" => $crate::flat::ttas::SpinlockLs,
                "ttas-ls" => $crate::flat::ttas::TtasLs,
                "mutexee" => $crate::flat::mutexee::Mutexee,
                "ticket" => $crate::flat::ticket::Ticket,
                "ticket-ls" => $crate::flat::ticket::TicketLs,
                "partitioned" => $crate::flat::partitioned::Partitioned,
                "alock-ls" => $crate::flat::partitioned::AlockLs,
                "twa" => $crate::flat::twa::Twa,
                "hbo" => $crate::numa::hbo::Hbo,
                "hticket-ls" => $crate::numa::hticket::HTicketLs,
                "mcs_spin" => $crate::queue::mcs::McsSpin,
                "mcs_stp" => $crate::queue::mcs::McsStp,
                "mcs_stp-barging" => $crate::queue::mcs::McsStpBarging,
                "mcs-ls" => $crate::queue::mcs::McsLs,
                "k42" => $crate::queue::k42::K42,
                "clh_spin" => $crate::queue::clh::ClhSpin,
                "clh_stp" => $crate::queue::clh::ClhStp,
                "clh-ls" => $crate::queue::clh::ClhLs,
                "hemlock" => $crate::queue::hemlock::Hemlock,
                "reciprocating" => $crate::queue::reciprocating::Reciprocating,
                "hapax" => $crate::queue::hapax::Hapax,
                "malth_spin" => $crate::load_control::malthusian::MalthSpin,
                "malth_stp" => $crate::load_control::malthusian::MalthStp,
                "malth_stp-barging" => $crate::load_control::malthusian::MalthStpBarging,
                "mcs-timepub" => $crate::load_control::mcs_timepub::McsTimePub,
                "cna" => $crate::numa::cna::Cna,
                "cna-opt" => $crate::numa::cna_opt::CnaOpt,
                "fissile" => $crate::numa::fissile::Fissile,
                "c-bo-mcs_spin" => $crate::numa::cohort::CBoMcsSpin,
                "c-bo-mcs_stp" => $crate::numa::cohort::CBoMcsStp,
                "c-bo-mcs_stp-barging" => $crate::numa::cohort::CBoMcsStpBarging,
                "c-ptl-tkt" => $crate::numa::cohort::CPtlTkt,
                "c-tkt-tkt" => $crate::numa::cohort::CTktTkt,
                "hmcs" => $crate::numa::hmcs::Hmcs,
                "ahmcs" => $crate::numa::ahmcs::Ahmcs,
                "gcr" => $crate::load_control::gcr::GcrMcs,
                "shfllock" => $crate::shuffle::shfllock::ShflLock,
                "shfllock-b" => $crate::shuffle::shfllock::ShflLockB,
                "shfllock-llc" => $crate::shuffle::shfllock::ShflLockLlc,
                "shfllock-kind" => $crate::shuffle::shfllock::ShflLockKind,
                "shfl-pb10" => $crate::shuffle::shfllock::ShflPb10,
                "asl" => $crate::asymmetric::libasl::Asl,
                "asl-ticket" => $crate::asymmetric::libasl::AslTicket,
                "asl-cna" => $crate::asymmetric::libasl::AslCna,
                "asl-blocking" => $crate::asymmetric::libasl::AslBlocking,
                "ron" => $crate::routed::ron::Ron,
                "ron-ticket" => $crate::routed::ticket::RonTicket,
                "ron-plock" => $crate::routed::plock::RonPlock,
                "ron-shared" => $crate::routed::shared::RonShared,
                "ron-list" => $crate::routed::list::RonList,
                "u-scl" => $crate::shares::u_scl::UScl,
            }
            rwlock {
                "rw-futex" => $crate::rw::rw_futex::RwFutex,
                "bravo" => $crate::rw::bravo::BravoFutex,
                "cohort-rw" => $crate::rw::cohort_rw::CohortRwK42,
                "phase-fair" => $crate::rw::phase_fair::PhaseFair,
                "shfllock-rw" => $crate::rw::shfllock_rw::ShflLockRw,
            }
            spin {
                "ttas" => $crate::flat::ttas::GlibcTtas,
                "backoff" => $crate::flat::backoff::GlibcBackoff,
            }
        }
    };
}

/// Runs the program as it is.
pub const PTHREAD: &str = "pthread";
/// Loads the preload library and forwards every call to glibc: shows the price of interposition.
pub const INTERPOSED_PTHREAD: &str = "interposed-pthread";
/// Loads the preload library and turns default mutexes into glibc's adaptive ones; the name is that of Guiroux,
/// Lachaize, Quema: Multicore Locks: The Case Is Not Closed Yet, USENIX ATC 2016.
pub const PTHREAD_ADAPTIVE: &str = "pthreadadapt";

/// Whether mutexes stay glibc's when `id` is chosen for them; rwlocks and spinlocks then do so by default.
pub fn is_glibcs(id: &str) -> bool {
    [PTHREAD, INTERPOSED_PTHREAD, PTHREAD_ADAPTIVE].contains(&id)
}

const GLIBC_MUTEX: LockInfo = LockInfo {
    id: PTHREAD,
    family: Family::Native,
    waiting: WaitingPolicy::SpinThenPark,
    fairness: Fairness::Unfair,
    timed: Timed::Native,
    summary: "glibc's own lock, nothing preloaded: the baseline",
    paper: "Drepper: Futexes Are Tricky, 2011",
    by_priority: ByPriority::Kernel,
    keeps_up: true,
    ..LockInfo::PLAIN
};

/// glibc's adaptive mutexes as an entry.
const fn adaptive() -> Entry {
    let summary = "glibc's own lock of the adaptive kind: waiters spin before they sleep";
    let entry = native(Role::Mutex, PTHREAD_ADAPTIVE, summary, true);
    let info = LockInfo { waiting: WaitingPolicy::Adaptive, paper: "none: glibc's source", ..entry.info };
    Entry { info, ..entry }
}

const fn native(role: Role, id: &'static str, summary: &'static str, preloaded: bool) -> Entry {
    let (waiting, paper) = match role {
        Role::Mutex => (GLIBC_MUTEX.waiting, GLIBC_MUTEX.paper),
        Role::RwLock => (WaitingPolicy::SpinThenPark, "none: glibc's source"),
        Role::Spin => (WaitingPolicy::Spin, "none: glibc's source"),
    };
    let info = LockInfo { id, summary, waiting, paper, ..GLIBC_MUTEX };
    let parameters = Parameters::NONE;
    Entry {
        role,
        info,
        parameters,
        body_bytes: 0,
        extra_bytes_per_lock: 0,
        bytes_per_acquisition: 0,
        preloaded,
        path: "",
    }
}

/// A context has a cache line of its own, behind one that says who uses it; the holder's address is kept in the mutex.
pub const CONTEXT_SLOT_BYTES: usize = 128;

/// Bytes that a lock may take inside a pthread mutex or rwlock, the address of the holder's context included. A lock
/// that takes more lies outside, and the object holds its address.
pub const PLACE_BYTES: usize = 16;

/// Whether a lock of `bytes` bytes lies inside the pthread object, which also keeps the address of a context or not.
pub const fn fits_in_place(bytes: usize, has_context: bool) -> bool {
    bytes + if has_context { size_of::<usize>() } else { 0 } <= PLACE_BYTES
}

/// A lock that lies outside sits in a block of whole cache lines, the first of which says whose it is.
pub const fn block_bytes(bytes: usize) -> usize {
    64 + bytes.next_multiple_of(64)
}

const fn mutex<L: RawLock<Native>>(id: &'static str, path: &'static str) -> Entry {
    let has_context = size_of::<L::Ctx>() != 0;
    let in_place = fits_in_place(size_of::<L>(), has_context);
    Entry {
        role: Role::Mutex,
        info: LockInfo { id, ..L::INFO },
        parameters: L::PARAMETERS,
        body_bytes: if in_place { size_of::<L>() } else { size_of::<usize>() }
            + if has_context { size_of::<usize>() } else { 0 },
        extra_bytes_per_lock: if in_place { 0 } else { block_bytes(size_of::<L>()) },
        bytes_per_acquisition: if has_context { CONTEXT_SLOT_BYTES } else { 0 },
        preloaded: true,
        path,
    }
}

/// Without parameters: their values belong to the process's mutexes and rwlocks.
const fn spin<L: RawLock<Native>>(id: &'static str, path: &'static str) -> Entry {
    Entry { role: Role::Spin, parameters: Parameters::NONE, ..mutex::<L>(id, path) }
}

const fn rwlock<L: RawRwLock<Native>>(id: &'static str, path: &'static str) -> Entry {
    let in_place = fits_in_place(size_of::<L>(), false);
    Entry {
        role: Role::RwLock,
        info: LockInfo { id, ..L::INFO },
        parameters: L::PARAMETERS,
        body_bytes: if in_place { size_of::<L>() } else { size_of::<usize>() },
        extra_bytes_per_lock: if in_place { 0 } else { block_bytes(size_of::<L>()) },
        bytes_per_acquisition: 0,
        preloaded: true,
        path,
    }
}

macro_rules! entries {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        &[
            native(Role::Mutex, PTHREAD, GLIBC_MUTEX.summary, false),
            native(
                Role::Mutex,
                INTERPOSED_PTHREAD,
                "glibc's own lock behind the preload library: the price of interposition",
                true,
            ),
            adaptive(),
            $({
                use $mutex as Lock;
                mutex::<Lock<Native>>($mutex_id, stringify!($mutex))
            },)*
            native(Role::RwLock, PTHREAD, "glibc's own read-write lock", true),
            $({
                use $rwlock as Lock;
                rwlock::<Lock<Native>>($rwlock_id, stringify!($rwlock))
            },)*
            native(Role::Spin, PTHREAD, "glibc's own spinlock", true),
            $({
                use $spin as Lock;
                spin::<Lock<Native>>($spin_id, stringify!($spin))
            },)*
        ]
    };
}

/// Every selectable lock, baselines first.
pub static ENTRIES: &[Entry] = for_each_lock!(entries);

/// The lock called `id` in `role`, or so but for capitals and `-` in the place of `_`, as in `MCS-spin`.
pub fn find(role: Role, id: &str) -> Option<&'static Entry> {
    find_in(ENTRIES, role, id)
}

/// The same among other entries.
pub fn find_in<'a>(entries: &'a [Entry], role: Role, id: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.role == role && is_alike(entry.info.id, id))
}

pub(crate) fn is_alike(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

/// The ids of all locks in `role`, baselines first.
pub fn ids(role: Role) -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().filter(move |entry| entry.role == role).map(|entry| entry.info.id)
}
