//! The spinlocks of the Linux kernel, of four bytes each, and the orders in which their waiters may be served. They
//! are for simulations only: a thread that waits for one is never preempted, and the nodes of its waiters belong to
//! the CPUs.
//!
//! - [`queued`] is the lock word, the way into the queue and out of it, and the order of arrival: `qspinlock`.
//! - [`cna`], [`shfl`] and [`ron`] order the waiters: `qspinlock-cna`, `qspinlock-shfl`, `qspinlock-ron`.
//! - [`node`] has the queue nodes.
//!
//! They are written from the papers, and from what is known of the kernel's lock (Corbet: MCS locks and qspinlocks,
//! LWN, March 2014). The folder `kernel` of the repository has the same orders as patches in C, under another licence;
//! neither takes code from the other. `tests/kernel.rs` compares whom both serve after whom.

pub mod cna;
pub mod node;
pub mod queued;
pub mod ron;
pub mod shfl;

use crate::word::Memory;
use crate::Sim;
use lockswap_locks::info::LockInfo;
use lockswap_locks::parameters::{Default, Parameter, Setting, Values};
use lockswap_locks::registry::{Entry, Role};
use lockswap_locks::RawLock;
use lockswap_platform::{Ns, Platform};
use node::Node;

/// A machine that the kernel's locks run on: a thread stays on its CPU while it waits.
pub trait Kernel: Platform {
    /// Its memory.
    type Memory: Memory;
    /// The queue nodes, one for each CPU.
    fn nodes() -> &'static [Node<Self::Memory>];
}

/// How long waiters may be passed over, ns.
const THRESHOLD: Ns = 1_000_000;

/// The same as users may choose it.
const OF_THRESHOLD: Parameter = Parameter {
    key: "threshold",
    values: Values::Time(Setting::Threshold),
    default: Default::Time(THRESHOLD),
    summary: "time for which waiters of other NUMA nodes may be passed over",
    source: "Kogan: Add NUMA-awareness to qspinlock, version 15, linux-kernel, May 2021",
};

/// A moment, in units of 1024 ns: what fits into a node.
fn moment<P: Platform>() -> u32 {
    (P::instant() >> 10) as u32
}

/// Whether waiters have been passed over since then for as long as they may be, which is `threshold` unless the user
/// says something else.
fn is_over<P: Platform>(since: u32, threshold: Ns) -> bool {
    u64::from(moment::<P>().wrapping_sub(since)) >= Setting::Threshold.time::<P>(threshold) >> 10
}

const fn entry<L: RawLock<Sim>>() -> Entry {
    Entry {
        role: Role::Mutex,
        info: LockInfo { ..L::INFO },
        parameters: L::PARAMETERS,
        body_bytes: size_of::<L>(),
        extra_bytes_per_lock: 0,
        bytes_per_acquisition: 0,
        preloaded: false,
        path: "",
    }
}

/// The kernel's locks, as the catalogue describes those that programs can have.
pub static ENTRIES: &[Entry] = &[
    entry::<queued::Native<Sim>>(),
    entry::<cna::QspinlockCna<Sim>>(),
    entry::<shfl::QspinlockShfl<Sim>>(),
    entry::<ron::QspinlockRon<Sim>>(),
];
