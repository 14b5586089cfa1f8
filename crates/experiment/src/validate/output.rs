//! What a validation found, as JSON and CSV.

use std::io;

use serde_json::{json, Value};

use super::judge::{Group, Sample, Verdict};
use super::{Findings, Outcome};

/// Everything.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(findings: &Findings) -> serde_json::Result<Vec<u8>> {
    let plan = &findings.plan;
    let group = |outcome: &Outcome| {
        let verdicts = outcome.group.as_ref().map_or(&[][..], |group| &group.locks);
        let lock = |sample: &Sample| {
            let verdict = verdicts.iter().find(|verdict| verdict.lock == sample.lock);
            json!({
                "lock": sample.lock,
                "measured_rounds": sample.measured,
                "simulated": sample.simulated,
                "measured_fairness": sample.fairness[0],
                "simulated_fairness": sample.fairness[1],
                "measured_relative": verdict.map(|v| v.measured_relative),
                "measured_relative_range": verdict.map(|v| v.measured_range),
                "simulated_relative": verdict.map(|v| v.simulated_relative),
                "absolute": verdict.map(Verdict::absolute),
                "ratio": verdict.map(Verdict::ratio),
                "within_noise": verdict.map(Verdict::is_within_noise),
            })
        };
        json!({
            "workload": outcome.case(plan).name,
            "config": outcome.case(plan).workload.config(),
            "threads": outcome.case(plan).threads,
            "fitted_steps": outcome.fitted,
            "measured_mean": outcome.group.as_ref().map(|group| group.measured),
            "simulated_mean": outcome.group.as_ref().map(|group| group.simulated),
            "kendall_tau": outcome.group.as_ref().map(Group::tau),
            "pairs_in_order": outcome.group.as_ref().map(|group| group.decided().0),
            "pairs_decided": outcome.group.as_ref().map(|group| group.decided().1),
            "locks": outcome.samples.iter().map(lock).collect::<Vec<_>>(),
        })
    };
    let document = json!({
        "schema": 1,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "machine": findings.about,
        "simulated_machine": plan.machine.as_ref().map(|machine| json!({ "id": machine.id, "title": machine.title })),
        "machine_file": plan.probed,
        "settings": plan.settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
        "rounds": plan.rounds,
        "duration_ns": plan.duration,
        "simulated_ns": plan.simulated,
        "seed": plan.seed,
        "pinned_to": plan.seats,
        "line_ns": findings.lines,
        "left_out": { "rounds": findings.left_out, "line_ns": findings.other_lines },
        "groups": findings.outcomes.iter().map(group).collect::<Vec<Value>>(),
        "failures": findings.failures,
    });
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

/// One line per lock, workload and number of threads.
///
/// # Errors
/// None that memory gives.
pub fn csv(findings: &Findings) -> io::Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let names = ["workload", "threads", "lock", "measured", "measured_relative", "measured_relative_low"];
    let more = ["measured_relative_high", "simulated", "simulated_relative", "absolute", "ratio", "within_noise"];
    let fairness = ["measured_fairness", "simulated_fairness"];
    file.write_record(names.iter().chain(&more).chain(&fairness))?;
    for (outcome, group) in findings.groups() {
        let case = outcome.case(&findings.plan);
        for lock in &group.locks {
            file.write_record([
                &case.name,
                &case.threads.to_string(),
                &lock.lock,
                &lock.measured.to_string(),
                &lock.measured_relative.to_string(),
                &lock.measured_range[0].to_string(),
                &lock.measured_range[1].to_string(),
                &lock.simulated.to_string(),
                &lock.simulated_relative.to_string(),
                &lock.absolute().to_string(),
                &lock.ratio().to_string(),
                &lock.is_within_noise().to_string(),
                &lock.fairness[0].to_string(),
                &lock.fairness[1].to_string(),
            ])?;
        }
    }
    file.into_inner().map_err(|error| error.into_error())
}
