//! The order in which locks are listed, and how they are chosen.

use lockswap_locks::registry::{Entry, Role, ENTRIES};

/// The roles of locks, in the order of lists.
pub const ROLES: [Role; 3] = [Role::Mutex, Role::RwLock, Role::Spin];

/// The option of `lockswap run` that chooses a lock of this role.
pub fn option(role: Role) -> &'static str {
    match role {
        Role::Mutex => "--lock",
        Role::RwLock => "--rwlock",
        Role::Spin => "--spin",
    }
}

/// The locks of a role, family by family.
pub fn by_family(role: Role) -> Vec<&'static Entry> {
    let mut entries: Vec<_> = ENTRIES.iter().filter(|entry| entry.role == role).collect();
    entries.sort_by_key(|entry| entry.info.family as u8);
    entries
}

/// The names of the families, each once.
pub fn families() -> Vec<&'static str> {
    let mut families = Vec::new();
    for entry in ROLES.into_iter().flat_map(by_family) {
        let name = entry.info.family.name();
        if !families.contains(&name) {
            families.push(name);
        }
    }
    families
}
