//! The claims next to what became of them, as text: tables, Markdown, HTML, JSON and CSV.

use std::io;

use lockswap_study::page::{Page, Row, Table};
use lockswap_study::summary::Judgement;

use super::changes::{changes, reason, Basis};
use super::judge::{errors, Errors, NEAR, SLACK};
use super::seeds::{FEWEST, PRECISION};
use super::{Outcome, Relation};

/// Everything.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(outcomes: &[Outcome<'_>], seeds: u32) -> serde_json::Result<Vec<u8>> {
    let claim = |outcome: &Outcome<'_>| {
        serde_json::json!({
            "claim": outcome.claim,
            "basis": Basis::of(outcome.claim),
            "because": reason(outcome.claim),
            "range": outcome.claim.range(),
            "simulated": outcome.simulated,
            "mean": outcome.mean,
            "error": outcome.error(),
            "agrees": outcome.agrees(),
            "failures": outcome.failures,
        })
    };
    let document = serde_json::json!({
        "schema": 2,
        "tool": TOOL,
        "seeds": seeds,
        "errors": errors(outcomes),
        "claims": outcomes.iter().map(claim).collect::<Vec<_>>(),
        "changes": changes(),
    });
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

const TOOL: &str = concat!("lockswap ", env!("CARGO_PKG_VERSION"));

/// A line per claim.
///
/// # Errors
/// None that memory gives.
pub fn csv(outcomes: &[Outcome<'_>]) -> io::Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let names = ["claim", "source", "machine", "basis", "because", "relation", "paper", "simulated", "least", "most"];
    file.write_record(names.into_iter().chain(["ratio", "error", "agrees"]))?;
    for outcome in outcomes {
        let claim = outcome.claim;
        let show = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
        let end = |pick: fn(f64, f64) -> f64| show(outcome.simulated.iter().copied().reduce(pick));
        file.write_record([
            &claim.id,
            &claim.source,
            &claim.machine,
            Basis::of(claim).name(),
            &reason(claim),
            claim.relation.name(),
            &claim.value.to_string(),
            &show(outcome.mean),
            &end(f64::min),
            &end(f64::max),
            &show(outcome.ratio()),
            &show(outcome.error()),
            &outcome.agrees().to_string(),
        ])?;
    }
    file.into_inner().map_err(|error| error.into_error())
}

/// Three digits, as papers have them.
pub fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A table: headings, each with whether numbers stand below it, and rows.
pub(super) fn table(title: Option<&str>, columns: &[(&str, bool)], rows: Vec<Row>) -> Table {
    let columns = columns.iter().map(|(heading, is_numeric)| ((*heading).to_owned(), *is_numeric)).collect();
    Table { title: title.map(str::to_owned), columns, rows, ..Table::default() }
}

/// A row that is as expected.
pub(super) fn row(cells: Vec<String>) -> Row {
    Row { cells, judgement: Judgement::Same }
}

/// The errors of the machines, and the claims with what became of them, for people.
pub fn page(outcomes: &[Outcome<'_>], seeds: u32) -> Page {
    let judgement = |outcome: &Outcome<'_>| if outcome.agrees() { Judgement::Same } else { Judgement::Worse };
    let row = |outcome: &Outcome<'_>| Row { cells: cells(outcome).to_vec(), judgement: judgement(outcome) };
    let mut tables = of_machines(&errors(outcomes));
    tables.push(table(Some("claims"), &COLUMNS, outcomes.iter().map(row).collect()));
    Page {
        title: "What papers claim, and what the simulated machines show".to_owned(),
        tables,
        notes: notes(outcomes, seeds),
        ..Page::default()
    }
}

/// The page with what was fitted or changed when results were at hand, and by which command it
/// was made.
pub fn full_page(outcomes: &[Outcome<'_>], seeds: u32, made_by: &str) -> Page {
    let mut page = page(outcomes, seeds);
    let with_reason = |outcome: &&Outcome<'_>| !Basis::of(outcome.claim).is_blind();
    let reasons = outcomes.iter().filter(with_reason).map(|outcome| {
        let claim = outcome.claim;
        row(vec![claim.id.clone(), Basis::of(claim).name().to_owned(), reason(claim)])
    });
    page.tables.push(table(
        Some("why a claim is structural, fitted or seen"),
        &[("claim", false), ("basis", false), ("because of", false)],
        reasons.collect(),
    ));
    let or_none = |claims: &[String]| if claims.is_empty() { "-".to_owned() } else { claims.join(", ") };
    let changes = changes().iter().map(|change| {
        let (fitted, seen) = (or_none(&change.fitted), or_none(&change.seen));
        let texts = [&change.what, &change.of, &change.change, &change.commits.join(", "), &fitted, &seen, &change.why];
        row(texts.map(String::clone).to_vec())
    });
    let headings = ["what", "of", "values", "commits", "fitted on", "seen", "why"];
    page.tables.push(table(
        Some("chosen or changed when simulated numbers were at hand"),
        &headings.map(|heading| (heading, false)),
        changes.collect(),
    ));
    page.notes.push(made_by.to_owned());
    page
}

/// Tables of errors: of the machines that parameters were fitted on, and of those that are held out.
fn of_machines(errors: &[Errors]) -> Vec<Table> {
    let columns = [
        ("machine", false),
        ("claims", true),
        ("error factor", true),
        ("target", true),
        ("unfitted claims", true),
        ("error factor", true),
        ("farthest off", false),
    ];
    let line = |errors: &Errors| {
        let or_dash = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), digits);
        let (id, most) = &errors.worst;
        Row {
            cells: vec![
                errors.machine.clone(),
                errors.claims.to_string(),
                digits(errors.factor),
                errors.target.map_or_else(|| "-".to_owned(), |target| format!("<= {}", digits(target))),
                errors.blind_claims.to_string(),
                or_dash(errors.blind_factor),
                format!("{id}, {}", digits(*most)),
            ],
            judgement: match errors.target {
                Some(target) if errors.factor > target => Judgement::Worse,
                _ => Judgement::Same,
            },
        }
    };
    let of = |is_held_out: bool, title: &str| {
        let rows: Vec<Row> = errors.iter().filter(|of| of.is_held_out == is_held_out).map(line).collect();
        (!rows.is_empty()).then(|| table(Some(title), &columns, rows))
    };
    [of(false, "how far off the simulation is"), of(true, "how far off on machines that are held out")]
        .into_iter()
        .flatten()
        .collect()
}

/// The headings, and whether numbers stand below them.
const COLUMNS: [(&str, bool); 8] = [
    ("claim", false),
    ("paper", true),
    ("simulated", true),
    ("ratio", true),
    ("", false),
    ("basis", false),
    ("min..max", true),
    ("what", false),
];

impl Relation {
    /// It in words.
    pub fn name(self) -> &'static str {
        match self {
            Relation::About => "about",
            Relation::AtLeast => "at least",
            Relation::AtMost => "at most",
        }
    }
}

