//! The same workload on a pthread mutex and on a lock of the catalogue that is called directly, as in a program that was
//! changed by hand: what interposition costs.

use crate::kv::{self, KvConfig};
use crate::micro::{self, Effort, Sample};
use crate::{affinity, pthread, Mutex};
use lockswap_locks::{for_each_lock, Context, RawLock};
use lockswap_platform::Native;

/// Id of the nanoseconds from one operation of the key-value workload to the next, whichever thread makes it.
pub const KEY_VALUE: &str = "kv";

/// Id of the nanoseconds that one thread takes for a lock and an unlock.
pub const UNCONTENDED: &str = "uncontended";

/// A lock of the catalogue, without a pthread object around it.
struct Direct<L>(L);

/// The contexts of one thread, which holds at most one lock at a time.
struct Contexts<C: Context> {
    current: Box<C>,
    /// Contexts of earlier acquisitions that another thread still looked at.
    others: Vec<Box<C>>,
}

impl<C: Context> Contexts<C> {
    fn new() -> Self {
        Self { current: Box::new(C::new()), others: Vec::new() }
    }

    #[inline]
    fn take(&mut self) -> &C {
        if !self.current.is_reusable() {
            self.replace();
        }
        &self.current
    }

    #[cold]
    #[inline(never)]
    fn replace(&mut self) {
        let found = self.others.iter_mut().find(|context| context.is_reusable());
        match found {
            Some(reusable) => std::mem::swap(reusable, &mut self.current),
            None => self.others.push(std::mem::replace(&mut self.current, Box::new(C::new()))),
        }
    }
}

impl<C: Context> Drop for Contexts<C> {
    fn drop(&mut self) {
        // The next owner may still look at one that is not reusable.
        let last = std::mem::replace(&mut self.current, Box::new(C::new()));
        for context in self.others.drain(..).chain([last]).filter(|context| !context.is_reusable()) {
            Box::leak(context);
        }
    }
}

impl<L: RawLock<Native>> Mutex for Direct<L> {
    type Thread = Contexts<L::Ctx>;

    fn thread(&self) -> Contexts<L::Ctx> {
        Contexts::new()
    }

    #[inline]
    fn lock(&self, me: &mut Contexts<L::Ctx>) {
        // SAFETY: the context is reusable and serves no other acquisition, since `me` holds one lock at a time; it stays
        // where it is, and is leaked if it must outlive the thread.
        unsafe { self.0.lock(me.take()) }
    }

    #[inline]
    fn unlock(&self, me: &mut Contexts<L::Ctx>) {
        // SAFETY: the calling thread has acquired with this context and not taken another since.
        unsafe { self.0.unlock(&me.current) }
    }
}

/// Runs both workloads on `mutex`. The calling thread ends up pinned to one CPU.
fn measure<M: Mutex>(mutex: &M, kv: &KvConfig, effort: &Effort) -> [Sample; 2] {
    // First, on all CPUs: the locks look once at how many there are.
    let report = kv::run_on(kv, mutex);
    if let Some(&cpu) = affinity::allowed().last() {
        // Unpinned, the numbers vary more.
        let _ = affinity::pin(&[cpu]);
    }
    let ns = micro::with_second_thread(|| micro::pair(effort, mutex));
    [(KEY_VALUE, report.elapsed.as_nanos() as f64 / report.ops.max(1) as f64), (UNCONTENDED, ns)]
}

/// Measures on a pthread mutex, which a preloaded library may have replaced.
pub fn interposed(kv: &KvConfig, effort: &Effort) -> [Sample; 2] {
    measure(&*pthread::Mutex::new(pthread::Kind::Normal), kv, effort)
}

/// Measures on the mutex lock `id` itself; `None` if the catalogue has none of that name.
pub fn direct(id: &str, kv: &KvConfig, effort: &Effort) -> Option<[Sample; 2]> {
    macro_rules! dispatch {
        (mutex { $($id:literal => $lock:path,)* } rwlock { $($rwlocks:tt)* } spin { $($spins:tt)* }) => {
            match id {
                $($id => {
                    use $lock as Lock;
                    Some(measure(&*Box::new(Direct(<Lock<Native> as RawLock<Native>>::new())), kv, effort))
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}
