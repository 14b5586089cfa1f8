//! Tables of what single calls cost.

use super::{mark, Mark, Near, Numbers, Part, STUDY};
use crate::hardware::page::{how_to_read, show, RATIO};
use crate::hardware::series::{Measured, Series};
use lockswap_locks::registry::PTHREAD as PLAIN;
use lockswap_study::descriptive::{self, Quartiles};
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::summary::Judgement;
use lockswap_workloads::micro::{id, Measurement, Unit};
use lockswap_workloads::price::{KEY_VALUE, UNCONTENDED};
use std::fmt::Write as _;

/// Columns per table: this fits 120 characters.
const COLUMNS: usize = 4;

/// What a verdict is in a cell that has no room for words.
fn sign(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Better => " +",
        Judgement::Worse => " -",
        Judgement::Same => " =",
        Judgement::Unclear | Judgement::TooFew => " ?",
        _ => "",
    }
}

fn cell(own: &Measured<Numbers>, base: &Measured<Numbers>, part: Part, of: &Measurement, targets: bool) -> String {
    let Some(numbers) = own.numbers(of.id) else { return "-".into() };
    let mut text = show(numbers.median, of.unit);
    match (of.unit, own.row(part, of.id)) {
        (Unit::Nanoseconds, Some(row)) if row.ratio.is_some() => {
            let _ = write!(text, "\n{}{}", row.ratio_in_words(), sign(row.judgement));
        }
        (Unit::Nanoseconds, _) => {
            let _ = write!(text, "\n±{:.0} %", 100.0 * numbers.spread() / numbers.median);
        }
        (Unit::Share, _) => {
            let _ = write!(text, "\n±{:.0} %", 100.0 * numbers.spread());
        }
        (Unit::Bytes, _) => {}
    }
    if let Some(mark) = mark(own, base, part, of).filter(|_| targets) {
        let _ = write!(text, " {}", mark.symbol());
    }
    text
}

/// The tables of a part; with the `targets` of the project, where they are wanted.
pub fn page(series: &Series<Numbers>, part: Part, targets: bool) -> Page {
    match part {
        Part::Direct => pairs(series, &DIRECT),
        Part::Trace => pairs(series, &TRACE),
        Part::Profile => pairs(series, &PROFILE),
        _ => calls(series, part, targets),
    }
}

fn calls(series: &Series<Numbers>, part: Part, targets: bool) -> Page {
    let name = part.name().map(|name| format!(" {name}")).unwrap_or_default();
    let mut page = Page { title: format!("lockswap bench{name}"), ..Page::default() };
    let shown = part.shown();
    let Some((group, base)) = series.groups.first().and_then(|group| Some((group, group.measured.first()?))) else {
        return page;
    };
    for columns in shown.chunks(COLUMNS) {
        let headings = columns.iter().map(|measurement| (measurement.title.to_owned(), true));
        let mut table = Table { columns: vec![("lock".to_owned(), false)], ..Table::default() };
        table.columns.extend(headings);
        for own in &group.measured {
            let failed = if own.failure.is_some() { "\nfailed" } else { "" };
            let mut cells = vec![format!("{}{failed}", own.point.name())];
            cells.extend(columns.iter().map(|measurement| cell(own, base, part, measurement, targets)));
            table.rows.push(Row { cells, judgement: Judgement::Baseline });
        }
        page.tables.push(table);
    }
    let compared = series.comparisons(part.measures().len());
    page.notes.push(how_to_read(PLAIN, compared));
    page.notes.push(
        "verdicts: + faster, - slower, = no difference seen or below 1 %, ? unclear: more runs would tell".to_owned(),
    );
    // The last lock: the interposed baseline, which is compared on its own, takes fewer.
    let rows = || group.measured.iter().skip(1).flat_map(|measured| &measured.rows);
    page.notes
        .extend(rows().rfind(|row| row.judgement == Judgement::TooFew && row.p.is_some()).map(|r| r.verdict.clone()));
    page.notes.extend(limits(series, base));
    if targets {
        page.notes.extend(marks(&group.measured, base, part, &shown));
    }
    page
}

