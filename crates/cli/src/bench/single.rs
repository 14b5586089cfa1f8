//! `lockswap bench`, `bench uncontended`, `bench contended`, `bench direct`, `bench trace` and `bench profile`: what
//! single calls cost on each lock.

use super::session::{self, picture, Part as Session};
use super::{locks, Common};
use crate::selection::{INTERPOSED, PLAIN};
use lockswap_experiment::hardware::series::{Group, Series};
use lockswap_experiment::hardware::single::{self, Numbers, Part};
use lockswap_locks::registry::Role;
use lockswap_plot::Look;
use lockswap_study::summary::{self, Judgement};
use lockswap_workloads::micro::id;
use lockswap_workloads::price::KEY_VALUE;
use std::process::ExitCode;

/// Measures `part` for every lock, or those that are named.
pub fn run(common: &Common, part: Part) -> anyhow::Result<ExitCode> {
    let locks = locks(Role::Mutex, &common.lock, &[PLAIN, INTERPOSED], &[])?;
    measure(common, part, part.groups(&locks))
}

/// Measures `part` on what is in `groups`.
pub fn measure(common: &Common, part: Part, groups: Vec<Group<Numbers>>) -> anyhow::Result<ExitCode> {
    let series = Series::new(groups, common.seed, Vec::new());
    let session = Session {
        rounds: 7,
        more: None,
        measures: part.measures(),
        json: &|series, machine| single::json(series, part, machine),
        csv: &|series| single::csv(series, part),
        page: &|series| single::page::page(series, part, common.targets),
        picture: &|series, look| drawn(series, part, look),
    };
    session::run(common, series, &session)
}

/// The ratios of the measurement that says most.
fn drawn(series: &Series<Numbers>, part: Part, look: Look) -> Vec<u8> {
    let (id, what, baseline) = match part {
        Part::Contended => (id::CONTENDED, "two threads that compete for a mutex", PLAIN),
        Part::Direct => (KEY_VALUE, "kv behind the pthread functions", "the same lock called directly"),
        Part::Trace => (KEY_VALUE, "kv while it is traced", "the same lock, not traced"),
        Part::Profile => (KEY_VALUE, "kv by a profile", "the same lock for all mutexes"),
        Part::Uncontended | Part::Both => (id::UNCONTENDED, "lock and unlock of a mutex that nobody else wants", PLAIN),
    };
    let rows = series.measured().filter_map(|measured| measured.row(part, id));
    let rows: Vec<&summary::Row> =
        rows.filter(|row| part.has_one_baseline() || row.judgement != Judgement::Baseline).collect();
    picture(&rows, what, baseline, series.seed, look)
}
