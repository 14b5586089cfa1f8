//! What the user says about LibASL: the lock below it, its windows, and targets for epochs.

use std::ffi::OsString;

use clap::ValueEnum;
use lockswap_platform::Ns;

use crate::duration;
use crate::error::{UserError, USAGE};

/// Options for the locks `asl*`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AslArgs {
    /// Lock below `--lock asl`, which serves those who do not stand back [default: mcs_spin]
    #[arg(long, value_name = "ID", value_enum, ignore_case = true)]
    pub asl_fifo: Option<Fifo>,
    /// Longest time that a thread on a little core stands back, such as 500us [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit)]
    pub asl_max_window: Option<Ns>,
}

/// The locks that LibASL is built over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fifo {
    /// MCS, spinning
    #[value(name = "mcs_spin", aliases = ["mcs", "mcs-spin"])]
    Mcs,
    /// The ticket lock, spinning
    Ticket,
    /// CNA: waiters of the same NUMA node first
    Cna,
    /// The futex lock, for more threads than CPUs: those who stand back sleep
    Futex,
}

impl Fifo {
    /// The id of LibASL over this lock.
    pub fn asl(self) -> &'static str {
        match self {
            Fifo::Mcs => "asl",
            Fifo::Ticket => "asl-ticket",
            Fifo::Cna => "asl-cna",
            Fifo::Futex => "asl-blocking",
        }
    }

    /// The id of the lock itself.
    pub fn alone(self) -> &'static str {
        match self {
            Fifo::Mcs => "mcs_spin",
            Fifo::Ticket => "ticket",
            Fifo::Cna => "cna",
            Fifo::Futex => "futex",
        }
    }
}

impl AslArgs {
    /// The lock that `--lock` and `--asl-fifo` choose together.
    pub fn choose(&self, lock: Option<String>) -> Result<Option<String>, UserError> {
        match (self.asl_fifo, lock.as_deref()) {
            (None, _) => Ok(lock),
            (Some(fifo), Some("asl")) => Ok(Some(fifo.asl().into())),
            (Some(_), _) => Err(UserError::new("--asl-fifo needs --lock asl", "add --lock asl").with_status(USAGE)),
        }
    }

    /// What the program's environment has for it.
    pub fn environment(&self) -> Option<(OsString, Option<OsString>)> {
        self.asl_max_window.map(|ns| ("LOCKSWAP_ASL_MAX_WINDOW".into(), Some(duration::as_option(ns).into())))
    }
}

/// A target from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// The epoch's id.
    pub id: i32,
    /// Its target, ns.
    pub ns: Ns,
}

/// The variable that sets targets whatever the program says. Those that our own environment sets stay; of two for the same
/// epoch the later counts.
pub fn slo_variable(slos: &[Slo]) -> (OsString, Option<OsString>) {
    const NAME: &str = "LOCKSWAP_SLO";
    let inherited = std::env::var_os(NAME).filter(|others| !others.is_empty());
    let ours = slos.iter().map(|slo| format!("{}={}", slo.id, duration::as_option(slo.ns)).into());
    let entries: Vec<OsString> = inherited.into_iter().chain(ours).collect();
    (NAME.into(), Some(entries.join(",".as_ref())))
}

/// Reads `ID=TIME`.
pub fn slo(text: &str) -> Result<Slo, String> {
    let wrong = || "give an epoch's number and a time, as in 5=50us".to_owned();
    let (id, time) = text.split_once('=').ok_or_else(wrong)?;
    Ok(Slo { id: id.parse().map_err(|_| wrong())?, ns: duration::with_unit(time)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_below_is_part_of_the_id() {
        let args = |fifo| AslArgs { asl_fifo: fifo, asl_max_window: None };
        let asl = || Some("asl".to_owned());
        assert_eq!(args(None).choose(asl()).unwrap(), asl());
        assert_eq!(args(Some(Fifo::Futex)).choose(asl()).unwrap().as_deref(), Some("asl-blocking"));
        assert!(args(Some(Fifo::Mcs)).choose(Some("ticket".into())).is_err());
        assert!(args(Some(Fifo::Mcs)).choose(None).is_err());
        for fifo in Fifo::value_variants() {
            use lockswap_locks::registry::{find, Role};
            assert!(find(Role::Mutex, fifo.asl()).is_some() && find(Role::Mutex, fifo.alone()).is_some());
        }
    }

    #[test]
    fn targets_are_an_id_and_a_time() {
        assert_eq!(slo("5=50us"), Ok(Slo { id: 5, ns: 50_000 }));
        assert_eq!(slo("-1=0"), Ok(Slo { id: -1, ns: 0 }));
        for nonsense in ["5", "5=50", "=50us", "5=", "x=1ms", "5=1ms,6=1ms", "99999999999=1ms"] {
            assert!(slo(nonsense).is_err(), "{nonsense}");
        }
        let (_, value) = slo_variable(&[Slo { id: 5, ns: 50_000 }, Slo { id: 7, ns: 0 }]);
        assert_eq!(value.unwrap(), "5=50us,7=0ns");
    }
}
