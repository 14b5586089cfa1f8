//! What shufflers bring together: the policies of ShflLock (Kashyap et al., SOSP 2019, section 4), each a type
//! parameter of the lock.
//!
//!   queue before   [A 0]->[B 1]->[C 0]->[D 1]->[E 0]->[F 1]      the shuffler A looks for waiters like itself
//!   queue after    [A 0]->[C 0]->[E 0]->[B 1]->[D 1]->[F 1]      A, C, E: a batch, E is its shuffler now

use crate::info::Asks;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use core::marker::PhantomData;
use lockswap_platform::{CoreKind, Platform};

/// Most waiters in a batch (paper, section 4.2).
pub const MAX_SHUFFLES: u32 = 1024;

/// Which waiter belongs behind which.
///
/// A waiter has an *attribute*, which does not change while it waits. A *batch* is what shufflers have put in order;
/// the number that comes with its last waiter says how far it has come: never 0, which stands for no batch at all.
pub trait Policy: Send + Sync + 'static {
    /// The names of the lock under this policy: the spinning flavour, the blocking flavour.
    const IDS: [&'static str; 2];
    /// One line that says what the lock does.
    const SUMMARY: &'static str;
    /// Where the policy comes from.
    const PAPER: &'static str = "Kashyap, Calciu, Cheng, Min, Kim: SOSP 2019";
    /// What an attribute tells of the CPU.
    const ASKS: Asks;
    /// What users may choose of it.
    const PARAMETERS: Parameters;
    /// Whether the lock is the queue of a read-write lock. The parameters that a user has chosen for mutexes do not
    /// count for it.
    const IN_RWLOCK: bool = false;
    /// Whether whom the policy looks for depends on how far the batch has come. If so, a batch does not end with its
    /// last waiter: the next head of the queue, whoever it is, goes on with it.
    const ALTERNATES: bool = false;

    /// The attribute of the calling thread.
    fn mine<P: Platform>() -> u32;
    /// The batch that begins with a waiter of this attribute.
    fn first<P: Platform>(attribute: u32) -> u32 {
        let _ = attribute;
        1
    }
    /// The batch, longer by a `candidate` behind a `last` waiter; `None` if that waiter does not belong there.
    fn joined<P: Platform>(batch: u32, last: u32, candidate: u32) -> Option<u32>;
    /// The batch after `candidate`, which comes next although nobody has looked for it. Asked only if the policy
    /// alternates.
    fn passed<P: Platform>(batch: u32, candidate: u32) -> u32 {
        let _ = candidate;
        batch
    }
    /// Whether the batch may grow.
    fn is_open<P: Platform>(batch: u32) -> bool;
}

/// Something that all waiters on the same CPU have in common.
pub trait Attribute: Send + Sync + 'static {
    /// See [`Policy::IDS`].
    const IDS: [&'static str; 2];
    /// See [`Policy::SUMMARY`].
    const SUMMARY: &'static str;
    /// See [`Policy::ASKS`].
    const ASKS: Asks;
    /// The value for the calling thread.
    fn mine<P: Platform>() -> u32;
}

/// The NUMA node.
pub struct OfNode;

impl Attribute for OfNode {
    const IDS: [&'static str; 2] = ["shfllock", "shfllock-b"];
    const SUMMARY: &'static str =
        "waiters of one NUMA node are brought together in the queue by the waiters themselves";
    const ASKS: Asks = Asks::LOCALITY;

    fn mine<P: Platform>() -> u32 {
        P::node()
    }
}

/// The group of CPUs that share a last-level cache.
pub struct OfLlc;

impl Attribute for OfLlc {
    const IDS: [&'static str; 2] = ["shfllock-llc", "shfllock-llc-b"];
    const SUMMARY: &'static str = "a ShflLock that brings waiters with the same last-level cache together";
    const ASKS: Asks = Asks::LOCALITY;

    fn mine<P: Platform>() -> u32 {
        P::llc()
    }
}

/// The kind of the CPU.
pub struct OfKind;

impl Attribute for OfKind {
    const IDS: [&'static str; 2] = ["shfllock-kind", "shfllock-kind-b"];
    const SUMMARY: &'static str = "a ShflLock that brings waiters on the same kind of core together";
    const ASKS: Asks = Asks::KIND;

    fn mine<P: Platform>() -> u32 {
        kind::<P>()
    }
}

/// The attribute of a thread on a big CPU.
pub const BIG: u32 = 0;
/// The attribute of a thread on a little CPU.
pub const LITTLE: u32 = 1;

/// The kind of the CPU this thread runs on, as an attribute.
pub fn kind<P: Platform>() -> u32 {
    match P::kind() {
        CoreKind::Big => BIG,
        CoreKind::Little => LITTLE,
    }
}

/// Brings waiters with the same attribute together, `BATCH` at most: then it is the turn of whoever is next in the
/// queue.
pub struct Together<A, const BATCH: u32 = MAX_SHUFFLES>(PhantomData<A>);

impl<A: Attribute, const BATCH: u32> Policy for Together<A, BATCH> {
    const IDS: [&'static str; 2] = A::IDS;
    const SUMMARY: &'static str = A::SUMMARY;
    const ASKS: Asks = A::ASKS;
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "batch",
            values: Values::Number(Setting::Batch, 1, 1_000_000_000, "waiters"),
            default: Default::Number(BATCH),
            summary: "waiters that are brought together before whoever is next in the queue gets the turn; 1: none",
            source: "Kashyap et al.: SOSP 2019, sec. 4.2",
        }],
        inside: &[],
    };

    fn mine<P: Platform>() -> u32 {
        A::mine::<P>()
    }
    fn joined<P: Platform>(batch: u32, last: u32, candidate: u32) -> Option<u32> {
        (last == candidate).then_some(batch + 1)
    }
    fn is_open<P: Platform>(batch: u32) -> bool {
        batch < Setting::Batch.number::<P>(BATCH)
    }
}

/// Brings writers to the front, `BATCH` at most before a reader gets its turn: for the queue of a read-write lock,
/// whose readers and writers join it through [`Shfl::lock_as`](super::shfllock::Shfl::lock_as) with [`READER`] and
/// [`WRITER`].
pub struct WritersFirst<const BATCH: u32 = MAX_SHUFFLES>;

/// The attribute of a thread that wants to write.
pub const WRITER: u32 = 0;
/// The attribute of a thread that wants to read.
pub const READER: u32 = 1;

impl<const BATCH: u32> Policy for WritersFirst<BATCH> {
    const IDS: [&'static str; 2] = ["shfllock-wf", "shfllock-wf-b"];
    const SUMMARY: &'static str = "a ShflLock whose waiters bring writers to the front";
    const ASKS: Asks = Asks::NOTHING;
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "writers",
            values: Values::Number(Setting::RwWriters, 1, 1_000_000_000, "waiters"),
            default: Default::Number(BATCH),
            summary: "writers that are brought together before a reader that waits for longer gets its turn; 1: none",
            source: "Kashyap et al.: SOSP 2019, slides (writers are grouped), sec. 4.2 (the bound of any batch)",
        }],
        inside: &[],
    };
    const IN_RWLOCK: bool = true;

    /// A thread that does not say what it wants is taken for a writer.
    fn mine<P: Platform>() -> u32 {
        WRITER
    }
    fn joined<P: Platform>(batch: u32, _: u32, candidate: u32) -> Option<u32> {
        (candidate == WRITER).then_some(batch + 1)
    }
    fn is_open<P: Platform>(batch: u32) -> bool {
        batch < Setting::RwWriters.number::<P>(BATCH)
    }
}
