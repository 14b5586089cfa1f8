//! Threads of the operating system, which see when the others have come to rest.

use crate::Threads;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the other threads: longer than a wait's longest nap, so that a thread that sleeps at two looks
/// has looked at the lock in between, unless it is parked.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// At least so often a thread must be seen asleep: it may also sleep once or twice for reasons of its own, while an
/// emulator translates its code, say.
const FEWEST_LOOKS: usize = 30;

/// Far longer than one check takes, also in an emulator.
const LIMIT: Duration = Duration::from_secs(180);

/// The thread has not begun.
const TO_COME: u32 = 0;
/// The thread has ended.
const ENDED: u32 = u32::MAX;

thread_local! {
    static CREW: RefCell<Crew> = RefCell::default();
    /// The calling thread's entry in its crew, and its number.
    static MEMBER: RefCell<Option<(Arc<AtomicU32>, u32)>> = const { RefCell::new(None) };
}

/// Threads that wait for each other. Clones are the same crew.
#[derive(Clone, Default)]
pub struct Crew {
    /// The number that the system gave each thread, or [`TO_COME`], or [`ENDED`].
    members: Arc<Mutex<Vec<Arc<AtomicU32>>>>,
}

/// Says that a thread has ended, also if it panics.
struct Membership(Arc<AtomicU32>);

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.store(ENDED, SeqCst);
    }
}

impl Crew {
    /// What a thread of the crew shall do, for `spawn`.
    pub fn member<R>(&self, body: impl FnOnce() -> R) -> impl FnOnce() -> R {
        self.newcomer(|| {
            come();
            body()
        })
    }

    /// The same for a thread that is not at rest before it has called [`come`]: until then it may sleep for other
    /// reasons than the lock, to allocate memory, say, while another thread does.
    pub fn newcomer<R>(&self, body: impl FnOnce() -> R) -> impl FnOnce() -> R {
        let thread = Arc::new(AtomicU32::new(TO_COME));
        let crew = self.clone();
        crew.members.lock().unwrap_or_else(PoisonError::into_inner).push(thread.clone());
        move || {
            MEMBER.set(Some((thread.clone(), own_number())));
            CREW.set(crew);
            let _membership = Membership(thread);
            body()
        }
    }

    /// Waits until each other member has ended or waits, and has done what its wait lets it do: those who wait may put
    /// the queue in order one after the other.
    ///
    /// Who waits for a lock leaves the CPU in the end, to park or to nap between two looks at the lock. So every other
    /// thread must be seen asleep once for each member, and [`FEWEST_LOOKS`] times, however slow the machine is.
    ///
    /// # Panics
    /// If a thread does not come to rest.
    pub fn settle(&self) {
        let end = Instant::now() + LIMIT / 2;
        let own = own_number();
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..members.len().max(FEWEST_LOOKS) {
            for other in &members {
                while !is_at_rest(other.load(SeqCst), own) {
                    assert!(Instant::now() < end, "thread {} does not leave the CPU", other.load(SeqCst));
                    std::thread::sleep(BETWEEN_LOOKS);
                }
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

/// The calling thread has nothing left to do before it waits.
pub fn come() {
    MEMBER.with_borrow(|member| member.iter().for_each(|(thread, number)| thread.store(*number, SeqCst)));
}

/// The number that the system gave the calling thread.
fn own_number() -> u32 {
    let path = std::fs::read_link("/proc/thread-self").expect("Linux, with /proc");
    path.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("PID/task/TID")
}

fn is_at_rest(thread: u32, own: u32) -> bool {
    if thread == TO_COME || thread == ENDED || thread == own {
        return thread != TO_COME;
    }
    // `TID (NAME) STATE ...`, where the name may hold anything. A thread that ends meanwhile has no file, and says so.
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// [`Threads`] of the operating system. A run that hangs ends the process.
pub struct System;

impl Threads for System {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        let what = std::thread::current().name().unwrap_or_default().to_owned();
        let (done, watch) = mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if watch.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{what} hangs; --nocapture shows the lock");
                std::process::abort();
            }
        });
        let crew = Crew::default();
        std::thread::scope(|scope| {
            for body in bodies {
                scope.spawn(crew.member(body));
            }
        });
        drop(done);
        watchdog.join().expect("the watchdog ends when its channel closes");
    }

    fn settle() {
        CREW.with_borrow(Crew::clone).settle();
    }
}
