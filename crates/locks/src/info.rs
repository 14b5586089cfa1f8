//! What is known about a lock before it runs: the facts behind `lockswap list`, the docs and the preload table.

/// The group a lock's design belongs to; also the folder its source lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// glibc's own implementation.
    Native,
    /// One lock for all programs, which takes something of most others.
    Auto,
    /// All waiters watch one word.
    Flat,
    /// Waiters form a queue and each watches its own word.
    Queue,
    /// A queue that prefers waiters of the holder's NUMA node.
    Numa,
    /// Some waiters are set aside so that fewer compete.
    LoadControl,
    /// Waiters reorder the queue while they wait (ShflLock).
    Shuffle,
    /// Big cores may overtake little ones (LibASL).
    Asymmetric,
    /// The lock travels along a route through the CPUs (RON).
    Routed,
    /// The lock's time is shared out among the threads (u-SCL).
    Shares,
    /// Shared and exclusive modes.
    ReadWrite,
}

impl Family {
    /// The name shown to users, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Native => "native",
            Family::Auto => "auto",
            Family::Flat => "flat",
            Family::Queue => "queue",
            Family::Numa => "numa",
            Family::LoadControl => "load-control",
            Family::Shuffle => "shuffle",
            Family::Asymmetric => "asymmetric",
            Family::Routed => "routed",
            Family::Shares => "shares",
            Family::ReadWrite => "rw",
        }
    }

    /// What the locks of the group have in common, lower case.
    pub const fn meaning(self) -> &'static str {
        match self {
            Family::Native => "glibc's own",
            Family::Auto => "few threads compete, the others sleep until they are called",
            Family::Flat => "all waiters watch one word, or an array of them",
            Family::Queue => "waiters form a queue and each watches its own word",
            Family::Numa => "waiters of the holder's NUMA node go first, within bounds",
            Family::LoadControl => "some waiters are set aside so that fewer compete",
            Family::Shuffle => "waiters reorder the queue while they wait",
            Family::Asymmetric => "big cores may overtake little ones, within bounds",
            Family::Routed => "the lock travels along a route through the CPUs",
            Family::Shares => "the time of the lock is shared out among the threads, by their weights",
            Family::ReadWrite => "shared and exclusive modes",
        }
    }
}

/// What a waiter does while the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingPolicy {
    /// Spins; after a stated bound it yields, then naps, so that a holder of lower priority can run.
    Spin,
    /// Spins for a fixed bounded time, then sleeps in the kernel until it is woken.
    SpinThenPark,
    /// As spin-then-park, but the time to spin is learnt from experience.
    Adaptive,
}

impl WaitingPolicy {
    /// The name shown to users, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            WaitingPolicy::Spin => "spin",
            WaitingPolicy::SpinThenPark => "spin-then-park",
            WaitingPolicy::Adaptive => "adaptive",
        }
    }
}

/// The order in which waiters are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// No order: a newcomer may overtake, without bound.
    Unfair,
    /// First come, first served.
    Fifo,
    /// While a thread waits in the queue, each other thread acquires at most this many times.
    Bounded(u32),
    /// Overtaking is possible but every waiter is served eventually.
    LongTerm,
}

impl Fairness {
    /// The name shown to users, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Fairness::Unfair => "unfair",
            Fairness::Fifo => "fifo",
            Fairness::Bounded(_) => "bounded",
            Fairness::LongTerm => "long-term",
        }
    }
}

/// How a timed acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The algorithm itself can give up waiting.
    Native,
    /// Repeated try-acquisitions with bounded naps until the deadline; such a waiter takes no place in the queue.
    Poll,
}

impl Timed {
    /// The name shown to users, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Timed::Native => "native",
            Timed::Poll => "poll",
        }
    }
}

/// Whether the waiter of the highest real-time priority can be served first, as POSIX demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByPriority {
    /// Waiters sleep on one word, and the kernel wakes the one of the highest priority; one that has not gone to sleep
    /// yet may overtake.
    Kernel,
    /// A release leaves the lock free although others wait, so that a waiter outside their queue can take it.
    Barging,
    /// A release hands the lock to the next in the queue, whatever its priority.
    No,
}

impl ByPriority {
    /// The name shown to users, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            ByPriority::Kernel => "kernel",
            ByPriority::Barging => "barging",
            ByPriority::No => "no",
        }
    }

    /// What becomes of a waiter of real-time priority, lower case.
    pub const fn meaning(self) -> &'static str {
        match self {
            ByPriority::Kernel => "waiters sleep on one word, and the kernel wakes the one of the highest priority",
            ByPriority::Barging => "a release leaves the lock free, so that a waiter outside the queue can take it",
            ByPriority::No => "a release hands the lock to the next in the queue, whatever its priority",
        }
    }
}

