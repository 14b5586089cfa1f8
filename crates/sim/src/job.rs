//! One run: a workload on a lock of the catalogue on a machine.

use crate::crew::{attempt, Simulated};
use crate::engine::{Stuck, Totals};
use crate::epochs::Epochs;
use crate::glibc;
use crate::kernel;
use crate::machine::Machine;
use crate::platform::{choose_settings, set_longest_window};
use crate::Sim;
use lockswap_locks::named::{self, Named, Wrong};
use lockswap_locks::parameters::Setting;
use lockswap_locks::registry::{self, Entry, Role, ENTRIES, PTHREAD, PTHREAD_ADAPTIVE};
use lockswap_locks::{for_each_lock, RawLock, RawRwLock};
use lockswap_platform::{window::LONGEST, Ns};
use lockswap_workloads::direct::{Apart, Direct, DirectRw};
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{bursts, calls, counter, epochs, kv, locktorture, ncs, phases, readers, shares};
use lockswap_workloads::{Mutex, ReadWrite};
use std::any::Any;
use std::fmt;

/// A run to make.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Where.
    pub machine: &'a Machine,
    /// What.
    pub workload: Workload,
    /// The id of the lock, with its parameters: `asl:max-window=1ms`.
    pub lock: &'a str,
    /// The seed of all chance.
    pub seed: u64,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The workload's numbers.
    pub report: Report,
    /// What the simulation took.
    pub totals: Totals,
    /// CPU time of the host, ns.
    pub cpu_time: Ns,
}

/// Why a run gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The catalogue has no such lock.
    NoSuchLock,
    /// The lock is one of the kernel's, and there are more threads than CPUs: it would be used by threads that are
    /// preempted.
    Preempted,
    /// The lock stopped all threads.
    Stuck(Stuck),
}

/// In words for people, in several lines where threads are named.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        let (what, threads) = match self {
            Failure::NoSuchLock => return f.write_str("no such lock"),
            Failure::Preempted => {
                return f
                    .write_str("a lock of the kernel's is for threads that nobody preempts: at most one on each CPU");
            }
            Failure::Stuck(Stuck::Deadlock(threads)) => ("deadlock: nothing will happen any more", threads),
            Failure::Stuck(Stuck::Livelock(threads)) => {
                ("livelock: threads go on and on, and none comes to its end", threads)
            }
            Failure::Stuck(Stuck::Late(threads)) => {
                ("no end: 100 s of virtual time after the measurement threads still run", threads)
            }
        };
        f.write_str(what)?;
        threads.iter().take(SHOWN).try_for_each(|line| write!(f, "\n  {line}"))?;
        match threads.len().checked_sub(SHOWN + 1) {
            Some(rest) => write!(f, "\n  and {} more", rest + 1),
            None => Ok(()),
        }
    }
}

/// A mutex of any type: the workloads are compiled once for all locks.
trait AnyMutex: Sync {
    fn thread(&self) -> Box<dyn Any>;
    fn lock(&self, me: &mut dyn Any);
    fn unlock(&self, me: &mut dyn Any);
}

impl<M: Mutex<Thread: 'static>> AnyMutex for Apart<M> {
    fn thread(&self) -> Box<dyn Any> {
        Box::new(self.0.thread())
    }
    fn lock(&self, me: &mut dyn Any) {
        self.0.lock(me.downcast_mut().expect("its own"));
    }
    fn unlock(&self, me: &mut dyn Any) {
        self.0.unlock(me.downcast_mut().expect("its own"));
    }
}

impl Mutex for Box<dyn AnyMutex> {
    type Thread = Box<dyn Any>;
    fn thread(&self) -> Box<dyn Any> {
        (**self).thread()
    }
    fn lock(&self, me: &mut Box<dyn Any>) {
        (**self).lock(&mut **me);
    }
    fn unlock(&self, me: &mut Box<dyn Any>) {
        (**self).unlock(&mut **me);
    }
}

/// The ids of the locks that any workload can be simulated with: those of the catalogue, and glibc's mutexes.
pub fn locks(role: Role) -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().filter(move |entry| entry.role == role && is_simulated(entry)).map(|entry| entry.info.id)
}

/// The lock that `text` names among [`locks`] and those of the [`kernel`], with parameters behind its id or without.
pub fn find_lock(role: Role, text: &str) -> Option<Named> {
    read_lock(role, text.trim()).ok()
}

/// The same as [`find_lock`].
///
/// # Errors
/// What is wrong with the text.
pub fn read_lock(role: Role, text: &str) -> Result<Named, Wrong<'_>> {
    let of_programs = |id: &str| registry::find(role, id).filter(|entry| is_simulated(entry));
    named::read_among(|id| of_programs(id).or_else(|| registry::find_in(kernel::ENTRIES, role, id)), text)
}

fn is_simulated(entry: &Entry) -> bool {
    let is_glibcs = entry.role == Role::Mutex && [PTHREAD, PTHREAD_ADAPTIVE].contains(&entry.info.id);
    !entry.path.is_empty() || is_glibcs
}

