//! Who is in which call since when, and the thread that ends the process when nothing moves any more.
//!
//! It calls no lock function itself. A thread that waits for long while others get the object is not an error: most
//! locks promise no more. An object that nobody gets for as long as [`Watch::patience`], though somebody wants it, is.

use super::calls::fail;
use super::objects::{name, Number, Objects, OBJECTS};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

macro_rules! calls {
    ($($call:ident $name:literal)*) => {
        /// A call that a thread can be in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Call { $($call),* }
        const ALL: &[(Call, &str)] = &[$((Call::$call, $name)),*];
    };
}

calls! {
    None           "no call"
    Lock           "pthread_mutex_lock"
    TryLock        "pthread_mutex_trylock"
    TimedLock      "pthread_mutex_timedlock"
    ClockLock      "pthread_mutex_clocklock"
    Unlock         "pthread_mutex_unlock"
    Init           "pthread_mutex_init"
    Destroy        "pthread_mutex_destroy"
    Wait           "pthread_cond_wait"
    TimedWait      "pthread_cond_timedwait"
    ClockWait      "pthread_cond_clockwait"
    Signal         "pthread_cond_signal"
    Broadcast      "pthread_cond_broadcast"
    Read           "pthread_rwlock_rdlock"
    TryRead        "pthread_rwlock_tryrdlock"
    TimedRead      "pthread_rwlock_timedrdlock"
    ClockRead      "pthread_rwlock_clockrdlock"
    Write          "pthread_rwlock_wrlock"
    TryWrite       "pthread_rwlock_trywrlock"
    TimedWrite     "pthread_rwlock_timedwrlock"
    ClockWrite     "pthread_rwlock_clockwrlock"
    RwUnlock       "pthread_rwlock_unlock"
    SpinLock       "pthread_spin_lock"
    SpinTryLock    "pthread_spin_trylock"
    SpinUnlock     "pthread_spin_unlock"
    Fork           "fork"
    ForkedChild    "waitpid for the child of its fork"
    Create         "pthread_create"
    JoinThread     "pthread_join"
    Exit           "exit"
    Join           "the wait for all threads to end"
}

impl Call {
    /// The call that `call as u8` came from.
    pub fn from_number(number: u8) -> Self {
        ALL[number as usize].0
    }

    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Whether it may wait for other threads, as long as those make progress.
    fn waits(self) -> bool {
        use Call::{ClockLock, ClockRead, ClockWait, ClockWrite, Join, Lock, Read, SpinLock};
        use Call::{TimedLock, TimedRead, TimedWait, TimedWrite, Wait, Write};
        let mutexes = matches!(self, Lock | TimedLock | ClockLock | Wait | TimedWait | ClockWait);
        let others = matches!(self, Read | TimedRead | ClockRead | Write | TimedWrite | ClockWrite | SpinLock | Join);
        mutexes || others
    }
}

/// A thread's place on the board, on cache lines of its own.
#[repr(align(128))]
struct Place(AtomicU64);

/// What each thread is doing.
pub(super) struct Board {
    places: Vec<Place>,
    begin: Instant,
}

impl Board {
    pub fn new(threads: usize) -> Self {
        Self { places: (0..threads).map(|_| Place(AtomicU64::new(0))).collect(), begin: Instant::now() }
    }

    /// Thread number `thread` is about to make the call. Relaxed: who reads it wants to know the gist.
    pub fn enter(&self, thread: usize, call: Call, object: Number) {
        let since = self.begin.elapsed().as_millis() as u64;
        self.places[thread].0.store((call as u64) << 56 | (object as u64) << 48 | since, Relaxed);
    }

    /// The call has returned.
    pub fn leave(&self, thread: usize) {
        self.places[thread].0.store(0, Relaxed);
    }

    /// The thread's call, its object, and how long it has been in it.
    fn at(&self, thread: usize) -> (Call, Number, Duration) {
        let word = self.places[thread].0.load(Relaxed);
        let since = Duration::from_millis(word & ((1 << 48) - 1));
        let call = Call::from_number((word >> 56) as u8);
        (call, (word >> 48) as usize & 0xFF, self.begin.elapsed().saturating_sub(since))
    }
}

/// What the watching thread looks at.
pub(super) struct Watch<'a> {
    pub board: &'a Board,
    pub objects: &'a Objects,
    /// No more operations are begun.
    pub stop: &'a AtomicBool,
    /// All threads have ended.
    pub over: &'a AtomicBool,
    pub patience: Duration,
    /// Put before messages.
    pub prefix: String,
}

impl Watch<'_> {
    /// Watches until all is over; ends the process if that does not come.
    pub fn run(&self) {
        let mut moved = [(0, Instant::now()); OBJECTS];
        let mut idle = [Instant::now(); OBJECTS];
        let mut last_change = Instant::now();
        while !self.over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            let now = Instant::now();
            for number in 0..OBJECTS {
                let count = self.objects.data(number).map_or(0, |data| data.count());
                if moved[number].0 != count {
                    moved[number] = (count, now);
                    last_change = now;
                }
                // Nobody has to wake a waiter for whom there is nothing.
                let wanted = self.objects.mutexes.get(number).is_none_or(|mutex| mutex.tokens.load(Relaxed) != 0);
                if !wanted && !self.stop.load(Relaxed) {
                    idle[number] = now;
                }
            }
            for thread in 0..self.board.places.len() {
                let (call, object, time) = self.board.at(thread);
                // The child has a clock of its own, whose end is a better message.
                let patience = if call == Call::ForkedChild { 2 * self.patience } else { self.patience };
                if call == Call::None || time < patience {
                    continue;
                }
                let still = moved.get(object).map_or(last_change, |moved| moved.1);
                let still = match call {
                    Call::Wait => still.max(idle[object]),
                    Call::Join => last_change,
                    _ => still,
                };
                if !call.waits() || still.elapsed() >= self.patience {
                    self.give_up(thread);
                }
            }
        }
    }

    fn give_up(&self, thread: usize) -> ! {
        let (call, object, time) = self.board.at(thread);
        let mut message =
            format!("{}thread {thread} hangs: {:.1} s in {}", self.prefix, time.as_secs_f64(), call.name());
        if call != Call::Join {
            message += &format!(" on {}", name(object));
            if let Some(data) = self.objects.data(object) {
                match data.holder() {
                    Some(holder) => message += &format!(", which thread {holder} holds"),
                    None => message += ", which is free, and nobody gets it",
                }
            }
        }
        for thread in 0..self.board.places.len() {
            let (call, object, time) = self.board.at(thread);
            if call != Call::None && call != Call::Join {
                let (call, object) = (call.name(), name(object));
                message += &format!("\n  thread {thread}: {:.1} s in {call} on {object}", time.as_secs_f64());
            }
        }
        fail(&message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_shows_the_call() {
        assert!(ALL.iter().enumerate().all(|(index, (call, _))| *call as usize == index));
        let board = Board::new(2);
        board.enter(1, Call::ClockLock, 7);
        let (call, object, time) = board.at(1);
        assert_eq!((call, object), (Call::ClockLock, 7));
        assert!(time < Duration::from_secs(10));
        assert_eq!(board.at(0).0, Call::None);
        board.leave(1);
        assert_eq!(board.at(1).0, Call::None);
    }
}
