//! The candidate's place, and whether the candidate has a CPU.
//!
//! | state   | the candidate                             | becomes                                                |
//! |---------|-------------------------------------------|--------------------------------------------------------|
//! | THERE   | looks at the lock, or there is none       | ASKED by a waiter; BUSY, ASLEEP by the candidate       |
//! | ASKED   | has been asked whether it does            | THERE as its answer; STOPPED by a waiter; BUSY, ASLEEP |
//! | AWAY    | has not answered, or is being woken       | as ASKED                                               |
//! | STOPPED | waits while a waiter changes the queue    | AWAY by that waiter                                    |
//! | BUSY    | changes the queue, or leaves its place    | THERE; AWAY for a candidate that is woken              |
//! | ASLEEP  | sleeps, or is about to                    | AWAY by a release; THERE if it does not sleep after all|
//!
//! Nobody can see from outside whether a thread runs. But the candidate looks at the lock again and again; if it is
//! asked, it answers as it does so. Who gets no answer for longer than the candidate pauses knows that it has lost its
//! CPU, and that nobody takes the lock when it is free. A candidate that is STOPPED can neither leave its place nor
//! change the queue, until the one that has stopped it, which waits at most for a newcomer to link itself, has done
//! so.

use super::batches::{self, WAITS};
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Ns, Ordering, Platform};

/// The candidate looks at the lock, as far as is known, or there is none.
const THERE: u32 = 0;
/// It has been asked whether it does.
const ASKED: u32 = 1;
/// It has not answered, or is being woken.
const AWAY: u32 = 2;
/// The queue is another waiter's to change.
const STOPPED: u32 = 3;
/// The queue is the candidate's to change.
const BUSY: u32 = 4;
/// It sleeps, or is about to.
const ASLEEP: u32 = 5;
const STATE: u32 = 7;

/// The most that passes from one acquisition to the next where the lock is brisk, ns.
const PACE: Ns = 400;

/// A bit of the word: threads get the lock so quickly after each other that nobody leaves the queue.
const BRISK: u32 = 8;

/// What the word said besides, as the candidate began to change the queue. It puts that back without another look:
/// others have taken the line meanwhile, and to fetch it again would hold up the candidate, which has got the lock.
#[must_use]
pub struct Hints(u32);

impl Hints {
    /// Those of a candidate that has acquired the lock, `took` ns after it began to look, and has counted so many
    /// acquisitions, with its own: they may have been too few for two looks ([`Seat::note_brisk`]).
    pub fn after(self, turns: u32, took: Ns) -> Self {
        let is_slow = took >= 2 * PACE * Ns::from(turns);
        Hints(if is_slow { self.0 & !BRISK } else { self.0 })
    }
}

/// The place.
#[repr(transparent)]
pub struct Seat<P: Platform>(P::U32, PhantomData<P>);

impl<P: Platform> Seat<P> {
    pub fn new() -> Self {
        Seat(P::U32::new(THERE), PhantomData)
    }

    /// The word on which the candidate sleeps.
    pub fn address(&self) -> *const P::U32 {
        &self.0
    }

    fn word(&self) -> u32 {
        // Relaxed: exchanges decide; BRISK is a hint.
        self.0.load(Ordering::Relaxed)
    }

    fn is(&self, states: &[u32]) -> bool {
        states.contains(&(self.word() & STATE))
    }

    /// Goes over into a state from one of some others; what the word said besides, if it did.
    fn change(&self, from: &[u32], to: u32, order: Ordering) -> Option<Hints> {
        let word = self.word();
        let changed =
            from.contains(&(word & STATE)) && self.0.compare_exchange(word, word & !STATE | to, order).is_ok();
        changed.then_some(Hints(word & !STATE))
    }

    /// As the candidate, whatever others have found meanwhile.
    fn change_own(&self, to: u32, order: Ordering) -> Hints {
        P::spin_map(|| self.change(&[THERE, ASKED, AWAY], to, order))
    }

    /// The candidate, which is BUSY, looks at the lock from now on.
    pub fn sit_down(&self, Hints(hints): Hints) {
        // ORDER(seat): Release pairs with the Acquire in `stop`: publishes what the candidate has done to the queue.
        self.0.store(hints | THERE, Ordering::Release);
    }

    /// The candidate changes the queue from now on, or leaves its place.
    pub fn stand_up(&self) -> Hints {
        // ORDER(stop): Acquire pairs with the Release in `go_on` and `leave`.
        self.change_own(BUSY, Ordering::Acquire)
    }

