//! What locks know about the CPUs: which are near each other, which are big, and the route through them.
//!
//! A word per CPU, its [`Place`], says in which locality group, last-level-cache group and outer group it is, and of
//! which kind. Whoever knows the machine fills the table ([`set_place`], [`use_places`]) before threads use locks, and
//! may change it at any time: locks take what it says for a hint. Where it says nothing, the kernel's node number is
//! the group.

use crate::CoreKind;
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, Ordering};

/// CPUs with this number or above have no place in the tables here.
pub const MAX_CPUS: usize = 4096;

/// Locks that keep an array entry for each group have at least so many, and a power of two.
pub const FEWEST_ENTRIES: u32 = 8;

/// The number of the group that is at position `rank` of `count` where neighbours have neighbouring positions.
///
/// A lock that keeps an entry for each group takes the number modulo its entries. Up to [`FEWEST_ENTRIES`] groups have
/// their positions for numbers. Where there are more, those that share an entry have to be neighbours, however many
/// entries the lock has: the number is the position with its bits in reverse order, because the first bits of the
/// position say in which half, quarter, eighth of the groups it is, and a number modulo 2, 4, 8 is its last bits.
/// (Positions are stretched first, so that `count` may be any number.) Of 16 groups, the first four have the numbers
/// 0, 8, 4 and 12.
pub const fn group_number(rank: u32, count: u32) -> u32 {
    if count <= FEWEST_ENTRIES {
        return rank;
    }
    let bits = count.next_power_of_two().trailing_zeros();
    ((rank << bits) / count).reverse_bits() >> (u32::BITS - bits)
}

/// Where a CPU is in a machine whose groups of near CPUs lie in larger groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The number of its innermost group: the last-level cache, or the NUMA node where it has only one.
    pub inner: u32,
    /// The number of the group of inner groups: the NUMA node, or the package. `None` where the machine has none, or
    /// one.
    pub outer: Option<u32>,
}

/// What locks know about one CPU; all zero bits: nothing, and that it is big.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    const NUMBER: u32 = 0xfff;
    /// In place of a group's number: there is no other group. No machine has so many.
    const ONLY: u32 = 0xfff;
    const LLC_SHIFT: u32 = 12;
    const OUTER_SHIFT: u32 = 24;
    const OUTER: u32 = 0x1f;
    const INNER_IS_LLC: u32 = 1 << 29;
    const LITTLE: u32 = 1 << 30;
    const KNOWN: u32 = 1 << 31;

    /// The largest number of an outer group.
    pub const LAST_OUTER: u32 = Self::OUTER - 1;

    /// A CPU in these groups; numbers are cut to 12 bits.
    pub const fn new(group: u16, llc: u16, kind: CoreKind) -> Self {
        let numbers = group as u32 & Self::NUMBER | (llc as u32 & Self::NUMBER) << Self::LLC_SHIFT;
        Place(Self::KNOWN | numbers).with_kind(kind)
    }

    /// The same in a hierarchy whose innermost groups are the last-level-cache groups, or else the locality groups.
    /// `outer` is the number of this CPU's outer group, if there are any; at most [`Place::LAST_OUTER`].
    pub const fn with_hierarchy(self, inner_is_llc: bool, outer: Option<u32>) -> Self {
        let outer = match outer {
            Some(number) if number < Self::LAST_OUTER => number + 1,
            Some(_) => Self::OUTER,
            None => 0,
        };
        let rest = self.0 & !(Self::INNER_IS_LLC | Self::OUTER << Self::OUTER_SHIFT);
        Place(rest | outer << Self::OUTER_SHIFT | if inner_is_llc { Self::INNER_IS_LLC } else { 0 })
    }

    /// The same with another kind.
    pub const fn with_kind(self, kind: CoreKind) -> Self {
        match kind {
            CoreKind::Big => Place(self.0 & !Self::LITTLE),
            CoreKind::Little => Place(self.0 | Self::LITTLE),
        }
    }

    /// The place as a word, to be kept in a file.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The number of the locality group, if it is known.
    pub const fn group(self) -> Option<u32> {
        match self.0 & Self::NUMBER {
            _ if self.0 & Self::KNOWN == 0 => None,
            Self::ONLY => Some(0),
            number => Some(number),
        }
    }

    /// The same, where all CPUs that the process can use are in one locality group, which has the number 0.
    pub const fn with_only_group(self) -> Self {
        Place(self.0 | Self::ONLY)
    }

    /// Whether all CPUs that the process can use are known to be in one locality group.
    pub const fn is_in_only_group(self) -> bool {
        self.0 & Self::KNOWN != 0 && self.0 & Self::NUMBER == Self::ONLY
    }

    /// The number of the last-level-cache group, if it is known.
    pub const fn llc(self) -> Option<u32> {
        if self.0 & Self::KNOWN != 0 {
            Some(self.0 >> Self::LLC_SHIFT & Self::NUMBER)
        } else {
            None
        }
    }

    /// Where the CPU is in the hierarchy, if that is known.
    pub fn hierarchy(self) -> Option<Hierarchy> {
        let inner = if self.0 & Self::INNER_IS_LLC != 0 { self.llc() } else { self.group() };
        Some(Hierarchy { inner: inner?, outer: (self.0 >> Self::OUTER_SHIFT & Self::OUTER).checked_sub(1) })
    }

    /// The kind.
    pub const fn kind(self) -> CoreKind {
        if self.0 & Self::LITTLE != 0 {
            CoreKind::Little
        } else {
            CoreKind::Big
        }
    }
}

