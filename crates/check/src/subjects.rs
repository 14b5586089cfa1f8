//! What is checked: every lock of the catalogue, and the same locks with bounds small enough to be reached.

use crate::explore::{Explore, Virtual};
use crate::weak::{Modelled, Weak};
use lockswap_conformance::small::{self, Scenario};
use lockswap_locks::for_each_lock;
use lockswap_locks::registry::Role;

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
    /// `id`, with the variant behind it if there is one.
    pub fn name(&self) -> String {
        if self.variant.is_empty() {
            self.id.to_owned()
        } else {
            format!("{} ({})", self.id, self.variant)
        }
    }
}

macro_rules! mutex {
    ($id:expr, $variant:expr, $lock:ident) => {
        Subject {
            role: Role::Mutex,
            id: $id,
            variant: $variant,
            explore: small::mutex::<Explore, $lock<Explore>, Virtual>(),
            weak: small::mutex::<Weak, $lock<Weak>, Modelled>(),
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
                    Subject {
                        role: Role::RwLock,
                        id: $rwlock_id,
                        variant: "",
                        explore: small::rwlock::<Explore, Lock<Explore>, Virtual>(),
                        weak: small::rwlock::<Weak, Lock<Weak>, Modelled>(),
                    }
                },)*
            ]
        }
    };
}

for_each_lock!(catalogue);

/// Locks whose batches, countdowns and patience end after very few acquisitions.
fn short_batches() -> Vec<Subject> {
    use lockswap_locks::flat::{backoff::Backoff, partitioned::Partitioned, ticket::Ticket};
    use lockswap_locks::load_control::gcr::Gcr;
    use lockswap_locks::numa::{ahmcs::AhmcsLock, cna, cohort::Cohort, fissile::FissileLock, hmcs::HmcsLock};
    use lockswap_locks::queue::mcs::{McsSpin, McsStp};

    struct Plain;
    impl cna::Form for Plain {
        const ID: &'static str = <cna::Plain as cna::Form>::ID;
        const SUMMARY: &'static str = "";
        const THRESHOLD: u32 = 1;
        const OPTIMISED: bool = false;
        const SHUFFLE_ONE_IN: u32 = 1;
    }
    struct Optimised;
    impl cna::Form for Optimised {
        const ID: &'static str = <cna::Optimised as cna::Form>::ID;
        const SUMMARY: &'static str = "";
        const THRESHOLD: u32 = 3;
        const OPTIMISED: bool = true;
        const SHUFFLE_ONE_IN: u32 = 2;
    }
    type CnaShort<P> = cna::CnaLock<P, Plain>;
    type CnaOptShort<P> = cna::CnaLock<P, Optimised>;
    type CBoMcsSpin<P> = Cohort<P, Backoff<P>, McsSpin<P>, 1>;
    type CBoMcsStp<P> = Cohort<P, Backoff<P>, McsStp<P>, 1>;
    type CPtlTkt<P> = Cohort<P, Partitioned<P>, Ticket<P>, 1>;
    type CTktTkt<P> = Cohort<P, Ticket<P>, Ticket<P>, 1>;
    type Hmcs<P> = HmcsLock<P, 2>;
    type Ahmcs<P> = AhmcsLock<P, 2>;
    type Fissile<P> = FissileLock<P, 1>;
    type GcrOne<P> = Gcr<P, McsSpin<P>, 1, 2>;
    type GcrTwo<P> = Gcr<P, McsSpin<P>, 2, 2>;
    vec![
        mutex!("cna", "mean of 2 local hand-offs", CnaShort),
        mutex!("cna-opt", "at most 3 local hand-offs", CnaOptShort),
        mutex!("c-bo-mcs_spin", "batch 1", CBoMcsSpin),
        mutex!("c-bo-mcs_stp", "batch 1", CBoMcsStp),
        mutex!("c-ptl-tkt", "batch 1", CPtlTkt),
        mutex!("c-tkt-tkt", "batch 1", CTktTkt),
        mutex!("hmcs", "threshold 2", Hmcs),
        mutex!("ahmcs", "threshold 2", Ahmcs),
        mutex!("fissile", "patient for one look", Fissile),
        mutex!("gcr", "promotes every 2nd time", GcrOne),
        mutex!("gcr", "two active, promotes every 2nd time", GcrTwo),
    ]
}

/// All subjects.
pub fn all() -> Vec<Subject> {
    let mut all = catalogue();
    all.extend(short_batches());
    all
}