fn marks(measured: &[Measured<Numbers>], base: &Measured<Numbers>, part: Part, shown: &[&Measurement]) -> [String; 2] {
    let of = |own| shown.iter().filter_map(move |measurement| mark(own, base, part, measurement));
    let marks: Vec<Mark> = measured.iter().flat_map(of).collect();
    let count = |wanted| marks.iter().filter(|mark| **mark == wanted).count();
    let counts = [Mark::Met, Mark::Close, Mark::OutOfReach, Mark::Missed].map(count);
    let [met, close, out_of_reach, missed] = counts;
    [
        "ok: target met. ~: target within the interval. floor: two empty calls alone exceed the target. MISS: missed"
            .to_owned(),
        format!(
            "Targets: {met} met, {close} within the interval, {out_of_reach} below the cost of the calls, {missed} missed"
        ),
    ]
}

/// Where the time of an uncontended pair goes, and what the noise of this run was.
fn limits(series: &Series<Numbers>, base: &Measured<Numbers>) -> Option<String> {
    let glibc = base.numbers(id::UNCONTENDED)?.median;
    // Neither depends on the lock, so every process of the run counts.
    let of_all = |id: &str| {
        let rounds = series.measured().flat_map(|measured| &measured.rounds);
        Quartiles::of(rounds.filter_map(|numbers| numbers.get(id).copied()).collect())
    };
    let (bare, calls) = (of_all(id::BARE)?, of_all(id::CALLS)?);
    Some(format!(
        "limits: an inlined compare-exchange and store take {:.2} ns ({:.2} times as fast as {PLAIN}), two empty calls into \
         a library {:.2} ns ({:.2}); noise: the first, the same code for every lock, varied by ±{:.0} %",
        bare.median,
        glibc / bare.median,
        calls.median,
        glibc / calls.median,
        100.0 * bare.spread() / bare.median,
    ))
}