/// The places of all CPUs by their numbers, as words.
pub type Places = [AtomicU32; MAX_CPUS];

static OWN: Places = [const { AtomicU32::new(0) }; MAX_CPUS];
static PLACES: AtomicPtr<Places> = AtomicPtr::new((&raw const OWN).cast_mut());

/// Makes [`crate::Native`] find `cpu` at `place`; a CPU of [`MAX_CPUS`] or above is ignored.
pub fn set_place(cpu: usize, place: Place) {
    if let Some(word) = OWN.get(cpu) {
        // Relaxed, here and below: a hint; a reader that misses it sees what was known before.
        word.store(place.0, Ordering::Relaxed);
    }
}

/// Makes [`crate::Native`] look CPUs up in `places`, which somebody else keeps up to date.
///
/// # Safety
/// The table stays readable until the process ends. Called before a second thread exists.
pub unsafe fn use_places(places: *const Places) {
    PLACES.store(places.cast_mut(), Ordering::Relaxed);
}

/// What is known about `cpu`.
#[inline(always)]
pub(crate) fn place(cpu: u32) -> Place {
    // SAFETY: our own table, or one whose owner vouched for it.
    let places = unsafe { &*PLACES.load(Ordering::Relaxed) };
    Place(places.get(cpu as usize).map_or(0, |word| word.load(Ordering::Relaxed)))
}

/// A declared machine: `nodes` NUMA nodes of `cpus_per_node` CPUs, numbered node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopologyOverride {
    /// Number of NUMA nodes, at least 1.
    pub nodes: u16,
    /// CPUs in each node, at least 1.
    pub cpus_per_node: u16,
}

impl TopologyOverride {
    /// Reads `NODESxCPUS`, for instance `2x1`. `None` where the text has another form, a number is 0, or there are
    /// more than [`MAX_CPUS`] CPUs.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (nodes, cpus) = text.split_once('x')?;
        let parsed = TopologyOverride { nodes: nodes.parse().ok()?, cpus_per_node: cpus.parse().ok()? };
        let total = parsed.nodes as usize * parsed.cpus_per_node as usize;
        (1..=MAX_CPUS).contains(&total).then_some(parsed)
    }

    /// The node of `cpu`, if it is one of the declared CPUs.
    pub fn node(self, cpu: usize) -> Option<u16> {
        let node = cpu / self.cpus_per_node as usize;
        (node < self.nodes as usize).then_some(node as u16)
    }
}

/// Makes [`crate::Native`] report the nodes of `topology` from now on, also as last-level-cache groups.
pub fn set_override(topology: TopologyOverride) {
    for (cpu, word) in OWN.iter().enumerate() {
        if let Some(node) = topology.node(cpu) {
            let kind = Place(word.load(Ordering::Relaxed)).kind();
            let number = group_number(node.into(), topology.nodes.into()) as u16;
            word.store(Place::new(number, number, kind).0, Ordering::Relaxed);
        }
    }
}

