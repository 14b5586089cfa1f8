//! One acquisition with as much noted about it as is wanted.

use crate::crew::{gather, Crew, Member, Phase, Timing};
use crate::record::{Baton, Detail, Received, Record};
use crate::report::About;
use crate::Mutex;
use lockswap_platform::{Ns, Platform};
use std::marker::PhantomData;

/// The time, for a note.
#[inline]
pub(crate) fn now<P: Platform>() -> Ns {
    P::measured_now()
}

/// What one acquisition gave.
pub(crate) struct Noted {
    /// How long it waited, ns; 0 where waits are not timed.
    pub waited: Ns,
    /// How much of that lies in the measured time, ns.
    pub measured: Ns,
    /// The hand-off, if it was one, and how long the section touched its data, ns.
    received: Option<(Received, Ns)>,
}

impl Noted {
    /// Adds the hand-off to what the thread did in the measured time.
    #[inline]
    pub fn count(self, crew: &dyn Crew, record: &mut Record) {
        if let Some((from, touching)) = self.received {
            record.handoffs.note(crew, from, touching);
        }
    }
}

/// Acquires `mutex`, runs `section` inside, releases it, and notes what `detail` says.
#[inline]
pub(crate) fn acquire<P: Platform, M: Mutex>(
    (mutex, me): (&M, &mut M::Thread),
    member: &Member<'_>,
    (detail, baton): (Detail, &Baton),
    section: impl FnOnce(),
) -> Noted {
    let timed = detail >= Detail::Waits;
    let asked = if timed { now::<P>() } else { 0 };
    mutex.lock(me);
    let entered = if timed { now::<P>() } else { 0 };
    let measured = if timed { member.signal.measured(asked, entered) } else { 0 };
    let mut received = None;
    if detail == Detail::Handoffs {
        let from = baton.enter::<P>(member, asked, entered);
        section();
        let touched = now::<P>();
        received = from.map(|from| (from, touched - entered));
        baton.leave(touched);
    } else {
        section();
    }
    mutex.unlock(me);
    Noted { waited: entered - asked, measured, received }
}

/// An operation that is one acquisition and is timed. Its wait is noted if any of it was in the measured time, because
/// the longest one may outlast the run at both ends. Says how many increments were made inside.
#[inline(never)]
fn timed_operation<P: Platform, M: Mutex>(
    lock: (&M, &mut M::Thread),
    (crew, member, seen): (&dyn Crew, &Member<'_>, Phase),
    (detail, baton): (Detail, &Baton),
    record: &mut Record,
    round: &mut dyn Round,
) -> u64 {
    let mut made = 0;
    let noted = acquire::<P, M>(lock, member, (detail, baton), || made = round.inside());
    record.waited += noted.measured;
    if seen == Phase::Measure || noted.measured > 0 {
        record.time(0, noted.waited);
    }
    if seen == Phase::Measure && member.signal.phase() == Phase::Measure {
        record.ops += 1;
        noted.count(crew, record);
    }
    made
}

/// What the threads of [`rounds`] do besides acquiring the lock.
pub(crate) trait Round: Send {
    /// What is done inside; how many increments of shared memory that was.
    fn inside(&mut self) -> u64;
    /// What is done before the lock is wanted again.
    fn outside(&mut self);
}

/// The rounds of an `R` on one lock: the only part of a workload that is compiled for each lock.
pub(crate) trait Rounds<R>: Sync {
    /// Acquires the lock again and again until the run stops, each time an operation. It counts if it began and ended in
    /// [`Phase::Measure`].
    fn make(&self, member: (&dyn Crew, &Member<'_>), noting: (Detail, &Baton), record: &mut Record, round: &mut R);
}

/// Rounds on a mutex of a platform.
pub(crate) struct On<'a, P, M>(&'a M, PhantomData<fn() -> P>);

impl<'a, P: Platform, M: Mutex> On<'a, P, M> {
    pub fn new(mutex: &'a M) -> Self {
        Self(mutex, PhantomData)
    }
}

impl<P: Platform, M: Mutex, R: Round> Rounds<R> for On<'_, P, M> {
    fn make(
        &self,
        (crew, member): (&dyn Crew, &Member<'_>),
        (detail, baton): (Detail, &Baton),
        record: &mut Record,
        round: &mut R,
    ) {
        let mutex = self.0;
        let mut me = mutex.thread();
        loop {
            let seen = member.signal.phase();
            if seen == Phase::Stop {
                return;
            }
            record.made += if detail == Detail::Counts {
                // Nothing but the lock in the way.
                mutex.lock(&mut me);
                let made = round.inside();
                mutex.unlock(&mut me);
                record.ops += u64::from(seen == Phase::Measure && member.signal.phase() == Phase::Measure);
                made
            } else {
                let lock = (mutex, &mut me);
                timed_operation::<P, M>(lock, (crew, member, seen), (detail, baton), record, round)
            };
            round.outside();
        }
    }
}

/// Lets every thread acquire the lock again and again, and do what `start` makes of it: what they noted, what they made
/// in the end, and the measured time.
pub(crate) fn rounds<R: Round>(
    lock: &dyn Rounds<R>,
    crew: &dyn Crew,
    (threads, timing, detail): (usize, Timing, Detail),
    start: impl Fn(&Member<'_>) -> R + Sync,
) -> (Vec<Record>, Vec<R>, Ns) {
    let baton = Baton::default();
    let (noted, elapsed) = gather(crew, threads, timing, |member| {
        let mut record = Record::new(member, classes(detail).len());
        let mut round = start(member);
        lock.make((crew, member), (detail, &baton), &mut record, &mut round);
        (record, round)
    });
    let (records, rounds) = noted.into_iter().unzip();
    (records, rounds, elapsed)
}

/// What a report on operations is about.
pub(crate) fn about(detail: Detail) -> About<'static> {
    let waits = detail >= Detail::Waits;
    let timed = if waits { "wait" } else { "" };
    About { timed, classes: classes(detail), waits, handoffs: detail == Detail::Handoffs }
}

/// The classes of times that a [`timed_operation`] notes.
fn classes(detail: Detail) -> &'static [&'static str] {
    if detail >= Detail::Waits {
        &[""]
    } else {
        &[]
    }
}