/// A table that compares two forms of each lock.
struct Pairs {
    part: Part,
    /// What the first form is called, which is the baseline, and the second.
    forms: [&'static str; 2],
    /// The first one in a sentence.
    baseline: &'static str,
    /// The difference that counts as near, and what says so.
    near: f64,
    source: &'static str,
    /// How much longer a call may take where nobody competes, ns, if there is such an aim.
    call_ns: Option<f64>,
}

const DIRECT: Pairs = Pairs {
    part: Part::Direct,
    forms: ["direct", "interposed"],
    baseline: "the same lock called directly",
    near: STUDY,
    source: "LiTL, section 4.3: below 5 % on average",
    call_ns: None,
};

const TRACE: Pairs = Pairs {
    part: Part::Trace,
    forms: ["untraced", "traced"],
    baseline: "the same lock, not traced",
    near: 0.03,
    source: "the aim of lockswap trace",
    call_ns: None,
};

const PROFILE: Pairs = Pairs {
    part: Part::Profile,
    forms: ["one lock", "profile"],
    baseline: "the same lock for all mutexes",
    near: 0.03,
    source: "as for lockswap trace",
    call_ns: Some(1.0),
};

/// The table of `bench direct`, `bench trace` or `bench profile`.
fn pairs(series: &Series<Numbers>, pairs: &Pairs) -> Page {
    let [first, second] = pairs.forms;
    let limit = format!("within {:.0} %", 100.0 * pairs.near);
    let mut columns = vec![("lock".to_owned(), false)];
    columns.extend([&format!("kv {first}"), second].map(|heading: &str| (heading.to_owned(), true)));
    columns.extend([RATIO, &limit].map(|heading| (heading.to_owned(), false)));
    columns.extend([&format!("uncontended {first}"), second].map(|heading: &str| (heading.to_owned(), true)));
    columns.extend([(RATIO.to_owned(), false), ("difference".to_owned(), true)]);
    columns.push(("verdict on kv".to_owned(), false));
    let mut table = Table { columns, ..Table::default() };
    let mut near: Vec<(Near, f64)> = Vec::new();
    let mut more: Vec<f64> = Vec::new();
    for group in &series.groups {
        let [base, own] = &group.measured[..] else { continue };
        let of = |id: &str| own.row(pairs.part, id);
        let (Some(kv), Some(alone)) = (of(KEY_VALUE), of(UNCONTENDED)) else { continue };
        let is_near = Near::of(kv, pairs.near);
        near.extend(kv.ratio.map(|ratio| (is_near, (ratio - 1.0).abs())));
        let time = |of: &Measured<Numbers>, id| of.numbers(id).map(|numbers| numbers.median);
        let shown = |of, id| time(of, id).map_or("-".to_owned(), |time| show(time, Unit::Nanoseconds));
        let difference = time(own, UNCONTENDED).zip(time(base, UNCONTENDED)).map(|(own, base)| own - base);
        more.extend(difference);
        let within = match is_near {
            Near::Yes => "yes",
            Near::No => "no",
            Near::Unclear => "~",
        };
        let cells = vec![
            base.point.lock.clone(),
            shown(base, KEY_VALUE),
            shown(own, KEY_VALUE),
            kv.ratio_in_words(),
            within.to_owned(),
            shown(base, UNCONTENDED),
            shown(own, UNCONTENDED),
            alone.ratio_in_words(),
            difference.map_or("-".to_owned(), |difference| format!("{difference:+.1} ns")),
            kv.verdict.clone(),
        ];
        table.rows.push(Row { cells, judgement: kv.judgement });
    }
    let compared = series.comparisons(pairs.part.measures().len());
    let mut notes = vec![
        "kv: time from one operation of the contended key-value workload to the next; uncontended: lock and unlock by one \
         thread"
            .to_owned(),
        how_to_read(pairs.baseline, compared),
        format!("{limit}: the whole interval is; no: it lies outside; ~: unclear, more runs would tell"),
    ];
    if let Some(median) = Quartiles::of(near.iter().map(|(_, difference)| *difference).collect()) {
        let within = near.iter().filter(|(near, _)| *near == Near::Yes).count();
        notes.push(format!(
            "kv: {within} of {} locks {limit}, {:.1} % apart in the median ({})",
            near.len(),
            100.0 * median.median,
            pairs.source
        ));
    }
    if let (Some(most), Some(median)) = (pairs.call_ns, descriptive::median(&more)) {
        let within = more.iter().filter(|more| **more <= 2.0 * most).count();
        notes.push(format!(
            "uncontended: lock and unlock of {within} of {} locks take at most {:.1} ns more, {median:+.1} ns in the \
             median: {most:.1} ns a call is the aim",
            more.len(),
            2.0 * most
        ));
    }
    let name = pairs.part.name().unwrap_or_default();
    Page { title: format!("lockswap bench {name}"), tables: vec![table], notes, ..Page::default() }
}

#[cfg(test)]
mod tests {
    use super::super::changed;
    use super::*;
    use lockswap_workloads::price;

    /// A series of these locks: six rounds of the same numbers each.
    fn series(part: Part, locks: &[(&str, &[(&str, f64)])]) -> Series<Numbers> {
        let names: Vec<String> = locks.iter().map(|(lock, _)| (*lock).to_owned()).collect();
        let mut series = Series::new(part.groups(&names), 1, Vec::new());
        let numbers =
            |numbers: &[(&str, f64)]| numbers.iter().map(|(id, n)| ((*id).to_owned(), *n)).collect::<Numbers>();
        for (measured, (_, of)) in series.groups[0].measured.iter_mut().zip(locks) {
            measured.rounds = vec![numbers(of); 6];
        }
        series
    }

