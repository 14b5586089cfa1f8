//! The waiters that have been set aside: a list that one thread has at a time, and that goes from candidate to
//! candidate.
//!
//!   Sleepers { first: [S]->[T]->[U] :last, due, turn }
//!
//! While the list is passed on, its first waiter carries what else belongs to it. All accesses to it are Relaxed: who
//! gets the list has acquired what its predecessor wrote, with the seat.

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

/// What the first sleeper carries for the list.
pub struct Carried<P: Platform> {
    last: P::Ptr<Node<P>>,
    due: P::Usize,
    turn: P::Usize,
}

impl<P: Platform> Carried<P> {
    pub fn new() -> Self {
        Carried { last: P::Ptr::new(null_mut()), due: P::Usize::new(0), turn: P::Usize::new(0) }
    }
}

/// The sleepers, longest first.
pub struct Sleepers<P: Platform> {
    first: *mut Node<P>,
    last: *mut Node<P>,
    /// When the first is to have its turn, ns.
    due: Ns,
    /// The least time between two turns, ns: four times what a wake-up has taken lately, so that waking up takes at
    /// most a quarter of a CPU's time, but [`LONGEST_TURN`] at most: where threads wait long for a CPU, sleepers wait,
    /// too.
    turn: Ns,
}

impl<P: Platform> Sleepers<P> {
    pub const NONE: Self = Sleepers { first: null_mut(), last: null_mut(), due: 0, turn: 0 };

    /// The list that begins with this waiter, or none for null.
    ///
    /// # Safety
    /// [`Sleepers::pass`] gave it, and nobody else has it.
    pub unsafe fn beginning_with(first: *mut Node<P>) -> Self {
        // SAFETY: those in the list wait until they are answered.
        let Some(node) = (unsafe { first.as_ref() }) else { return Self::NONE };
        let Carried { last, due, turn } = &node.carried;
        Sleepers {
            first,
            last: last.load(Ordering::Relaxed),
            due: due.load(Ordering::Relaxed) as Ns,
            turn: turn.load(Ordering::Relaxed) as Ns,
        }
    }

    /// The first, which now carries what [`Sleepers::beginning_with`] reads; null if there is none.
    pub fn pass(&self) -> *mut Node<P> {
        if let Some(first) = self.first() {
            first.carried.last.store(self.last, Ordering::Relaxed);
            first.carried.due.store(self.due as usize, Ordering::Relaxed);
            first.carried.turn.store(self.turn as usize, Ordering::Relaxed);
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
        self.append(Sleepers { first: node, last: node, ..Self::NONE });
    }

    /// Adds others behind the last one.
    pub fn append(&mut self, others: Self) {
        self.due = self.due.max(others.due);
        self.turn = self.turn.max(others.turn);
        if others.first.is_null() {
            return;
        }
        // SAFETY: those in the list wait.
        match unsafe { self.last.as_ref() }.filter(|_| !self.first.is_null()) {
            Some(last) => last.next.store(others.first, Ordering::Relaxed),
            None => self.first = others.first,
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

    /// Calls the first sleeper, which takes the others along: until it is awake, nobody else is woken.
    pub fn call_first(mut self, now: Ns) -> Wake<P> {
        let first = self.pop();
        Self::call(first, self.pass(), now)
    }

    /// Takes the first sleeper out, if the last time was long enough ago: `least` ns, or a turn.
    pub fn in_turn(&mut self, now: Ns, least: Ns) -> Option<*mut Node<P>> {
        if self.first.is_null() || now < self.due {
            return None;
        }
        self.due = now + self.turn.max(least);
        Some(self.pop())
    }

    fn call(waiter: *mut Node<P>, others: *mut Node<P>, now: Ns) -> Wake<P> {
        // SAFETY: waits until it is answered, and is not null: the list was not empty.
        let node = unsafe { &*waiter };
        node.called.store(now as usize, Ordering::Relaxed);
        let status: *const P::U32 = &node.status;
        // It may be awake, for no reason or because it has not got round to sleeping; then nobody is woken in vain.
        // LAST: the waiter may return and reuse its memory after this.
        node.answer(CALLED, others);
        Wake(status)
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

    /// Passes the list on, and takes all out of it.
    fn order(sleepers: &Sleepers<Native>) -> [*mut Sleeping; 4] {
        // SAFETY: passed on, and nobody else has it.
        let mut passed = unsafe { Sleepers::beginning_with(sleepers.pass()) };
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
        assert_eq!(order(&Sleepers::NONE), [null_mut(); 4]);
    }

    #[test]
    fn who_is_called_as_the_queue_is_empty_takes_the_others_along() {
        let nodes = sleeping();
        let wake = list(&nodes).call_first(7);
        assert_eq!(wake.0, &raw const nodes[0].status);
        assert!(is_called(&nodes[0]) && !is_called(&nodes[1]));
        // SAFETY: given with the answer.
        let given = unsafe { Sleepers::beginning_with(nodes[0].given()) };
        assert_eq!(order(&given)[..3], [nodes[1].address(), nodes[2].address(), null_mut()]);
    }

    #[test]
    fn turns_are_as_long_as_wake_ups_allow() {
        let nodes = sleeping();
        let mut sleepers = list(&nodes);
        sleepers.learn(1_000);
        let taken = |sleepers: &mut Sleepers<Native>, now| sleepers.in_turn(now, 50);
        assert_eq!(taken(&mut sleepers, 10), Some(nodes[0].address()));
        assert_eq!(taken(&mut sleepers, 4_009), None);
        assert_eq!(taken(&mut sleepers, 4_010), Some(nodes[1].address()));
        // What the list knows goes with it, also when it is short, and has an upper bound.
        // SAFETY: passed on.
        let mut passed = unsafe { Sleepers::<Native>::beginning_with(sleepers.pass()) };
        assert_eq!(taken(&mut passed, 8_009), None);
        passed.learn(Ns::MAX);
        assert_eq!(passed.turn, LONGEST_TURN);
        assert!(taken(&mut passed, 8_010).is_some() && taken(&mut passed, Ns::MAX).is_none());
    }
}
