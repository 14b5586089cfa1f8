//! What was found, as data.

mod make;

use lockswap_records::trace::Use;
use schemars::JsonSchema;
use serde::Serialize;

use crate::names::Frame;
pub use crate::origin::{Identity, Site};

pub(crate) use make::named_stacks;

/// Version of this form.
pub const SCHEMA: u32 = 1;

/// Where all threads begin, and so says nothing.
const OUTERMOST: [&str; 7] =
    ["start_thread", "clone3", "__clone3", "clone", "_start", "__libc_start_main", "__libc_start_call_main"];

/// What a traced program did with its locks. All numbers of events and sums of times are estimates from a sample;
/// `error` and `total_error_ns` say how far off they may be either way, with 95 % confidence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The locks that it ran on: for mutexes, rwlocks and spinlocks.
    pub locks: Vec<String>,
    /// From the first event to the last one, ns.
    pub duration_ns: u64,
    /// The time of all threads that were seen, each from its first event to its last, ns.
    pub thread_time_ns: u64,
    /// What was noted, and what was not.
    pub notes: Notes,
    /// Mutexes, rwlocks and spinlocks, those first for which threads waited longest.
    pub objects: Vec<ObjectReport>,
    /// Condition variables, semaphores and barriers, in the same order. To wait for one is often to have nothing to
    /// do.
    pub conditions: Vec<ObjectReport>,
    /// Orders of acquisition that contradict each other.
    pub cycles: Vec<CycleReport>,
    /// Threads that waited when the trace ended.
    pub still_waiting: Vec<StillWaiting>,
}

/// What was noted, and what was not.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Notes {
    /// How far apart the samples of one thread were meant to be, ns.
    pub spacing_ns: u64,
    /// Processes that were traced.
    pub processes: u64,
    /// Threads that were seen.
    pub threads: u64,
    /// Waits that were noted.
    pub waits: u64,
    /// Holds that were noted.
    pub holds: u64,
    /// Stacks that were noted.
    pub stacks: u64,
    /// Records that found no room, because the reader was behind.
    pub lost: u64,
    /// Records that no thread finished.
    pub unfinished: u64,
    /// Waits during which holders could not be noted, because too many objects were waited for.
    pub unwatched: u64,
    /// Events of objects that are not told apart, because there were too many.
    pub of_other_objects: u64,
    /// Orders in which a thread wanted one object while it held another one.
    pub orders: u64,
    /// Such orders that were not looked at, because there were too many.
    pub orders_left_out: u64,
}

/// An object, or several with the same name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ObjectReport {
    /// `queue_lock`, `queue_lock+0x40`, `initialised in new_queue (queue.c:12), called by main (queue.c:40)`,
    /// `first waited for in push (queue.c:30)`, `first released in push (queue.c:34)`
    pub name: String,
    /// How it is used: `mutex`, `rwlock, read`, `rwlock, write`, `spinlock`, `condition variable`, `semaphore`,
    /// `barrier`.
    pub used: &'static str,
    /// The program or library in which it lies, if it is static.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// What it is known by.
    pub identity: Identity,
    /// How many objects have this name and this use.
    pub objects: u64,
    /// The most threads that were seen using one of them.
    pub users: u64,
    /// Mean time from a release of a thread until the same thread wants it again, estimated from the time of all
    /// threads that use it, the number of their acquisitions, and how long they waited and held, ns.
    pub think_ns: f64,
    /// Acquisitions.
    pub acquisitions: Estimate,
    /// Share of the acquisitions that had to wait; nothing where it is not known.
    pub contended: Option<f64>,
    /// How long threads waited for it.
    pub wait: Times,
    /// Share of the waits that slept.
    pub slept: f64,
    /// Share of the waits that ended without the object, for instance by their deadline.
    pub failed: f64,
    /// How long it was held.
    pub hold: Times,
    /// Share of the holds during which the holder gave up its CPU.
    pub holder_slept: f64,
    /// Share of the holds during which the holder lost its CPU.
    pub holder_preempted: f64,
    /// The most that waited at once, as far as samples show.
    pub longest_queue: u32,
    /// From a release to the moment when the waiter went on.
    pub handed: Times,
    /// Of these releases, the share by another thread.
    pub changed_owner: f64,
    /// By one on another CPU.
    pub changed_cpu: f64,
    /// By one on another NUMA node.
    pub changed_node: f64,
    /// Time that waiters spent until holders released, as it was charged to these, ns.
    pub charged_ns: f64,
    /// The stacks that waited, the longest first.
    pub waiters: Vec<StackReport>,
    /// The stacks that released, those first that let others wait longest.
    pub holders: Vec<StackReport>,
    /// Which stacks waited for which.
    pub stacks: Vec<StackPair>,
    /// Which threads waited for which.
    pub threads: Vec<ThreadPair>,
}

