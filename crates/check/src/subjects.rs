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

/// All subjects.
pub fn all() -> Vec<Subject> {
    catalogue()
}
