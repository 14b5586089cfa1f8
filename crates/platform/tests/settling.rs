//! What conditional stores promise, on hardware: with threads that share a CPU and lose it at any instruction, with a
//! thread on another CPU, and with signals. Beside it stand two machines that do not keep the promise, so that it is
//! known that the tests would see that.

use lockswap_platform::{Native, Platform};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Barrier, Once, OnceLock};
use std::time::{Duration, Instant};

trait Machine {
    fn store_unless(flag: &AtomicU8, word: &AtomicU8, value: u8) -> bool {
        Native::store_unless(flag, word, value)
    }
    fn settle() -> bool {
        Native::settle()
    }
}

struct Real;
impl Machine for Real {}

/// Nobody is interrupted.
struct Unsettled;
impl Machine for Unsettled {
    fn settle() -> bool {
        true
    }
}

/// Look and store are two accesses like others.
struct TwoAccesses;
impl Machine for TwoAccesses {
    #[inline(always)]
    fn store_unless(flag: &AtomicU8, word: &AtomicU8, value: u8) -> bool {
        let stores = flag.load(Relaxed) == 0;
        if stores {
            std::hint::spin_loop();
            word.store(value, Relaxed);
        }
        stores
    }
}

/// How long the machine that keeps the promise is tested; `SETTLING_SECONDS=N` for longer.
fn at_most() -> Duration {
    let seconds = std::env::var("SETTLING_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// How long the others have, on a busy machine, too; they take some ten rounds.
const LONG: Duration = Duration::from_secs(60);

/// Whether there is something to test here.
fn is_offered() -> bool {
    static ALLOWED: Once = Once::new();
    ALLOWED.call_once(|| {
        cpus();
        Native::allow_settling(true);
    });
    let offered = Native::settle();
    if !offered {
        println!("not tested: no restartable sequences here, or no membarrier that knows them");
    }
    offered
}

/// The CPUs that the process may use, as whoever asks first may.
fn cpus() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| {
        // SAFETY: a set of CPUs is numbers.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: as large as it says.
        assert_eq!(unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) }, 0);
        // SAFETY: numbers that the set has room for.
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) }).collect()
    })
}

/// Keeps the calling thread on the `number`-th CPU that the process may use, or the last one.
fn pin(number: usize) {
    // SAFETY: a set of CPUs is numbers.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a number that the set has room for.
    unsafe { libc::CPU_SET(cpus()[number.min(cpus().len() - 1)], &mut one) };
    // SAFETY: as large as it says, and about the calling thread.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) }, 0);
}

