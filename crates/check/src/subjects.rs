//! What is checked: every lock of the catalogue, and the same locks with bounds small enough to be reached.

use crate::explore::{Explore, Virtual};
use crate::weak::{Modelled, Weak};
use lockswap_conformance::routed;
use lockswap_conformance::small::{self, Scenario};
use lockswap_locks::for_each_lock;
use lockswap_locks::registry::Role;
use lockswap_platform::{Hierarchy, Platform};

/// A lock and its scenarios on both machines.
pub struct Subject {
    /// What it stands in for.
    pub role: Role,
    /// The lock's id.
    pub id: &'static str,
    /// For a lock with other bounds than the published ones: which.
    pub variant: &'static str,
    /// Scenarios for the explorer.
    pub explore: Vec<Scenario>,
    /// Scenarios for loom.
    pub weak: Vec<Scenario>,
}

impl Subject {
    /// The role and the id, as `docs/checked.json` has them: `mutex/mcs_spin`.
    pub fn key(&self) -> String {
        let role = match self.role {
            Role::Mutex => "mutex",
            Role::RwLock => "rwlock",
            Role::Spin => "spin",
        };
        format!("{role}/{}", self.id)
    }

    /// `id`, with the variant behind it if there is one.
    pub fn name(&self) -> String {
        if self.variant.is_empty() {
            self.id.to_owned()
        } else {
            format!("{} ({})", self.id, self.variant)
        }
    }
}

/// Loom's threads have 32 KiB of stack, where the lock passes through. Larger locks are there with fewer slots.
const LARGEST_UNDER_LOOM: usize = 4096;

macro_rules! mutex {
    ($id:expr, $variant:expr, $lock:ident) => {
        Subject {
            role: Role::Mutex,
            id: $id,
            variant: $variant,
            explore: small::mutex::<Explore, $lock<Explore>, Virtual>(),
            weak: if size_of::<$lock<Weak>>() <= LARGEST_UNDER_LOOM {
                small::mutex::<Weak, $lock<Weak>, Modelled>()
            } else {
                Vec::new()
            },
        }
    };
}

macro_rules! rwlock {
    ($id:expr, $variant:expr, $lock:ident) => {
        Subject {
            role: Role::RwLock,
            id: $id,
            variant: $variant,
            explore: small::rwlock::<Explore, $lock<Explore>, Virtual>(),
            weak: small::rwlock::<Weak, $lock<Weak>, Modelled>(),
        }
    };
}

macro_rules! catalogue {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        /// Every lock of the catalogue. Spinlocks are mutex algorithms in glibc's encoding.
        fn catalogue() -> Vec<Subject> {
            vec![
                $({
                    use $mutex as Lock;
                    mutex!($mutex_id, "", Lock)
                },)*
                $({
                    use $rwlock as Lock;
                    rwlock!($rwlock_id, "", Lock)
                },)*
            ]
        }
    };
}

for_each_lock!(catalogue);

/// RON with an element of WaitArray for each of the explorer's four CPUs: it goes round.
fn routes() -> Vec<Subject> {
    use lockswap_conformance::routed::Decides::{AtAcquisition, AtRelease};
    use lockswap_locks::routed::{
        list::RonList, plock::Counts, ron::Flags, ron::Routed, shared::Table, ticket::Queues,
    };

    type Ron<P> = Routed<P, Flags<P, 4>>;
    type RonPlock<P> = Routed<P, Counts<P, 4>>;
    type RonTicket<P> = Queues<P, 4>;
    type RonShared<P> = Routed<P, Table<P, 1, 1>>;
    let mut subjects = vec![
        mutex!("ron", "4 elements", Ron),
        mutex!("ron-plock", "4 elements", RonPlock),
        mutex!("ron-ticket", "4 elements", RonTicket),
        mutex!("ron-shared", "1 element per CPU", RonShared),
        // The lock of the catalogue, here on the route only.
        Subject { explore: Vec::new(), weak: Vec::new(), ..mutex!("ron-list", "along the route", RonList) },
    ];
    let route = [
        routed::scenarios::<Explore, Ron<Explore>, Virtual>(AtRelease, false),
        routed::scenarios::<Explore, RonPlock<Explore>, Virtual>(AtRelease, true),
        routed::scenarios::<Explore, RonTicket<Explore>, Virtual>(AtRelease, true),
        routed::scenarios::<Explore, RonShared<Explore>, Virtual>(AtRelease, false),
        routed::scenarios::<Explore, RonList<Explore>, Virtual>(AtAcquisition, true),
    ];
    for (subject, scenarios) in subjects.iter_mut().zip(route) {
        subject.explore.extend(scenarios);
    }
    subjects
}

