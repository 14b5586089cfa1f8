//! u-SCL, the user-level mutex among the scheduler-cooperative locks (Patel, Yang, Arulraj, A. and R. Arpaci-Dusseau,
//! Swift, EuroSys 2020).
//!
//!   word:  HELD | QUEUED | WAKE_AT_...             slice: of account 1, for another 1.2 ms
//!   account 0: [thread A | weight 1024 | used up to: in 3 ms]     banned until then
//!   account 1: [thread B | weight 1024 | used up to: 1 ms ago]    owns the slice: acquires at once, again and again
//!   queue -------------------+
//!   [C head]->[D]->[E]       an MCS queue; the head waits for the end of the slice, the others for their turn
//!
//! The lock shares its time out among the threads in proportion to their weights in the scheduler, however long their
//! critical sections are. Three parts do that.
//! - *Usage.* Each thread has an account: the time up to which it has used its share. A critical section of length t
//!   moves that on by t * (weight of all active threads) / (own weight).
//! - *Bans.* While that time lies in the future, the thread is banned: it does not compete for the lock. After a first
//!   critical section of length t it is banned for t * (weight of the other active threads) / (own weight). A thread
//!   that has waited has time to its credit and is banned accordingly later.
//! - *Slices.* If each acquisition were a hand-over, short critical sections would cost too much. So the lock belongs
//!   to one thread for a slice of 2 ms. That thread acquires it whenever it likes, banned or not, and nobody else
//!   does, even while it is free: what is shared out is the opportunity to hold the lock. At the end of the slice the
//!   next thread in the queue gets the lock and a slice of its own.
//!
//! Fairness: long-term; not acquisitions but lock time is divided evenly, over a second or so, and slices pass along
//! the queue, first come, first served. Space: two cache lines, with six accounts. Hand-off: at the end of a slice,
//! for which the head of the queue sleeps and at last spins, and which comes early when the slice's owner waits for a
//! condition; if the lock is held at that time, at its release. The head watches the lock's word, the others their own
//! nodes, on which they spin, then park.
//!
//! `try_lock` takes a lock that is free and that nobody queues for, whoever owns the slice, even if the caller is
//! banned: programs take its failure as a sign that the lock is in use. What it holds is charged like any other time.
//! A timed acquisition waits until the ban is over or its time is up, and then polls `try_lock`.
//!
//! Deviations.
//! - The published lock keeps an account for each thread under a `pthread_key_t` of its own for each lock: a process
//!   has 1024 keys, and an account stays for as long as its thread. Here six accounts are part of the lock. A thread
//!   without one gets the account that has been used up to the earliest time: one that is not in use if there is any,
//!   else that of a thread that has been inactive, or is far from a ban. With more than six active threads, those with
//!   the longest bans have the accounts, each is banned as if there were no others, and the slices, which pass from
//!   waiter to waiter without any account, keep the shares even as long as critical sections are shorter than a slice.
//! - An account that has been used up to a time more than a second ago is forgotten: its thread counts as inactive,
//!   and has nothing to its credit. Bans do not add up to more than a second or what the last critical section brings,
//!   and end when the lock has been free for a second (`grace`). The published lock keeps both.
//! - A new thread that has the address of one that has ended takes over its account.
//! - The nice value is read when an account is opened, which is also when its thread has been inactive.
//! - The published slice also ends with a ban. Here it lasts, and the ban begins behind it.
//! - The published slice lasts whatever its owner does, also while it waits for a condition that another thread has to
//!   acquire the lock for. Here a thread that releases the lock in order to wait ends its slice (`unlock_to_wait`),
//!   because threads that hand work to each other would otherwise do so once in 2 ms. A thread that only signals a
//!   condition keeps its slice.
//! - The first waiters of the published queue are known to the lock; here the head of an MCS queue competes for a
//!   word.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{spins, Default, Parameter, Parameters, Setting, Values};
use crate::queue::mcs::McsStp;
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr;
use lockswap_platform::{AtomicInt, Clock, Deadline, Ns, Ordering, Platform};