    /// The candidate, which is BUSY, has made another waiter the candidate, `awake` or not, or has left no queue.
    pub fn leave(&self, Hints(hints): Hints, awake: bool) {
        // ORDER(stop): Release pairs with the Acquire in `stand_up`; ORDER(seat): and with that in `stop`.
        self.0.store(hints | if awake { THERE } else { AWAY }, Ordering::Release);
    }

    /// The candidate looks at the lock.
    pub fn answer(&self) {
        // ORDER(seat): as in `sit_down`.
        self.change(&[ASKED, AWAY], THERE, Ordering::Release);
    }

    /// The candidate is about to sleep.
    pub fn lie_down(&self) {
        // ORDER(stop): as in `stand_up`.
        let _ = self.change_own(ASLEEP, Ordering::Acquire);
    }

    /// The candidate sleeps until it is called, or has lain down in vain.
    pub fn sleep(&self) {
        loop {
            // ORDER(called): Acquire pairs with the Release in `call`: the candidate finds the lock as that release
            // left it.
            let word = self.0.load(Ordering::Acquire);
            if word & STATE != ASLEEP {
                return;
            }
            P::park(&self.0, word, None);
        }
    }

    /// The candidate does not sleep after all. Only if it is not being called.
    pub fn get_up(&self) {
        // ORDER(seat): as in `sit_down`.
        self.0.store(self.word() & !STATE | THERE, Ordering::Release);
    }

    /// Ends the candidate's sleep; who calls this wakes it.
    pub fn call(&self) {
        // ORDER(called): Release pairs with the Acquire in `sleep`. ORDER(seat): as in `sit_down`, for the candidate,
        // whose ASLEEP the caller has acquired.
        self.0.store(self.word() & !STATE | AWAY, Ordering::Release);
    }

    /// Whether the candidate is known not to look at the lock, though it does not sleep.
    pub fn is_left_alone(&self) -> bool {
        self.is(&[AWAY])
    }

    /// Asks the candidate whether it looks at the lock. True while there is no answer.
    pub fn ask(&self) -> bool {
        // ORDER(ask): Release pairs with the Acquire in `stop` and `stand_up`, whose threads store to the word
        // afterwards: so all stores to it are ordered, which loom asks for.
        self.change(&[THERE], ASKED, Ordering::Release);
        self.is_unanswered()
    }

    /// Whether there is no answer yet.
    pub fn is_unanswered(&self) -> bool {
        self.is(&[ASKED, AWAY])
    }

    /// Stops a candidate that has not answered; whether it did. [`Seat::go_on`] must follow at once.
    pub fn stop(&self) -> bool {
        // ORDER(seat): Acquire pairs with the Release in `sit_down` and `answer`.
        self.change(&[ASKED, AWAY], STOPPED, Ordering::Acquire).is_some()
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        // ORDER(stop): Release pairs with the Acquire in `stand_up`: publishes what has been done to the queue.
        self.0.store(self.word() & !STATE | AWAY, Ordering::Release);
    }

    /// Whether others get the lock quickly after each other.
    pub fn is_brisk(&self) -> bool {
        self.word() & BRISK != 0
    }

    /// Notes that, as the candidate, which has seen so many acquisitions between two looks, `took` ns apart. A single
    /// one says nothing unless that was long. None says nothing, as the holder may have lost its CPU; nor does any
    /// number after so long that the count may have begun anew, as the candidate has had no CPU itself.
    pub fn note_brisk(&self, turns: u8, took: Ns) {
        let is_clear = turns >= 2 || turns == 1 && took >= 4 * PACE;
        if is_clear && took < 256 * PACE {
            self.note(BRISK, took < PACE * Ns::from(turns));
        }
    }

    /// Whether candidates let others go first.
    pub fn has_batches(&self) -> bool {
        batches::are_on(self.word())
    }

    /// Notes that the candidate has let others go first, in vain or not.
    pub fn note_batch(&self, in_vain: bool) {
        self.update(|word| batches::after_batch(word, in_vain));
    }

    /// Notes that the candidate has slept while others went on.
    pub fn note_nap(&self, turns: u8, now: Ns) {
        self.update(|word| batches::after_nap(word, turns, now));
    }

    /// Ends batches, as the candidate, before it is known whether they pay.
    pub fn end_batches(&self) {
        self.update(batches::end);
    }