/// What a lock asks the platform about the CPU that it runs on, and about the thread, over and over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// The locality group or the last-level-cache group.
    pub locality: bool,
    /// The kind of the core.
    pub kind: bool,
    /// The same, where programs have epochs; elsewhere the answer makes no difference.
    pub kind_in_epochs: bool,
    /// The place on the route through the CPUs.
    pub route: bool,
    /// The same, if the user has named a route or had it measured; without one the lock takes CPUs by their numbers.
    pub route_if_known: bool,
    /// How long the thread may stand back: targets of epochs mean something to this lock.
    pub epoch: bool,
}

impl Asks {
    /// Nothing.
    pub const NOTHING: Self =
        Asks { locality: false, kind: false, kind_in_epochs: false, route: false, route_if_known: false, epoch: false };
    /// The locality group.
    pub const LOCALITY: Self = Asks { locality: true, ..Self::NOTHING };
    /// The kind of the core.
    pub const KIND: Self = Asks { kind: true, ..Self::NOTHING };
    /// The place on the route.
    pub const ROUTE: Self = Asks { route: true, ..Self::NOTHING };
    /// The place on a route that is known.
    pub const KNOWN_ROUTE: Self = Asks { route_if_known: true, ..Self::NOTHING };
    /// The kind of the core, and how long to stand back on a little one.
    pub const EPOCH: Self = Asks { kind: true, epoch: true, ..Self::NOTHING };
    /// The same in an epoch, and nothing outside.
    pub const EPOCH_ONLY: Self = Asks { kind_in_epochs: true, epoch: true, ..Self::NOTHING };

    /// What is asked where programs have epochs.
    pub const fn in_epochs(self) -> Self {
        Asks { kind: self.kind || self.kind_in_epochs, ..self }
    }

    /// Whether the lock asks for anything but the route, which stays as it is while a program runs.
    pub const fn any_place(self) -> bool {
        self.locality || self.kind
    }

    /// What two locks ask together.
    pub const fn and(self, other: Self) -> Self {
        Asks {
            locality: self.locality || other.locality,
            kind: self.kind || other.kind,
            kind_in_epochs: self.kind_in_epochs || other.kind_in_epochs,
            route: self.route || other.route,
            route_if_known: self.route_if_known || other.route_if_known,
            epoch: self.epoch || other.epoch,
        }
    }
}

/// The facts about one lock algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The published name, in lower case: the id used on the command line.
    pub id: &'static str,
    /// The design group.
    pub family: Family,
    /// What waiters do.
    pub waiting: WaitingPolicy,
    /// In which order waiters are served.
    pub fairness: Fairness,
    /// How timed acquisitions work.
    pub timed: Timed,
    /// One line that says what the algorithm does.
    pub summary: &'static str,
    /// Author, venue and year, with the figure or algorithm number.
    pub paper: &'static str,
    /// What the lock asks about CPUs, so that nobody reads the machine for one that does not care: the test
    /// `crates/locks/tests/asks.rs` compares this with what locks do.
    pub asks: Asks,
    /// Whether real-time waiters can be served by priority: `crates/locks/tests/priorities.rs` compares mutexes with
    /// this.
    pub by_priority: ByPriority,
    /// Whether the lock stays fast with more running threads than CPUs: no hand-off has to wait for a thread that
    /// spins without a CPU.
    ///
    /// That is so where whoever runs may take a free lock, be the others asleep or not. With `lockswap bench oversub`,
    /// 16 or 32 threads on 2 CPUs, an acquisition of a spinning lock that keeps up takes at most 2.4 of glibc's time,
    /// that of any other, but for `fissile` and `hbo`, 4 (`mcs-timepub`), 8 (`ahmcs`) or 16 to 900. 10,000 threads
    /// that queue for a held lock that keeps up are served within seconds; that is why `fissile` and `hbo`, where
    /// thousands of waiters queue, do not count as such.
    pub keeps_up: bool,
}

impl LockInfo {
    /// What holds for most locks, and what a lock's own facts begin from: it asks nothing, serves nobody by priority,
    /// and does not keep up.
    pub const PLAIN: Self = LockInfo {
        id: "",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: "",
        paper: "",
        asks: Asks::NOTHING,
        by_priority: ByPriority::No,
        keeps_up: false,
    };
}