/// | word                  | held | head of the queue                         | who may take it                     |
/// |-----------------------|------|-------------------------------------------|-------------------------------------|
/// | FREE                  | no   | none                                      | in a slice its owner, else all      |
/// | HELD                  | yes  | none                                      | nobody                              |
/// | QUEUED                | no   | waits for the slice's end, or is awake    | in a slice its owner, else the head |
/// | HELD + QUEUED         | yes  | waits for the slice's end, or is awake    | nobody                              |
/// | ... + WAKE_AT_RELEASE | yes  | sleeps, or is about to; the slice is over | nobody                              |
///
/// WAKE_AT_END beside QUEUED: the head waits for the slice's end, or has done so.
const FREE: u32 = 0;
const HELD: u32 = 1;
const QUEUED: u32 = 2;
/// Who releases the lock wakes the head.
const WAKE_AT_RELEASE: u32 = 4;
/// Who ends the slice before its time wakes the head.
const WAKE_AT_END: u32 = 8;

/// Who waits for a time sleeps until so long before it, because Linux lets a thread sleep for longer than it asks,
/// and then spins.
const SPIN_AT_LAST: Ns = 100_000;

/// The times of the lock.
pub trait Times: Send + Sync + 'static {
    /// How long the lock belongs to one thread.
    const SLICE: Ns;
    /// A thread that has used its share only up to so long ago counts as inactive.
    const FORGET: Ns;
}

/// The published times.
pub struct Published;

impl Times for Published {
    const SLICE: Ns = 2_000_000;
    /// After which the kernel's k-SCL forgets a thread.
    const FORGET: Ns = 1_000_000_000;
}

/// What a thread has used of the lock. It is written only by the holder of the lock.
#[repr(C)]
struct Account<P: Platform> {
    /// The time up to which the thread has used its share.
    used_up_to: P::Usize,
    /// See [`this_thread`]; 0 if the account is not in use.
    thread: P::U32,
    weight: P::U32,
}

impl<P: Platform> Account<P> {
    // Relaxed, here and in all accesses to accounts and slices: only the holder of the lock writes them, and it sees
    // what the holders before wrote. Others, who may see old values, take them for hints of how long to wait.
    fn belongs_to(&self, thread: u32) -> bool {
        self.thread.load(Ordering::Relaxed) == thread
    }

    fn used_up_to(&self) -> Ns {
        self.used_up_to.load(Ordering::Relaxed) as Ns
    }

    fn is_active<T: Times>(&self, now: Ns) -> bool {
        self.used_up_to() + T::FORGET > now
    }

    fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed).into()
    }

    /// Makes this the account of `thread`, the calling one, with nothing used before `now`.
    #[cold]
    fn open(&self, thread: u32, now: Ns) {
        self.thread.store(thread, Ordering::Relaxed);
        self.weight.store(P::weight(), Ordering::Relaxed);
        self.used_up_to.store(now as usize, Ordering::Relaxed);
    }
}

/// The calling thread as accounts know it: not 0. Two threads that look alike share an account.
fn this_thread<P: Platform>() -> u32 {
    (P::thread() as u32).max(1)
}

/// Waits for `ns` ns, or somewhat less.
fn wait<P: Platform>(ns: Ns) {
    if ns > SPIN_AT_LAST {
        P::sleep(ns - SPIN_AT_LAST);
    } else {
        P::spin_map_until(Deadline { clock: Clock::Monotonic, at: P::now(Clock::Monotonic) + ns }, || None::<()>);
    }
}

/// The lock with its times and so many accounts, at most 256.
#[repr(C)]
pub struct Scl<P: Platform, T, const ACCOUNTS: usize> {
    word: P::U32,
    /// The account of the holder.
    holder: P::U8,
    /// The account of the thread that the slice belongs to.
    slice_owner: P::U8,
    slice_end: P::Usize,
    /// When the lock was last acquired or released.
    changed: P::Usize,
    queue: McsStp<P>,
    accounts: [Account<P>; ACCOUNTS],
    times: PhantomData<T>,
}

/// The lock with the published times.
pub type UScl<P> = Scl<P, Published, 6>;