/// Makes the next look at `byte` take long: that is where an interrupt then finds the thread, just before it goes on
/// to its store.
fn evict(byte: &AtomicU8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, which changes no memory.
    unsafe {
        core::arch::x86_64::_mm_clflush(byte.as_ptr());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}

/// A byte in a line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Alone(AtomicU8);

/// One thread sets a flag, settles, and then sees no store any more, by a thread on the same CPU and one on another.
/// In how many rounds it did, of how many; they end with `enough` of those, or at the limit.
fn late_stores<M: Machine>(limit: Duration, enough: u32) -> (u32, u32) {
    const PAUSE: Duration = Duration::from_micros(30);
    let (flag, words, stop) = (Alone::default(), [Alone::default(), Alone::default()], AtomicBool::new(false));
    let stored = [const { AtomicU32::new(0) }; 2];
    let mut done = (0, 0);
    std::thread::scope(|scope| {
        for number in [0, 1] {
            let (flag, word, stop, stored) = (&flag.0, &words[number].0, &stop, &stored[number]);
            scope.spawn(move || {
                pin(number);
                let mut value = 0u8;
                while !stop.load(Relaxed) {
                    value = value.wrapping_add(1);
                    evict(flag);
                    if M::store_unless(flag, word, value) {
                        stored.store(stored.load(Relaxed).wrapping_add(1), Relaxed);
                    }
                }
            });
        }
        pin(0);
        let began = Instant::now();
        while done.1 < enough && began.elapsed() < limit {
            // From which this thread wakes while the one on the same CPU is in the middle of whatever it does. The
            // other one is to have its CPU at present, if it can, and to be anywhere.
            std::thread::sleep(PAUSE);
            let (before, awake) = (words[1].0.load(Relaxed), Instant::now());
            while words[1].0.load(Relaxed) == before && awake.elapsed() < Duration::from_millis(5) {}
            Native::relax(done.0 % 64);
            flag.0.store(1, Relaxed);
            if !M::settle() {
                // Where it takes too long it ends by itself.
                flag.0.store(0, Relaxed);
                Native::allow_settling(true);
                continue;
            }
            let seen = words.each_ref().map(|word| word.0.load(Relaxed));
            std::thread::sleep(PAUSE);
            let later = words.each_ref().map(|word| word.0.load(Relaxed));
            flag.0.store(0, Relaxed);
            done.0 += 1;
            done.1 += u32::from(seen != later);
        }
        stop.store(true, Relaxed);
    });
    let stored = stored.map(AtomicU32::into_inner);
    println!("{}: {} of {} rounds saw a late store, of {stored:?}", std::any::type_name::<M>(), done.1, done.0);
    assert!(stored.iter().all(|stored| *stored > 0), "nothing was stored: {stored:?}");
    done
}

#[test]
fn nothing_is_stored_late() {
    if !is_offered() {
        return;
    }
    let (rounds, late) = late_stores::<Real>(at_most(), 1);
    assert_eq!(late, 0, "in {rounds} rounds");
    assert!(late_stores::<TwoAccesses>(LONG, 3).1 > 0, "the test sees nothing if look and store are apart");
    // A thread that shares a CPU is interrupted anyway.
    if cpus().len() > 1 {
        assert!(late_stores::<Unsettled>(LONG, 3).1 > 0, "the test sees nothing without a call of settle");
    }
}

static FLAG: Alone = Alone(AtomicU8::new(0));
static WORD: Alone = Alone(AtomicU8::new(0));
static OTHER_WORD: AtomicU8 = AtomicU8::new(0);
/// What the handler has seen in `WORD`, and how often it has run.
static SEEN: AtomicU8 = AtomicU8::new(0);
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// A handler may itself release a lock: that must not hide that it has interrupted a release.
extern "C" fn handler(_: libc::c_int) {
    FLAG.0.store(1, SeqCst);
    SEEN.store(WORD.0.load(SeqCst), SeqCst);
    Native::store_unless(&AtomicU8::new(0), &OTHER_WORD, 1);
    SIGNALS.fetch_add(1, SeqCst);
}

/// How many signals have come between a look and its store, out of how many; as above.
fn torn_by_signals<M: Machine>(limit: Duration, enough: u32) -> (u32, u32) {
    let (mut torn, stop, ready) = (0, AtomicBool::new(false), Barrier::new(2));
    SIGNALS.store(0, SeqCst);
    // SAFETY: the handler uses atomics and what it tests.
    unsafe { libc::signal(libc::SIGUSR1, handler as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    // SAFETY: takes nothing.
    let target = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        let (stop, ready) = (&stop, &ready);
        scope.spawn(move || {
            ready.wait();
            while !stop.load(Relaxed) {
                // SAFETY: the thread joins this one before it ends.
                unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(5));
            }
        });
        ready.wait();
        let (mut value, began) = (0u8, Instant::now());
        while torn < enough && began.elapsed() < limit {
            value = value.wrapping_add(1);
            FLAG.0.store(0, SeqCst);
            evict(&FLAG.0);
            let before = SIGNALS.load(SeqCst);
            let stored = M::store_unless(&FLAG.0, &WORD.0, value);
            if SIGNALS.load(SeqCst) != before {
                // Only one that came behind the store: else it would have set the flag, or have ended the sequence.
                torn += u32::from(stored && SIGNALS.load(SeqCst) == before + 1 && SEEN.load(SeqCst) != value);
            }
        }
        stop.store(true, Relaxed);
    });
    let signals = SIGNALS.load(Relaxed);
    println!("{}: {torn} of {signals} signals tore a store", std::any::type_name::<M>());
    (signals, torn)
}

#[test]
fn a_store_that_a_signal_interrupts_does_not_happen() {
    if !is_offered() {
        return;
    }
    let (signals, torn) = torn_by_signals::<Real>(at_most(), 1);
    assert_eq!(torn, 0, "of {signals} signals");
    assert!(signals > 0, "no signal has come");
    assert!(torn_by_signals::<TwoAccesses>(LONG, 3).1 > 0, "the test sees nothing if look and store are apart");
}
