//! Tables of what workloads gave.

use super::STALL;
use crate::hardware::page::{ns, rate, table, Columns};
use crate::hardware::series::Series;
use lockswap_locks::registry::Role;
use lockswap_study::descriptive;
use lockswap_study::page::Page;
use lockswap_workloads::record::Detail;
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{counter as counting, readers as reading};

/// The page of a workload that notes so much: `counter` and `kv`.
pub fn usual(series: &Series<Report>, detail: Detail) -> Page {
    let mut headings = vec!["throughput", "fairness", "cv", "Jain"];
    if detail >= Detail::Waits {
        headings.extend(["waiters", "P50 wait", "P99", "P99.9", "longest"]);
    }
    if detail == Detail::Handoffs {
        headings.extend(["hand-offs", "in core", "in LLC", "in node", "hand-over", "contention"]);
    }
    let columns = Columns { lock: "lock", headings, cells: &|_, median| usual_cells(median) };
    let notes =
        "fairness: share of the busier half of the threads, 0.5 is fair; cv: standard deviation of the threads' \
                 operations over their mean; Jain: 1 is fair";
    Page { tables: vec![table(series, &columns)], notes: vec![notes.to_owned()], ..Page::default() }
}

fn usual_cells(median: &Report) -> Vec<String> {
    let fairness = [median.fairness_factor, median.cv, median.jain];
    let mut row = vec![rate(median.throughput)];
    row.extend(fairness.map(|number| format!("{number:.2}")));
    if let (Some(waiters), Some(waits)) = (median.waiters, median.latency.get("all")) {
        let times = [waits.p50_ns, waits.p99_ns, waits.p999_ns, waits.max_ns];
        row.push(format!("{waiters:.1}"));
        row.extend(times.map(|time| ns(time as f64)));
    }
    if let Some(handoffs) = &median.handoffs {
        let share = |share: f64| format!("{:.0} %", 100.0 * share);
        row.push(share(handoffs.count as f64 / median.ops.max(1) as f64));
        row.extend([handoffs.within_core, handoffs.within_llc, handoffs.within_node].map(share));
        row.extend([handoffs.handover_ns, handoffs.contention_ns].map(|time| time.map_or("-".into(), ns)));
    }
    row
}

/// The page of `ncs`, where each group that is compared has its twin with an empty critical section behind it.
pub fn ncs(series: &Series<Report>) -> Page {
    let cells = |(group, place): (usize, usize), median: &Report| {
        let optional = |time: Option<f64>| time.map_or("-".into(), ns);
        let handoffs = median.handoffs.as_ref();
        let round = series.groups.get(group + 1).and_then(|empty| empty.measured.get(place)?.median());
        let share = handoffs.map(|of| format!("{:.0} %", 100.0 * of.count as f64 / median.ops.max(1) as f64));
        vec![
            rate(median.throughput),
            format!("{:.2}", median.fairness_factor),
            format!("{:.2}", median.waiters.unwrap_or_default()),
            share.unwrap_or("-".into()),
            optional(handoffs.and_then(|of| of.handover_ns)),
            optional(handoffs.and_then(|of| of.contention_ns)),
            optional(round.map(|median| median.round_ns)),
        ]
    };
    let headings = vec!["throughput", "fairness", "waiters", "hand-offs", "hand-over", "contention", "round"];
    let tables = vec![table(series, &Columns { lock: "lock", headings, cells: &cells })];
    let notes = "ncs: length of the non-critical section; lines: of memory in the critical section. waiters: threads \
                     waiting on average. hand-offs: acquisitions after another thread's. hand-over: time to touch the lines \
                     then. contention: from the end of one critical section to the begin of the next, if awaited. round: of \
                     one thread, with an empty critical section. Each look at the clock is part of these times";
    Page { tables, notes: vec![notes.to_owned()], ..Page::default() }
}

/// The page of `oversub`, for the objects of a role.
pub fn oversub(series: &Series<Report>, role: Role) -> Page {
    let name = if role == Role::RwLock { "rwlock" } else { "lock" };
    let cells = |(group, place): (usize, usize), median: &Report| {
        let own = &series.groups[group].measured[place];
        let waits: Vec<f64> = own.longest_waits().into_iter().map(|wait| wait as f64).collect();
        let ms = |ns: f64| format!("{:.1} ms", ns / 1e6);
        vec![
            ns(1e9 / median.throughput),
            format!("{:.2}", median.fairness_factor),
            descriptive::median(&waits).map(ms).unwrap_or_default(),
            ms(waits.iter().copied().fold(0.0, f64::max)),
            if own.stalls() == 0 { "none".to_owned() } else { format!("{} threads", own.stalls()) },
        ]
    };
    let headings = vec!["acquisition", "fairness", "longest wait", "worst round", "stalls"];
    let tables = vec![table(series, &Columns { lock: name, headings, cells: &cells })];
    let mut notes: Vec<String> =
        series.compared().next().and_then(|group| group.measured.first()?.workload()).map(work).into_iter().collect();
    notes.push(format!(
            "acquisition: time from one to the next. fairness: share of the busier half of the threads, 0.5 is fair. longest \
             wait: of any thread for one acquisition, median of the rounds, and in the worst round. stalls: threads that \
             waited over {} s for one, in all rounds",
            STALL.as_secs()
        ));
    Page { tables, notes, ..Page::default() }
}

