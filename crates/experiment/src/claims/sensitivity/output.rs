//! What moves claims, as text: tables, Markdown, HTML, JSON and CSV.

use std::io;

use lockswap_study::page::{Page, Table};

use super::super::output::{digits, row, table};
use super::{Effect, Moved, Plan};

/// How many parameters are shown for a claim.
const SHOWN: usize = 4;

/// Everything.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(plan: &Plan, findings: &[Moved]) -> serde_json::Result<Vec<u8>> {
    let document = serde_json::json!({
        "schema": 1,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "factor": plan.factor(),
        "bases": plan.bases(),
        "refused": plan.refused(),
        "claims": findings,
    });
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

/// A line per claim and parameter.
///
/// # Errors
/// None that memory gives.
pub fn csv(findings: &[Moved]) -> io::Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let names = ["claim", "machine", "simulated", "chance", "parameter", "value", "is_guess"];
    file.write_record(names.into_iter().chain(["mean", "size", "deviation", "decides", "moves"]))?;
    for moved in findings {
        for effect in &moved.effects {
            file.write_record([
                &moved.claim,
                &moved.machine,
                &moved.mean.map(|mean| mean.to_string()).unwrap_or_default(),
                &moved.chance.to_string(),
                &effect.parameter,
                &effect.value,
                &effect.is_guess.to_string(),
                &effect.mean.to_string(),
                &effect.size.to_string(),
                &effect.deviation.to_string(),
                &effect.decides.to_string(),
                &effect.moves.to_string(),
            ])?;
        }
    }
    file.into_inner().map_err(|error| error.into_error())
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 {
        format!("{percent:+.1} %")
    } else {
        format!("{percent:+.0} %")
    }
}

/// The parameter, with a mark if it is a guess.
fn marked(effect: &Effect) -> String {
    format!("{}{}", effect.parameter, if effect.is_guess { "?" } else { "" })
}

/// Names with commas between, or a dash.
fn listed(names: Vec<String>) -> String {
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(", ")
    }
}

/// Two tables for people: what moves each claim, and which claims each parameter moves.
pub fn page(plan: &Plan, findings: &[Moved]) -> Page {
    let of_claim = |moved: &Moved| {
        let most = moved.clear().take(SHOWN).map(|effect| format!("{} {}", marked(effect), percent(effect.mean)));
        let guesses = moved.effects.iter().filter(|effect| effect.is_guess && effect.decides);
        row(vec![
            moved.claim.clone(),
            moved.mean.map_or_else(|| "-".to_owned(), digits),
            if moved.agrees { "agrees" } else { "DISAGREES" }.to_owned(),
            format!("{:.1} %", 100.0 * moved.chance),
            listed(most.collect()),
            listed(guesses.map(|effect| effect.parameter.clone()).collect()),
        ])
    };
    let columns = [
        ("claim", false),
        ("simulated", true),
        ("", false),
        ("chance", true),
        ("moved most by", false),
        ("hangs on these guesses", false),
    ];
    let change = 100.0 * (plan.factor() - 1.0);
    let percents = format!("{} %", lockswap_study::numbers::short(change));
    let clear: usize = findings.iter().map(|moved| moved.clear().count()).sum();
    let hanging = findings.iter().filter(|moved| moved.effects.iter().any(|effect| effect.is_guess && effect.decides));
    let points = if plan.bases() == 1 { "1 base point".to_owned() } else { format!("{} base points", plan.bases()) };
    let mut notes = vec![
        format!(
            "moved by: what becomes of the number if the parameter is {percents} larger; the mean of elementary effects, one \
             parameter at a time, upwards and downwards, at {points}. ? a guess: no source is named for the parameter."
        ),
        "chance: how far apart the seeds of the machine as described are; smaller effects are not shown. hangs on: the claim \
         agrees with the paper only on one side of such a move."
            .to_owned(),
    ];
    let idle = of_parameters(findings).into_iter().filter(|of| of.moved.is_empty());
    let mut idle: Vec<String> = idle.map(|of| format!("{} ({})", of.effect.parameter, of.machine)).collect();
    idle.sort_unstable();
    if !idle.is_empty() {
        notes.push(format!("move no claim by more than chance: {}.", idle.join(", ")));
    }
    notes.extend(plan.refused().iter().map(|refused| format!("not moved so far: {refused}")));
    Page {
        title: format!("What moves the claims, if each parameter is {percents} larger or smaller"),
        conclusion: vec![format!(
            "{clear} effects are larger than chance; {} of {} claims hang on a guess.",
            hanging.count(),
            findings.len()
        )],
        tables: vec![
            table(Some("claims"), &columns, findings.iter().map(of_claim).collect()),
            parameters(&of_parameters(findings)),
        ],
        notes,
        ..Page::default()
    }
}

/// What a parameter of a machine does to all claims.
struct Of<'a> {
    machine: &'a str,
    effect: &'a Effect,
    /// The claims that it moves by more than chance, and how far.
    moved: Vec<(&'a str, f64)>,
    claims: usize,
    sum: f64,
}

impl Of<'_> {
    /// The mean size of its effects.
    fn mean(&self) -> f64 {
        self.sum / self.claims as f64
    }
}

/// Which claims each parameter moves, the most influential ones first.
fn of_parameters(findings: &[Moved]) -> Vec<Of<'_>> {
    let mut all: Vec<Of<'_>> = Vec::new();
    for moved in findings {
        for effect in &moved.effects {
            let is_it = |of: &Of<'_>| {
                of.machine == moved.machine
                    && (&of.effect.parameter, &of.effect.value) == (&effect.parameter, &effect.value)
            };
            let index = all.iter().position(is_it).unwrap_or(all.len());
            if index == all.len() {
                all.push(Of { machine: &moved.machine, effect, moved: Vec::new(), claims: 0, sum: 0.0 });
            }
            let of = &mut all[index];
            of.claims += 1;
            of.sum += effect.size;
            if effect.size > moved.chance {
                of.moved.push((&moved.claim, effect.mean));
            }
        }
    }
    all.sort_by(|one, other| other.mean().total_cmp(&one.mean()));
    all
}

/// The parameters that move a claim by more than chance.
fn parameters(all: &[Of<'_>]) -> Table {
    let rows = all.iter().filter_map(|of| {
        let (claim, most) = of.moved.iter().max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))?;
        Some(row(vec![
            of.machine.to_owned(),
            marked(of.effect),
            of.effect.value.clone(),
            format!("{} of {}", of.moved.len(), of.claims),
            format!("{:.1} %", 100.0 * of.mean()),
            format!("{claim} {}", percent(*most)),
        ]))
    });
    let columns = [
        ("machine", false),
        ("parameter", false),
        ("value", true),
        ("claims moved", true),
        ("mean size", true),
        ("most", false),
    ];
    table(Some("parameters"), &columns, rows.collect())
}
