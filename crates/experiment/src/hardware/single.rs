//! Measurements of single calls, which give plain numbers by name: what the pthread functions cost on each lock, what
//! interposition adds to a lock that is called directly, and what it costs to be traced, or to get a lock by a
//! profile.

pub mod page;

use super::job::Work;
use super::series::{Group, Measure, Measured, Point, Series};
use crate::results::{Compared, Machine};
use lockswap_locks::info::Family;
use lockswap_locks::named;
use lockswap_locks::registry::{self, Entry, Role, INTERPOSED_PTHREAD as INTERPOSED, PTHREAD};
use lockswap_study::descriptive::Quartiles;
use lockswap_study::summary::{Judgement, Row};
use lockswap_workloads::micro::{id, Group as MicroGroup, Measurement, Unit, MEASUREMENTS};
use lockswap_workloads::price::{KEY_VALUE, UNCONTENDED};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

/// The numbers of one process, by measurement id.
pub type Numbers = BTreeMap<String, f64>;

/// What is measured of single calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// With one thread.
    Uncontended,
    /// With two.
    Contended,
    /// Both.
    Both,
    /// Each lock behind the pthread functions, and called directly.
    Direct,
    /// Each lock as it is, and while it is traced.
    Trace,
    /// Each lock for all mutexes, and as one of two locks of a profile.
    Profile,
}

/// What LiTL's authors found for programs under contention on the average of their locks (USENIX ATC 2016, section
/// 4.3): interposed and direct locks differ by less than this.
pub const STUDY: f64 = 0.05;

impl Part {
    /// Its name in files; none for what is measured where no part is named.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Part::Uncontended => Some("uncontended"),
            Part::Contended => Some("contended"),
            Part::Direct => Some("direct"),
            Part::Trace => Some("trace"),
            Part::Profile => Some("profile"),
            Part::Both => None,
        }
    }

    /// Whether all locks are compared with one, not each with a form of itself.
    pub const fn has_one_baseline(self) -> bool {
        !matches!(self, Part::Direct | Part::Trace | Part::Profile)
    }

    /// The measurements that its tables show.
    pub fn shown(self) -> Vec<&'static Measurement> {
        let groups: &[MicroGroup] = match self {
            Part::Uncontended => &[MicroGroup::Uncontended],
            Part::Contended => &[MicroGroup::Contended],
            Part::Both => &[MicroGroup::Uncontended, MicroGroup::Contended],
            Part::Direct | Part::Trace | Part::Profile => &[],
        };
        let shown = MEASUREMENTS.iter().filter(|measurement| groups.contains(&measurement.group));
        shown.filter(|measurement| ![id::BARE, id::CALLS].contains(&measurement.id)).collect()
    }

    /// Ids and units of its numbers.
    fn ids(self) -> Vec<(&'static str, &'static str)> {
        let unit = |unit| match unit {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
            Unit::Share => "share",
        };
        match self {
            Part::Direct | Part::Trace | Part::Profile => vec![(KEY_VALUE, "ns"), (UNCONTENDED, "ns")],
            _ => MEASUREMENTS.iter().map(|measurement| (measurement.id, unit(measurement.unit))).collect(),
        }
    }

    /// What locks are compared by: times, of which fewer are better.
    pub fn measures(self) -> Vec<Measure<Numbers>> {
        let time =
            |id: &'static str| Measure::new(id, move |numbers: &Numbers| numbers.get(id).copied()).lower_is_better();
        match self {
            Part::Direct | Part::Trace | Part::Profile => vec![time(KEY_VALUE), time(UNCONTENDED)],
            _ => {
                let times = self.shown().into_iter().filter(|measurement| measurement.unit == Unit::Nanoseconds);
                times.map(|measurement| time(measurement.id)).collect()
            }
        }
    }

    /// What to measure on these locks, the first of which is the baseline; `direct` has a group for each lock of ours,
    /// with the lock that is called directly as its baseline. For `trace` and `profile`, see [`changed`].
    pub fn groups(self, locks: &[String]) -> Vec<Group<Numbers>> {
        let work = Work::Micro { uncontended: self != Part::Contended, contended: self != Part::Uncontended };
        if self != Part::Direct {
            let points = locks.iter().map(|lock| Point::new(lock, Role::Mutex, work.clone()));
            return vec![Group::of(points)];
        }
        // Where a lock is glibc's, there is none of ours to call.
        let is_ours = |entry: &Entry| entry.info.family != Family::Native;
        let ours = locks.iter().filter(|lock| named::read(Role::Mutex, lock).is_ok_and(|named| is_ours(named.entry)));
        ours.map(|lock| Group::of([price(lock, true), price(lock, false)])).collect()
    }
}

