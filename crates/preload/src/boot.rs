//! Start-up: reads the environment and fills the table of functions, before any other constructor runs or at the first
//! call of a replaced function, whichever is first. Nothing here allocates or takes a lock.

use crate::environment::Environment;
use crate::functions;
use crate::layout::Known;
use crate::message::{complain, die, Lossy};
use crate::profile::Profile;
use crate::{
    aside, c11, calls, cancel, cond, counters, epoch, exec, generation, layout, machine, mutex, outside, pool, profile,
    realtime, route, rwlock, sandbox, spin, threads, trace,
};
use core::ffi::{c_char, c_int, c_void};
use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use lockswap_locks::auto::bounds::{Bounds, Published};
use lockswap_locks::for_each_lock;
use lockswap_locks::info::Asks;
use lockswap_locks::named::Named;
use lockswap_locks::parameters::{Setting, SPINS_BEFORE_PARK};
use lockswap_locks::registry::{self, Role};
use lockswap_platform::{parse_duration, settings as settings_of_locks, window, Native, Ns, Platform, Single};
use lockswap_records::counters::{Counter, FILE_BYTES};
use lockswap_records::latency::FILE_WORDS;

/// Runs first of all constructors (`-z initfirst`). glibc passes the arguments of `main`, other C libraries do not.
extern "C" fn constructor(_argc: c_int, _argv: *const *const c_char, environment: *const *const c_char) {
    initialise(if aside::is_glibc() { environment } else { core::ptr::null() });
}

#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = constructor;

/// Fills the table of functions, once; whoever else comes meanwhile waits. `environment` is null where the caller does
/// not know it.
pub fn initialise(environment: *const *const c_char) {
    const NEW: u8 = 0;
    const BUSY: u8 = 1;
    const DONE: u8 = 2;
    static STATE: AtomicU8 = AtomicU8::new(NEW);
    static STARTER: AtomicUsize = AtomicUsize::new(0);
    // ORDER(start): Acquire pairs with the Release below; all that was set up.
    match STATE.compare_exchange(NEW, BUSY, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            // Relaxed: a thread finds its own address only if it has stored it itself.
            STARTER.store(Native::thread(), Ordering::Relaxed);
            functions::load_real();
            // SAFETY: whoever calls a replaced function from now on gets here first, or glibc's.
            unsafe { install(&Environment::of_process(environment)) };
            functions::protect();
            // ORDER(start): Release pairs with the Acquires above and below.
            STATE.store(DONE, Ordering::Release);
        }
        // Called from in here, by way of the loader or of glibc: the functions are glibc's until it is done.
        Err(BUSY) if STARTER.load(Ordering::Relaxed) == Native::thread() => {}
        // ORDER(start): as above.
        Err(_) => Native::spin_map(|| (STATE.load(Ordering::Acquire) == DONE).then_some(())),
    }
}

