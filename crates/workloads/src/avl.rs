//! An AVL tree over a fixed range of keys; the node of key `k` is element `k` of one array, so nothing is allocated
//! while a lock is held.
//!
//! All fields are relaxed atomics of the platform: plain loads and stores on hardware, a cost on a simulated machine,
//! and a lock that fails to exclude corrupts the tree without undefined behaviour. A descent deeper than any intact
//! tree stops and marks the tree as corrupt.

use lockswap_platform::{AtomicInt, Ordering::Relaxed, Platform};
use std::sync::atomic::AtomicBool;

const NONE: u32 = u32::MAX;
/// An AVL tree of 2^32 keys is at most 1.44 * 32 levels deep.
const MAX_DEPTH: u32 = 47;

/// A line of its own, as in a tree whose nodes are allocated one by one.
#[repr(C, align(64))]
struct Node<P: Platform> {
    left: P::U32,
    right: P::U32,
    height: P::U32,
    value: P::Usize,
}

impl<P: Platform> Node<P> {
    fn new() -> Self {
        Self { left: int(0), right: int(0), height: int(0), value: AtomicInt::new(0) }
    }
}

fn int<T: AtomicInt<u32>>(value: u32) -> T {
    T::new(value)
}

/// Writes what differs only: lines that an update leaves as they are stay in all caches.
fn change<T: AtomicInt<u32>>(word: &T, value: u32) {
    if word.load(Relaxed) != value {
        word.store(value, Relaxed);
    }
}

/// The tree. The caller holds a lock around each call. It begins a line, so that the same words share one wherever it
/// lies.
#[repr(align(128))]
pub(crate) struct Avl<P: Platform> {
    root: P::U32,
    size: P::Usize,
    corrupt: AtomicBool,
    keys: u32,
    nodes: Box<[Node<P>]>,
    /// The node of key 0: 0 or 1, so that it begins a line of 128 bytes, too, and the same two nodes share one.
    first: usize,
}

impl<P: Platform> Avl<P> {
    /// An empty tree for the keys `0..keys`.
    pub(crate) fn new(keys: u32) -> Self {
        let nodes: Box<[_]> = (0..=keys).map(|_| Node::new()).collect();
        Self {
            root: int(NONE),
            size: AtomicInt::new(0),
            corrupt: AtomicBool::new(false),
            keys,
            first: usize::from(!nodes.as_ptr().addr().is_multiple_of(128)),
            nodes,
        }
    }

    #[inline]
    fn node(&self, key: u32) -> &Node<P> {
        &self.nodes[self.first + key as usize]
    }

