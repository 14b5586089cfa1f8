//! The queue of waiters, and how they wait. All accesses but those with an order of their own are Relaxed: they are
//! the candidate's, which acquires what the candidate before it wrote, with the seat, or those of a waiter that has
//! stopped the candidate.

use super::seat::{Hints, Seat};
use super::sleepers::{Given, Sleepers, Wake};
use crate::waiting::{GRANTED, PARKED, WAITING};
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ns, Ordering, Platform};

/// A status besides those of [`crate::waiting`]: the waiter has been woken, and is in no list any more.
pub const CALLED: u32 = 3;

/// Another one: the waiter was [`PARKED`] and is not in the queue any more, but among the sleepers. A thread that is
/// PARKED and has not gone to sleep yet may return to the queue; from here it may not.
const ASIDE: u32 = 4;

/// So many waiters behind a candidate are looked at to find one that is awake.
const AWAKE_AMONG: u32 = 8;

/// What a wait ends with.
pub enum Turn {
    /// The waiter is the candidate: it has the seat.
    Seat,
    /// The waiter is to queue again.
    Called,
    /// The waiter has left the queue.
    Left,
}

/// A waiter, on its own stack. What a candidate reads and writes of the next ones is in one line of 64 bytes.
#[repr(C, align(64))]
pub struct Node<P: Platform> {
    /// In the queue: the next waiter. Among the sleepers: the next sleeper.
    pub next: P::Ptr<Node<P>>,
    pub status: P::U32,
    /// Where it waits: the locality group of its CPU, or the CPU, if there is but one group.
    pub place: P::U32,
    /// The sleepers that come with the answer to this waiter, or whose first it is.
    pub given: Given<P>,
    /// When it began to wait, ns.
    pub since: P::Usize,
    /// When it was called, ns.
    pub called: P::Usize,
    /// In the queue: the waiter before.
    before: P::Ptr<Node<P>>,
    /// 1: it has been called, and is not set aside again.
    stays: P::U32,
}

impl<P: Platform> Node<P> {
    pub fn new(since: Ns, stays: bool) -> Self {
        Node {
            next: P::Ptr::new(null_mut()),
            status: P::U32::new(WAITING),
            place: P::U32::new(if P::has_one_node() { P::cpu() } else { P::node() }),
            given: Given::new(),
            since: P::Usize::new(since as usize),
            called: P::Usize::new(0),
            before: P::Ptr::new(null_mut()),
            stays: P::U32::new(stays.into()),
        }
    }

    pub fn address(&self) -> *mut Node<P> {
        core::ptr::from_ref(self).cast_mut()
    }

    /// The next waiter, if it has linked in.
    fn next(&self) -> *mut Node<P> {
        // ORDER(link): Acquire pairs with the Release in `wait_behind`.
        self.next.load(Ordering::Acquire)
    }

    /// Whether so many waiters or more have linked in behind it. Only for who has the seat.
    pub fn has_behind(&self, waiters: u32) -> bool {
        let mut last = self;
        (0..waiters).all(|_| {
            // SAFETY: in the queue, so that it waits until it is answered.
            unsafe { last.next().as_ref() }.map(|next| last = next).is_some()
        })
    }

    /// Whether one of the first waiters behind it is awake, for all that is known. Only for who has the seat.
    pub fn has_awake_behind(&self) -> bool {
        let mut last = self;
        for _ in 0..AWAKE_AMONG {
            // SAFETY: in the queue, so that it waits until it is answered.
            let Some(next) = (unsafe { last.next().as_ref() }) else { return false };
            if next.status.load(Ordering::Relaxed) != PARKED {
                return true;
            }
            last = next;
        }
        false
    }

    /// The next waiter, which has linked in or is about to.
    fn linked(&self) -> *mut Node<P> {
        P::spin_map(|| Some(self.next()).filter(|next| !next.is_null()))
    }

