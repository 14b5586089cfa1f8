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

/// Locks of the catalogue with bounds small enough to be reached.
fn with_small_bounds() -> Vec<Subject> {
    use lockswap_locks::routed::{plock::Counts, ron::Flags, ron::Routed, shared::Table, ticket::Queues};
    use lockswap_locks::shuffle::policy::{OfKind, OfNode, Together, WritersFirst};
    use lockswap_locks::shuffle::{proportional::Proportional, shfllock::Shfl};
    use lockswap_locks::waiting::{Spin, SpinThenPark};

    type RonOf2<P> = Routed<P, Flags<P, 2>>;
    type RonOf1<P> = Routed<P, Flags<P, 1>>;
    type RonPlockOf2<P> = Routed<P, Counts<P, 2>>;
    type RonPlockOf1<P> = Routed<P, Counts<P, 1>>;
    type RonTicketOf2<P> = Queues<P, 2>;
    type RonTicketOf1<P> = Queues<P, 1>;
    type RonSharedApart<P> = Routed<P, Table<P, 1>>;
    type ShflOf2<P> = Shfl<P, Together<OfNode, 2>, Spin>;
    type ShflBOf2<P> = Shfl<P, Together<OfNode, 2>, SpinThenPark>;
    type ShflKindOf2<P> = Shfl<P, Together<OfKind, 2>, Spin>;
    type ShflWritersFirst<P> = Shfl<P, WritersFirst<2>, SpinThenPark>;
    type ShflPb1<P> = Shfl<P, Proportional<1>, Spin>;
    vec![
        mutex!("ron", "2 stops", RonOf2),
        mutex!("ron", "1 stop", RonOf1),
        mutex!("ron-plock", "2 stops", RonPlockOf2),
        mutex!("ron-plock", "1 stop", RonPlockOf1),
        mutex!("ron-ticket", "2 stops", RonTicketOf2),
        mutex!("ron-ticket", "1 stop", RonTicketOf1),
        mutex!("ron-shared", "stride 1", RonSharedApart),
        mutex!("shfllock", "batches of 2", ShflOf2),
        mutex!("shfllock-b", "batches of 2", ShflBOf2),
        mutex!("shfllock-kind", "batches of 2", ShflKindOf2),
        mutex!("shfllock-b", "writers first, batches of 2", ShflWritersFirst),
        mutex!("shfl-pb10", "1 to 1", ShflPb1),
    ]
}

/// All subjects.
pub fn all() -> Vec<Subject> {
    let mut all = catalogue();
    all.extend(with_small_bounds());
    all
}