/// What the threads of `oversub` do, in words.
fn work(workload: &Workload) -> String {
    let seconds = workload.timing().duration as f64 / 1e9;
    match workload {
        Workload::Readers(reading::Config { threads, reads, reading, outside, .. }) => format!(
            "{threads} threads, {reads} % of the operations read, {reading} steps inside and {outside} outside the lock; \
             runs of {seconds} s"
        ),
        Workload::Counter(counting::Config { threads, inside, outside, .. }) => {
            format!("{threads} threads, each {inside} steps inside and {outside} outside the lock; runs of {seconds} s")
        }
        _ => String::new(),
    }
}

/// The page of `shares`, where the classes of threads are the same in all settings of a column.
pub fn shares(series: &Series<Report>) -> Page {
    let all = || series.measured().flat_map(|measured| &measured.rounds).filter_map(|round| round.lock_time.as_ref());
    let mut classes: Vec<&str> = Vec::new();
    for class in all().flat_map(|time| time.shares.keys()) {
        if !classes.contains(&class.as_str()) {
            classes.push(class);
        }
    }
    let cells = |_, median: &Report| {
        let time = median.lock_time.clone().unwrap_or_default();
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut row = vec![rate(median.throughput), format!("{:.3}", time.jain)];
        row.extend(classes.iter().map(|class| time.shares.get(*class).map_or("-".into(), |share| percent(*share))));
        row.push(percent(time.held));
        row.extend(
            median
                .latency
                .get("all")
                .map(|waits| [waits.p99_ns, waits.max_ns].map(|time| ns(time as f64)))
                .into_iter()
                .flatten(),
        );
        row
    };
    let mut headings = vec!["throughput", "Jain"];
    headings.extend(&classes);
    headings.extend(["held", "P99 wait", "longest"]);
    let tables = vec![table(series, &Columns { lock: "lock", headings, cells: &cells })];
    let notes = "Jain: of the threads' lock time, each divided by the weight of the thread, 1 is fair. A column for each class \
                 of threads, called after the length of its critical sections: its share of the lock time. held: share of the \
                 measured time in which the lock was held";
    Page { tables, notes: vec![notes.to_owned()], ..Page::default() }
}

