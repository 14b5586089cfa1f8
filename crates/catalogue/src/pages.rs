//! What there is to say of a lock, and `docs/locks`: one page per lock and an index, from the registry and the results
//! of the checks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use lockswap_locks::info::{Fairness, Timed, WaitingPolicy};
use lockswap_locks::parameters::{Parameter, Values};
use lockswap_locks::registry::{Entry, Role, ENTRIES};

use crate::about;
use crate::checked::{self, AllChecks, Check, Engine, Summary};
use crate::order::{by_family, option, ROLES};

const MADE: &str = "<!-- Made by `cargo run --release -p lockswap-cli -- list --write-docs docs/locks`. -->\n";

/// The source file of a lock in the repository; nothing for glibc's.
pub fn source(entry: &Entry) -> Option<String> {
    let parts: Vec<_> = entry.source().collect();
    (!parts.is_empty()).then(|| format!("crates/locks/src/{}.rs", parts.join("/")))
}

/// Writes all pages into `folder`, and removes pages of locks that are no more. An error names the file.
pub fn write(folder: &Path, checks: &AllChecks) -> io::Result<()> {
    let named = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("cannot write {path}: {error}"))
    };
    fs::create_dir_all(folder).map_err(named(folder))?;
    let pages = pages(checks);
    for found in fs::read_dir(folder).map_err(named(folder))? {
        let path = found?.path();
        let ours = fs::read_to_string(&path).is_ok_and(|text| text.starts_with(MADE));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if ours && !pages.contains_key(&name) {
            fs::remove_file(&path).map_err(named(&path))?;
        }
    }
    for (name, text) in &pages {
        let path = folder.join(name);
        fs::write(&path, text).map_err(named(&path))?;
    }
    Ok(())
}

/// All pages by the names of their files.
pub fn pages(checks: &AllChecks) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::from([("README.md".to_owned(), index(checks))]);
    for entry in ENTRIES {
        let page = pages.entry(file(entry)).or_insert_with(|| format!("{MADE}# {}\n", entry.info.id));
        *page += &section(entry, checks.of(entry));
    }
    pages
}

/// The name of the file with a lock's page.
pub fn file(entry: &Entry) -> String {
    format!("{}.md", entry.info.id)
}

fn index(checks: &AllChecks) -> String {
    let mut text = format!("{MADE}# The locks\n");
    text += "\nEvery lock that `lockswap list` shows, with the same words; each has a page. *oversub*: whether it stays fast with\n\
             more threads than CPUs. *bytes*: inside the pthread object, then allocated for each lock, then for each lock that a\n\
             thread holds or awaits. *checked*: [how](../proof.md), by going through all interleavings of a few threads, or those\n\
             with so many preemptions, and all executions of the C11 memory model (loom); *open*: what the lock's page lists as not checked.\n";
    for role in ROLES {
        let _ = writeln!(text, "\n## {}", title(role));
        let mut family = None;
        for entry in by_family(role) {
            let info = &entry.info;
            if family != Some(info.family) {
                family = Some(info.family);
                let _ = writeln!(text, "\n**{}**: {}\n", info.family.name(), info.family.meaning());
                text += "| lock | what it does | waiting | fairness | oversub | bytes | checked |\n\
                         |---|---|---|---|---|---|---|\n";
            }
            let _ = writeln!(
                text,
                "| [{id}]({id}.md) | {} | {} | {} | {} | {}, {}, {} | {} |",
                cell(info.summary),
                info.waiting.name(),
                info.fairness.name(),
                yes(info.keeps_up),
                entry.body_bytes,
                entry.extra_bytes_per_lock,
                entry.bytes_per_acquisition,
                checked_in_words(entry, checks),
                id = info.id,
            );
        }
    }
    text
}

fn section(entry: &Entry, checks: Option<&[Check]>) -> String {
    facts(entry)
        + &match checks {
            Some(checks) => proof(checks),
            None => format!("\n### Checked\n{}.\n", capital(not_checked_at_all(entry))),
        }
}

/// What the registry knows of a lock, in words.
pub struct Facts {
    /// What it is, and how it is chosen: `Mutex (--lock mcs_stp)`.
    pub title: String,
    /// What it does, as a sentence.
    pub summary: String,
    /// Names and what there is to say.
    pub rows: Vec<(&'static str, String)>,
}

impl Facts {
    /// Those of a lock.
    pub fn of(entry: &Entry) -> Self {
        Self::with_option(entry, |option| option.to_owned())
    }