/// # Safety
/// Nobody uses a replaced function meanwhile and `environment` is the process's own.
unsafe fn install(environment: &Environment) {
    // SAFETY: as for this call.
    unsafe {
        let verbose = environment.get("LOCKSWAP_VERBOSE").is_some();
        let statistics = environment.map_file("LOCKSWAP_STATS", FILE_BYTES, verbose);
        if let Some(file) = statistics {
            counters::set_file(file.cast());
        }
        exec::install();
        if let Some(reason) = aside::reason(environment) {
            counters::count(Counter::Aside);
            return reason.say(verbose);
        }
        let named = environment.lock("LOCKSWAP_LOCK", Role::Mutex, Role::Mutex.default_id());
        let mutex = named.entry.info.id;
        let native = registry::is_glibcs(mutex);
        let default = |role: Role| if native { registry::PTHREAD } else { role.default_id() };
        let rwlock_named = environment.lock("LOCKSWAP_RWLOCK", Role::RwLock, default(Role::RwLock));
        let profile = profile::load(environment, &named, verbose);
        let named_in_profile = || profile.iter().flat_map(|profile| profile.locks());
        let chosen =
            named_in_profile().flat_map(Named::settings).chain(named.settings()).chain(rwlock_named.settings());
        chosen.for_each(|(number, value)| settings_of_locks::set(number, value));
        let spins = environment.spins_before_park();
        if let Some(looks) = spins {
            settings_of_locks::set_spins_before_park(looks);
        }
        let asks_how_long_to_spin = named_in_profile().chain([&named, &rwlock_named]).any(Named::asks_how_long_to_spin);
        let rwlock = rwlock_named.entry.info.id;
        let spin = environment.lock("LOCKSWAP_SPIN", Role::Spin, default(Role::Spin)).entry.info.id;
        let declared = environment.cpus("LOCKSWAP_ROUTE");
        let locks = [(Role::Mutex, mutex), (Role::RwLock, rwlock), (Role::Spin, spin)];
        let locks_ask = locks.iter().filter_map(|(role, id)| registry::find(*role, id));
        let locks_ask = locks_ask.chain(named_in_profile().map(|named| named.entry));
        let latencies = environment.map_file("LOCKSWAP_LATENCIES", 8 * FILE_WORDS, verbose);
        // Latencies are recorded by the kind of the core, whatever the lock. `auto` heeds kinds in epochs only, and to
        // read them takes as long as all the rest: it does without where nothing speaks of epochs.
        let speaks_of_epochs = ["LOCKSWAP_SLO", "LOCKSWAP_BIG"].iter().any(|name| environment.get(name).is_some());
        let asks = Asks { kind: latencies.is_some(), ..Asks::default() };
        let asks = locks_ask.fold(asks, |asks, entry| asks.and(entry.info.asks));
        let asks = if speaks_of_epochs { asks.in_epochs() } else { asks };
        let settings = machine::settings(environment);
        let learnt = machine::learn(environment, &settings, asks);
        // To read the topology for a route takes long where there are many CPUs, and where there are few `auto` does
        // not use one.
        let is_wanted_if_known = asks.route_if_known && settings.allowed.len() >= Published::ROUTE as usize;
        let route = if asks.route || is_wanted_if_known {
            route::choose(environment, declared, &settings, verbose, asks.route)
        } else {
            None
        };
        if statistics.is_some() || profile.is_some() {
            generation::notice_first_uses();
        }
        let max_window = named_in_profile().chain([&named]).find_map(|named| named.value(Setting::MaxWindow));
        set_epochs(environment, max_window, latencies);
        sandbox::install(environment);
        __register_atfork(Some(before_fork), Some(after_fork), Some(enter_child), core::ptr::null_mut());
        counters::count(Counter::Processes);
        threads::install();
        cancel::install();
        let known = layout::probe();
        let if_known = |id: &'static str, is_known: bool, what: &str| {
            if !is_known && !registry::is_glibcs(id) {
                complain(format_args!("this glibc lays out its {what} in a way that is not known: they stay glibc's"));
            }
            if is_known {
                id
            } else {
                registry::PTHREAD
            }
        };
        // Only together: a condition variable of ours looks into mutexes, and glibc's cannot wait with a mutex of
        // ours.
        let mutex = if_known(mutex, known.mutex && known.cond, "mutexes and condition variables");
        let rwlock = if_known(rwlock, known.rwlock, "rwlocks");
        let profile = profile.filter(|profile| may_follow(profile, known));
        if !registry::is_glibcs(mutex) || profile.is_some() {
            cond::install();
        }
        if mutex == registry::PTHREAD_ADAPTIVE && profile.is_none() {
            mutex::install_adaptive();
        }
        // A process that counts is not traced as well: an acquisition that waits would count twice.
        let traced = if statistics.is_some() { None } else { trace::wish(environment, verbose) };
        // Also where they are counted or traced only: as calls of the pthread functions.
        if mutex != registry::PTHREAD || profile.is_some() || statistics.is_some() || traced.is_some() {
            c11::install();
        }
        choose(if profile.is_some() { registry::PTHREAD } else { mutex }, rwlock, spin);
        match profile {
            Some(profile) => follow(profile),
            None => realtime::install(registry::find(Role::Mutex, mutex).map(|entry| &entry.info).into_iter()),
        }
        if let Some(wish) = traced {
            trace::install(wish);
        }
        if statistics.is_some() {
            calls::install();
        }
        if verbose {
            let (mutex, rwlock) = (InForce(mutex, &named), InForce(rwlock, &rwlock_named));
            complain(format_args!("mutex {mutex}, rwlock {rwlock}, spin {spin}"));
            if asks_how_long_to_spin {
                let source = if spins.is_some() { SPINS_BEFORE_PARK } else { "default, not measured" };
                complain(format_args!(
                    "waiters look {} times before they sleep: a round trip through a sleep ({source})",
                    Native::spins_before_park()
                ));
            }
            if let Some(learnt) = learnt {
                complain(format_args!("{learnt}"));
            }
            if let Some(route) = route {
                complain(format_args!("{route}"));
            }
        }
    }
}

