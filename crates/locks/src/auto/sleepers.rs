//! The waiters that have been set aside: a list that one thread has at a time, and that goes from candidate to
//! candidate.
//!
//!   Sleepers { first: [S]->[T]->[U] :last, due, turn, passed, home, insisted }
//!
//! It is passed on in the node of the waiter that gets it, or, while the queue is empty, in that of its own first
//! waiter. All accesses to it are Relaxed: who gets the list has acquired what its predecessor wrote, with the seat.

use super::queue::{Node, CALLED};
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ns, Ordering, Platform};

/// Whom to wake, by the address of its status.
#[must_use]
pub struct Wake<P: Platform>(*const P::U32);

impl<P: Platform> Wake<P> {
    pub const NOBODY: Self = Wake(core::ptr::null());

    pub fn is_somebody(&self) -> bool {
        !self.0.is_null()
    }

    pub fn at(status: *const P::U32) -> Self {
        Wake(status)
    }

    pub fn wake(self) {
        if !self.0.is_null() {
            P::unpark(self.0, 1);
        }
    }
}

/// See [`Sleepers`], ns.
const LONGEST_TURN: Ns = 500_000;

/// A sleeper that has waited for so long, ns, is passed no more.
const LONGEST_PASSED: Ns = 10_000_000;

/// The list on its way, see [`Sleepers`].
pub struct Given<P: Platform> {
    first: P::Ptr<Node<P>>,
    last: P::Ptr<Node<P>>,
    due: P::Usize,
    turn: P::U32,
    passed: P::U32,
    home: P::U32,
    insisted: P::U32,
}

impl<P: Platform> Given<P> {
    pub fn new() -> Self {
        Given {
            first: P::Ptr::new(null_mut()),
            last: P::Ptr::new(null_mut()),
            due: P::Usize::new(0),
            turn: P::U32::new(0),
            passed: P::U32::new(0),
            home: P::U32::new(0),
            insisted: P::U32::new(0),
        }
    }

    /// Puts a list there, for a thread that is about to be told.
    pub fn set(&self, sleepers: &Sleepers<P>) {
        self.first.store(sleepers.first, Ordering::Relaxed);
        self.last.store(sleepers.last, Ordering::Relaxed);
        self.due.store(sleepers.due as usize, Ordering::Relaxed);
        self.turn.store(sleepers.turn as u32, Ordering::Relaxed);
        self.passed.store(sleepers.passed, Ordering::Relaxed);
        self.home.store(sleepers.home, Ordering::Relaxed);
        self.insisted.store(sleepers.insisted, Ordering::Relaxed);
    }

    /// The list that has been set.
    ///
    /// # Safety
    /// It has been set for the caller, and nobody else has the list.
    pub unsafe fn sleepers(&self) -> Sleepers<P> {
        let first = self.first.load(Ordering::Relaxed);
        if first.is_null() {
            return Sleepers::NONE;
        }
        Sleepers {
            first,
            last: self.last.load(Ordering::Relaxed),
            due: self.due.load(Ordering::Relaxed) as Ns,
            turn: self.turn.load(Ordering::Relaxed).into(),
            passed: self.passed.load(Ordering::Relaxed),
            home: self.home.load(Ordering::Relaxed),
            insisted: self.insisted.load(Ordering::Relaxed),
        }
    }

    #[cfg(test)]
    pub fn first(&self) -> *mut Node<P> {
        self.first.load(Ordering::Relaxed)
    }
}

/// The sleepers, longest first, and who of them comes next: one of a certain place, but after some of those, or when
/// it has waited for [`LONGEST_PASSED`], the first one, whatever its place.
///
/// With several NUMA nodes that place is the node that the lock is at, so that the threads that circulate are of one
/// node after a while, instead of a sample of all. With one it is the CPU of the thread that makes room. Linux wakes a
/// thread on the CPU that it ran on last, unless that is busy and another is idle, which the caller's is not yet: a
/// sleeper of another CPU would wait for that, or take it from the holder of the lock, while the caller's has nothing
/// to do, often for a time slice. If such a one has its turn all the same, a candidate on one of few CPUs keeps its
/// place ([`Sleepers::call_alone`]) where it would be missed. A release that calls somebody makes no room. So there,
/// with one node, one comes first of whose CPU another one sleeps, too, as far as the list shows: who shares a CPU
/// with a thread that runs would have to wait.
pub struct Sleepers<P: Platform> {
    first: *mut Node<P>,
    last: *mut Node<P>,
    /// When the first is to have its turn, ns.
    due: Ns,
    /// The least time between two turns, ns: four times what a wake-up has taken lately, so that waking up takes at
    /// most a quarter of a CPU's time, but [`LONGEST_TURN`] at most: where threads wait long for a CPU, sleepers wait,
    /// too.
    turn: Ns,
    /// So many have come before the first one.
    passed: u32,
    /// The place of the candidate that has given the list.
    pub home: u32,
    /// So many candidates in a row have had to insist ([`super::bounds::Bounds::GRACE`]), up to the last one.
    pub insisted: u32,
}