    /// What the wait has ended with, if it has.
    pub fn answered(&self) -> Option<Turn> {
        // ORDER(seat): Acquire pairs with the Release in `answer` and `seat`.
        match self.status.load(Ordering::Acquire) {
            GRANTED => Some(Turn::Seat),
            CALLED => Some(Turn::Called),
            _ => None,
        }
    }

    /// Waits behind a predecessor for an answer, spinning for so many looks before it sleeps, and again if it
    /// `goes_on`; the answer, and the sleepers that come with it. `unanswered` is called each time the looks have been
    /// in vain, and may end the wait.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet, and waits until it has.
    pub unsafe fn wait_behind(
        &self,
        predecessor: *mut Node<P>,
        looks: u32,
        mut goes_on: impl FnMut() -> bool,
        mut unanswered: impl FnMut() -> Option<Turn>,
    ) -> (Turn, Sleepers<P>) {
        self.before.store(predecessor, Ordering::Relaxed);
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        // SAFETY: as for this call.
        unsafe { (*predecessor).next.store(self.address(), Ordering::Release) };
        let turn = loop {
            if let Some(turn) = P::spin_map_bounded(looks, || self.answered()).or_else(&mut unanswered) {
                break turn;
            }
            // Relaxed: the announcement carries no data; it fails only on an answer, which the next round acquires.
            if self.status.compare_exchange(WAITING, PARKED, Ordering::Relaxed).is_err() {
                continue;
            }
            if goes_on() {
                self.stay_awake();
            }
            self.sleep();
        };
        self.end_wait(turn)
    }

    /// What came with the answer.
    fn end_wait(&self, turn: Turn) -> (Turn, Sleepers<P>) {
        if let Turn::Left = turn {
            return (turn, Sleepers::NONE);
        }
        // SAFETY: given with the answer.
        let mut sleepers = unsafe { self.given.sleepers() };
        let called = self.called.load(Ordering::Relaxed) as Ns;
        if called != 0 {
            sleepers.learn(P::instant().saturating_sub(called));
        }
        (turn, sleepers)
    }

    /// Waits for an answer, among the sleepers.
    pub fn wait_aside(&self) -> (Turn, Sleepers<P>) {
        let turn = loop {
            self.sleep();
            if let Some(turn) = self.answered() {
                break turn;
            }
        };
        self.end_wait(turn)
    }

    /// Where it waits.
    pub fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// Whether the waiter is not set aside (again).
    pub fn stays(&self) -> bool {
        self.stays.load(Ordering::Relaxed) != 0
    }

    /// Lets a sleeper be the candidate instead, at the head of the queue, and becomes the last of the sleepers. The
    /// caller waits among them then.
    pub fn change_places(
        &self,
        heir: *mut Node<P>,
        mut sleepers: Sleepers<P>,
        queue: &P::Ptr<Node<P>>,
        seat: &Seat<P>,
        hints: Hints,
    ) -> Wake<P> {
        // SAFETY: waits until it is answered.
        let node = unsafe { &*heir };
        node.next.store(null_mut(), Ordering::Relaxed);
        let mut after = self.next();
        // ORDER(enqueue): Release publishes the line above to the next one that queues.
        if after.is_null() && !queue.try_change(self.address(), heir, Ordering::Release) {
            after = self.linked();
        }
        if !after.is_null() {
            node.link(after);
        }
        self.status.store(ASIDE, Ordering::Relaxed);
        sleepers.home = self.place();
        sleepers.push(self.address());
        node.stays.store(1, Ordering::Relaxed);
        node.called.store(P::instant() as usize, Ordering::Relaxed);
        let status = &raw const node.status;
        node.answer(GRANTED, &sleepers);
        seat.leave(hints, false);
        Wake::at(status)
    }

    /// Leaves the queue, unless the candidate has answered a question or this waiter; whether it has left.
    pub fn leave(&self, queue: &P::Ptr<Node<P>>, seat: &Seat<P>) -> bool {
        if !seat.stop() {
            return false;
        }
        // Relaxed, here and below: the candidate, which alone changes the queue, is stopped.
        let leaves = self.status.load(Ordering::Relaxed) == WAITING;
        if leaves {
            // SAFETY: in the queue before this waiter, which it outlasts while that has no answer.
            unsafe { &*self.before.load(Ordering::Relaxed) }.take_out(self.address(), queue);
        }
        seat.go_on();
        leaves
    }