    /// The number of keys, as counted by `insert` and `remove`.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Relaxed) as u64
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u32) -> Option<usize> {
        let mut at = self.root.load(Relaxed);
        for _ in 0..=MAX_DEPTH {
            if at == NONE {
                return None;
            }
            let node = self.node(at);
            at = match key.cmp(&at) {
                std::cmp::Ordering::Equal => return Some(node.value.load(Relaxed)),
                std::cmp::Ordering::Less => node.left.load(Relaxed),
                std::cmp::Ordering::Greater => node.right.load(Relaxed),
            };
        }
        self.corrupt.store(true, Relaxed);
        None
    }

    /// Stores `value` under `key`; whether the key is new.
    pub(crate) fn insert(&self, key: u32, value: usize) -> bool {
        let mut new = false;
        change(&self.root, self.insert_below(self.root.load(Relaxed), key, value, 0, &mut new));
        if new {
            self.size.store(self.size.load(Relaxed) + 1, Relaxed);
        }
        new
    }

    /// Removes `key`; whether it was there.
    pub(crate) fn remove(&self, key: u32) -> bool {
        let mut found = false;
        change(&self.root, self.remove_below(self.root.load(Relaxed), key, 0, &mut found));
        if found {
            self.size.store(self.size.load(Relaxed).wrapping_sub(1), Relaxed);
        }
        found
    }

    fn too_deep(&self, depth: u32) -> bool {
        if depth > MAX_DEPTH {
            self.corrupt.store(true, Relaxed);
        }
        depth > MAX_DEPTH
    }

    /// Inserts into the subtree `at` and returns its new root.
    fn insert_below(&self, at: u32, key: u32, value: usize, depth: u32, new: &mut bool) -> u32 {
        if self.too_deep(depth) {
            return at;
        }
        if at == NONE {
            let node = self.node(key);
            change(&node.left, NONE);
            change(&node.right, NONE);
            change(&node.height, 1);
            node.value.store(value, Relaxed);
            *new = true;
            return key;
        }
        let node = self.node(at);
        match key.cmp(&at) {
            std::cmp::Ordering::Equal => {
                node.value.store(value, Relaxed);
                return at;
            }
            std::cmp::Ordering::Less => {
                let left = self.insert_below(node.left.load(Relaxed), key, value, depth + 1, new);
                change(&node.left, left);
            }
            std::cmp::Ordering::Greater => {
                let right = self.insert_below(node.right.load(Relaxed), key, value, depth + 1, new);
                change(&node.right, right);
            }
        }
        if *new {
            self.balance(at)
        } else {
            at
        }
    }

    /// Removes from the subtree `at` and returns its new root.
    fn remove_below(&self, at: u32, key: u32, depth: u32, found: &mut bool) -> u32 {
        if at == NONE || self.too_deep(depth) {
            return at;
        }
        let node = self.node(at);
        match key.cmp(&at) {
            std::cmp::Ordering::Less => {
                let left = self.remove_below(node.left.load(Relaxed), key, depth + 1, found);
                change(&node.left, left);
            }
            std::cmp::Ordering::Greater => {
                let right = self.remove_below(node.right.load(Relaxed), key, depth + 1, found);
                change(&node.right, right);
            }
            std::cmp::Ordering::Equal => {
                *found = true;
                let (left, right) = (node.left.load(Relaxed), node.right.load(Relaxed));
                if left == NONE || right == NONE {
                    return if left == NONE { right } else { left };
                }
                let mut successor = NONE;
                let rest = self.take_first(right, depth + 1, &mut successor);
                if successor == NONE {
                    return at;
                }
                let node = self.node(successor);
                change(&node.left, left);
                change(&node.right, rest);
                return self.balance(successor);
            }
        }
        if *found {
            self.balance(at)
        } else {
            at
        }
    }

    /// Unlinks the smallest key of the subtree `at`, stores it in `first`, and returns the subtree's new root.
    fn take_first(&self, at: u32, depth: u32, first: &mut u32) -> u32 {
        if self.too_deep(depth) {
            return at;
        }
        let node = self.node(at);
        let left = node.left.load(Relaxed);
        if left == NONE {
            *first = at;
            return node.right.load(Relaxed);
        }
        change(&node.left, self.take_first(left, depth + 1, first));
        self.balance(at)
    }

    fn height(&self, at: u32) -> u32 {
        if at == NONE {
            0
        } else {
            self.node(at).height.load(Relaxed)
        }
    }

    fn update_height(&self, at: u32) {
        let node = self.node(at);
        let height = 1 + self.height(node.left.load(Relaxed)).max(self.height(node.right.load(Relaxed)));
        change(&node.height, height.min(MAX_DEPTH));
    }

    /// Restores the balance of `at`, whose subtrees are balanced and differ by at most 2 levels; returns the new root.
    fn balance(&self, at: u32) -> u32 {
        let node = self.node(at);
        let (left, right) = (node.left.load(Relaxed), node.right.load(Relaxed));
        let (left_height, right_height) = (self.height(left), self.height(right));
        if left_height > right_height + 1 {
            let child = self.node(left);
            if self.height(child.left.load(Relaxed)) < self.height(child.right.load(Relaxed)) {
                change(&node.left, self.rotate_left(left));
            }
            self.rotate_right(at)
        } else if right_height > left_height + 1 {
            let child = self.node(right);
            if self.height(child.right.load(Relaxed)) < self.height(child.left.load(Relaxed)) {
                change(&node.right, self.rotate_right(right));
            }
            self.rotate_left(at)
        } else {
            self.update_height(at);
            at
        }
    }

    fn rotate_left(&self, at: u32) -> u32 {
        let node = self.node(at);
        let up = node.right.load(Relaxed);
        if up == NONE {
            self.corrupt.store(true, Relaxed);
            return at;
        }
        change(&node.right, self.node(up).left.load(Relaxed));
        self.node(up).left.store(at, Relaxed);
        self.update_height(at);
        self.update_height(up);
        up
    }

    fn rotate_right(&self, at: u32) -> u32 {
        let node = self.node(at);
        let up = node.left.load(Relaxed);
        if up == NONE {
            self.corrupt.store(true, Relaxed);
            return at;
        }
        change(&node.left, self.node(up).right.load(Relaxed));
        self.node(up).right.store(at, Relaxed);
        self.update_height(at);
        self.update_height(up);
        up
    }

    /// Walks the whole tree; what is wrong with it, or the number of keys found.
    pub(crate) fn check(&self) -> Result<u64, String> {
        if self.corrupt.load(Relaxed) {
            return Err("a descent went deeper than the tree can be".into());
        }
        let mut count = 0;
        self.check_below(self.root.load(Relaxed), 0, self.keys, 0, &mut count)?;
        Ok(count)
    }

    /// Checks the subtree `at`, whose keys must lie in `from..to`, and returns its height.
    fn check_below(&self, at: u32, from: u32, to: u32, depth: u32, count: &mut u64) -> Result<u32, String> {
        if at == NONE {
            return Ok(0);
        }
        if !(from..to).contains(&at) || depth > MAX_DEPTH {
            return Err(format!("key {at} is out of order"));
        }
        *count += 1;
        let node = self.node(at);
        let left = self.check_below(node.left.load(Relaxed), from, at, depth + 1, count)?;
        let right = self.check_below(node.right.load(Relaxed), at + 1, to, depth + 1, count)?;
        if left.abs_diff(right) > 1 || node.height.load(Relaxed) != 1 + left.max(right) {
            return Err(format!("the tree is out of balance at key {at}"));
        }
        Ok(1 + left.max(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use lockswap_platform::Native;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_btree_map() {
        let (tree, mut model, mut random) = (Avl::<Native>::new(300), BTreeMap::new(), Random::seeded(7, 0));
        for step in 0..20_000 {
            let key = random.below(300);
            match random.below(3) {
                0 => assert_eq!(tree.insert(key, step), model.insert(key, step).is_none()),
                1 => assert_eq!(tree.remove(key), model.remove(&key).is_some()),
                _ => assert_eq!(tree.get(key), model.get(&key).copied()),
            }
            assert_eq!(tree.size(), model.len() as u64);
            if step.is_multiple_of(16) {
                assert_eq!(tree.check(), Ok(model.len() as u64));
            }
        }
        for key in 0..300 {
            assert_eq!(tree.get(key), model.get(&key).copied());
        }
    }

    #[test]
    fn ascending_keys_stay_balanced() {
        let tree = Avl::<Native>::new(1 << 12);
        for key in 0..1 << 12 {
            assert!(tree.insert(key, 0));
        }
        assert_eq!(tree.check(), Ok(1 << 12));
        assert!(tree.height(tree.root.load(Relaxed)) <= 13);
    }

    #[test]
    fn damage_is_found() {
        let tree = Avl::<Native>::new(64);
        for key in 0..64 {
            tree.insert(key, 0);
        }
        let root = tree.node(tree.root.load(Relaxed));
        let left = root.left.swap(root.right.load(Relaxed), Relaxed);
        assert!(tree.check().unwrap_err().contains("out of order"));
        change(&root.left, NONE);
        assert!(tree.check().unwrap_err().contains("out of balance"));
        change(&root.left, left);
        assert_eq!(tree.check(), Ok(64));
        tree.node(0).left.store(63, Relaxed);
        tree.node(63).left.store(0, Relaxed);
        assert!(tree.check().is_err(), "a cycle");
    }

    #[test]
    fn a_cycle_ends_every_operation() {
        let tree = Avl::<Native>::new(8);
        tree.insert(4, 0);
        tree.node(4).left.store(4, Relaxed);
        assert_eq!(tree.get(1), None);
        assert!(tree.check().is_err());
        tree.insert(1, 0);
        tree.remove(1);
    }
}
