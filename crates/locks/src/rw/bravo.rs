//! BRAVO (Dice, Kogan, USENIX ATC 2019): a read-write lock whose readers need not write to it.
//!
//!   state:  BIASED | number of writers on their way in | when the bias may come back
//!   table:  [ 0 | lock | 0 | other lock | 0 | lock | ... ]   one for the process, a slot by hash of lock and thread
//!
//! While the lock is biased and no writer is on its way, a reader puts the lock's address into its slot of the shared
//! table and is inside; if the slot is taken it uses the inner lock. A writer announces itself, waits until no slot
//! holds the lock's address, acquires the inner lock, and ends the bias. A reader that got the inner lock biases it
//! again, but not before nine times as long as that wait took has passed. Fairness: that of the inner lock; readers
//! with [`Preference::Readers`] never wait for a writer on its way, the others do. Space: the inner lock and one word;
//! the table is shared. Waiting: readers and writers as in the inner lock, a writer's wait for the slots spins.
//!
//! **Holds have no owner.** A read hold is a token: a slot, or a reader of the inner lock, and there are as many
//! tokens as holds. A release takes any one of them: the caller's slot, else one of the inner lock, else any slot of
//! the table. A thread may therefore hold several times, share its slot with another thread, or release what another
//! one acquired. Limit: a lock whose memory is given up while it is held leaves its address in the table, where a
//! later lock at the same address finds it. The program must not do that anyway. A search of the table is not an
//! instant: [`RawRwLock::is_free`] may miss a hold that other threads exchange for another meanwhile; it needs a
//! release by a thread that does not hold.
//!
//! Deviations: the paper's writer acquires the inner lock first and then waits for the slots; a thread that reads
//! could not read again meanwhile. The announcement takes the inner lock's place there. Time is kept in units of 16
//! us, 16 bits.

use crate::info::{Fairness, Family, LockInfo, Timed};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::rw::rw_futex::RwFutex;
use crate::rw::wait;
use crate::{Preference, RawRwLock, TryUnlockRead};
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Clock, Deadline, Ns, Ordering, Platform, SharedTable};

/// | BIASED | writers | tokens in the table  | new readers        |
/// |--------|---------|----------------------|--------------------|
/// | 1      | 0       | any number           | slot or inner lock |
/// | 1      | n       | any number, falling  | inner lock         |
/// | 0      | n       | none                 | inner lock         |
const BIASED: u32 = 1;
const ONE_WRITER: u32 = 2;
/// Most writers that are counted; more wait before they announce themselves.
const MOST_WRITERS: u32 = (1 << 15) - 1;
const TIME: u32 = 1 << 16;
/// The unit of time as a power of two, ns.
const UNIT_LOG2: u32 = 14;
/// How much longer than its last end took the bias stays away: bounds the slow-down by 1 / (N + 1) (paper, section 3).
const INHIBIT: u32 = 9;

fn writers(state: u32) -> u32 {
    state / ONE_WRITER % (MOST_WRITERS + 1)
}

/// Whether a reader may use the table.
fn is_biased(state: u32) -> bool {
    state % TIME == BIASED
}

/// The wrapper of `L`.
#[repr(C)]
pub struct Bravo<P: Platform, L> {
    inner: L,
    state: P::U32,
    platform: PhantomData<fn(P)>,
}

/// The registered composition.
pub type BravoFutex<P> = Bravo<P, RwFutex<P>>;

impl<P: Platform, L: TryUnlockRead<P>> Bravo<P, L> {
    /// What the lock's readers put into the table.
    fn token(&self) -> usize {
        P::address(self)
    }