    /// Takes the announcement of a sleep back, unless the waiter has been set aside or answered. Whether it has.
    fn stay_awake(&self) -> bool {
        // Relaxed: as the announcement.
        self.status.compare_exchange(PARKED, WAITING, Ordering::Relaxed).is_ok()
    }

    /// Sleeps while it is to.
    fn sleep(&self) {
        // Relaxed: a hint. It may have moved since it came; to another node seldom.
        if P::has_one_node() {
            self.place.store(P::cpu(), Ordering::Relaxed);
        }
        loop {
            let status = self.status.load(Ordering::Relaxed);
            if status != PARKED && status != ASIDE {
                return;
            }
            P::park(&self.status, status, None);
        }
    }

    /// Ends the wait of a waiter that is in no list any more. LAST: it may return and reuse its memory after this.
    pub fn answer(&self, status: u32, sleepers: &Sleepers<P>) {
        self.given.set(sleepers);
        // ORDER(seat): Release pairs with the Acquire in `wait_behind`.
        self.status.store(status, Ordering::Release);
    }

    /// Makes this waiter the candidate, unless it sleeps, or is about to; whether it did. LAST: if so, it may return
    /// and reuse its memory.
    fn seat(&self, sleepers: &Sleepers<P>) -> bool {
        self.given.set(sleepers);
        // ORDER(seat): as in `answer`.
        self.status.compare_exchange(WAITING, GRANTED, Ordering::Release).is_ok()
    }

    /// Leaves the queue, whose head this node is: the next waiter that does not sleep, or has been called before,
    /// becomes the candidate, and gets the sleepers. If there is none, the queue becomes what `empty` makes of the
    /// first sleeper.
    pub fn pass_on(
        &self,
        queue: &P::Ptr<Node<P>>,
        mut sleepers: Sleepers<P>,
        empty: impl Fn(*mut Node<P>) -> *mut Node<P>,
    ) -> Wake<P> {
        sleepers.home = self.place();
        loop {
            let mut next = self.next();
            if next.is_null() {
                // ORDER(seat): Release pairs with the Acquire of who takes the empty queue.
                if queue.try_change(self.address(), empty(sleepers.leave()), Ordering::Release) {
                    return Wake::NOBODY;
                }
                next = self.linked();
            }
            // SAFETY: waits until it is answered.
            let node = unsafe { &*next };
            if node.seat(&sleepers) {
                return Wake::NOBODY;
            }
            if node.stays() {
                let status = &raw const node.status;
                node.answer(GRANTED, &sleepers);
                return Wake::at(status);
            }
            // Relaxed: it is answered with the order that it needs. It fails if the waiter spins again.
            if node.status.compare_exchange(PARKED, ASIDE, Ordering::Relaxed).is_err() {
                continue;
            }
            self.take_out(next, queue);
            sleepers.push(next);
        }
    }

    /// Takes the next waiter out of the queue.
    fn take_out(&self, next: *mut Node<P>, queue: &P::Ptr<Node<P>>) {
        // SAFETY: waits until it is answered.
        let node = unsafe { &*next };
        let mut after = node.next();
        if after.is_null() {
            self.next.store(null_mut(), Ordering::Relaxed);
            // ORDER(enqueue): Release publishes the line above to this node's successor.
            if queue.try_change(next, self.address(), Ordering::Release) {
                return;
            }
            after = node.linked();
        }
        self.link(after);
    }

    /// Lets a waiter be the next one.
    fn link(&self, next: *mut Node<P>) {
        self.next.store(next, Ordering::Relaxed);
        // SAFETY: in the queue, so that it waits until it is answered.
        unsafe { (*next).before.store(self.address(), Ordering::Relaxed) };
    }