impl<P: Platform, T: Times, const ACCOUNTS: usize> Scl<P, T, ACCOUNTS> {
    fn slice_end(&self) -> Ns {
        self.slice_end.load(Ordering::Relaxed) as Ns
    }

    fn owns_slice(&self, me: u32, now: Ns) -> bool {
        now < self.slice_end() && self.accounts[usize::from(self.slice_owner.load(Ordering::Relaxed))].belongs_to(me)
    }

    /// How long the thread remains banned; 0 if it is not.
    fn ban(&self, me: u32, now: Ns) -> Ns {
        let account = self.accounts.iter().find(|account| account.belongs_to(me));
        account.map_or(0, |account| account.used_up_to().min(self.idle_at()).saturating_sub(now))
    }

    /// When the lock will have been free for so long that bans end.
    fn idle_at(&self) -> Ns {
        // Relaxed, both: hints for how long to wait.
        if self.word.load(Ordering::Relaxed) & HELD != 0 {
            return Ns::MAX;
        }
        (self.changed.load(Ordering::Relaxed) as Ns).saturating_add(Setting::Grace.time::<P>(T::FORGET))
    }

    /// Waits until the thread is not banned any more, or the `deadline` has passed.
    fn sit_out_ban(&self, me: u32, deadline: Option<Deadline>) {
        // Others may stop using the lock, which ends the ban.
        let look_after = Setting::Grace.time::<P>(T::FORGET).max(SPIN_AT_LAST);
        loop {
            let left = deadline.map_or(Ns::MAX, |deadline| deadline.at.saturating_sub(P::now(deadline.clock)));
            match self.ban(me, P::instant()).min(left) {
                0 => return,
                ns => wait::<P>(ns.min(look_after)),
            }
        }
    }

    /// Acquires a free lock if the thread owns the slice, or if nobody queues and it `may` have it; whether it did.
    #[inline]
    fn acquire_at_once(&self, me: u32, may: impl FnOnce(Ns) -> bool) -> bool {
        // Relaxed: the exchange decides.
        let word = self.word.load(Ordering::Relaxed);
        if word & HELD != 0 {
            return false;
        }
        let now = P::instant();
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        let acquired = (self.owns_slice(me, now) || word == FREE && may(now))
            && self.word.compare_exchange(word, word | HELD, Ordering::Acquire).is_ok();
        if acquired {
            self.enter(me, now);
        }
        acquired
    }

    /// Spins for a bounded time until the lock is not held, and acquires it; whether it did.
    fn acquire_on_release(&self, me: u32, is_head: bool) -> bool {
        let acquire = || {
            // Relaxed: the exchange decides.
            let word = self.word.load(Ordering::Relaxed);
            let next = if is_head { HELD } else { word | HELD };
            // ORDER(hand-off): as in `acquire_at_once`.
            (word & HELD == 0 && self.word.compare_exchange(word, next, Ordering::Acquire).is_ok()).then_some(())
        };
        let acquired = P::spin_map_bounded(spins::<P>(), acquire).is_some();
        if acquired {
            self.enter(me, P::instant());
        }
        acquired
    }

    /// The calling thread holds the lock: begins to charge it, and gives it a slice if there is none.
    #[inline]
    fn enter(&self, me: u32, now: Ns) {
        let index = self.account_of(me, now);
        self.holder.store(index, Ordering::Relaxed);
        self.changed.store(now as usize, Ordering::Relaxed);
        if now >= self.slice_end() {
            self.slice_owner.store(index, Ordering::Relaxed);
            let slice = Setting::Slice.time::<P>(T::SLICE);
            self.slice_end.store((now + slice) as usize, Ordering::Relaxed);
        }
    }

    /// The index of the holder's account, which it gets now if it has none.
    #[inline]
    fn account_of(&self, me: u32, now: Ns) -> u8 {
        let owner = self.slice_owner.load(Ordering::Relaxed);
        let index = if self.accounts[usize::from(owner)].belongs_to(me) { owner } else { self.find_account(me) };
        let account = &self.accounts[usize::from(index)];
        if !account.belongs_to(me) || !account.is_active::<T>(now) {
            account.open(me, now);
        }
        index
    }