/// A number that was estimated from a sample.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// How far it may be off either way, with 95 % confidence.
    pub error: f64,
}

/// Lengths of time.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Times {
    /// How many.
    pub count: f64,
    /// How many were noted; the rest is estimated.
    pub noted: u64,
    /// Their sum, ns.
    pub total_ns: f64,
    /// How far it may be off either way, with 95 % confidence, ns.
    pub total_error_ns: f64,
    /// Half of them were no longer, ns.
    pub p50_ns: f64,
    /// 90 % of them were no longer, ns.
    pub p90_ns: f64,
    /// 99 % of them were no longer, ns.
    pub p99_ns: f64,
    /// The longest that was noted, ns.
    pub max_ns: u64,
}

/// A stack.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct StackReport {
    /// Its frames, the innermost first; none where no stack was copied.
    pub frames: Vec<Frame>,
    /// How often.
    pub count: f64,
    /// Time of waiters: of a waiter its own, of a holder that of those whom it let wait, ns.
    pub waited_ns: f64,
    /// Of a holder: how long it held, ns.
    pub held_ns: f64,
}

impl StackReport {
    /// The frames that say something, the innermost first.
    pub fn own_frames(&self) -> Vec<&Frame> {
        let is_unnamed_libc = |frame: &Frame| frame.build_id.is_some() && frame.function.starts_with("libc.so");
        let says_something = |frame: &&Frame| {
            let is_outermost = OUTERMOST.contains(&frame.function.as_str());
            !is_outermost && frame.function != Frame::CUT && !is_unnamed_libc(frame)
        };
        self.frames.iter().filter(says_something).collect()
    }

    /// The innermost frame that says something, or the innermost one.
    pub fn place(&self) -> Option<&Frame> {
        self.own_frames().into_iter().next().or(self.frames.first())
    }
}

/// Time that one stack let another one wait.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StackPair {
    /// Which of the waiters.
    pub waiter: usize,
    /// Which of the holders.
    pub holder: usize,
    /// How long, ns.
    pub waited_ns: f64,
}

/// Time that threads of one name let those of another one wait.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadPair {
    /// Who waited.
    pub waiter: String,
    /// Who held.
    pub holder: String,
    /// How long, ns.
    pub waited_ns: f64,
}

/// Threads that waited when the trace ended, all at the same place for the same name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StillWaiting {
    /// How many.
    pub threads: u64,
    /// One of them by name and number.
    pub thread: String,
    /// How long the first of them had waited, ns.
    pub since_ns: u64,
    /// For what.
    pub name: String,
    /// How that is used.
    pub used: &'static str,
    /// Whether it is something that threads wait for that have nothing to do, and nobody holds.
    pub is_idle: bool,
    /// Who held it last, as far as was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_holder: Option<String>,
    /// Where they waited.
    pub frames: Vec<Frame>,
}

/// A possible deadlock: in each of these orders a thread wants an object that the thread of the next one holds, and in
/// the last one what that of the first one holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CycleReport {
    /// The orders.
    pub orders: Vec<OrderReport>,
    /// How many other orders lead from one of them to one of them.
    pub others: u64,
}

/// A thread wants an object while it holds another one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OrderReport {
    /// The object that it holds.
    pub held: OrderedObject,
    /// The object that it wants.
    pub wanted: OrderedObject,
    /// The first thread that was seen doing so, by name and number.
    pub thread: String,
    /// Where it was then, about to acquire what it wants.
    pub frames: Vec<Frame>,
}

/// One object, told from others with the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OrderedObject {
    /// Its name.
    pub name: String,
    /// How it is used.
    pub used: &'static str,
    /// Its address in its process.
    pub address: u64,
}

/// What the reader knows besides.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The locks that it ran on.
    pub locks: Vec<String>,
    /// Counted by the library and by the reader; the rest is filled in here.
    pub notes: Notes,
}

/// The name of a use.
pub fn use_name(used: Use) -> &'static str {
    match used {
        Use::Mutex => "mutex",
        Use::Read => "rwlock, read",
        Use::Write => "rwlock, write",
        Use::Spin => "spinlock",
        Use::Condition => "condition variable",
        Use::Semaphore => "semaphore",
        Use::Barrier => "barrier",
    }
}

impl Report {
    /// Objects of all uses.
    pub fn all(&self) -> impl Iterator<Item = &ObjectReport> {
        self.objects.iter().chain(&self.conditions)
    }
}

impl ObjectReport {
    /// Its name, with what it lies in and how many there are.
    pub fn called(&self) -> String {
        let module = self.module.as_ref().map(|module| format!(" in {module}")).unwrap_or_default();
        match self.objects {
            1 => format!("{}{module}", self.name),
            many => format!("{}{module} ({many} of them)", self.name),
        }
    }
}