    /// Moves the first waiter of this node's locality group, among the next `most` ones, right behind this node, the
    /// candidate, unless the next one has waited since before `due`. The last one is not moved.
    pub fn prefer_neighbour(&self, most: u32, due: Ns) {
        let is_near = |node: &Node<P>| node.place() == self.place();
        // SAFETY: those in the queue wait until they are answered.
        let Some(mut before) = (unsafe { self.next().as_ref() }) else { return };
        if is_near(before) || (before.since.load(Ordering::Relaxed) as Ns) < due {
            return;
        }
        for _ in 1..most {
            let at = before.next();
            // SAFETY: as above.
            let Some(node) = (unsafe { at.as_ref() }) else { return };
            let after = node.next();
            if after.is_null() {
                return;
            }
            if is_near(node) {
                before.link(after);
                node.link(self.next());
                self.link(at);
                return;
            }
            before = node;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicPtr;
    use lockswap_platform::Native;

    type Waiter = Node<Native>;

    /// A queue of waiters behind the first, the candidate: its nodes, linked, and the queue word.
    fn queue<const N: usize>(statuses: [u32; N]) -> [Waiter; N] {
        statuses.map(|status| {
            let node = Waiter::new(100, false);
            node.status.store(status, Ordering::Relaxed);
            node
        })
    }

    fn link<const N: usize>(nodes: &[Waiter; N]) -> AtomicPtr<Waiter> {
        nodes.windows(2).for_each(|pair| pair[0].link(pair[1].address()));
        AtomicPtr::new(nodes[N - 1].address())
    }

    fn status(node: &Waiter) -> u32 {
        node.status.load(Ordering::Relaxed)
    }

    fn pass_on(me: &Waiter, word: &AtomicPtr<Waiter>) -> (bool, *mut Waiter) {
        let left = core::cell::Cell::new(null_mut());
        let wake = me.pass_on(word, Sleepers::NONE, |first| {
            left.set(first);
            null_mut()
        });
        (wake.is_somebody(), left.get())
    }

    #[test]
    fn the_seat_goes_to_the_first_that_does_not_sleep() {
        let nodes = queue([WAITING, PARKED, PARKED, WAITING]);
        let word = link(&nodes);
        assert!(!pass_on(&nodes[0], &word).0);
        assert_eq!(nodes.each_ref().map(status), [WAITING, ASIDE, ASIDE, GRANTED]);
        assert_eq!(nodes[3].given.first(), nodes[1].address());
        assert_eq!(word.load(Ordering::Relaxed), nodes[3].address());
    }

    #[test]
    fn a_queue_of_sleepers_is_left_empty() {
        let nodes = queue([WAITING, PARKED, PARKED]);
        let word = link(&nodes);
        assert_eq!(pass_on(&nodes[0], &word), (false, nodes[1].address()));
        assert!(word.load(Ordering::Relaxed).is_null());
        assert_eq!(nodes[1].next.load(Ordering::Relaxed), nodes[2].address());
    }

    #[test]
    fn who_waits_behind_the_candidate_may_be_awake() {
        for (statuses, awake) in [([PARKED, PARKED], false), ([WAITING, PARKED], true), ([PARKED, WAITING], true)] {
            let nodes = queue([WAITING, statuses[0], statuses[1]]);
            assert!(!nodes[0].has_awake_behind(), "nobody has linked in");
            link(&nodes);
            assert_eq!(nodes[0].has_awake_behind(), awake, "{statuses:?}");
        }
    }

    #[test]
    fn who_has_been_called_is_woken_for_the_seat() {
        let nodes = queue([WAITING, PARKED, WAITING]);
        nodes[1].stays.store(1, Ordering::Relaxed);
        let word = link(&nodes);
        assert!(pass_on(&nodes[0], &word).0);
        assert_eq!(nodes.each_ref().map(status), [WAITING, GRANTED, WAITING]);
    }

    /// A waiter that gives way for a moment, and finds that it is still in the queue, spins again; it sleeps once it
    /// has been set aside.
    #[test]
    fn who_gives_way_and_is_set_aside_does_not_return() {
        let nodes = queue([WAITING, PARKED, WAITING]);
        let word = link(&nodes);
        assert!(nodes[1].stay_awake());
        nodes[1].status.store(PARKED, Ordering::Relaxed);
        pass_on(&nodes[0], &word);
        assert!(!nodes[1].stay_awake());
        assert_eq!((status(&nodes[1]), nodes[2].given.first()), (ASIDE, nodes[1].address()));
    }

    /// A waiter may leave from the middle of the queue, and from its end.
    #[test]
    fn who_finds_the_candidate_away_leaves() {
        for (leaver, rest) in [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])] {
            let nodes = queue([GRANTED, WAITING, WAITING, WAITING]);
            let word = link(&nodes);
            let seat = Seat::new();
            assert!(!nodes[leaver].leave(&word, &seat), "nobody has asked");
            assert!(seat.ask() && nodes[leaver].leave(&word, &seat));
            assert!(seat.is_left_alone());
            assert_eq!(nodes[0].next(), nodes[rest[0]].address());
            assert_eq!(nodes[rest[0]].next(), nodes[rest[1]].address());
            assert_eq!(nodes[rest[1]].before.load(Ordering::Relaxed), nodes[rest[0]].address());
            assert_eq!(word.load(Ordering::Relaxed), nodes[rest[1]].address());
        }
    }