/// What to measure for `trace` and `profile`: a group for each lock, with the lock as it is as its baseline, and the
/// same one with a variable of the preload library, called `variant`.
pub fn changed(
    locks: &[String],
    variant: &str,
    variable: impl Fn(&str) -> (OsString, Option<OsString>),
) -> Vec<Group<Numbers>> {
    let point = |lock: &str| Point::new(lock, Role::Mutex, Work::Price { directly: None });
    let changed = |lock| Point { variables: vec![variable(lock)], variant: variant.to_owned(), ..point(lock) };
    locks.iter().map(|lock| Group::of([point(lock), changed(lock)])).collect()
}

/// A lock for the price of interposition.
fn price(lock: &str, directly: bool) -> Point {
    // Only the preload library reads these: a lock that is called directly has the kernel's nodes, and all CPUs are
    // big.
    let variables = [("LOCKSWAP_TOPOLOGY", None), ("LOCKSWAP_LEVEL", Some("node")), ("LOCKSWAP_BIG", Some("0-4095"))];
    let variables = variables.map(|(name, value)| (name.into(), value.map(Into::into))).to_vec();
    let work = Work::Price { directly: directly.then(|| lock.to_owned()) };
    let variant = if directly { "called directly".to_owned() } else { String::new() };
    Point { variables, variant, ..Point::new(lock, Role::Mutex, work) }
}

impl Measured<Numbers> {
    /// The numbers of all rounds.
    pub fn numbers(&self, id: &str) -> Option<Quartiles> {
        Quartiles::of(self.rounds.iter().filter_map(|round| round.get(id).copied()).collect())
    }

    /// What the rounds say of one of the part's [`measures`](Part::measures).
    pub fn row(&self, part: Part, id: &str) -> Option<&Row> {
        let at = part.measures().iter().position(|measure| measure.name == id)?;
        self.rows.get(at)
    }
}

/// How many times as fast as glibc the project wants a lock to be at least; for bytes: how many it may take at most.
fn target(lock: &str, id: &str) -> Option<f64> {
    let replaced = !registry::is_glibcs(lock);
    match id {
        id::EXTRA_BYTES if replaced => {
            let entry = registry::find(Role::Mutex, lock)?;
            (entry.extra_bytes_per_lock == 0).then_some(0.0)
        }
        id::PROCESS_SHARED if lock != PTHREAD => Some(0.91),
        id::UNCONTENDED if lock == INTERPOSED => Some(0.91),
        id::UNCONTENDED if replaced => match lock {
            "ttas" | "ticket" => Some(2.00),
            "futex" | "mcs_spin" | "mcs_stp" | "mcs_stp-barging" | "k42" | "clh_spin" | "cna" | "shfllock"
            | "shfllock-b" => Some(1.11),
            _ => None,
        },
        id::SINGLE_THREADED | id::RECURSIVE | id::ERROR_CHECK if replaced => Some(1.00),
        id::HANDOFF_ONE_CPU | id::HANDOFF_TWO_CPUS if replaced => Some(1.00),
        _ => None,
    }
}

/// How a number stands to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is reached.
    Met,
    /// The interval reaches it.
    Close,
    /// It is missed, and two empty calls into a library already take longer than the target allows.
    OutOfReach,
    /// It is missed.
    Missed,
}

impl Mark {
    /// A ratio, and the upper end of its interval. `most`: the ratio that two empty calls would have.
    fn new(ratio: f64, high: f64, target: f64, most: Option<f64>) -> Self {
        // Two decimals are shown, so 0.996 counts as the 1.00 that the reader sees.
        let reaches = |ratio: f64| ratio > target - 0.005;
        match () {
            () if reaches(ratio) => Mark::Met,
            () if reaches(high) => Mark::Close,
            () if most.is_some_and(|most| most < target) => Mark::OutOfReach,
            () => Mark::Missed,
        }
    }

    /// As the tables show it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Mark::Met => "ok",
            Mark::Close => "~",
            Mark::OutOfReach => "floor",
            Mark::Missed => "MISS",
        }
    }
}