    fn table() -> &'static [P::Usize] {
        P::slots(SharedTable::Readers)
    }

    /// The caller's slot.
    #[inline]
    fn slot(&self) -> &'static P::Usize {
        // Spread by the golden ratio, twice so that both numbers reach the bits that are taken.
        const GOLDEN: usize = 0x9E37_79B9_7F4A_7C15;
        let mixed = (self.token().wrapping_mul(GOLDEN) ^ P::thread()).wrapping_mul(GOLDEN);
        let table = Self::table();
        &table[(mixed >> 32) & (table.len() - 1)]
    }

    /// Takes a token out of `slot` if there is one.
    #[inline]
    fn take(&self, slot: &P::Usize) -> bool {
        // Relaxed: a look that saves an exchange which would fail.
        // ORDER(drain): Release pairs with the Acquire in `write`; publishes that the reading is over. Only exchanges
        // write to a slot, so that a later one continues this release.
        // LAST: the lock may be destroyed after this exchange.
        slot.load(Ordering::Relaxed) == self.token()
            && slot.compare_exchange(self.token(), 0, Ordering::Release).is_ok()
    }

    /// Enters through the table.
    #[inline]
    fn read_biased(&self) -> bool {
        // Relaxed: decides nothing yet.
        if !is_biased(self.state.load(Ordering::Relaxed)) {
            return false;
        }
        let slot = self.slot();
        // Relaxed: as in `take`.
        // ORDER(dekker): SeqCst with the load below and the two in `write`: a writer that does not find this token is
        // seen here.
        if slot.load(Ordering::Relaxed) != 0 || slot.compare_exchange(0, self.token(), Ordering::SeqCst).is_err() {
            return false;
        }
        // ORDER(dekker): SeqCst with the exchange of the slot. ORDER(bias): Acquire pairs with the Release in `bias`;
        // what the last writer did is seen.
        if is_biased(self.state.load(Ordering::SeqCst)) {
            return true;
        }
        if self.take(slot) {
            return false;
        }
        // Somebody has released the token, so that a token of theirs is left for this thread: it is inside.
        // ORDER(token): Acquire pairs with the Release in `take`: sees what whoever released had seen.
        slot.load(Ordering::Acquire);
        true
    }

    /// Biases the lock, for a reader inside the inner lock, unless a writer is on its way or it is too early.
    #[inline]
    fn bias(&self) {
        // Relaxed: the exchange decides.
        let state = self.state.load(Ordering::Relaxed);
        if state % TIME == 0 && (state == 0 || is_over(state / TIME, now::<P>())) {
            // ORDER(bias): Release pairs with the Acquire in `read_biased`; hands on what the last writer did.
            let _ = self.state.compare_exchange(state, BIASED, Ordering::Release);
        }
    }

    /// Announces a writer. Returns the state before, or nothing if there are too many or others change the state.
    #[inline]
    fn try_announce(&self) -> Option<u32> {
        // Relaxed: the exchange decides.
        let state = self.state.load(Ordering::Relaxed);
        if writers(state) == MOST_WRITERS {
            return None;
        }
        // ORDER(dekker): SeqCst, see `read_biased`.
        self.state.compare_exchange(state, state + ONE_WRITER, Ordering::SeqCst).ok()
    }

    /// As [`Self::try_announce`], or nothing at the deadline.
    fn announce(&self, deadline: Option<Deadline>) -> Option<u32> {
        wait::<P, _>(deadline, || self.try_announce())
    }

    /// Takes an announcement back.
    fn withdraw(&self) {
        // Relaxed: readers synchronise with the last writer through `bias`, whose release this continues.
        self.state.fetch_sub(ONE_WRITER, Ordering::Relaxed);
    }

    /// Makes an announced writer one that is inside: ends the bias, which ended `spent` ns after the announcement.
    #[inline]
    fn arrive(&self, spent: Option<Ns>) {
        let Some(spent) = spent else { return self.withdraw() };
        let inhibit = Ns::from(Setting::RwInhibit.number::<P>(INHIBIT));
        let pause = (spent.saturating_mul(inhibit) >> UNIT_LOG2).min(Ns::from(TIME / 2 - 1)) as u32;
        // Never 0, which says that the lock has not been biased before.
        let until = ((now::<P>() + pause + 1) % TIME).max(1);
        // Relaxed: the bias ends for good; nobody enters through the table until a reader of the inner lock biases it
        // again.
        let mut state = self.state.load(Ordering::Relaxed);
        while let Err(found) =
            self.state.compare_exchange(state, until * TIME + (writers(state) - 1) * ONE_WRITER, Ordering::Relaxed)
        {
            state = found;
        }
    }

    /// Whether `slot` is free of this lock's tokens.
    fn is_clear(&self, slot: &P::Usize) -> bool {
        // ORDER(dekker): SeqCst, see `read_biased`. ORDER(drain): Acquire pairs with the Release in `take`.
        slot.load(Ordering::SeqCst) != self.token()
    }

    /// Waits until no slot holds a token of this lock, which gets no new ones. Returns `false` at the deadline.
    #[cold]
    #[inline(never)]
    fn drain(&self, deadline: Option<Deadline>) -> bool {
        Self::table()
            .iter()
            .all(|slot| self.is_clear(slot) || wait::<P, _>(deadline, || self.is_clear(slot).then_some(())).is_some())
    }

    /// Whether a writer waits for the table: the inner lock does not know of it yet.
    fn is_draining(&self) -> bool {
        // Relaxed: decides who goes first, not who may enter.
        let state = self.state.load(Ordering::Relaxed);
        state & BIASED != 0 && writers(state) != 0
    }

    #[cold]
    #[inline(never)]
    fn read_contended(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        let may_go_on = || (preference == Preference::Readers || !self.is_draining()).then_some(());
        if wait::<P, _>(deadline, may_go_on).is_none() || !self.inner.read(preference, deadline) {
            return false;
        }
        self.bias();
        true
    }

    /// Releases any token there is.
    #[cold]
    #[inline(never)]
    fn unlock_any(&self, preference: Preference) {
        P::spin_map(|| {
            // SAFETY: the caller holds, so a token is its to release.
            let released = unsafe { self.inner.try_unlock_read(preference) };
            (released || Self::table().iter().any(|slot| self.take(slot))).then_some(())
        });
    }
}