/// `auto` with bounds of next to nothing: sleepers are called and the lock is claimed at once, a candidate sleeps if
/// the one before had to insist, and a single careful release ends being careful; and the same with batches, in which
/// each candidate lets others go first for two looks at the clock, along the route, where a candidate keeps its place as
/// it calls a sleeper, and where no release is a plain store. A waiter leaves the queue once: with twice, as in use, nothing fails either, but loom
/// does not come to the end of two threads that acquire the lock twice.
fn autos() -> Vec<Subject> {
    use lockswap_locks::auto::bounds::Bounds;
    use lockswap_locks::auto::lock::AutoLock;

    struct Small<const BATCH: u64, const ROUTE: u32, const KEEPS_SEAT: bool, const STORES: bool = true>;
    impl<const BATCH: u64, const ROUTE: u32, const KEEPS_SEAT: bool, const STORES: bool> Bounds
        for Small<BATCH, ROUTE, KEEPS_SEAT, STORES>
    {
        const NEAR: u32 = 2;
        const TURN: u64 = 0;
        const GRACE: u64 = 0;
        const RESIGN: u32 = 1;
        const CALM: u8 = 1;
        const SPIN: u64 = 0;
        const AGAIN: u32 = 1;
        const BATCH: u64 = BATCH;
        const ALWAYS: bool = true;
        const TRIES: u64 = 1;
        const ASKS: u64 = 1;
        const FREE: u32 = 0;
        const BARGES: u32 = 1;
        const KEEPS_SEAT: bool = KEEPS_SEAT;
        const STORES: bool = STORES;
        const ROUTE: u32 = ROUTE;
        const ROUTED: bool = ROUTE > 0;
        const BEHIND: u32 = 0;
        const BACK: u64 = 0;
        const STRIDE: usize = 1;
    }
    type Auto<P> = AutoLock<P, Small<0, 0, false>>;
    type AutoInBatches<P> = AutoLock<P, Small<2, 0, false>>;
    type AutoOnRoute<P> = AutoLock<P, Small<0, 1, false>>;
    type AutoThatCalls<P> = AutoLock<P, Small<0, 0, true>>;
    type AutoByExchange<P> = AutoLock<P, Small<0, 0, false, false>>;
    let mut in_batches = mutex!("auto", "bounds of 0 and 1, in batches", AutoInBatches);
    in_batches.explore.extend(small::to_wait::<Explore, AutoInBatches<Explore>, Virtual>());
    in_batches.weak.extend(small::to_wait::<Weak, AutoInBatches<Weak>, Modelled>());
    let on_route = mutex!("auto", "bounds of 0 and 1, along the route", AutoOnRoute);
    let calls = mutex!("auto", "bounds of 0 and 1, calls alone", AutoThatCalls);
    let by_exchange = mutex!("auto", "bounds of 0 and 1, releases by exchange", AutoByExchange);
    vec![mutex!("auto", "bounds of 0 and 1", Auto), in_batches, on_route, calls, by_exchange]
}