/// How a measured number stands to the project's target; nothing where there is no target, or no number.
pub fn mark(own: &Measured<Numbers>, base: &Measured<Numbers>, part: Part, measurement: &Measurement) -> Option<Mark> {
    let target = target(&own.point.lock, measurement.id)?;
    if measurement.unit == Unit::Bytes {
        let met = own.numbers(measurement.id)?.median < target + 0.005;
        return Some(if met { Mark::Met } else { Mark::Missed });
    }
    let two_calls = measurement.unit == Unit::Nanoseconds && measurement.group == MicroGroup::Uncontended;
    let most = || Some(base.numbers(measurement.id)?.median / base.numbers(id::CALLS)?.median);
    let row = own.row(part, measurement.id)?;
    let ratio = row.ratio?;
    Some(Mark::new(ratio, row.ratio_high.unwrap_or(ratio), target, two_calls.then(most).flatten()))
}

/// Whether a form of a lock is as fast as its baseline, within a margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// The whole interval is within it.
    Yes,
    /// The whole interval is outside, and the difference is proven.
    No,
    /// Neither.
    Unclear,
}

impl Near {
    /// What a row says; `margin`: how far off counts as near, as a share.
    pub fn of(row: &Row, margin: f64) -> Self {
        let (Some(low), Some(high)) = (row.ratio_low, row.ratio_high) else { return Near::Unclear };
        let (least, most) = (1.0 - margin, 1.0 + margin);
        if least <= low && high <= most {
            return Near::Yes;
        }
        let proven = matches!(row.judgement, Judgement::Better | Judgement::Worse);
        if proven && (high < least || most < low) {
            Near::No
        } else {
            Near::Unclear
        }
    }
}

/// The results as JSON.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(series: &Series<Numbers>, part: Part, machine: &Machine) -> io::Result<Vec<u8>> {
    let measures = part.measures();
    let lock = |measured: &Measured<Numbers>| {
        let compared = measures.iter().zip(&measured.rows).map(|(measure, row)| (measure.name, Compared::from(row)));
        serde_json::json!({
            "id": measured.point.lock,
            "directly": is_direct(&measured.point),
            "variant": measured.point.variant,
            "rounds": measured.rounds,
            "compared": compared.collect::<BTreeMap<_, _>>(),
            "failure": measured.failure,
        })
    };
    let id = |(id, unit): (&str, &str)| serde_json::json!({"id": id, "unit": unit});
    let mut text = serde_json::to_vec_pretty(&serde_json::json!({
        "schema": 2,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "machine": machine.host,
        "part": part.name(),
        "baseline": match part {
            Part::Direct => "the same lock called directly",
            Part::Trace => "the same lock, not traced",
            Part::Profile => "the same lock for all mutexes",
            _ => PTHREAD,
        },
        "seed": series.seed,
        "measurements": part.ids().into_iter().map(id).collect::<Vec<_>>(),
        "locks": series.measured().map(lock).collect::<Vec<_>>(),
    }))?;
    text.push(b'\n');
    Ok(text)
}

fn is_direct(point: &Point) -> bool {
    matches!(point.work, Work::Price { directly: Some(_) })
}