/// Positions on a route at most; RON locks have a slot for each.
pub const MAX_RANKS: usize = 256;

/// A list of CPUs as Linux writes it, `0-3,8,10-11`, in the order written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuList<'a>(&'a str);

impl<'a> CpuList<'a> {
    /// Reads a list. `None` where the text has another form, is empty, names a CPU of [`MAX_CPUS`] or above, or names
    /// more than [`MAX_CPUS`] of them, the same ones again and again.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?.trim();
        let count = text.split(',').try_fold(0, |count, part| {
            let range = Self::range(part)?;
            Some(count + range.end() - range.start() + 1).filter(|count| *count <= MAX_CPUS)
        });
        count.map(|_| CpuList(text))
    }

    fn range(part: &str) -> Option<core::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse().ok()?..=last.parse().ok()?;
        (range.start() <= range.end() && *range.end() < MAX_CPUS).then_some(range)
    }

    /// The CPUs, in the order written.
    pub fn cpus(self) -> impl Iterator<Item = usize> + 'a {
        self.0.split(',').filter_map(Self::range).flatten()
    }
}

/// Rank of each CPU on the route plus one; 0 for those that are not on it.
static RANK_OF_CPU: [AtomicU16; MAX_CPUS] = [const { AtomicU16::new(0) }; MAX_CPUS];
/// Positions on the route; 0 while there is none.
static RANKS: AtomicU32 = AtomicU32::new(0);

/// Makes [`crate::Native`] follow `route`: the first CPU gets rank 0, the next one 1, and so on. If there are more
/// than [`MAX_RANKS`], neighbours share a rank; a CPU that is not on the route shares that of another one. Called
/// before locks are used: a RON lock that is held meanwhile may lose its waiters.
pub fn set_route(route: impl IntoIterator<Item = usize>) {
    // Relaxed throughout: set while the process has one thread.
    RANK_OF_CPU.iter().for_each(|rank| rank.store(0, Ordering::Relaxed));
    let mut count = 0;
    for rank in route.into_iter().filter_map(|cpu| RANK_OF_CPU.get(cpu)) {
        if rank.load(Ordering::Relaxed) == 0 {
            count += 1;
            rank.store(count, Ordering::Relaxed);
        }
    }
    let most = MAX_RANKS as u16;
    if count > most {
        let shared = |rank: u16| (u32::from(rank - 1) * u32::from(most) / u32::from(count)) as u16 + 1;
        let ranks = RANK_OF_CPU.iter().filter(|rank| rank.load(Ordering::Relaxed) != 0);
        ranks.for_each(|rank| rank.store(shared(rank.load(Ordering::Relaxed)), Ordering::Relaxed));
    }
    RANKS.store(count.min(most).into(), Ordering::Relaxed);
}

/// The number of positions on the route, if there is one.
#[inline]
pub(crate) fn ranks() -> Option<u32> {
    // Relaxed, here and below: set while the process has one thread.
    Some(RANKS.load(Ordering::Relaxed)).filter(|ranks| *ranks != 0)
}

/// The position of `cpu`, if it is on the route.
#[inline]
pub fn rank_of(cpu: u32) -> Option<u32> {
    u32::from(RANK_OF_CPU.get(cpu as usize)?.load(Ordering::Relaxed)).checked_sub(1)
}