    #[test]
    fn tables_show_ratios_with_signs_marks_and_failures() {
        let limits = [(id::BARE, 2.0), (id::CALLS, 3.0)];
        let of = |time| [limits[0], limits[1], (id::UNCONTENDED, time)];
        let mut series = series(Part::Uncontended, &[(PLAIN, &of(10.0)), ("ttas", &of(4.0)), ("cna", &of(20.0))]);
        let broken = &mut series.groups[0].measured[2];
        (broken.rounds, broken.failure) = (broken.rounds[..2].to_vec(), Some("signal: 6".to_owned()));
        series.judge(&Part::Uncontended.measures());
        let shown = |targets| page(&series, Part::Uncontended, targets).markdown();
        let (plain, targets) = (shown(false), shown(true));
        // Two comparisons have numbers, one of which failed: of these, seven rounds could say something.
        assert!(
            plain.contains("4.00 ns<br>2.50 [2.50, 2.50] ?") && plain.contains("too few runs (at least 7)"),
            "{plain}"
        );
        assert!(plain.contains("cna<br>failed") && plain.contains("20.0 ns<br>0.50"), "{plain}");
        assert!(plain.contains("(5.00 times as fast as pthread)") && plain.contains("3.00 ns (3.33)"), "{plain}");
        assert!(!plain.contains("arget") && !plain.contains("below 1 is"), "{plain}");
        assert!(targets.contains("2.50 [2.50, 2.50] ? ok") && targets.contains("Targets: 1 met"), "{targets}");
    }

    #[test]
    fn one_comparison_is_proven_by_six_rounds() {
        let of = |time| [(id::UNCONTENDED, time)];
        let mut series = series(Part::Uncontended, &[(PLAIN, &of(10.0)), ("ttas", &of(4.0))]);
        series.judge(&Part::Uncontended.measures());
        let shown = page(&series, Part::Uncontended, false).markdown();
        assert!(shown.contains("4.00 ns<br>2.50 [2.50, 2.50] +") && !shown.contains("too few"), "{shown}");
    }

    #[test]
    fn interposed_locks_stand_beside_direct_ones() {
        let mut series = Series::new(Part::Direct.groups(&["ttas".to_owned(), "cna".to_owned()]), 1, Vec::new());
        let numbers = |kv, alone| Numbers::from([(price::KEY_VALUE.into(), kv), (price::UNCONTENDED.into(), alone)]);
        let rounds = [numbers(100.0, 5.0), numbers(104.0, 8.0), numbers(100.0, 5.0), numbers(80.0, 8.0)];
        let measured = series.groups.iter_mut().flat_map(|group| &mut group.measured);
        // As many rounds as four comparisons take.
        measured.zip(rounds).for_each(|(measured, numbers)| measured.rounds = vec![numbers; 8]);
        series.judge(&Part::Direct.measures());
        let shown = page(&series, Part::Direct, false).markdown();
        let line = |lock: &str| shown.lines().find(|line| line.contains(lock)).unwrap_or_default().to_owned();
        assert!(line("| ttas").contains("| yes ") && line("| ttas").contains("+3.0 ns"), "{shown}");
        assert!(line("| cna").contains("1.25 [1.25, 1.25]") && line("| cna").contains("| no "), "{shown}");
        assert!(line("| cna").contains("1.2x faster") || line("| cna").contains("1.3x faster"), "{shown}");
        assert!(shown.contains("1 of 2 locks within 5 %, 14.4 % apart in the median"), "{shown}");
        assert!(!shown.contains("a call is the aim"), "{shown}");
    }

    #[test]
    fn what_a_profile_adds_to_a_call_stands_beside_its_aim() {
        let variable = |lock: &str| ("LOCKSWAP_PROFILE".into(), Some(lock.into()));
        let groups = changed(&["ttas".to_owned(), "cna".to_owned()], "profile", variable);
        let forms: Vec<_> = groups.iter().flat_map(|group| &group.measured).map(|one| one.point.clone()).collect();
        assert!(forms[0].variables.is_empty() && forms[3].variables[0].1.as_deref() == Some("cna".as_ref()));
        let mut series = Series::new(groups, 1, Vec::new());
        let numbers = |alone| Numbers::from([(price::KEY_VALUE.into(), 100.0), (price::UNCONTENDED.into(), alone)]);
        let measured = series.groups.iter_mut().flat_map(|group| &mut group.measured);
        measured.zip([5.0, 6.5, 7.0, 9.5]).for_each(|(measured, ns)| measured.rounds = vec![numbers(ns); 8]);
        series.judge(&Part::Profile.measures());
        let shown = page(&series, Part::Profile, false).markdown();
        let found = "lock and unlock of 1 of 2 locks take at most 2.0 ns more, +2.0 ns in the median: 1.0 ns a call";
        assert!(shown.contains(found) && shown.contains("`lockswap bench profile`"), "{shown}");
    }
}