/// Whether mutexes can get locks as the profile says; a line says why not.
fn may_follow(profile: &Profile, known: Known) -> bool {
    let why = if !(known.mutex && known.cond) {
        "this glibc lays out its mutexes and condition variables in a way that is not known"
    } else if profile.keeps_some() && !layout::may_be_kept() {
        "this glibc looks at bits of its mutexes of which that is not known, so none can stay glibc's"
    } else {
        return true;
    };
    complain(format_args!("LOCKSWAP_PROFILE is ignored: {why}"));
    false
}

/// Gives each mutex its lock from now on.
fn follow(profile: &'static Profile) {
    let mut locks = [None; pool::LOCKS];
    for (place, named) in locks.iter_mut().zip(profile.locks()) {
        *place = several(named.entry.info.id);
    }
    // Where all mutexes stay glibc's, that is what the lock of the ordinary ones is never asked for.
    let first = locks[0].or_else(|| several(Role::Mutex.default_id())).expect("the default lock is in the catalogue");
    let locks = locks.map(|lock| lock.unwrap_or(first));
    mutex::install_several(&locks[..profile.locks().count().max(1)]);
    profile::install(profile);
    realtime::install(profile.locks().map(|named| &named.entry.info));
}

/// The lock with this id, with its parameters if it is the one that was asked for.
struct InForce<'a>(&'static str, &'a Named);

impl fmt::Display for InForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InForce(id, named) if *id == named.entry.info.id => named.fmt(f),
            InForce(id, _) => f.write_str(id),
        }
    }
}

/// What the environment says about epochs; `max_window` is the longest reorder window, ns, if the lock's parameters
/// say it, and `latencies` the file where latencies are recorded.
///
/// # Safety
/// As for [`install`].
unsafe fn set_epochs(environment: &Environment, max_window: Option<Ns>, latencies: Option<*mut c_void>) {
    // SAFETY: as for this call.
    unsafe {
        if let Some(file) = latencies {
            epoch::set_latencies(file.cast());
        }
        let older = || {
            let text = environment.get("LOCKSWAP_ASL_MAX_WINDOW")?;
            Some(text.to_str().ok().and_then(parse_duration).unwrap_or_else(|| {
                die(format_args!(
                    "LOCKSWAP_ASL_MAX_WINDOW={} is not a duration, for instance 100ms",
                    Lossy(text.to_bytes())
                ))
            }))
        };
        if let Some(ns) = max_window.or_else(older) {
            window::set_longest(ns);
        }
        if let Some(text) = environment.get("LOCKSWAP_SLO") {
            if !text.to_str().is_ok_and(epoch::set_slos) {
                die(format_args!(
                    "LOCKSWAP_SLO={} is not a list of ID=DURATION, for instance 5=50us,7=1ms",
                    Lossy(text.to_bytes())
                ));
            }
        }
        epoch::install();
    }
}

macro_rules! choose {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        /// Puts the chosen locks into the table; an id that is not listed stays glibc's.
        fn choose(mutex: &str, rwlock: &str, spin: &str) {
            match mutex {
                $($mutex_id => {
                    use $mutex as Lock;
                    mutex::install::<Lock<Native>, Lock<Single>>();
                })*
                _ => {}
            }
            match rwlock {
                $($rwlock_id => {
                    use $rwlock as Lock;
                    rwlock::install::<Lock<Native>>();
                })*
                _ => {}
            }
            match spin {
                $($spin_id => {
                    use $spin as Lock;
                    spin::install::<Lock<Native>>();
                })*
                _ => {}
            }
        }

        /// How the lock with this id works for mutexes where it is one of several.
        fn several(mutex: &str) -> Option<&'static mutex::Ops> {
            match mutex {
                $($mutex_id => {
                    use $mutex as Lock;
                    Some(mutex::one_of_several::<Lock<Native>, Lock<Single>>())
                })*
                _ => None,
            }
        }
    };
}

for_each_lock!(choose);

extern "C" {
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *mut c_void,
    ) -> c_int;
}

/// Runs before a fork, after the handlers of the program.
extern "C" fn before_fork() {
    profile::before_fork();
    outside::before_fork();
}

/// Runs in the parent after a fork, before the handlers of the program.
extern "C" fn after_fork() {
    outside::after_fork();
    profile::after_fork();
}

/// Runs in the child of a fork before the handlers of the program, which may release what was held.
unsafe extern "C" fn enter_child() {
    // SAFETY: the child has one thread.
    unsafe {
        generation::enter_child();
        Native::enter_child();
        outside::enter_child();
        profile::enter_child();
        pool::abandon(None);
        realtime::enter_child();
        trace::enter_child();
    }
}