/// The page of `readers`.
pub fn readers(series: &Series<Report>) -> Page {
    let cells = |_, median: &Report| {
        let mut row = vec![rate(median.throughput), format!("{:.2}", median.fairness_factor)];
        for class in ["read", "write"] {
            let waits = median.latency.get(class).filter(|waits| waits.count > 0);
            let times = waits.map(|waits| [waits.p50_ns, waits.p99_ns, waits.max_ns].map(|time| ns(time as f64)));
            row.extend(times.unwrap_or([const { "-" }; 3].map(str::to_owned)));
        }
        row
    };
    let headings = vec!["throughput", "fairness", "read P50", "P99", "longest", "write P50", "P99", "longest"];
    let tables = vec![table(series, &Columns { lock: "rwlock", headings, cells: &cells })];
    let notes = "fairness: share of the busier half of the threads, 0.5 is fair. P50, P99, longest: waits for the lock";
    Page { tables, notes: vec![notes.to_owned()], ..Page::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::series::Group;
    use crate::hardware::workloads::{groups, oversubscribed, throughput, with_empty_section};
    use lockswap_workloads::report::{Distribution, HandoffReport, LockTime, ThreadReport};

    fn measured(mut groups: Vec<Group<Report>>, rounds: &[Vec<Report>]) -> Series<Report> {
        let all = groups.iter_mut().flat_map(|group| &mut group.measured);
        all.zip(rounds).for_each(|(measured, rounds)| measured.rounds.clone_from(rounds));
        let mut series = Series::new(groups, 1, Vec::new());
        series.judge(&[throughput()]);
        series
    }

    fn locks(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn oversub_shows_ratios_waits_and_stalls() {
        let round = |time: f64, longest: u64| {
            let thread = |ns| ThreadReport { ops: 1, kind: "big".into(), longest_ns: Some(ns) };
            let per_thread = vec![thread(longest), thread(5), thread(longest)];
            Report { throughput: 1e9 / time, per_thread, ..Report::default() }
        };
        let own: Vec<Report> = [7, 7, 7, 7, 7, 1500].map(|ms| round(50.0, ms * 1_000_000)).to_vec();
        let workload = oversubscribed(Role::Mutex, 9);
        let groups = groups(&[workload], &[], &locks(&["pthread", "ttas"]), Role::Mutex);
        let text = oversub(&measured(groups, &[vec![round(100.0, 5_000_000); 6], own]), Role::Mutex).markdown();
        let line = |lock: &str| text.lines().find(|line| line.starts_with(lock)).unwrap_or_default().to_owned();
        let (base, own) = (line("| pthread"), line("| ttas"));
        assert!(base.contains("100 ns") && base.contains("| none ") && base.contains("the baseline"), "{text}");
        for shown in ["50.0 ns", "2.00 [2.00, 2.00]", "2.0x faster", "7.0 ms", "1500.0 ms", "2 threads"] {
            assert!(own.contains(shown), "{shown}: {text}");
        }
        assert!(text.contains("9 threads, each 32 steps"), "{text}");
    }

    #[test]
    fn a_lock_that_failed_keeps_its_row() {
        let workloads = [oversubscribed(Role::Mutex, 2)];
        let mut groups = groups(&workloads, &["threads"], &locks(&["pthread", "cna"]), Role::Mutex);
        groups[0].measured[1].failure = Some("signal: 6".to_owned());
        let report = Report { throughput: 5e6, ..Report::default() };
        let text = usual(&measured(groups, &[vec![report; 6], Vec::new()]), Detail::Counts).markdown();
        let cna = text.lines().find(|line| line.contains("| cna")).unwrap_or_default();
        assert!(cna.contains("| - ") && cna.contains("failed after 0 runs"), "{text}");
    }

    #[test]
    fn ncs_takes_the_time_of_a_round_from_the_empty_twin() {
        let workload = Workload::named("ncs").expect("ncs").with(2, 1_000_000);
        let names = locks(&["pthread", "ron"]);
        let full = groups(std::slice::from_ref(&workload), &["ncs"], &names, Role::Mutex);
        let empty = groups(&[with_empty_section(&workload)], &[], &names, Role::Mutex);
        let all = full.into_iter().chain(empty.into_iter().map(Group::alone)).collect();
        let handoffs = HandoffReport {
            count: 1,
            within_core: 0.0,
            within_llc: 0.0,
            within_node: 1.0,
            handover_ns: Some(40.0),
            contention_ns: None,
        };
        let full = Report { throughput: 1e6, ops: 2, handoffs: Some(handoffs), ..Report::default() };
        let empty = |round_ns| vec![Report { throughput: 1e9, round_ns, ..Report::default() }; 6];
        let fast = Report { throughput: 3e6, ..full.clone() };
        let text = ncs(&measured(all, &[vec![full; 6], vec![fast; 6], empty(200.0), empty(300.0)])).markdown();
        let ron = text.lines().find(|line| line.contains("| ron")).unwrap_or_default();
        for shown in ["3.00 M/s", "3.00 [3.00, 3.00]", "50 %", "40.0 ns", "300 ns", "3.0x faster"] {
            assert!(ron.contains(shown), "{shown}: {text}");
        }
        assert_eq!(text.matches("pthread").count(), 1, "twins have no rows: {text}");
    }

    #[test]
    fn shares_of_lock_time_have_a_column_for_each_class() {
        let shares = [("10us", 0.909), ("1us", 0.091)].map(|(class, share)| (class.to_owned(), share)).into();
        let lock_time = Some(LockTime { jain: 0.599, held: 0.95, shares });
        let report = Report { throughput: 1e5, lock_time, ..Report::default() };
        let workloads = [Workload::named("shares").expect("shares").with(2, 1_000_000)];
        let groups = groups(&workloads, &["threads"], &locks(&["pthread", "futex"]), Role::Mutex);
        let text = super::shares(&measured(groups, &[vec![report; 2], Vec::new()])).markdown();
        let line = text.lines().find(|line| line.contains("| pthread")).unwrap_or_default();
        for shown in ["| 0.599 ", "| 90.9 % ", "| 9.1 % ", "| 95.0 % "] {
            assert!(line.contains(shown), "{shown}: {text}");
        }
        assert!(text.contains("| 10us ") && text.contains("| 1us "), "{text}");
    }

    #[test]
    fn reads_and_writes_have_their_own_waits() {
        let mut report = Report { throughput: 1e6, ..Report::default() };
        let times = Distribution { count: 3, p50_ns: 70, p99_ns: 800, max_ns: 9000, ..Distribution::default() };
        report.latency.insert("read".to_owned(), times);
        let workloads = [oversubscribed(Role::RwLock, 4)];
        let groups = groups(&workloads, &["threads", "reads"], &locks(&["pthread"]), Role::RwLock);
        let text = readers(&measured(groups, &[vec![report; 2]])).markdown();
        let line = text.lines().find(|line| line.contains("| pthread")).unwrap_or_default();
        for shown in ["| 4 ", "| 90 % ", "70.0 ns", "800 ns", "9.0 us", "| - "] {
            assert!(line.contains(shown), "{shown}: {text}");
        }
    }
}