/// Makes [`crate::Native`] count the CPUs in the list as big and all others as little, from now on.
pub fn set_big(cpus: CpuList<'_>) {
    let place = |word: &AtomicU32| Place(word.load(Ordering::Relaxed));
    OWN.iter().for_each(|word| word.store(place(word).with_kind(CoreKind::Little).0, Ordering::Relaxed));
    for word in cpus.cpus().map(|cpu| &OWN[cpu]) {
        word.store(place(word).with_kind(CoreKind::Big).0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_in_order_and_nonsense_is_refused() {
        let cpus = |text: &str| CpuList::parse(text.as_bytes()).map(|list| list.cpus().collect::<std::vec::Vec<_>>());
        assert_eq!(cpus("0-2,8,5-6\n"), Some(std::vec![0, 1, 2, 8, 5, 6]));
        for nonsense in ["", "a", "3-1", "4096", "1,,2", "1-", "0-4294967295", "0-4095,0"] {
            assert_eq!(cpus(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_route_ranks_its_cpus() {
        set_route(CpuList::parse(b"2,0,2").unwrap().cpus());
        assert_eq!([0, 1, 2, 4096].map(rank_of), [Some(1), None, Some(0), None]);
        assert_eq!(ranks(), Some(2));
        // Neighbours on a long route share a rank, and no rank is left out.
        set_route((0..1000).rev());
        assert_eq!(([999, 996, 995, 0].map(rank_of), ranks()), ([Some(0), Some(0), Some(1), Some(255)], Some(256)));
        let steps: std::vec::Vec<u32> = (0..999).map(|cpu| rank_of(cpu).unwrap() - rank_of(cpu + 1).unwrap()).collect();
        assert!(steps.iter().all(|step| *step <= 1));
    }

    #[test]
    fn groups_that_share_an_entry_are_neighbours() {
        for count in 1..=300 {
            let numbers: std::vec::Vec<u32> = (0..count).map(|rank| group_number(rank, count)).collect();
            assert!((0..count).all(|number| number < 4096 && numbers.iter().filter(|n| **n == number).count() <= 1));
            for entries in [8, 16, 64] {
                let entry = |rank: u32| numbers[rank as usize] % entries;
                // Whoever shares an entry with another one shares it with all in between, and no entry has two more
                // than another one has.
                let mut sharers = [0; 64];
                for rank in 0..count {
                    sharers[entry(rank) as usize] += 1;
                    let last = (rank..count).rev().find(|other| entry(*other) == entry(rank)).unwrap();
                    assert!(
                        (rank..=last).all(|between| entry(between) == entry(rank)),
                        "{rank} of {count} in {entries}"
                    );
                }
                let used = sharers.iter().filter(|sharers| **sharers != 0);
                assert!(used.clone().max().unwrap() - used.min().unwrap() <= 1, "{count} groups in {entries}");
            }
        }
        assert_eq!([0, 1, 2, 3].map(|rank| group_number(rank, 16)), [0, 8, 4, 12]);
    }

    #[test]
    fn a_place_says_where_a_cpu_is_in_the_hierarchy() {
        assert_eq!(Place::default().hierarchy(), None);
        let place = Place::new(7, 9, CoreKind::Little);
        assert_eq!(place.hierarchy(), Some(Hierarchy { inner: 7, outer: None }));
        let nested = place.with_hierarchy(true, Some(99));
        assert_eq!(nested.hierarchy(), Some(Hierarchy { inner: 9, outer: Some(30) }));
        assert_eq!((nested.group(), nested.llc(), nested.kind()), (Some(7), Some(9), CoreKind::Little));
        assert_eq!(nested.with_hierarchy(false, Some(0)).hierarchy(), Some(Hierarchy { inner: 7, outer: Some(0) }));
        assert_eq!(nested.with_hierarchy(false, None), place);
    }

    #[test]
    fn a_place_is_what_was_set_last() {
        let of = |cpu| (place(cpu).group(), place(cpu).llc(), place(cpu).kind());
        assert_eq!(of(0), (None, None, CoreKind::Big));
        assert_eq!(of(4096), (None, None, CoreKind::Big));
        set_place(3, Place::new(7, 4095, CoreKind::Little));
        assert_eq!(of(3), (Some(7), Some(4095), CoreKind::Little));
        set_big(CpuList::parse(b"0-1,64").unwrap());
        assert_eq!([0, 2, 64].map(|cpu| of(cpu).2), [CoreKind::Big, CoreKind::Little, CoreKind::Big]);
        assert_eq!(of(3).0, Some(7));
        set_override(TopologyOverride { nodes: 2, cpus_per_node: 2 });
        assert_eq!([0, 2, 3, 4].map(|cpu| of(cpu).0), [Some(0), Some(1), Some(1), None]);
        assert_eq!(of(3), (Some(1), Some(1), CoreKind::Little));
    }
}