/// u-SCL, which gives up its slices.
fn slices() -> Vec<Subject> {
    use lockswap_locks::shares::u_scl::{Published, Scl, Times};

    /// A slice is over for whoever looks next, and is given anew; threads that were banned a moment ago are not
    /// forgotten.
    struct NoSlice;
    impl Times for NoSlice {
        const SLICE: u64 = 0;
        const FORGET: u64 = Published::FORGET;
    }
    /// A slice lasts for a few looks at the clock, and so does what is remembered.
    struct ShortSlice;
    impl Times for ShortSlice {
        const SLICE: u64 = 3;
        const FORGET: u64 = 6;
    }
    type SclNoSlice<P> = Scl<P, NoSlice, 2>;
    type SclShort<P> = Scl<P, ShortSlice, 2>;
    type SclOneAccount<P> = Scl<P, Published, 1>;
    type SclTwoAccounts<P> = Scl<P, Published, 2>;
    let given_up = Subject {
        role: Role::Mutex,
        id: "u-scl",
        variant: "2 accounts, slices given up",
        explore: small::to_wait::<Explore, SclTwoAccounts<Explore>, Virtual>(),
        weak: small::to_wait::<Weak, SclTwoAccounts<Weak>, Modelled>(),
    };
    vec![
        mutex!("u-scl", "2 accounts, no slices", SclNoSlice),
        mutex!("u-scl", "2 accounts, short slices", SclShort),
        mutex!("u-scl", "1 account", SclOneAccount),
        given_up,
    ]
}

/// Locks with small bounds: those with policies and routes.
fn short_routes() -> Vec<Subject> {
    use lockswap_locks::routed::{plock::Counts, ron::Flags, ron::Routed, shared::Table, ticket::Queues};
    use lockswap_locks::rw::shfllock_rw::QueuedRw;
    use lockswap_locks::shuffle::policy::{OfKind, OfNode, Together};
    use lockswap_locks::shuffle::proportional::Proportional;
    use lockswap_locks::shuffle::shfllock::{Shfl, WITHOUT_BOUND};
    use lockswap_locks::waiting::{Spin, SpinThenPark};

    type RonOf2<P> = Routed<P, Flags<P, 2>>;
    type RonOf1<P> = Routed<P, Flags<P, 1>>;
    type RonPlockOf2<P> = Routed<P, Counts<P, 2>>;
    type RonPlockOf1<P> = Routed<P, Counts<P, 1>>;
    type RonTicketOf2<P> = Queues<P, 2>;
    type RonTicketOf1<P> = Queues<P, 1>;
    type RonSharedOf2<P> = Routed<P, Table<P, 0, 2>>;
    type ShflOf2<P> = Shfl<P, Together<OfNode, 2>, Spin>;
    type ShflBOf2<P> = Shfl<P, Together<OfNode, 2>, SpinThenPark, WITHOUT_BOUND>;
    type ShflBStealsOnce<P> = Shfl<P, Together<OfNode, 2>, SpinThenPark, 1>;
    type ShflBStealsNever<P> = Shfl<P, Together<OfNode, 2>, SpinThenPark, 0>;
    type ShflKindOf2<P> = Shfl<P, Together<OfKind, 2>, Spin>;
    type ShflRwOf1<P> = QueuedRw<P, 1>;
    type ShflRwOf2<P> = QueuedRw<P, 2>;
    type ShflPb1<P> = Shfl<P, Proportional<1>, Spin>;
    vec![
        mutex!("ron", "2 elements", RonOf2),
        mutex!("ron", "1 element", RonOf1),
        mutex!("ron-plock", "2 elements", RonPlockOf2),
        mutex!("ron-plock", "1 element", RonPlockOf1),
        mutex!("ron-ticket", "2 elements", RonTicketOf2),
        mutex!("ron-ticket", "1 element", RonTicketOf1),
        mutex!("ron-shared", "2 elements for all CPUs", RonSharedOf2),
        mutex!("shfllock", "batches of 2", ShflOf2),
        mutex!("shfllock-b", "batches of 2", ShflBOf2),
        mutex!("shfllock-kind", "batches of 2", ShflKindOf2),
        mutex!("shfllock-b", "a newcomer steals once, batches of 2", ShflBStealsOnce),
        mutex!("shfllock-b", "nobody steals, batches of 2", ShflBStealsNever),
        rwlock!("shfllock-rw", "one writer at a time", ShflRwOf1),
        rwlock!("shfllock-rw", "2 writers at a time", ShflRwOf2),
        mutex!("shfl-pb10", "1 to 1", ShflPb1),
    ]
}

