//! The threads of this machine.

use crate::affinity;
use crate::crew::{Crew, Member, Place, Signal, Timing};
use lockswap_platform::{Clock, CoreKind, Native, Ns, Platform};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A place for a thread.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Seat {
    /// The CPU.
    pub cpu: usize,
    /// How many times the work a thread does there.
    pub pace: f64,
}

/// Threads of this process.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// Thread i is pinned to seat i, and again from the first when all are taken; without seats threads go where the
    /// kernel sends them.
    pub seats: Vec<Seat>,
    /// Where the CPUs lie, by number; a CPU beyond the end has everything to itself.
    pub places: Vec<Place>,
    /// What the chances of the workload follow.
    pub seed: u64,
    /// So many threads, the first ones, have the real-time policy `SCHED_FIFO`.
    pub realtime: usize,
    /// CPU time of the process in the measured time of the first run, ns.
    pub cpu_time: OnceLock<Ns>,
}

/// Gives the calling thread the lowest priority of `SCHED_FIFO`, which is above that of all ordinary threads.
///
/// # Errors
/// The process has no right to.
pub fn become_realtime() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter outlives the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// CPU time of this process, ns.
fn cpu_time() -> Ns {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}

/// Lets locks that are called directly find the platform as in a program that has loaded the preload library.
fn prepare_platform() {
    // It looks once at how many CPUs there are: before a thread is pinned to one.
    Native::has_one_cpu();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "0"])) {
        Native::allow_settling(true);
    }
}

impl Crew for Hardware {
    fn run(&self, threads: usize, timing: Timing, body: &(dyn Fn(&Member<'_>) + Sync)) -> Ns {
        prepare_platform();
        let signal = Signal::default();
        let start = Barrier::new(threads + 1);
        std::thread::scope(|scope| {
            for number in 0..threads {
                let (signal, start) = (&signal, &start);
                let seat = self.seats.get(number % self.seats.len().max(1)).copied();
                scope.spawn(move || {
                    let pinned = seat.map_or(Ok(()), |seat| affinity::pin(&[seat.cpu]));
                    let ranked = if number < self.realtime { become_realtime() } else { Ok(()) };
                    let pace = seat.map_or(1.0, |seat| seat.pace);
                    let kind = if pace > 1.0 { CoreKind::Little } else { Native::kind() };
                    start.wait();
                    if let Err(error) = pinned {
                        panic!("cannot pin a thread to {seat:?}: {error}");
                    }
                    if let Err(error) = ranked {
                        panic!("cannot give a thread a real-time priority: {error}");
                    }
                    body(&Member { number, pace, kind, signal, seed: self.seed });
                });
            }
            start.wait();
            std::thread::sleep(Duration::from_nanos(timing.warm_up));
            let (began, spent) = (Instant::now(), cpu_time());
            signal.advance(Native::now(Clock::Monotonic));
            std::thread::sleep(Duration::from_nanos(timing.duration));
            signal.advance(Native::now(Clock::Monotonic));
            let elapsed = began.elapsed().as_nanos() as Ns;
            // That of an earlier run stays.
            let _ = self.cpu_time.set(cpu_time() - spent);
            elapsed
        })
    }

    fn place(&self, cpu: u32) -> Place {
        let apart = Place { core: cpu, llc: u32::MAX - cpu, node: u32::MAX - cpu };
        self.places.get(cpu as usize).copied().unwrap_or(apart)
    }

    fn be_nice(&self, nice: u32) {
        if nice > 0 {
            // SAFETY: takes numbers only; 0 is the calling thread.
            let answer = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice as i32) };
            assert!(answer == 0, "cannot give a thread nice value {nice}: {}", std::io::Error::last_os_error());
        }
    }
}