    #[test]
    fn who_has_been_answered_stays() {
        let nodes = queue([GRANTED, GRANTED]);
        let word = link(&nodes);
        let seat = Seat::new();
        assert!(seat.ask() && !nodes[1].leave(&word, &seat));
        assert_eq!(word.load(Ordering::Relaxed), nodes[1].address());
    }

    #[test]
    fn a_sleeper_takes_the_place_of_the_candidate() {
        let sleeper = Waiter::new(0, false);
        sleeper.status.store(ASIDE, Ordering::Relaxed);
        for behind in [true, false] {
            let nodes = queue([GRANTED, WAITING]);
            let word = if behind { link(&nodes) } else { AtomicPtr::new(nodes[0].address()) };
            let seat = Seat::new();
            let hints = seat.stand_up();
            let wake = nodes[0].change_places(sleeper.address(), Sleepers::NONE, &word, &seat, hints);
            assert!(wake.is_somebody() && seat.is_left_alone());
            assert_eq!((status(&sleeper), status(&nodes[0])), (GRANTED, ASIDE));
            assert_eq!(sleeper.given.first(), nodes[0].address());
            assert_eq!(sleeper.next(), if behind { nodes[1].address() } else { null_mut() });
            assert_eq!(word.load(Ordering::Relaxed), if behind { nodes[1].address() } else { sleeper.address() });
        }
    }

    #[test]
    fn a_neighbour_comes_first_unless_somebody_has_waited_for_long() {
        let places = [0, 1, 1, 0, 0];
        let order = |most, due| {
            let nodes = queue([WAITING; 5]);
            nodes.iter().zip(places).for_each(|(node, place)| node.place.store(place, Ordering::Relaxed));
            let _word = link(&nodes);
            nodes[0].prefer_neighbour(most, due);
            let mut node = &nodes[0];
            core::array::from_fn::<usize, 4, _>(|_| {
                // SAFETY: the nodes are there, and linked.
                node = unsafe { &*node.next() };
                nodes.iter().position(|other| core::ptr::eq(other, node)).unwrap()
            })
        };
        assert_eq!(order(3, 0), [3, 1, 2, 4]);
        assert_eq!(order(2, 0), [1, 2, 3, 4]);
        assert_eq!(order(3, 101), [1, 2, 3, 4]);
    }

    /// Whose link is not there yet, or who may get one at any time, stays where it is.
    #[test]
    fn the_last_one_is_not_moved() {
        let nodes = queue([WAITING; 3]);
        nodes[1].place.store(7, Ordering::Relaxed);
        let _word = link(&nodes);
        nodes[0].prefer_neighbour(16, 0);
        assert_eq!(nodes[0].next(), nodes[1].address());
    }
}
