//! CPUs that play slower ones, on a machine whose CPUs are alike: `CPUS:FACTOR`.

use std::ffi::OsString;
use std::str::FromStr;

use crate::affinity;
use crate::hardware::Seat;
use crate::invalid::Invalid;
use lockswap_platform::CpuList;

/// Variable that tells the preload library which CPUs are big.
pub const BIG: &str = "LOCKSWAP_BIG";

/// The most that a CPU may be slower.
pub const MOST: f64 = 1000.0;

/// The slower CPUs: the code of a workload does `factor` times the work there.
#[derive(Clone, Debug, PartialEq)]
pub struct Little {
    text: String,
    cpus: Vec<usize>,
    factor: f64,
}

impl FromStr for Little {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give CPUS:FACTOR, as in 1:3 or 2-3,6:2.5".to_owned();
        let (cpus, factor) = text.split_once(':').ok_or_else(wrong)?;
        let cpus = CpuList::parse(cpus.as_bytes()).ok_or_else(wrong)?.cpus().collect();
        let factor: f64 = factor.parse().map_err(|_| wrong())?;
        if !(factor > 1.0 && factor <= MOST) {
            return Err(format!("the factor says how many times slower: above 1, at most {MOST}"));
        }
        Ok(Self { text: text.to_owned(), cpus, factor })
    }
}

impl std::fmt::Display for Little {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Little {
    /// How many times slower the slower CPUs are.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// A seat on each of the CPUs that this process may use, the big ones first.
    pub fn seats(&self) -> Result<Vec<Seat>, Invalid> {
        self.seats_among(&affinity::allowed())
    }

    /// The same among the CPUs `allowed`.
    pub fn seats_among(&self, allowed: &[usize]) -> Result<Vec<Seat>, Invalid> {
        if let Some(absent) = self.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            let what = format!("--little {self}: there is no CPU {absent} that this process may use");
            return Err(Invalid::new(what, format!("name some of the CPUs {}", list(allowed))));
        }
        let (little, big): (Vec<usize>, Vec<usize>) = allowed.iter().partition(|cpu| self.cpus.contains(cpu));
        if big.is_empty() {
            let what = format!("--little {self}: all CPUs that this process may use would be little");
            return Err(Invalid::new(what, "leave one that is not in the list"));
        }
        let seats = |cpus: Vec<usize>, pace| cpus.into_iter().map(move |cpu| Seat { cpu, pace });
        Ok(seats(big, 1.0).chain(seats(little, self.factor)).collect())
    }
}

/// What tells the preload library of these seats.
pub fn environment(seats: &[Seat]) -> Vec<(OsString, Option<OsString>)> {
    if seats.iter().all(|seat| seat.pace == 1.0) {
        return Vec::new();
    }
    let big: Vec<usize> = seats.iter().filter(|seat| seat.pace == 1.0).map(|seat| seat.cpu).collect();
    vec![(BIG.into(), Some(list(&big).into()))]
}

/// CPUs as Linux writes them: `0-3,8`.
pub fn list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |&(first, last): &(usize, usize)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_cpus_come_last_and_the_others_are_big() {
        let little: Little = "1,4-5:2.5".parse().unwrap();
        let seats = little.seats_among(&[0, 1, 2, 3, 4, 5, 8]).unwrap();
        let expected = [(0, 1.0), (2, 1.0), (3, 1.0), (8, 1.0), (1, 2.5), (4, 2.5), (5, 2.5)];
        assert_eq!(seats, expected.map(|(cpu, pace)| Seat { cpu, pace }));
        assert_eq!(environment(&seats), [("LOCKSWAP_BIG".into(), Some("0,2-3,8".into()))]);
        assert_eq!(environment(&[Seat { cpu: 0, pace: 1.0 }]), []);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "1", "1:", ":3", "1:x", "x:3", "1:0.5", "1:1", "1:inf", "1:NaN", "1:-3", "3-1:2", "1:1001"] {
            assert!(text.parse::<Little>().is_err(), "{text}");
        }
        let refused = |text: &str| text.parse::<Little>().unwrap().seats_among(&[0, 1]).unwrap_err().to_string();
        assert!(refused("2:3").contains("no CPU 2"));
        assert!(refused("0-1:3").contains("would be little"));
    }
}