/// The time, in units, of which [`TIME`] are told apart.
fn now<P: Platform>() -> u32 {
    (P::now(Clock::Monotonic) >> UNIT_LOG2) as u32 % TIME
}

/// Whether `until` is past; right for half of the range.
fn is_over(until: u32, now: u32) -> bool {
    now.wrapping_sub(until) % TIME < TIME / 2
}

// SAFETY: a writer is inside once it holds the inner lock, having found no token in the table since it announced
// itself; none is added while a writer is announced or the lock is not biased, and only a reader of the inner lock
// biases it.
unsafe impl<P: Platform, L: TryUnlockRead<P>> RawRwLock<P> for Bravo<P, L> {
    const INFO: LockInfo = LockInfo {
        id: "bravo",
        family: Family::ReadWrite,
        waiting: L::INFO.waiting,
        fairness: Fairness::Unfair,
        timed: Timed::Native,
        summary: "readers leave a mark in a table that all locks share, as long as writers are rare; over rw-futex",
        paper: "Dice, Kogan: USENIX ATC 2019",
        asks: L::INFO.asks,
        by_priority: L::INFO.by_priority,
        keeps_up: L::INFO.keeps_up,
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "inhibit",
            values: Values::Number(Setting::RwInhibit, 0, 1_000_000, "times"),
            default: Default::Number(INHIBIT),
            summary: "readers stay away from the table for so many times as long as a writer has waited for it",
            source: "Dice, Kogan: USENIX ATC 2019, sec. 3",
        }],
        inside: &[L::PARAMETERS],
    };

    fn new() -> Self {
        Bravo { inner: L::new(), state: P::U32::new(0), platform: PhantomData }
    }

    #[inline]
    fn read(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        self.read_biased() || self.read_contended(preference, deadline)
    }

    #[inline]
    fn try_read(&self, preference: Preference) -> bool {
        if self.read_biased() {
            return true;
        }
        if preference == Preference::Writers && self.is_draining() || !self.inner.try_read(preference) {
            return false;
        }
        self.bias();
        true
    }

    #[inline]
    fn write(&self, deadline: Option<Deadline>) -> bool {
        let Some(state) = self.announce(deadline) else { return false };
        let mut spent = None;
        if state & BIASED != 0 {
            let start = P::now(Clock::Monotonic);
            if !self.drain(deadline) {
                self.withdraw();
                return false;
            }
            spent = Some(P::now(Clock::Monotonic) - start);
        }
        if !self.inner.write(deadline) {
            self.withdraw();
            return false;
        }
        self.arrive(spent);
        true
    }

    #[inline]
    fn try_write(&self) -> bool {
        let Some(state) = self.try_announce() else { return false };
        let was_biased = state & BIASED != 0;
        let entered = (!was_biased || Self::table().iter().all(|slot| self.is_clear(slot))) && self.inner.try_write();
        if entered && was_biased {
            self.arrive(Some(0));
        } else {
            self.withdraw();
        }
        entered
    }

    #[inline]
    unsafe fn unlock_read(&self, preference: Preference) {
        // Relaxed: where the lock is not biased, no token is in the table.
        if self.state.load(Ordering::Relaxed) & BIASED != 0 && self.take(self.slot()) {
            return;
        }
        // SAFETY: the caller holds, so a token is its to release.
        if !unsafe { self.inner.try_unlock_read(preference) } {
            self.unlock_any(preference);
        }
    }

    #[inline]
    unsafe fn unlock_write(&self, preference: Preference) {
        // SAFETY: held since `write` or `try_write`.
        unsafe { self.inner.unlock_write(preference) };
    }

    fn is_write_locked(&self) -> bool {
        self.inner.is_write_locked()
    }

    fn is_free(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        let may_be_read = self.state.load(Ordering::Relaxed) & BIASED != 0;
        let holds = |slot: &P::Usize| slot.load(Ordering::Relaxed) == self.token();
        self.inner.is_free() && !(may_be_read && (holds(self.slot()) || Self::table().iter().any(holds)))
    }

    fn is_quiet(&self) -> bool {
        self.inner.is_quiet()
    }

    fn forget_waiters(&self) {
        self.inner.forget_waiters();
        // Relaxed, like all accesses of this function: no other thread exists.
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(state - writers(state) * ONE_WRITER, Ordering::Relaxed);
        if state & BIASED == 0 || self.inner.is_write_locked() {
            // A reader that has vanished may have left a mark that it was about to take back.
            for slot in Self::table() {
                self.take(slot);
            }
        }
    }
}
