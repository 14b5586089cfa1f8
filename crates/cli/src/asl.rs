//! What the user says about LibASL: targets for epochs, and in an old spelling the lock below it and its windows.

use std::ffi::OsString;
use std::io::Write;

use lockswap_platform::Ns;

use crate::duration;
use crate::error::{UserError, USAGE};

/// Old spellings of the parameters of `asl`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AslArgs {
    /// Old spelling of --lock asl:fifo=ID
    #[arg(long, value_name = "ID", hide = true)]
    asl_fifo: Option<String>,
    /// Old spelling of --lock asl:max-window=TIME
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit, hide = true)]
    asl_max_window: Option<Ns>,
}

impl AslArgs {
    /// The lock that `--lock` and these choose together.
    ///
    /// # Errors
    /// There are parameters, but no lock that they could belong to.
    pub fn choose(&self, lock: Option<String>) -> Result<Option<String>, UserError> {
        let fifo = self.asl_fifo.as_deref().map(|id| format!(":fifo={}", if id == "mcs" { "mcs_spin" } else { id }));
        let window = self.asl_max_window.map(|ns| format!(":max-window={}", duration::as_option(ns)));
        let (parameters, option) = match (fifo, window) {
            (None, None) => return Ok(lock),
            (Some(fifo), window) => (fifo + &window.unwrap_or_default(), "--asl-fifo"),
            (None, Some(window)) => (window, "--asl-max-window"),
        };
        let Some(lock) = lock.filter(|lock| lock.trim().to_ascii_lowercase().starts_with("asl")) else {
            return Err(UserError::new(format!("{option} needs --lock asl"), "add --lock asl").with_status(USAGE));
        };
        let lock = lock + &parameters;
        // Stderr may be closed.
        let _ = writeln!(std::io::stderr(), "note: {option} is now written --lock {lock}");
        Ok(Some(lock))
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

/// The variable that sets targets whatever the program says. Those that our own environment sets stay; of two for the
/// same epoch the later counts.
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
    fn old_spellings_are_parameters_of_the_lock() {
        let choose = |fifo: Option<&str>, window, lock: Option<&str>| {
            let args = AslArgs { asl_fifo: fifo.map(Into::into), asl_max_window: window };
            args.choose(lock.map(Into::into)).ok().flatten()
        };
        assert_eq!(choose(None, None, Some("asl")).as_deref(), Some("asl"));
        assert_eq!(choose(Some("mcs"), None, Some("asl")).as_deref(), Some("asl:fifo=mcs_spin"));
        let both = choose(Some("futex"), Some(1_500_000), Some("asl"));
        assert_eq!(both.as_deref(), Some("asl:fifo=futex:max-window=1500us"));
        assert_eq!(choose(Some("mcs"), None, Some("ticket")), None);
        assert_eq!(choose(None, Some(1), None), None);
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