impl<P: Platform> Sleepers<P> {
    pub const NONE: Self =
        Sleepers { first: null_mut(), last: null_mut(), due: 0, turn: 0, passed: 0, home: 0, insisted: 0 };

    /// The list that begins with this waiter.
    ///
    /// # Safety
    /// [`Sleepers::leave`] gave it, and nobody else has it.
    pub unsafe fn beginning_with(first: *mut Node<P>) -> Self {
        // SAFETY: those in the list wait until they are answered.
        unsafe { (*first).given.sleepers() }
    }

    /// The first, which carries the list from now on; null if there is none.
    pub fn leave(&self) -> *mut Node<P> {
        if let Some(first) = self.first() {
            first.given.set(self);
        }
        self.first
    }

    pub fn are_none(&self) -> bool {
        self.first.is_null()
    }

    fn first(&self) -> Option<&Node<P>> {
        // SAFETY: those in the list wait until they are answered.
        unsafe { self.first.as_ref() }
    }

    /// Adds a waiter that sleeps, and is in no queue any more.
    pub fn push(&mut self, node: *mut Node<P>) {
        self.append(Sleepers { first: node, last: node, home: self.home, ..Self::NONE });
    }

    /// Adds others behind the last one.
    pub fn append(&mut self, others: Self) {
        self.due = self.due.max(others.due);
        self.turn = self.turn.max(others.turn);
        self.insisted = self.insisted.max(others.insisted);
        if others.first.is_null() {
            return;
        }
        // SAFETY: those in the list wait.
        match unsafe { self.last.as_ref() }.filter(|_| !self.first.is_null()) {
            Some(last) => last.next.store(others.first, Ordering::Relaxed),
            None => (self.first, self.passed, self.home) = (others.first, others.passed, others.home),
        }
        self.last = others.last;
    }

    fn pop(&mut self) -> *mut Node<P> {
        let popped = self.first;
        if let Some(first) = self.first() {
            self.first = if popped == self.last { null_mut() } else { first.next.load(Ordering::Relaxed) };
        }
        popped
    }

    /// Calls a sleeper, which takes the others along: until it is awake, nobody else is woken. It is the first one, or,
    /// with one NUMA node and up to `near` / 2 times, the second one of a CPU among the first `near`.
    pub fn call_next(mut self, near: u32, now: Ns) -> Wake<P> {
        let called = self.take_next(near, if P::has_one_node() { near / 2 } else { 0 }, now);
        Self::call(called, &self, now)
    }

    /// Takes out the second one of a place among the first `near`, unless the first one has its turn, which so many
    /// may pass.
    fn take_next(&mut self, near: u32, so_many: u32, now: Ns) -> *mut Node<P> {
        let preferred = if self.may_pass_first(so_many, now) { self.take_second(near) } else { None };
        self.before_first(preferred)
    }

    /// Whether another one may come before the first, which so many may.
    fn may_pass_first(&self, so_many: u32, now: Ns) -> bool {
        let waited = |first: &Node<P>| now.saturating_sub(first.since.load(Ordering::Relaxed) as Ns);
        self.passed < so_many && self.first().is_some_and(|first| waited(first) < LONGEST_PASSED)
    }

    /// The place whose sleepers come first, as [`Sleepers`] says.
    pub fn preferred_place(&self) -> u32 {
        if P::has_one_node() {
            P::cpu()
        } else {
            self.home
        }
    }

    /// Takes a sleeper out, if the last time was long enough ago: `least` ns, or a turn. It is the first one, or, up
    /// to `near` / 2 times, one of `place` among the first `near`.
    pub fn in_turn(&mut self, now: Ns, least: Ns, near: u32, place: u32) -> Option<*mut Node<P>> {
        if self.first.is_null() || now < self.due {
            return None;
        }
        self.due = now + self.turn.max(least);
        let preferred = if self.may_pass_first(near / 2, now) { self.take_from(place, near) } else { None };
        Some(self.before_first(preferred))
    }

    /// Counts that one has come before the first, which comes itself if there is none.
    fn before_first(&mut self, preferred: Option<*mut Node<P>>) -> *mut Node<P> {
        self.passed = if preferred.is_some() { self.passed + 1 } else { 0 };
        preferred.unwrap_or_else(|| self.pop())
    }

