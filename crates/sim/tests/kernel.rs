//! The kernel's spinlocks on simulated machines. `tests/kernel.rs` of `crates/check` has them in the explorer.

use lockswap_locks::RawLock;
use lockswap_platform::{Ns, Platform};
use lockswap_sim::kernel::cna::QspinlockCna;
use lockswap_sim::kernel::queued::Native;
use lockswap_sim::kernel::ron::QspinlockRon;
use lockswap_sim::kernel::shfl::QspinlockShfl;
use lockswap_sim::{attempt, Failure, Job, Machine, Sim, Simulated, Workload};
use lockswap_workloads::crew::{gather, Timing};
use std::sync::Mutex;

const ALL: [&str; 4] = ["qspinlock", "qspinlock-cna", "qspinlock-shfl", "qspinlock-ron"];

fn machine(id: &str) -> Machine {
    Machine::built_in(id, &[]).unwrap_or_else(|error| panic!("{id}: {error}"))
}

fn run(machine: &Machine, workload: &str, threads: usize, duration: Ns, lock: &str) -> Result<f64, Failure> {
    let workload = Workload::named(workload).expect("a known workload").with(threads, duration);
    Job { machine, workload, lock, seed: 3 }.run().map(|finished| finished.report.throughput)
}

#[test]
fn the_kernels_locks_exclude_in_all_of_its_workloads() {
    let xeon = machine("xeon-e5-2699v3");
    for lock in ALL {
        for workload in ["locktorture", "lock1", "lock2", "open1", "open2"] {
            let few = run(&xeon, workload, 2, 500_000, lock).expect("a run");
            let many = run(&xeon, workload, 72, 500_000, lock).expect("a run");
            assert!(few > 1e5 && many > 1e5, "{lock} in {workload}: {few} and {many} a second");
        }
    }
}

#[test]
fn a_lock_of_the_kernels_is_not_for_threads_that_share_cpus() {
    let m1 = machine("apple-m1");
    assert_eq!(run(&m1, "locktorture", 9, 1_000_000, "qspinlock"), Err(Failure::Preempted));
    assert!(run(&m1, "locktorture", 8, 1_000_000, "qspinlock").is_ok());
}

/// The machine of `handovers.txt`: 3 nodes of 4 CPUs, and a route that goes from CPU to CPU in steps of 5.
fn machine_of_handovers() -> Machine {
    const TOPOLOGY: &str = "\
cpus = 12
sockets = 3
clusters = [{ kind = \"core\", cores = 4 }]
placement = \"ascending\"
route = [0, 5, 10, 3, 8, 1, 6, 11, 4, 9, 2, 7]
";
    let text = Machine::file("xeon-e5-2699v3").expect("it comes along");
    let (head, rest) = text.split_once("[topology]\n").expect("its topology");
    let (_, kinds) = rest.split_once("[[kind]]").expect("its kinds");
    let text = format!("{head}[topology]\n{TOPOLOGY}[[kind]]{}", kinds.replace("threads = 2", "threads = 1"));
    Machine::parse("handovers", &text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// Between two events, ns: all that follows from one is over.
const STEP: Ns = 10_000;
/// Longer than the bound on unfairness, which all steps of a pattern together are not, ns.
const LONG: Ns = 2_000_000;

/// What happens when, from the start of a pattern, ns.
struct Pattern {
    /// Of each CPU, when it comes.
    arrivals: Vec<Vec<Ns>>,
    releases: Vec<Ns>,
    end: Ns,
}

impl Pattern {
    fn read(events: &str) -> Self {
        let mut pattern = Pattern { arrivals: vec![Vec::new(); 12], releases: Vec::new(), end: 0 };
        for event in events.split_whitespace() {
            pattern.end += STEP;
            match event {
                "-" => pattern.releases.push(pattern.end),
                "+" => pattern.end += LONG,
                cpu => pattern.arrivals[cpu.parse::<usize>().expect("a CPU")].push(pattern.end),
            }
        }
        pattern
    }

    /// The CPUs that get a lock, in that order.
    fn handovers<L: RawLock<Sim, Ctx = ()>>(&self, machine: &Machine) -> Vec<usize> {
        let (lock, taken, crew) = (L::new(), Mutex::new(Vec::new()), Simulated::new(machine, 1));
        // All threads have started by then.
        let begin = 1_000_000;
        let wait_until = |at: Ns| Sim::keep_busy((begin + at).saturating_sub(Sim::measured_now()));
        let finished = attempt(|| {
            gather(&crew, 12, Timing { warm_up: 0, duration: begin + self.end }, |member| {
                for &arrival in &self.arrivals[member.number] {
                    wait_until(arrival);
                    // SAFETY: the lock needs no context.
                    unsafe { lock.lock(&()) };
                    let place = {
                        let mut taken = taken.lock().expect("no thread panicked");
                        taken.push(member.number);
                        taken.len() - 1
                    };
                    wait_until(self.releases[place]);
                    // SAFETY: held.
                    unsafe { lock.unlock(&()) };
                }
            });
        });
        finished.expect("it ends");
        taken.into_inner().expect("no thread panicked")
    }
}

/// `kernel/usim/handovers.c` has made the file: it runs the kernel's own code with the patches.
#[test]
fn the_kernels_locks_serve_whom_the_patched_kernel_serves() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/usim/handovers.txt");
    let recorded = std::fs::read_to_string(recorded).expect("the file of the repository");
    let machine = machine_of_handovers();
    let (mut patterns, mut not_in_order) = (0, 0);
    for line in recorded.lines() {
        let (order, rest) = line.split_once(' ').expect("an order");
        let (events, expected) = rest.split_once(" = ").expect("who gets the lock");
        let pattern = Pattern::read(events);
        let handovers = match order {
            "native" => pattern.handovers::<Native<Sim>>(&machine),
            "cna" => pattern.handovers::<QspinlockCna<Sim>>(&machine),
            "shfl" => pattern.handovers::<QspinlockShfl<Sim>>(&machine),
            "ron" => pattern.handovers::<QspinlockRon<Sim>>(&machine),
            order => panic!("an unknown order {order}"),
        };
        let found = handovers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(found, expected, "{order} {events}");
        let arrivals = events.split_whitespace().filter(|event| event.parse::<u32>().is_ok());
        not_in_order += usize::from(order != "native" && arrivals.collect::<Vec<_>>().join(" ") != expected);
        patterns += 1;
    }
    assert!(patterns >= 300 && not_in_order * 2 > patterns, "{not_in_order} of {patterns} patterns show an order");
}