fn cells(outcome: &Outcome<'_>) -> [String; 8] {
    let claim = outcome.claim;
    let end = |pick: fn(f64, f64) -> f64| outcome.simulated.iter().copied().reduce(pick).map(digits);
    let range = end(f64::min).zip(end(f64::max)).map(|(least, most)| format!("{least}..{most}"));
    let paper = match claim.relation {
        Relation::About => digits(claim.value),
        Relation::AtLeast => format!(">= {}", digits(claim.value)),
        Relation::AtMost => format!("<= {}", digits(claim.value)),
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        claim.id.clone(),
        paper,
        or_dash(outcome.mean.map(digits)),
        or_dash(outcome.ratio().map(|ratio| format!("{ratio:.2}"))),
        if outcome.agrees() { "agrees" } else { "DISAGREES" }.to_owned(),
        Basis::of(claim).name().to_owned(),
        or_dash(range),
        format!("{} ({}; {})", claim.says, claim.source, claim.machine),
    ]
}

/// Of how many seeds the numbers are means.
fn means(most: u32) -> String {
    if most <= FEWEST {
        return format!("mean of {most} seeds");
    }
    format!(
        "mean of {FEWEST} to {most} seeds, as many as its 95 % interval takes to reach {:.0} % of it to either side at most, \
         or to lie on one side of a bound",
        100.0 * PRECISION
    )
}

/// What stands below the tables, a paragraph each.
fn notes(outcomes: &[Outcome<'_>], seeds: u32) -> Vec<String> {
    let agreeing = |wanted: &dyn Fn(&Outcome<'_>) -> bool| {
        let wanted = outcomes.iter().filter(|outcome| wanted(outcome));
        wanted.fold((0, 0), |(right, all), outcome| (right + usize::from(outcome.agrees()), all + 1))
    };
    let basis = |outcome: &Outcome<'_>| Basis::of(outcome.claim);
    let (agree, _) = agreeing(&|_| true);
    let (blind, all_blind) = agreeing(&|outcome| basis(outcome).is_blind());
    let (_, structural) = agreeing(&|outcome| basis(outcome) == Basis::Structural);
    let mut notes = vec![
        format!(
            "{agree} of {} claims agree, of which {structural} are structural; {blind} of the {all_blind} unfitted ones; \
             {}. ratio: simulated / paper.",
            outcomes.len(),
            means(seeds)
        ),
        format!(
            "A claim agrees if it is at most {NEAR:.2} times off, either way; a bound (>=, <=) may be missed by {SLACK:.2} \
             times. error factor: the geometric mean of how many times off the claims are that have a number and are not \
             structural."
        ),
        "basis: structural: true by construction. fitted: a parameter was chosen for it. seen: it was known, and looked at, \
         when something that moves it was changed. predicted: neither. held out: neither, and no parameter of the machine \
         follows any claim. unfitted: predicted or held out. --export FILE.md has what was changed, and in which commit."
            .to_owned(),
    ];
    let failed = outcomes.iter().filter_map(|outcome| Some((outcome.claim, outcome.failures.first()?)));
    notes.extend(failed.map(|(claim, failure)| format!("{}: {failure}", claim.id)));
    notes
}
