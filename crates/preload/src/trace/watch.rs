//! Which objects are of interest to whoever releases them, and who let others wait.
//!
//! A wait that was picked puts its object on watch. Time is divided into steps then, short ones at first, and in each
//! step one moment is drawn at random. The first release after that moment is charged with the step, once for each
//! waiter, times their weights. So a holder is charged with the more the longer the others waited for it: what it is
//! charged with is, on average, the time that they waited between the release before and its own, whatever happens
//! between; what nobody is charged with is the time from the last release to the end of the wait, in which the lock
//! was handed over.
//!
//! All accesses are relaxed: these are statistics, and the object itself orders what its holders do to its watch.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use lockswap_platform::{Native, Ns, Platform};

/// The first step of a watch.
const FIRST_STEP: Ns = 20_000;
/// Steps grow by a quarter, up to this.
const LONGEST_STEP: Ns = 4_000_000;

/// Spreads addresses: the upper bits of a product (Knuth, The Art of Computer Programming, volume 3, section 6.4).
pub fn hash(object: usize) -> usize {
    ((object as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize
}

/// How many marks there are on the objects whose addresses lead to a place.
static MARKS: [AtomicU32; 1 << 12] = [const { AtomicU32::new(0) }; 1 << 12];

fn marks(object: usize) -> &'static AtomicU32 {
    &MARKS[hash(object) % MARKS.len()]
}

/// Makes releases of an object, and of a few others, go through [`super::releases`], until [`unmark`].
pub fn mark(object: usize) {
    marks(object).fetch_add(1, Relaxed);
}

/// Takes a mark off.
pub fn unmark(object: usize) {
    marks(object).fetch_sub(1, Relaxed);
}

/// Whether an object may be marked.
#[inline(always)]
pub fn is_marked(object: usize) -> bool {
    marks(object).load(Relaxed) != 0
}

/// An object on watch, or none.
#[repr(align(64))]
struct Slot {
    /// The object's address times [`COUNT`], plus how many waiters are on watch; 0: none.
    word: AtomicU64,
    /// The sum of their weights.
    weight: AtomicU64,
    /// The moment after which a release is charged; [`NEVER`]: one is being charged, or there is no watch.
    next: AtomicU64,
    /// When the current step ends, and how long it is, ns.
    end: AtomicU64,
    step: AtomicU64,
    /// When the object was released last, and by whom: the thread's number times [`COUNT`], plus the CPU.
    released: AtomicU64,
    releaser: AtomicU64,
}

const COUNT: u64 = 1 << 16;
const NEVER: Ns = Ns::MAX;

static SLOTS: [Slot; 512] = [const {
    Slot {
        word: AtomicU64::new(0),
        weight: AtomicU64::new(0),
        next: AtomicU64::new(NEVER),
        end: AtomicU64::new(0),
        step: AtomicU64::new(0),
        released: AtomicU64::new(0),
        releaser: AtomicU64::new(0),
    }
}; 512];

fn slot(object: usize) -> &'static Slot {
    &SLOTS[hash(object) % SLOTS.len()]
}

/// One waiter's share in a watch.
pub struct Watch {
    object: usize,
    weight: u32,
}

/// Who released an object, and when.
pub struct Last {
    /// When, ns.
    pub time: Ns,
    /// The thread's number.
    pub thread: u32,
    /// On which CPU.
    pub cpu: u16,
}

/// What a release is charged with.
pub struct Charge {
    /// Time that others waited, times their weights, ns.
    pub time: Ns,
    /// How many are waiting, by their weights.
    pub waiters: u32,
}

/// Puts an object on watch for a waiter of this weight, unless another object has its place.
pub fn begin(object: usize, weight: u32) -> Option<Watch> {
    let slot = slot(object);
    let own = object as u64 * COUNT;
    let joined = slot.word.fetch_update(Relaxed, Relaxed, |word| match word {
        0 => Some(own + 1),
        word if word / COUNT == object as u64 && word % COUNT < COUNT - 1 => Some(word + 1),
        _ => None,
    });
    let before = joined.ok()?;
    slot.weight.fetch_add(weight.into(), Relaxed);
    if before == 0 {
        slot.begin_step(Native::instant(), FIRST_STEP);
    }
    mark(object);
    Some(Watch { object, weight })
}

impl Slot {
    /// Begins a step.
    fn begin_step(&self, now: Ns, step: Ns) {
        self.step.store(step, Relaxed);
        self.end.store(now + step, Relaxed);
        self.next.store(now + Ns::from(Native::choose(step as u32)), Relaxed);
    }

    /// The steps whose moments have passed, as a time, if there are any.
    fn passed(&self, now: Ns) -> Option<Ns> {
        let next = self.next.load(Relaxed);
        if now < next || self.next.compare_exchange(next, NEVER, Relaxed, Relaxed).is_err() {
            return None;
        }
        let (step, end) = (self.step.load(Relaxed), self.end.load(Relaxed));
        // This step, and the part of later ones that has passed; the rest of the one that runs has a moment of its
        // own.
        let late = now.saturating_sub(end);
        self.begin_step(end.max(now), (step + step / 4).min(LONGEST_STEP));
        Some(step + late)
    }
}

impl Watch {
    /// Ends the waiter's share; who released the object last, if anybody did since the watch began.
    pub fn end(self) -> Option<Last> {
        let slot = slot(self.object);
        let (time, releaser) = (slot.released.load(Relaxed), slot.releaser.load(Relaxed));
        slot.weight.fetch_sub(self.weight.into(), Relaxed);
        if slot.word.load(Relaxed) % COUNT == 1 {
            slot.next.store(NEVER, Relaxed);
        }
        let leave = |word: u64| Some(if word % COUNT == 1 { 0 } else { word - 1 });
        // Somebody who has joined since needs a moment again.
        if slot.word.fetch_update(Relaxed, Relaxed, leave).is_ok_and(|word| word % COUNT != 1)
            && slot.next.load(Relaxed) == NEVER
        {
            slot.begin_step(Native::instant(), FIRST_STEP);
        }
        unmark(self.object);
        (time != 0).then_some(Last { time, thread: (releaser / COUNT) as u32, cpu: (releaser % COUNT) as u16 })
    }
}

/// Notes that a thread releases an object now; what it is charged with, if it is on watch and its moment has come.
pub fn release(object: usize, now: Ns, thread: u32) -> Option<Charge> {
    let slot = slot(object);
    if slot.word.load(Relaxed) / COUNT != object as u64 {
        return None;
    }
    slot.releaser.store(u64::from(thread) * COUNT + u64::from(Native::cpu()), Relaxed);
    slot.released.store(now, Relaxed);
    let time = slot.passed(now)?;
    let waiters = slot.weight.load(Relaxed);
    Some(Charge { time: time.saturating_mul(waiters), waiters: waiters.min(u32::MAX.into()) as u32 })
}

/// In the child of a fork, where nobody waits and no other thread holds anything.
pub fn forget() {
    for mark in &MARKS {
        mark.store(0, Relaxed);
    }
    for slot in &SLOTS {
        slot.word.store(0, Relaxed);
        slot.weight.store(0, Relaxed);
        slot.next.store(NEVER, Relaxed);
    }
}