/// Locks whose batches, countdowns and patience end after very few acquisitions.
fn short_batches() -> Vec<Subject> {
    use lockswap_locks::flat::{backoff::Backoff, partitioned::Partitioned, ticket::Ticket};
    use lockswap_locks::load_control::gcr::Gcr;
    use lockswap_locks::numa::{
        ahmcs::AhmcsLock, cna::CnaLock, cna_opt::CnaOptLock, cohort::Cohort, fissile::FissileLock, hmcs,
    };
    use lockswap_locks::queue::barging::Barging;
    use lockswap_locks::queue::mcs::{McsSpin, McsStp};

    struct Twice;
    impl hmcs::Form for Twice {
        const THRESHOLDS: [u32; 2] = [2, 2];
    }
    /// Threads 0 and 2 share an inner group, and all of them the outer one.
    struct OneOuter;
    impl hmcs::Form for OneOuter {
        const THRESHOLDS: [u32; 2] = [1, 2];
        fn place<P: Platform>() -> Hierarchy {
            Hierarchy { inner: P::cpu() % 2, outer: Some(0) }
        }
    }
    /// Threads 0 and 2 share both groups; thread 1 is alone.
    struct TwoOuter;
    impl hmcs::Form for TwoOuter {
        const THRESHOLDS: [u32; 2] = [2, 1];
        fn place<P: Platform>() -> Hierarchy {
            Hierarchy { inner: P::cpu() % 2, outer: Some(P::cpu() % 2) }
        }
    }
    type CnaShort<P> = CnaLock<P, 1>;
    type CnaOptShort<P> = CnaOptLock<P, 3, 2>;
    type CBoMcsSpin<P> = Cohort<P, Backoff<P>, McsSpin<P>, 1>;
    type CBoMcsStp<P> = Cohort<P, Backoff<P>, McsStp<P>, 1>;
    type CBoMcsStpBarging<P> = Barging<P, CBoMcsStp<P>, 0>;
    type CPtlTkt<P> = Cohort<P, Partitioned<P>, Ticket<P>, 1>;
    type CTktTkt<P> = Cohort<P, Ticket<P>, Ticket<P>, 1>;
    type Hmcs<P> = hmcs::HmcsLock<P, Twice>;
    type HmcsOneOuter<P> = hmcs::HmcsLock<P, OneOuter>;
    type HmcsTwoOuter<P> = hmcs::HmcsLock<P, TwoOuter>;
    type Ahmcs<P> = AhmcsLock<P, Twice>;
    type AhmcsOneOuter<P> = AhmcsLock<P, OneOuter>;
    type AhmcsTwoOuter<P> = AhmcsLock<P, TwoOuter>;
    type Fissile<P> = FissileLock<P, 1>;
    type GcrOne<P> = Gcr<P, McsSpin<P>, 1, 2>;
    type GcrTwo<P> = Gcr<P, McsSpin<P>, 2, 2>;
    vec![
        mutex!("cna", "mean of 2 local hand-offs", CnaShort),
        mutex!("cna-opt", "at most 3 local hand-offs", CnaOptShort),
        mutex!("c-bo-mcs_spin", "batch 1", CBoMcsSpin),
        mutex!("c-bo-mcs_stp", "batch 1", CBoMcsStp),
        mutex!("c-bo-mcs_stp-barging", "claims at once, batch 1", CBoMcsStpBarging),
        mutex!("c-ptl-tkt", "batch 1", CPtlTkt),
        mutex!("c-tkt-tkt", "batch 1", CTktTkt),
        mutex!("hmcs", "threshold 2", Hmcs),
        mutex!("hmcs", "three levels, thresholds 1 and 2", HmcsOneOuter),
        mutex!("hmcs", "three levels, thresholds 2 and 1", HmcsTwoOuter),
        mutex!("ahmcs", "threshold 2", Ahmcs),
        mutex!("ahmcs", "three levels, thresholds 1 and 2", AhmcsOneOuter),
        mutex!("ahmcs", "three levels, thresholds 2 and 1", AhmcsTwoOuter),
        mutex!("fissile", "patient for one look", Fissile),
        mutex!("gcr", "promotes every 2nd time", GcrOne),
        mutex!("gcr", "two active, promotes every 2nd time", GcrTwo),
    ]
}