/// Whether the lock is one of the kernel's.
fn is_kernels(id: &str) -> bool {
    kernel::ENTRIES.iter().any(|entry| entry.info.id == id)
}

/// A new mutex, or a spinlock of the kernel's.
fn mutex(id: &str) -> Option<Box<dyn AnyMutex>> {
    fn make<L: RawLock<Sim>>() -> Box<dyn AnyMutex> {
        Box::new(Apart(Direct::<Sim, L>::new()))
    }
    macro_rules! dispatch {
        (mutex { $($id:literal => $lock:path,)* } rwlock { $($rwlocks:tt)* } spin { $($spins:tt)* }) => {
            match id {
                $($id => {
                    use $lock as Lock;
                    Some(make::<Lock<Sim>>())
                })*
                PTHREAD => Some(make::<glibc::Mutex<Sim, false>>()),
                PTHREAD_ADAPTIVE => Some(make::<glibc::Mutex<Sim, true>>()),
                "qspinlock" => Some(make::<kernel::queued::Native<Sim>>()),
                "qspinlock-cna" => Some(make::<kernel::cna::QspinlockCna<Sim>>()),
                "qspinlock-shfl" => Some(make::<kernel::shfl::QspinlockShfl<Sim>>()),
                "qspinlock-ron" => Some(make::<kernel::ron::QspinlockRon<Sim>>()),
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

/// A new read-write lock of the catalogue.
fn rwlock(id: &str) -> Option<Box<dyn ReadWrite>> {
    fn make<L: RawRwLock<Sim>>() -> Box<dyn ReadWrite> {
        Box::new(Apart(DirectRw::<Sim, L>::new()))
    }
    macro_rules! dispatch {
        (mutex { $($mutexes:tt)* } rwlock { $($id:literal => $lock:path,)* } spin { $($spins:tt)* }) => {
            match id {
                $($id => {
                    use $lock as Lock;
                    Some(make::<Lock<Sim>>())
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

impl Job<'_> {
    /// Makes the run.
    ///
    /// # Errors
    /// Why there is no result.
    pub fn run(&self) -> Result<Finished, Failure> {
        let role = self.workload.role();
        let lock = find_lock(role, self.lock).ok_or(Failure::NoSuchLock)?;
        let (id, longest) = (lock.entry.info.id, self.longest_window(&lock));
        if is_kernels(id) && self.workload.threads() > self.machine.cpu_count() {
            return Err(Failure::Preempted);
        }
        choose_settings(lock.settings());
        if let Workload::Readers(config) = &self.workload {
            let lock = rwlock(id).ok_or(Failure::NoSuchLock)?;
            return self.measure(longest, |crew| readers::run::<Sim, _>(config, crew, &lock));
        }
        let mutexes =
            (0..self.workload.locks()).map(|_| mutex(id)).collect::<Option<Vec<_>>>().ok_or(Failure::NoSuchLock)?;
        let mutex = &mutexes[0];
        self.measure(longest, |crew| match &self.workload {
            Workload::Counter(config) => counter::run::<Sim, _>(config, crew, mutex),
            Workload::Kv(config) => kv::run::<Sim, _>(config, crew, mutex),
            Workload::Ncs(config) => ncs::run::<Sim, _>(config, crew, mutex),
            Workload::Epochs(config) => epochs::run::<Sim, _>(config, crew, &mutexes, &Epochs::new(longest)),
            Workload::Shares(config) => shares::run::<Sim, _>(config, crew, mutex),
            Workload::Bursts(config) => bursts::run::<Sim, _>(config, crew, mutex),
            Workload::Phases(config) => phases::run::<Sim, _>(config, crew, mutex),
            Workload::Locktorture(config) => locktorture::run::<Sim, _>(config, crew, mutex),
            Workload::Calls(config) => calls::run::<Sim, _>(config, crew, &mutexes),
            Workload::Readers(_) => unreachable!("those have run"),
        })
    }

    /// The largest reorder window, ns: the lock's own, else the workload's.
    fn longest_window(&self, lock: &Named) -> Ns {
        let of_workload = match &self.workload {
            Workload::Epochs(config) => config.window,
            _ => None,
        };
        lock.value(Setting::MaxWindow).or(of_workload).unwrap_or(LONGEST)
    }

    fn measure(&self, longest: Ns, run: impl FnOnce(&Simulated<'_>) -> Report) -> Result<Finished, Failure> {
        let crew = Simulated::new(self.machine, self.seed);
        let started = cpu_time();
        set_longest_window(longest);
        let report = attempt(|| run(&crew)).map_err(Failure::Stuck);
        set_longest_window(LONGEST);
        let report = report?;
        Ok(Finished { report, totals: crew.totals(), cpu_time: cpu_time() - started })
    }
}

/// CPU time of the calling thread, ns.
pub fn cpu_time() -> Ns {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}