    /// Whether parts of a window are over that have not been noted, by the count of acquisitions.
    pub fn has_new_parts(&self, turns: u8) -> bool {
        batches::new_parts(self.word(), turns) > 0
    }

    /// Notes them; another trial of batches may begin.
    pub fn note_parts(&self, turns: u8, now: Ns, may_try: bool) {
        self.update(|word| batches::after_parts(word, turns, now, may_try));
    }

    /// Notes, as the holder, that it is about to wait for other threads.
    pub fn note_wait(&self) {
        self.note(WAITS, true);
    }

    /// Whether a holder has noted that in this window or the last one.
    pub fn has_waits(&self) -> bool {
        batches::have_waits(self.word())
    }

    /// Changes hints. The change is lost if the word changes meanwhile.
    fn update(&self, next: impl FnOnce(u32) -> u32) {
        let word = self.word();
        let next = next(word);
        if next != word {
            // Relaxed: hints.
            let _ = self.0.compare_exchange(word, next, Ordering::Relaxed);
        }
    }

    /// Sets or clears hints. They may be lost: others store to the word, which they have read before.
    fn note(&self, bits: u32, is_set: bool) {
        if (self.word() & bits != 0) != is_set {
            // Relaxed: a hint.
            if is_set {
                self.0.fetch_or(bits, Ordering::Relaxed)
            } else {
                self.0.fetch_and(!bits, Ordering::Relaxed)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_platform::Native;

    fn seat() -> Seat<Native> {
        let seat = Seat::new();
        let hints = seat.stand_up();
        seat.sit_down(hints);
        seat
    }

    #[test]
    fn a_candidate_that_answers_is_not_stopped() {
        let seat = seat();
        assert!(!seat.stop() && seat.ask() && seat.is_unanswered());
        seat.answer();
        assert!(!seat.is_unanswered() && !seat.stop() && !seat.is_left_alone());
    }

    #[test]
    fn one_that_does_not_is_stopped_and_left_alone_until_it_answers() {
        let seat = seat();
        assert!(seat.ask() && seat.stop() && !seat.is_left_alone());
        seat.answer();
        assert!(!seat.stop(), "stopped twice");
        seat.go_on();
        assert!(seat.is_left_alone() && seat.ask());
        seat.answer();
        assert!(!seat.is_left_alone());
    }

    #[test]
    fn who_changes_the_queue_or_sleeps_is_not_asked() {
        let seat = seat();
        let hints = seat.stand_up();
        assert!(!seat.ask());
        seat.leave(hints, true);
        assert!(seat.ask(), "a candidate that does not know it yet");
        seat.lie_down();
        assert!(!seat.ask());
        seat.call();
        assert!(seat.is_left_alone());
    }

    #[test]
    fn brisk_is_what_follows_each_other_quickly() {
        let seat = seat();
        seat.note_brisk(1, 10);
        assert!(!seat.is_brisk(), "from a single one");
        seat.note_brisk(20, 20 * PACE - 1);
        assert!(seat.is_brisk() && seat.ask());
        seat.note_brisk(0, 100 * PACE);
        assert!(seat.is_brisk(), "while the holder has no CPU");
        seat.note_brisk(3, 256 * PACE);
        assert!(seat.is_brisk(), "after the candidate had none");
        seat.note_brisk(1, 4 * PACE);
        assert!(!seat.is_brisk() && seat.is_unanswered());
        for (turns, took, brisk) in [(1, 2 * PACE - 1, true), (1, 2 * PACE, false), (3, 2 * PACE, true)] {
            seat.note_brisk(20, PACE);
            let hints = seat.stand_up();
            seat.leave(hints.after(turns, took), true);
            assert_eq!(seat.is_brisk(), brisk, "{turns} in {took} ns");
        }
    }

    #[test]
    fn hints_leave_the_state_alone() {
        let seat = seat();
        seat.note_parts(64, 50_000, true);
        assert!(seat.has_batches() && !seat.has_waits() && seat.ask() && seat.stop());
        seat.note_wait();
        seat.go_on();
        assert!(seat.is_left_alone() && seat.has_batches() && seat.has_waits());
        // And the candidate's state leaves the hints alone.
        let hints = seat.stand_up();
        seat.leave(hints, false);
        assert!(seat.is_left_alone() && seat.has_batches() && seat.has_waits());
        seat.end_batches();
        assert!(!seat.has_batches() && seat.has_waits() && seat.is_left_alone());
    }
}