    /// The index of the thread's account, or else of the one that lags furthest behind.
    fn find_account(&self, me: u32) -> u8 {
        let key = |(_, account): &(usize, &Account<P>)| (!account.belongs_to(me), account.used_up_to());
        self.accounts.iter().enumerate().min_by_key(key).map_or(0, |(index, _)| index as u8)
    }

    /// Charges the holder for the time since it acquired the lock.
    #[inline]
    fn charge(&self, now: Ns) {
        let since = self.changed.load(Ordering::Relaxed) as Ns;
        let held = now.saturating_sub(since);
        let holder = &self.accounts[usize::from(self.holder.load(Ordering::Relaxed))];
        // Who was active then counts, because nobody else has had the opportunity since.
        let others = self.accounts.iter().filter(|account| !ptr::eq(*account, holder) && account.is_active::<T>(since));
        let others: u64 = others.map(Account::weight).sum();
        let ban = held.saturating_mul(others) / holder.weight();
        // Bans do not add up beyond what is remembered: a thread that is banned may acquire the lock by trying it.
        let used_up_to = (holder.used_up_to() + held + ban).min(now + ban.max(T::FORGET));
        holder.used_up_to.store(used_up_to as usize, Ordering::Relaxed);
        self.changed.store(now as usize, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, me: u32) {
        // The head may have come to the queue at this very moment, or somebody tried the lock with success.
        if self.owns_slice(me, P::instant()) && self.acquire_on_release(me, false) {
            return;
        }
        self.sit_out_ban(me, None);
        let node = <McsStp<P> as RawLock<P>>::Ctx::new();
        // SAFETY: a fresh context. The queue is released while this thread holds the lock, whose memory therefore
        // stays.
        unsafe {
            self.queue.lock(&node);
            self.compete(me);
            self.queue.unlock(&node);
        }
    }

    /// Acquires the lock at the head of the queue.
    fn compete(&self, me: u32) {
        // Relaxed, like what follows on this word: its bits tell only that somebody waits, or sleeps.
        self.word.fetch_or(QUEUED, Ordering::Relaxed);
        loop {
            let now = P::instant();
            if now < self.slice_end() && !self.owns_slice(me, now) {
                self.wait_for_slice_end();
                continue;
            }
            // Nobody else acquires a lock with a queue when the slice is over.
            if self.acquire_on_release(me, true) {
                return;
            }
            let word = self.word.load(Ordering::Relaxed);
            let asleep = HELD | QUEUED | WAKE_AT_RELEASE;
            if word & HELD != 0 && self.word.compare_exchange(word, asleep, Ordering::Relaxed).is_ok() {
                while self.word.load(Ordering::Relaxed) == asleep {
                    P::park(&self.word, asleep, None);
                }
            }
        }
    }

    /// Waits at the head of the queue until the slice is over, or not so long.
    fn wait_for_slice_end(&self) {
        // ORDER(early-end): Acquire pairs with the Release in `unlock_to_wait`. Where that comes before, this thread
        // sees below that the slice is over; where it comes later, it finds the bit, clears it, and wakes this thread.
        let word = self.word.fetch_or(WAKE_AT_END, Ordering::Acquire) | WAKE_AT_END;
        let left = self.slice_end().saturating_sub(P::instant());
        let in_ns = |ns| Deadline { clock: Clock::Monotonic, at: P::now(Clock::Monotonic) + ns };
        if left > SPIN_AT_LAST {
            P::park(&self.word, word, Some(in_ns(left - SPIN_AT_LAST)));
        } else if left > 0 {
            // Relaxed: a hint.
            let is_over = || (self.word.load(Ordering::Relaxed) & WAKE_AT_END == 0).then_some(());
            P::spin_map_until(in_ns(left), is_over);
        }
    }
}

// SAFETY: only an exchange that finds a word without HELD acquires; only the holder removes HELD.
unsafe impl<P: Platform, T: Times, const ACCOUNTS: usize> RawLock<P> for Scl<P, T, ACCOUNTS> {
    const INFO: LockInfo = LockInfo {
        id: "u-scl",
        family: Family::Shares,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "threads get equal shares of the lock's time, or shares by their nice values, in slices of 2 ms",
        paper: "Patel, Yang, Arulraj et al.: EuroSys 2020, u-SCL",
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            Parameter {
                key: "slice",
                values: Values::Time(Setting::Slice),
                default: Default::Time(T::SLICE),
                summary: "how long the lock belongs to one thread; 0: each release ends the slice",
                source: "Patel et al.: EuroSys 2020, sec. 4",
            },
            Parameter {
                key: "grace",
                values: Values::Time(Setting::Grace),
                default: Default::Time(T::FORGET),
                summary:
                    "how long the lock has to be free before bans end early; short: no idle lock, less exact shares",
                source: "a choice: the time after which the kernel's k-SCL forgets a thread",
            },
        ],
        inside: &[<McsStp<P> as RawLock<P>>::PARAMETERS],
    };
    type Ctx = ();

