//! A workload on the threads of this machine and on a lock of the catalogue that is called directly.

use crate::direct::{choose, Apart, Direct, DirectRw};
use crate::hardware::Hardware;
use crate::report::Report;
use crate::workload::Workload;
use crate::{bursts, counter, kv, locktorture, ncs, phases, readers};
use lockswap_locks::registry::Role;
use lockswap_locks::{for_each_lock, RawLock, RawRwLock};
use lockswap_platform::Native;

/// Runs the workload on the lock `text`, which may have parameters.
///
/// # Errors
/// There is no such lock, or it has no such workload.
pub fn run(workload: &Workload, text: &str, crew: &Hardware) -> Result<Report, String> {
    on_lock(workload, text, crew).ok_or_else(|| format!("no lock '{text}'"))?
}

/// `None` if there is no such lock.
fn on_lock(workload: &Workload, text: &str, crew: &Hardware) -> Option<Result<Report, String>> {
    macro_rules! dispatch {
        (mutex { $($mutex:literal => $lock:path,)* } rwlock { $($rwlock:literal => $rw:path,)* } spin { $($spins:tt)* }) => {
            match (workload.role(), choose(workload.role(), text)?) {
                $((Role::Mutex, $mutex) => {
                    use $lock as Lock;
                    Some(on_mutex::<Lock<Native>>(workload, crew))
                })*
                $((Role::RwLock, $rwlock) => {
                    use $rw as Lock;
                    Some(on_rwlock::<Lock<Native>>(workload, crew))
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

fn on_mutex<L: RawLock<Native>>(workload: &Workload, crew: &Hardware) -> Result<Report, String> {
    let lock = Box::new(Apart(Direct::<Native, L>::new()));
    Ok(match workload {
        Workload::Counter(config) => counter::run::<Native, _>(config, crew, &lock.0),
        Workload::Kv(config) => kv::run::<Native, _>(config, crew, &lock.0),
        Workload::Ncs(config) => ncs::run::<Native, _>(config, crew, &lock.0),
        Workload::Bursts(config) => bursts::run::<Native, _>(config, crew, &lock.0),
        Workload::Phases(config) => phases::run::<Native, _>(config, crew, &lock.0),
        Workload::Locktorture(config) => locktorture::run::<Native, _>(config, crew, &lock.0),
        Workload::Epochs(_) | Workload::Shares(_) | Workload::Readers(_) | Workload::Calls(_) => {
            return Err("not a workload of mutexes that can be called directly".into());
        }
    })
}

fn on_rwlock<L: RawRwLock<Native>>(workload: &Workload, crew: &Hardware) -> Result<Report, String> {
    let Workload::Readers(config) = workload else {
        return Err("not a workload of read-write locks".into());
    };
    let lock = Box::new(Apart(DirectRw::<Native, L>::new()));
    Ok(readers::run::<Native, _>(config, crew, &lock.0))
}