/// Locks whose arrays, spins and time-outs are as short as can be.
fn short_waits() -> Vec<Subject> {
    use lockswap_locks::flat::{mutexee::MutexeeLock, partitioned::GrantArray, ticket::TicketLock, twa::TwaLock};
    use lockswap_locks::load_control::{malthusian::Malthusian, mcs_timepub};
    use lockswap_locks::numa::{hbo::HboLock, hticket::HTicket};
    use lockswap_locks::queue::{barging::Barging, k42::K42Stp, mcs::McsStp};
    use lockswap_locks::queue::{hapax::HapaxLock, reciprocating::ReciprocatingLock};
    use lockswap_locks::waiting::{Spin, SpinThenPark};

    struct TinyTimes;
    impl mcs_timepub::Times for TinyTimes {
        const UPDATE_DELAY: u64 = 2;
        const MAX_CS_TIME: u64 = 4;
        const PATIENCE: u64 = 2;
        const MOST_LET_GO: u32 = 1;
        const INSISTS_AFTER: u64 = 6;
    }
    /// A waiter abandons its node at the second look, and has then waited for longer than anybody is ready to.
    struct Hasty;
    impl mcs_timepub::Times for Hasty {
        const UPDATE_DELAY: u64 = 4_000_000_000;
        const MAX_CS_TIME: u64 = 0;
        const PATIENCE: u64 = 0;
        const MOST_LET_GO: u32 = 1;
        const INSISTS_AFTER: u64 = u64::MAX;
    }
    type MutexeeOfTwo<P> = MutexeeLock<P, 1, 1, 2>;
    type MutexeeOfOne<P> = MutexeeLock<P, 0, 0, 1>;
    type TwoSlots<P> = GrantArray<P, 2>;
    type TicketOneLook<P> = TicketLock<P, 1, 1>;
    type TwaNone<P> = TwaLock<P, 0>;
    type HboShort<P> = HboLock<P, 0, 1>;
    type HTicketShort<P> = HTicket<P, 2, 2>;
    type HapaxShort<P> = HapaxLock<P, 2>;
    type MalthSpinShort<P> = Malthusian<P, Spin, 2>;
    type MalthStpShort<P> = Malthusian<P, SpinThenPark, 2>;
    type MalthBargingShort<P> = Barging<P, MalthStpShort<P>, 1>;
    type McsBargingAtOnce<P> = Barging<P, McsStp<P>, 0>;
    type McsBargingOnce<P> = Barging<P, McsStp<P>, 1>;
    type ReciprocatingStp<P> = ReciprocatingLock<P, SpinThenPark>;
    type McsTpShort<P> = mcs_timepub::McsTp<P, TinyTimes>;
    type McsTpHasty<P> = mcs_timepub::McsTp<P, Hasty>;
    vec![
        mutex!("mutexee", "windows of 2", MutexeeOfTwo),
        mutex!("mutexee", "windows of 1", MutexeeOfOne),
        mutex!("partitioned", "2 slots", TwoSlots),
        mutex!("ticket-ls", "1 look", TicketOneLook),
        mutex!("twa", "nobody is near", TwaNone),
        mutex!("hbo", "impatient at once", HboShort),
        mutex!("hticket-ls", "2 nodes, batch 2", HTicketShort),
        mutex!("hapax", "counts of 2 bits", HapaxShort),
        mutex!("malth_spin", "grafts every 2nd time", MalthSpinShort),
        mutex!("malth_stp", "grafts every 2nd time", MalthStpShort),
        mutex!("malth_stp-barging", "grafts every 2nd time, claims after one sleep", MalthBargingShort),
        mutex!("mcs_stp-barging", "claims at once", McsBargingAtOnce),
        mutex!("mcs_stp-barging", "claims after one sleep", McsBargingOnce),
        mutex!("k42", "parking", K42Stp),
        mutex!("reciprocating", "parking", ReciprocatingStp),
        mutex!("mcs-timepub", "short times", McsTpShort),
        mutex!("mcs-timepub", "nobody waits for long", McsTpHasty),
    ]
}

/// All subjects.
pub fn all() -> Vec<Subject> {
    let mut all = catalogue();
    all.extend(routes());
    all.extend(autos());
    all.extend(slices());
    all.extend(short_routes());
    all.extend(short_waits());
    all.extend(short_batches());
    all
}
