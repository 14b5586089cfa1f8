//! Tables of the epochs of the LibASL paper.

use super::is_reorderable;
use crate::hardware::page::{headings, ns, rate, rows, shown, Columns};
use crate::hardware::series::{Group, Measured, Series};
use lockswap_platform::Ns;
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::summary::Judgement;
use lockswap_workloads::epochs::{Config, Length};
use lockswap_workloads::report::{Distribution, Report};
use lockswap_workloads::workload::Workload;

/// A table for each setting; `is_alike`: no CPU plays a slower one.
pub fn page(series: &Series<Report>, is_alike: bool) -> Page {
    let tables = series.groups.iter().enumerate().map(|(number, group)| table(number, group)).collect();
    let mut notes =
        vec!["SLO: the target of the epochs; max: none, with the longest window; = is a fixed window. big, \
                              little: latency of epochs on CPUs of that kind. P99/SLO: on little CPUs"
            .to_owned()];
    if is_alike {
        let remedy = "--little CPUS:FACTOR does that where all are alike";
        notes.push(format!("note: no CPU is declared slower; {remedy}"));
    }
    Page { tables, notes, ..Page::default() }
}

fn config(measured: &Measured<Report>) -> Option<&Config> {
    match measured.workload()? {
        Workload::Epochs(config) => Some(config),
        _ => None,
    }
}

/// What a setting is, in words.
fn title(group: &Group<Report>, config: &Config) -> String {
    let mut text = match config.length {
        Length::Mixed => format!("{} threads, {} % long", config.threads, config.long),
        _ => format!("{} threads, {} steps between", config.threads, config.between),
    };
    for (key, value) in &group.setting {
        if !["threads", "long", "between", "locks", "sections", "inside"].contains(&key.as_str()) {
            text += &format!(", {key} {}", shown(key, value));
        }
    }
    let locks = if config.locks == 1 { "lock" } else { "locks" };
    let sections: Vec<String> = config.sections.iter().map(ToString::to_string).collect();
    let (count, sections, inside) = (config.locks, sections.join(", "), config.inside);
    format!("{text}; {count} {locks}, sections of {sections} lines, {inside} steps per line")
}

/// One setting.
fn table(number: usize, group: &Group<Report>) -> Table {
    let Some(config) = group.measured.first().and_then(config) else { return Table::default() };
    let cells = |(_, place): (usize, usize), median: &Report| {
        let own = &group.measured[place];
        let mut cells = vec![rate(median.throughput), target(own)];
        cells.extend(latencies(median, "", slo(own)));
        cells
    };
    let times = ["big P50", "big P99", "little P50", "little P99", "little P99.9", "P99/SLO"];
    let mut numbers = vec!["throughput", "SLO"];
    numbers.extend(times);
    let columns = Columns { lock: "lock", headings: numbers, cells: &cells };
    let mut table = Table { title: Some(title(group, config)), columns: headings(&columns), ..Table::default() };
    for (row, own) in rows(group, number, &[], &columns).into_iter().zip(&group.measured) {
        table.rows.push(row);
        let phases = own.median().filter(|_| matches!(config.length, Length::Phases));
        for (class, median) in ["1x", "128x", "1x-again", "random", "1024x"].into_iter().zip(phases.iter().cycle()) {
            // Lock, throughput, ratio and target; and at the end the verdict.
            let mut cells = vec![format!("  {class}"), String::new(), String::new(), String::new()];
            cells.extend(latencies(median, class, slo(own)));
            cells.push(String::new());
            table.rows.push(Row { cells, judgement: Judgement::Baseline });
        }
    }
    table
}

fn slo(measured: &Measured<Report>) -> Option<Ns> {
    config(measured)?.slo
}

/// The target in words.
fn target(measured: &Measured<Report>) -> String {
    match (slo(measured), config(measured).and_then(|config| config.window)) {
        (Some(slo), _) => ns(slo as f64),
        (None, Some(window)) => format!("= {}", ns(window as f64)),
        (None, None) if is_reorderable(&measured.point.lock) => "max".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// The cells from big P50 to P99/SLO.
fn latencies(report: &Report, class: &str, slo: Option<Ns>) -> [String; 6] {
    let of = |kind: &str| -> Option<&Distribution> {
        let key = if class.is_empty() { kind.to_owned() } else { format!("{class}-{kind}") };
        report.latency.get(&key).filter(|times| times.count > 0)
    };
    // Where all CPUs are alike, they are big.
    let all = if class.is_empty() { "all" } else { class };
    let big = of("big").or_else(|| report.latency.get(all).filter(|times| times.count > 0));
    let little = of("little");
    let show = |times: Option<&Distribution>, pick: fn(&Distribution) -> Ns| {
        times.map_or("-".to_owned(), |times| ns(pick(times) as f64))
    };
    let share = little.zip(slo).filter(|(_, slo)| *slo > 0);
    [
        show(big, |times| times.p50_ns),
        show(big, |times| times.p99_ns),
        show(little, |times| times.p50_ns),
        show(little, |times| times.p99_ns),
        show(little, |times| times.p999_ns),
        share.map_or("-".to_owned(), |(times, slo)| format!("{:.2}", times.p99_ns as f64 / slo as f64)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::epochs::Plan;
    use crate::hardware::workloads::throughput;

    #[test]
    fn the_table_relates_the_little_p99_to_the_target() {
        let plan =
            Plan { slo: vec![50_000], window: vec![30_000], threads: vec![3], has_little: true, ..Plan::default() };
        let settings: Vec<Workload> = plan.configs(&[]).into_iter().map(Workload::Epochs).collect();
        let mut groups = plan.groups(&settings, &["mcs_spin".to_owned(), "asl".to_owned()]);
        let report = |throughput, p99_ns| {
            let times = Distribution { count: 1, p99_ns, ..Distribution::default() };
            let latency = ["big", "little"].map(|kind| (kind.to_owned(), times.clone()));
            Report { throughput, latency: latency.into(), ..Report::default() }
        };
        // MCS; LibASL free, with the target, and with the window.
        let rounds = [report(1e5, 12_000), report(4e5, 90_000), report(2e5, 45_000), report(3e5, 45_000)];
        groups[0].measured.iter_mut().zip(rounds).for_each(|(measured, report)| measured.rounds = vec![report; 7]);
        let mut series = Series::new(groups, 1, Vec::new());
        series.judge(&[throughput()]);
        let text = page(&series, true).markdown();
        let line = |lock: &str| text.lines().find(|line| line.starts_with(lock)).unwrap_or_default().to_owned();
        for (lock, cells) in [
            ("| mcs_spin ", &["| - ", "12.0 us", "the baseline"][..]),
            ("| asl  ", &["| max ", "4.0x faster"]),
            ("| asl, slo=50us ", &["50.0 us", "2.00 [2.00, 2.00]", "| 0.90 ", "2.0x faster"]),
            ("| asl, window=30us ", &["= 30.0 us", "45.0 us", "3.0x faster"]),
        ] {
            assert!(cells.iter().all(|cell| line(lock).contains(cell)), "{lock}: {cells:?}\n{text}");
        }
        assert!(
            text.contains("3 threads, 0 steps between; 1 lock") && text.contains("no CPU is declared slower"),
            "{text}"
        );
    }
}