    /// Takes out one of this place behind the first; nothing if the first one is from there, or nobody among so many.
    fn take_from(&mut self, place: u32, among: u32) -> Option<*mut Node<P>> {
        self.first().filter(|first| first.place() != place)?;
        self.take_behind(among, |node| node.place() == place)
    }

    /// Takes out one of a place that another one before it has, too, among so many. Places that are 64 apart count as
    /// one, and then somebody else is taken than was meant.
    fn take_second(&mut self, among: u32) -> Option<*mut Node<P>> {
        let bit = |node: &Node<P>| 1_u64 << (node.place() % 64);
        let mut seen = bit(self.first()?);
        self.take_behind(among, |node| {
            let is_second = seen & bit(node) != 0;
            seen |= bit(node);
            is_second
        })
    }

    /// Takes out the first one behind the first that is wanted, if there is one among so many.
    fn take_behind(&mut self, among: u32, mut is_wanted: impl FnMut(&Node<P>) -> bool) -> Option<*mut Node<P>> {
        let mut before = self.first()?;
        for _ in 1..among {
            if before.address() == self.last {
                return None;
            }
            let taken = before.next.load(Ordering::Relaxed);
            // SAFETY: those in the list wait until they are answered.
            let node = unsafe { &*taken };
            if is_wanted(node) {
                if taken == self.last {
                    self.last = before.address();
                } else {
                    before.next.store(node.next.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                return Some(taken);
            }
            before = node;
        }
        None
    }

    /// Calls a sleeper that has been taken out, to the end of the queue, while the caller stays where it is. The next
    /// turn is as late as it may be, because it is not known how long this one waits for a CPU.
    pub fn call_alone(&mut self, sleeper: *mut Node<P>, now: Ns) -> Wake<P> {
        self.due = now + LONGEST_TURN;
        Self::call(sleeper, &Self::NONE, now)
    }

    fn call(waiter: *mut Node<P>, others: &Self, now: Ns) -> Wake<P> {
        // SAFETY: waits until it is answered, and is not null: the list was not empty.
        let node = unsafe { &*waiter };
        node.called.store(now as usize, Ordering::Relaxed);
        let status: *const P::U32 = &node.status;
        // It may be awake, for no reason or because it has not got round to sleeping; then nobody is woken in vain.
        // LAST: the waiter may return and reuse its memory after this.
        node.answer(CALLED, others);
        Wake(status)
    }

    /// Notes whether the candidate that has the list now had to insist.
    pub fn note_candidate(&mut self, insisted: bool) {
        self.insisted = if insisted { self.insisted.saturating_add(1) } else { 0 };
    }

    /// Learns how long a wake-up takes.
    pub fn learn(&mut self, wake_up: Ns) {
        self.turn = wake_up.saturating_mul(4).min(LONGEST_TURN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_platform::Native;

    type Sleeping = Node<Native>;

    fn sleeping() -> [Sleeping; 3] {
        core::array::from_fn(|number| Sleeping::new(number as Ns, false))
    }

    fn list(nodes: &[Sleeping]) -> Sleepers<Native> {
        let mut sleepers = Sleepers::NONE;
        nodes.iter().for_each(|node| sleepers.push(node.address()));
        sleepers
    }

    fn is_called(node: &Sleeping) -> bool {
        node.status.load(Ordering::Relaxed) == CALLED
    }

    /// Passes the list on, which is not empty, and takes all out of it.
    fn order(sleepers: &Sleepers<Native>) -> [*mut Sleeping; 4] {
        // SAFETY: passed on, and nobody else has it.
        let mut passed = unsafe { Sleepers::beginning_with(sleepers.leave()) };
        core::array::from_fn(|_| passed.pop())
    }

    #[test]
    fn a_list_is_passed_on_in_its_order() {
        let nodes = sleeping();
        let [a, b, c] = nodes.each_ref().map(Node::address);
        assert_eq!(order(&list(&nodes)), [a, b, c, null_mut()]);
        let mut both = list(&nodes[..1]);
        both.append(Sleepers::NONE);
        both.append(list(&nodes[1..]));
        assert_eq!(order(&both), [a, b, c, null_mut()]);
        assert!(Sleepers::<Native>::NONE.leave().is_null());
    }

    #[test]
    fn who_is_called_as_the_queue_is_empty_takes_the_others_along() {
        let nodes = sleeping();
        let wake = list(&nodes).call_next(0, 7);
        assert_eq!(wake.0, &raw const nodes[0].status);
        assert!(is_called(&nodes[0]) && !is_called(&nodes[1]));
        // SAFETY: given with the answer.
        let given = unsafe { nodes[0].given.sleepers() };
        assert_eq!(order(&given)[..3], [nodes[1].address(), nodes[2].address(), null_mut()]);
    }

    #[test]
    fn those_of_a_place_have_their_turns_first_for_a_while() {
        let nodes: [Sleeping; 6] = core::array::from_fn(|number| Sleeping::new(number as Ns, false));
        let taken = |places: [u32; 6], near| {
            nodes.iter().zip(places).for_each(|(node, place)| node.place.store(place, Ordering::Relaxed));
            let mut sleepers = list(&nodes);
            core::array::from_fn::<_, 6, _>(|turn| {
                let taken = sleepers.in_turn(1_000 * turn as Ns, 0, near, 7).unwrap();
                nodes.iter().position(|node| node.address() == taken).unwrap()
            })
        };
        assert_eq!(taken([1, 1, 7, 1, 7, 7], 6), [2, 4, 5, 0, 1, 3]);
        // Two pass the first one, not three.
        assert_eq!(taken([1, 7, 7, 7, 1, 1], 4), [1, 2, 0, 3, 4, 5]);
        // Too far away for the first turn.
        assert_eq!(taken([1, 1, 1, 7, 1, 1], 3), [0, 3, 1, 2, 4, 5]);
        // Where all places are alike to the machine.
        assert_eq!(taken([1, 7, 1, 7, 1, 7], 0), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_release_passes_the_first_one_some_times() {
        let nodes: [Sleeping; 8] = core::array::from_fn(|number| Sleeping::new(number as Ns, false));
        nodes.iter().for_each(|node| node.place.store(7, Ordering::Relaxed));
        let taken = |so_many, now| {
            let mut sleepers = list(&nodes);
            core::array::from_fn::<_, 8, _>(|_| {
                let taken = sleepers.take_next(32, so_many, now);
                nodes.iter().position(|node| node.address() == taken).unwrap()
            })
        };
        assert_eq!(taken(4, 7), [1, 2, 3, 4, 0, 6, 7, 5]);
        assert_eq!(taken(0, 7), [0, 1, 2, 3, 4, 5, 6, 7]);
        // They have come a nanosecond after each other: the first three have waited for too long to be passed.
        assert_eq!(taken(4, LONGEST_PASSED + 2), [0, 1, 2, 4, 5, 6, 7, 3]);
    }

    #[test]
    fn the_second_of_a_place_is_taken_out() {
        let nodes: [Sleeping; 6] = core::array::from_fn(|number| Sleeping::new(number as Ns, false));
        let rest = |places: [u32; 6], among| {
            nodes.iter().zip(places).for_each(|(node, place)| node.place.store(place, Ordering::Relaxed));
            let mut sleepers = list(&nodes);
            let at = |node: *mut Sleeping| nodes.iter().position(|other| other.address() == node);
            let second = sleepers.take_second(among).and_then(at);
            (second, core::array::from_fn::<_, 6, _>(|_| at(sleepers.pop()).unwrap_or(6)))
        };
        assert_eq!(rest([1, 2, 3, 2, 1, 1], 6), (Some(3), [0, 1, 2, 4, 5, 6]));
        assert_eq!(rest([1, 2, 3, 4, 5, 1], 6), (Some(5), [0, 1, 2, 3, 4, 6]), "the last one");
        assert_eq!(rest([1, 2, 3, 4, 5, 1], 5), (None, [0, 1, 2, 3, 4, 5]), "too far away");
        assert_eq!(rest([1, 2, 3, 4, 5, 6], 6), (None, [0, 1, 2, 3, 4, 5]));
        assert_eq!(list(&nodes[..0]).take_second(6), None);
    }

    #[test]
    fn turns_are_as_long_as_wake_ups_allow() {
        let nodes = sleeping();
        let mut sleepers = list(&nodes);
        sleepers.learn(1_000);
        let taken = |sleepers: &mut Sleepers<Native>, now| sleepers.in_turn(now, 50, 0, 7);
        assert_eq!(taken(&mut sleepers, 10), Some(nodes[0].address()));
        assert_eq!(taken(&mut sleepers, 4_009), None);
        assert_eq!(taken(&mut sleepers, 4_010), Some(nodes[1].address()));
        sleepers.note_candidate(true);
        sleepers.note_candidate(true);
        // What the list knows goes with it, also when it is short, and has an upper bound.
        // SAFETY: passed on.
        let mut passed = unsafe { Sleepers::<Native>::beginning_with(sleepers.leave()) };
        assert_eq!(taken(&mut passed, 8_009), None);
        assert_eq!(passed.insisted, 2);
        passed.note_candidate(false);
        assert_eq!(passed.insisted, 0);
        passed.learn(Ns::MAX);
        assert_eq!(passed.turn, LONGEST_TURN);
        assert!(taken(&mut passed, 8_010).is_some() && taken(&mut passed, Ns::MAX).is_none());
    }
}