/// The runs, a line each.
///
/// # Errors
/// None that a CSV in memory can have.
pub fn csv(series: &Series<Numbers>, part: Part) -> io::Result<Vec<u8>> {
    let ids: Vec<&str> = part.ids().into_iter().map(|(id, _)| id).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["lock", "directly", "round"].iter().chain(&ids).chain(&["problem"]))?;
    for measured in series.measured() {
        let record = |round: usize, numbers: &Numbers, problem: &str| {
            let mut record =
                vec![measured.point.lock.clone(), is_direct(&measured.point).to_string(), round.to_string()];
            record.extend(ids.iter().map(|id| numbers.get(*id).map(f64::to_string).unwrap_or_default()));
            record.push(problem.to_owned());
            record
        };
        for (round, numbers) in measured.rounds.iter().enumerate() {
            writer.write_record(record(round + 1, numbers, ""))?;
        }
        if let Some(failure) = &measured.failure {
            writer.write_record(record(measured.rounds.len() + 1, &Numbers::new(), failure))?;
        }
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_each_lock_stand_side_by_side() {
        let locks = [PTHREAD, INTERPOSED, "ttas", "cna"].map(str::to_owned);
        let groups = Part::Direct.groups(&locks);
        let forms = |group: &Group<Numbers>| {
            group.measured.iter().map(|one| (one.point.lock.clone(), is_direct(&one.point))).collect::<Vec<_>>()
        };
        let expected = |lock: &str| vec![(lock.to_owned(), true), (lock.to_owned(), false)];
        assert_eq!(groups.iter().map(forms).collect::<Vec<_>>(), [expected("ttas"), expected("cna")]);
        assert_eq!(Part::Both.groups(&locks)[0].measured.len(), 4);
    }

    #[test]
    fn marks_tell_a_miss_from_what_no_lock_can_reach() {
        let at = |ratio: f64, target, most| Mark::new(ratio, ratio + 0.1, target, most);
        assert_eq!(at(2.04, 2.00, Some(1.27)), Mark::Met);
        assert_eq!(at(1.996, 2.00, Some(1.27)), Mark::Met);
        assert_eq!(at(1.93, 2.00, Some(1.27)), Mark::Close);
        assert_eq!(at(1.22, 2.00, Some(1.27)), Mark::OutOfReach);
        assert_eq!(at(1.00, 1.11, Some(1.27)), Mark::Missed);
        assert_eq!(at(1.00, 1.11, None), Mark::Missed);
    }

    #[test]
    fn targets_are_those_of_the_issue() {
        assert_eq!(target("ttas", id::UNCONTENDED), Some(2.00));
        assert_eq!(target("mcs_stp", id::UNCONTENDED), Some(1.11));
        assert_eq!(target(INTERPOSED, id::PROCESS_SHARED), Some(0.91));
        assert_eq!(target("cna", id::SINGLE_THREADED), Some(1.00));
        assert!(MEASUREMENTS.iter().all(|measurement| target(PTHREAD, measurement.id).is_none()));
    }

    /// A series of two locks, six rounds of the same numbers each.
    fn series(part: Part, id: &str, base: f64, own: f64) -> Series<Numbers> {
        let mut groups = part.groups(&[PTHREAD.to_owned(), "ttas".to_owned()]);
        for (measured, number) in groups[0].measured.iter_mut().zip([base, own]) {
            measured.rounds = vec![Numbers::from([(id.to_owned(), number)]); 6];
        }
        let mut series = Series::new(groups, 1, Vec::new());
        series.judge(&part.measures());
        series
    }

    #[test]
    fn as_near_as_the_study_says_takes_an_interval_that_is() {
        let near = |base, own| {
            let series = series(Part::Direct, KEY_VALUE, base, own);
            let row = series.groups[0].measured[1].row(Part::Direct, KEY_VALUE).unwrap();
            Near::of(row, STUDY)
        };
        assert_eq!((near(100.0, 104.0), near(80.0, 100.0), near(100.0, 80.0)), (Near::Yes, Near::No, Near::No));
        let unproven = Row {
            judgement: Judgement::Unclear,
            ..series(Part::Direct, KEY_VALUE, 80.0, 100.0).groups[0].measured[1].rows[0].clone()
        };
        assert_eq!(Near::of(&unproven, STUDY), Near::Unclear);
        assert_eq!(Near::of(&Row { ratio_low: None, ..unproven }, STUDY), Near::Unclear);
    }

    #[test]
    fn times_are_turned_round_so_that_above_one_is_better() {
        let series = series(Part::Uncontended, id::UNCONTENDED, 10.0, 5.0);
        let own = &series.groups[0].measured[1];
        let row = own.row(Part::Uncontended, id::UNCONTENDED).unwrap();
        assert!((row.ratio.unwrap() - 2.0).abs() < 1e-9 && row.median == Some(5.0));
        // Three measurements of twelve had no number, so one comparison is left: six rounds prove it.
        assert_eq!(row.judgement, Judgement::Better);
        let measurement = MEASUREMENTS.iter().find(|one| one.id == id::UNCONTENDED).unwrap();
        assert_eq!(mark(own, &series.groups[0].measured[0], Part::Uncontended, measurement), Some(Mark::Met));
        let text = String::from_utf8(csv(&series, Part::Uncontended).unwrap()).unwrap();
        assert_eq!(text.lines().count(), 13, "{text}");
        let json: serde_json::Value =
            serde_json::from_slice(&json(&series, Part::Uncontended, &Machine::here()).unwrap()).unwrap();
        assert_eq!(json["locks"][1]["compared"][id::UNCONTENDED]["judgement"], "better");
    }
}