    fn new() -> Self {
        let account = || Account { used_up_to: P::Usize::new(0), thread: P::U32::new(0), weight: P::U32::new(0) };
        Scl {
            word: P::U32::new(FREE),
            holder: P::U8::new(0),
            slice_owner: P::U8::new(0),
            slice_end: P::Usize::new(0),
            changed: P::Usize::new(0),
            queue: McsStp::new(),
            accounts: core::array::from_fn(|_| account()),
            times: PhantomData,
        }
    }

    fn forget(&self) {
        self.slice_end.store(0, Ordering::Relaxed);
        for account in &self.accounts {
            account.thread.store(0, Ordering::Relaxed);
            account.weight.store(0, Ordering::Relaxed);
            account.used_up_to.store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        let me = this_thread::<P>();
        if !self.acquire_at_once(me, |now| now >= self.slice_end() && self.ban(me, now) == 0) {
            self.lock_contended(me);
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        self.charge(P::instant());
        let address: *const P::U32 = &self.word;
        // ORDER(hand-off): Release pairs with the Acquire in `acquire_at_once` and `acquire_on_release`; publishes
        // the critical section and the accounts.
        // LAST: the lock may be destroyed after this; the wake-up uses the address only.
        if self.word.fetch_and(!(HELD | WAKE_AT_RELEASE), Ordering::Release) & WAKE_AT_RELEASE != 0 {
            P::unpark(address, 1);
        }
    }

    unsafe fn unlock_to_wait(&self, (): &()) {
        self.charge(P::instant());
        // The slice of another thread, during which this one has tried the lock, goes on.
        if self.holder.load(Ordering::Relaxed) == self.slice_owner.load(Ordering::Relaxed) {
            self.slice_end.store(0, Ordering::Relaxed);
        }
        let address: *const P::U32 = &self.word;
        let wake = WAKE_AT_RELEASE | WAKE_AT_END;
        // ORDER(hand-off): as in `unlock`. ORDER(early-end): Release pairs with the Acquire in `wait_for_slice_end`.
        // LAST: as in `unlock`.
        if self.word.fetch_and(!(HELD | wake), Ordering::Release) & wake != 0 {
            P::unpark(address, 1);
        }
    }
}

// SAFETY: acquires if the word is free; a lock with QUEUED is being acquired by the head of the queue.
unsafe impl<P: Platform, T: Times, const ACCOUNTS: usize> TryLock<P> for Scl<P, T, ACCOUNTS> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.acquire_at_once(this_thread::<P>(), |_| true)
    }
}

// SAFETY: as `try_lock`.
unsafe impl<P: Platform, T: Times, const ACCOUNTS: usize> TimedLock<P> for Scl<P, T, ACCOUNTS> {
    unsafe fn lock_until(&self, cx: &(), deadline: Deadline) -> bool {
        self.sit_out_ban(this_thread::<P>(), Some(deadline));
        // SAFETY: the caller keeps the contract of the call.
        P::spin_map_until(deadline, || unsafe { self.try_lock(cx) }.then_some(())).is_some()
    }
}

impl<P: Platform, T: Send + Sync, const ACCOUNTS: usize> IsHeld for Scl<P, T, ACCOUNTS> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.word.load(Ordering::Relaxed) & HELD != 0
    }
}