    /// `marked` is how the option that chooses the lock is written.
    fn with_option(entry: &Entry, marked: impl Fn(&str) -> String) -> Self {
        let info = &entry.info;
        let default = if info.id == entry.role.default_id() { ", the default" } else { "" };
        let option = marked(&format!("{} {}", option(entry.role), info.id));
        Self {
            title: format!("{} ({option}{default})", title(entry.role)),
            summary: format!("{}.", capital(info.summary)),
            rows: [
                ("paper", info.paper.into()),
                ("family", format!("{}: {}", info.family.name(), info.family.meaning())),
                ("waiting", format!("{}: {}", info.waiting.name(), waiting(info.waiting))),
                ("fairness", format!("{}: {}", info.fairness.name(), fairness(info.fairness))),
                ("fast with more threads than CPUs", yes(info.keeps_up).into()),
                (
                    "real-time waiters by priority",
                    format!("{}: {}", info.by_priority.name(), info.by_priority.meaning()),
                ),
                ("bytes inside the pthread object", entry.body_bytes.to_string()),
                ("extra bytes per lock", entry.extra_bytes_per_lock.to_string()),
                ("bytes per acquisition", entry.bytes_per_acquisition.to_string()),
                ("try", "yes".into()),
                ("timed", format!("{}: {}", info.timed.name(), timed(info.timed))),
            ]
            .into_iter()
            .chain(entry.parameters.iter().map(|known| ("parameter", in_words(known))))
            .collect(),
        }
    }
}

/// A parameter with its values, its default and what it is.
fn in_words(parameter: &Parameter) -> String {
    let values = match parameter.values {
        Values::Time(_) => "TIME up to 1h".to_owned(),
        Values::Number(_, least, most, unit) => format!("{least}..{most} {unit}"),
        Values::Locks(known) => known.iter().map(|(value, _)| *value).collect::<Vec<_>>().join("|"),
    };
    format!("{}={values} [default: {}]: {} ({})", parameter.key, parameter.default, parameter.summary, parameter.source)
}

/// How far a lock was checked, in a few words.
pub fn checked_in_words(entry: &Entry, checks: &AllChecks) -> String {
    checks.of(entry).map_or_else(|| not_checked_at_all(entry).into(), |checks| Summary::new(checks).words())
}

/// The beginning of a section: what the registry knows.
fn facts(entry: &Entry) -> String {
    let Facts { title, summary, rows } = Facts::with_option(entry, |option| format!("`{option}`"));
    let mut text = format!("\n## {title}\n\n{summary}\n\n| | |\n|---|---|\n");
    let source = source(entry).map_or("glibc's".into(), |source| format!("[{source}](../../{source})"));
    for (name, fact) in rows.into_iter().chain([("source", source)]) {
        let _ = writeln!(text, "| {name} | {} |", cell(&fact));
    }
    if let Some(about) = about::page(entry) {
        let _ = write!(text, "\n### How it works\nAs its source says.\n\n{about}");
    }
    text
}

/// The checks, and what they leave open.
fn proof(checks: &[Check]) -> String {
    let mut text = String::from(
        "\n### Checked\n[How](../proof.md). In brackets: bounds smaller than the published ones.\n\n\
         | scenario | machine | threads | executions | bound |\n|---|---|---|---|---|\n",
    );
    for check in checks {
        let machine = match check.engine {
            Engine::Explore => "interleavings",
            Engine::Loom => "loom",
        };
        let bound = match (&check.failure, check.engine, check.preemptions) {
            (Some(failure), ..) => format!("**fails**: {failure}"),
            (None, Engine::Explore, Some(bound)) if check.holds() => format!("{bound} preemptions, complete"),
            (None, ..) if check.holds() => "complete".into(),
            _ => "cut off".into(),
        };
        let (threads, executions) = (check.threads, check.executions);
        let _ =
            writeln!(text, "| {} | {machine} | {threads} | {executions} | {} |", cell(&check.title()), cell(&bound));
    }
    text += "\n### Not checked\n";
    let open = checked::not_checked(checks);
    if open.is_empty() {
        text += "Nothing of the above. More threads and longer runs are left to the tests on hardware.\n";
    }
    for line in open {
        let _ = writeln!(text, "- {line}");
    }
    text
}

fn not_checked_at_all(entry: &Entry) -> &'static str {
    if entry.path.is_empty() {
        "not checked: glibc's code"
    } else {
        "not checked"
    }
}

fn title(role: Role) -> &'static str {
    match role {
        Role::Mutex => "Mutex",
        Role::RwLock => "Read-write lock",
        Role::Spin => "Spinlock",
    }
}

fn waiting(policy: WaitingPolicy) -> &'static str {
    match policy {
        WaitingPolicy::Spin => "a waiter spins; after a stated bound it yields, then naps",
        WaitingPolicy::SpinThenPark => "a waiter spins for a bounded time, then sleeps until it is woken",
        WaitingPolicy::Adaptive => "a waiter spins for a time learnt from experience, then sleeps until it is woken",
    }
}

fn fairness(fairness: Fairness) -> String {
    match fairness {
        Fairness::Unfair => "a newcomer may overtake, without bound".into(),
        Fairness::Fifo => "first come, first served".into(),
        Fairness::Bounded(times) => {
            format!("while a thread waits in the queue, each other thread acquires at most {times} times")
        }
        Fairness::LongTerm => "overtaking is possible, but every waiter is served in the end".into(),
    }
}

fn timed(timed: Timed) -> &'static str {
    match timed {
        Timed::Native => "the algorithm itself can give up waiting",
        Timed::Poll => "attempts with naps between them until the deadline; such a waiter takes no place in the queue",
    }
}

pub(crate) fn yes(is: bool) -> &'static str {
    if is {
        "yes"
    } else {
        "no"
    }
}

/// `text` within a table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_exist_and_pages_of_one_name_hold_all_roles() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for entry in ENTRIES {
            assert_eq!(source(entry).is_none(), entry.path.is_empty());
            assert!(source(entry).is_none_or(|source| root.join(source).is_file()), "{}", entry.path);
        }
        let pages = pages(&AllChecks::built_in().unwrap());
        let sections = |page: &str| pages[page].lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!((sections("ttas.md"), sections("pthread.md"), sections("futex.md")), (2, 3, 1));
    }
}
