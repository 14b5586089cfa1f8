//! The results for people: the same page for a terminal and for a browser, which has more room.

use lockswap_study::numbers::{count, percent, time_in_words};
use lockswap_study::page::{Page, Picture, Row, Table};
use lockswap_study::summary::Judgement;

use super::folded::flame_graph;
use super::Side;
use crate::report::{
    CycleReport, ObjectReport, OrderReport, OrderedObject, Report, StackPair, StackReport, StillWaiting, ThreadPair,
    Times,
};

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The objects for which threads waited longest, so many, each with the place to look at first.
    Worst(usize),
    /// All that a browser has room for.
    Whole,
}

/// Objects, and stacks of each, that a page shows.
const MOST_OBJECTS: usize = 100;
const MOST_STACKS: usize = 10;
/// Objects of a page that are shown in detail.
const MOST_DETAILED: usize = 20;
/// Frames of a stack where there is little room.
const FEW_FRAMES: usize = 4;
/// Frames of a stack on a page.
const MANY_FRAMES: usize = 24;
/// Condition variables where there is little room.
const FEW_CONDITIONS: usize = 3;

/// The page.
pub fn page(report: &Report, extent: Extent) -> Page {
    let (most, few_conditions) = match extent {
        Extent::Worst(most) => (most, FEW_CONDITIONS.min(most)),
        Extent::Whole => (MOST_OBJECTS, MOST_OBJECTS),
    };
    let waited: Vec<&ObjectReport> = report.objects.iter().filter(|object| object.wait.noted > 0).collect();
    let used = |object: &&ObjectReport| object.wait.noted + object.hold.noted > 0;
    let shown = if waited.is_empty() { report.objects.iter().filter(used).collect() } else { waited.clone() };
    let mut page = Page { title: format!("lockswap trace: {}", report.command.join(" ")), ..Page::default() };
    page.conclusion = conclusion(report, &waited);
    if !shown.is_empty() {
        let mut table = objects(shown.iter().copied().take(most), extent);
        table.title = Some("Locks, those first for which threads waited longest".into());
        page.tables.push(table);
    }
    if !waited.is_empty() {
        page.tables.push(places(waited.iter().copied().take(most)));
    }
    let conditions: Vec<&ObjectReport> = report.conditions.iter().filter(|c| c.wait.noted > 0).collect();
    if !conditions.is_empty() {
        page.tables.push(condition_table(conditions.iter().copied().take(few_conditions)));
    }
    page.tables.extend(report.cycles.iter().take(most).map(cycle));
    if !report.still_waiting.is_empty() {
        page.tables.push(still_waiting(report, most));
    }
    if extent == Extent::Whole {
        for object in waited.iter().take(MOST_DETAILED) {
            page.tables.extend(details(object));
        }
        for side in [Side::Holders, Side::Waiters] {
            let svg = flame_graph(report, side).ok().filter(|_| !waited.is_empty());
            let caption = format!("Flame graph: {}", side.title());
            page.pictures.extend(svg.map(|svg| Picture { caption, svg, is_wide: true }));
        }
    }
    page.notes = notes(report);
    page
}

fn conclusion(report: &Report, waited: &[&ObjectReport]) -> Vec<String> {
    let total: f64 = report.objects.iter().map(|object| object.wait.total_ns).sum();
    let is_stuck = |waiting: &&StillWaiting| !waiting.is_idle;
    let stuck: u64 = report.still_waiting.iter().filter(is_stuck).map(|waiting| waiting.threads).sum();
    let still = (stuck > 0).then(|| format!("{} waited for a lock when the program ended.", number(stuck, "thread")));
    let Some(worst) = waited.first() else {
        let none = match report.notes.holds {
            0 => "No lock of the program was seen at all.".into(),
            noted => format!("No thread was seen waiting for a lock; {noted} acquisitions were noted."),
        };
        return vec![still.unwrap_or(none)];
    };
    let share = 100.0 * worst.wait.total_ns / total;
    let mut said = vec![format!(
        "Threads waited {} in all for locks, in {} of run time; {share:.0} % of that for the {} {}.",
        time_in_words(total),
        time_in_words(report.duration_ns as f64),
        worst.used,
        worst.called()
    )];
    if let Some(holder) = worst.holders.iter().find(|holder| !holder.frames.is_empty() && holder.waited_ns > 0.0) {
        let share = 100.0 * holder.waited_ns / worst.charged_ns;
        let place = holder.own_frames().first().map(|frame| frame.words()).unwrap_or_default();
        said.push(format!("Look first at its holder in {place}: it accounts for {share:.0} % of the waiting for it."));
    }
    said.extend(still);
    said
}

fn columns(names: &[&str], text: usize) -> Vec<(String, bool)> {
    names.iter().enumerate().map(|(index, name)| ((*name).to_owned(), index >= text)).collect()
}

fn plain(cells: Vec<String>) -> Row {
    Row { cells, judgement: Judgement::Same }
}

/// `1 thread`, `2 threads`
fn number(of: u64, what: &str) -> String {
    format!("{of} {what}{}", if of == 1 { "" } else { "s" })
}

fn time(ns: f64, noted: u64) -> String {
    if noted == 0 {
        "-".into()
    } else {
        time_in_words(ns)
    }
}

/// `1.2 s +-4 %`
fn total(times: &Times) -> String {
    let error = percent(times.total_error_ns / times.total_ns.max(1.0));
    match (times.noted, times.total_error_ns) {
        (0, _) => "-".into(),
        (_, 0.0) => time_in_words(times.total_ns),
        _ => format!("{} +-{error}", time_in_words(times.total_ns)),
    }
}

/// The columns of the table of locks, and whether there is always room for them.
const COLUMNS: [(&str, bool); 21] = [
    ("lock", true),
    ("use", true),
    ("waited", true),
    ("acquired", true),
    ("contended", true),
    ("wait p50", true),
    ("p90", false),
    ("p99", true),
    ("max", true),
    ("slept", false),
    ("held p50", true),
    ("p90", false),
    ("p99", true),
    ("max", true),
    ("queue", true),
    ("other thread", false),
    ("other CPU", false),
    ("other node", false),
    ("wake-up p50", false),
    ("holder slept", false),
    ("preempted", false),
];

fn objects<'a>(objects: impl Iterator<Item = &'a ObjectReport>, extent: Extent) -> Table {
    let row = |object: &ObjectReport| {
        let (wait, hold, handed) = (&object.wait, &object.hold, &object.handed);
        let times = |times: &Times| {
            [times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns as f64].map(|ns| time(ns, times.noted))
        };
        let share = |share: f64, of: &Times| if of.noted == 0 { "-".into() } else { percent(share) };
        let mut cells = vec![object.called(), object.used.to_owned(), total(wait), count(object.acquisitions.value)];
        cells.push(object.contended.map_or("-".into(), percent));
        cells.extend(times(wait));
        cells.push(share(object.slept, wait));
        cells.extend(times(hold));
        cells.push(object.longest_queue.to_string());
        cells.extend([object.changed_owner, object.changed_cpu, object.changed_node].map(|part| share(part, handed)));
        cells.push(time(handed.p50_ns, handed.noted));
        cells.extend([object.holder_slept, object.holder_preempted].map(|part| share(part, hold)));
        plain(with_room(cells.into_iter(), extent).collect())
    };
    let names = with_room(COLUMNS.into_iter().enumerate(), extent);
    let columns = names.map(|(index, (name, _))| (name.to_owned(), index >= 2)).collect();
    Table { columns, rows: objects.map(row).collect(), ..Table::default() }
}

/// What stands in the columns for which there is room.
fn with_room<T>(cells: impl Iterator<Item = T>, extent: Extent) -> impl Iterator<Item = T> {
    let shown = move |(_, (_, always)): &(T, (&str, bool))| *always || extent == Extent::Whole;
    cells.zip(COLUMNS).filter(shown).map(|(cell, _)| cell)
}

fn stack(stack: &StackReport, most: usize) -> String {
    if stack.frames.is_empty() {
        return "[no stack]".into();
    }
    let own = stack.own_frames();
    let mut lines: Vec<String> = own.iter().take(most).map(|frame| frame.words()).collect();
    if own.len() > most {
        lines.push(format!("... {} more", own.len() - most));
    }
    if lines.is_empty() {
        lines.push(stack.frames[0].words());
    }
    lines.join("\n")
}

fn places<'a>(objects: impl Iterator<Item = &'a ObjectReport>) -> Table {
    let title = "Where to look first: the code that let others wait longest, and the code that waited longest";
    let worst = |stacks: &[StackReport], whole: f64| {
        let found = stacks.iter().find(|stack| stack.waited_ns > 0.0);
        found.map_or(["-".into(), "-".into()], |found| {
            [percent((found.waited_ns / whole.max(1.0)).min(1.0)), stack(found, FEW_FRAMES)]
        })
    };
    let row = |object: &ObjectReport| {
        let holder = worst(&object.holders, object.charged_ns);
        let waiter = worst(&object.waiters, object.wait.total_ns);
        plain([vec![object.called()], holder.to_vec(), waiter.to_vec()].concat())
    };
    let mut columns = columns(&["lock", "share", "holder", "share", "waiter"], 5);
    columns[1].1 = true;
    columns[3].1 = true;
    Table { title: Some(title.into()), columns, rows: objects.map(row).collect(), ..Table::default() }
}

fn condition_table<'a>(conditions: impl Iterator<Item = &'a ObjectReport>) -> Table {
    let about = "A thread that waits for one often has nothing to do.";
    let row = |object: &ObjectReport| {
        let wait = &object.wait;
        let place = object.waiters.first().map(|waiter| stack(waiter, FEW_FRAMES)).unwrap_or_default();
        let times = [wait.p50_ns, wait.p99_ns, wait.max_ns as f64].map(|ns| time(ns, wait.noted));
        let first = vec![object.called(), object.used.to_owned(), place, total(wait), count(wait.count)];
        plain([first, times.to_vec()].concat())
    };
    Table {
        title: Some("Condition variables, semaphores and barriers".into()),
        about: Some(about.into()),
        columns: columns(&["name", "what", "waiter", "waited", "waits", "p50", "p99", "max"], 3),
        rows: conditions.map(row).collect(),
        ..Table::default()
    }
}

/// A possible deadlock.
fn cycle(cycle: &CycleReport) -> Table {
    let named = |object: &OrderedObject| {
        let objects = cycle.orders.iter().map(|order| &order.held);
        let is_alone = objects.filter(|other| other.name == object.name).all(|other| other.address == object.address);
        let place = if is_alone { String::new() } else { format!(" at 0x{:x}", object.address) };
        format!("{}{place} ({})", object.name, object.used)
    };
    let row = |order: &OrderReport| {
        let stack = stack(&StackReport { frames: order.frames.clone(), ..StackReport::default() }, FEW_FRAMES);
        plain(vec![named(&order.held), named(&order.wanted), stack, order.thread.clone()])
    };
    let others = match cycle.others {
        0 => String::new(),
        others => {
            format!(" {others} other orders hang together with these: the JSON form has one cycle of each set only.")
        }
    };
    Table {
        title: Some("Possible deadlock: these locks were acquired in orders that contradict each other".into()),
        about: Some(format!(
            "If all of these threads hold their first lock at the same moment, each waits for the next for good.{others}"
        )),
        columns: columns(&["while holding", "wanted", "there", "first seen in thread"], 4),
        rows: cycle.orders.iter().map(row).collect(),
        ..Table::default()
    }
}

fn still_waiting(report: &Report, most: usize) -> Table {
    let row = |waiting: &StillWaiting| {
        let stack = stack(&StackReport { frames: waiting.frames.clone(), ..StackReport::default() }, FEW_FRAMES);
        let holder = waiting.last_holder.clone().unwrap_or_else(|| "not seen".into());
        let what = format!("{} ({})", waiting.name, waiting.used);
        let since = time_in_words(waiting.since_ns as f64);
        plain(vec![waiting.thread.clone(), what, holder, stack, waiting.threads.to_string(), since])
    };
    Table {
        title: Some("Threads that waited when the program ended".into()),
        columns: columns(&["thread", "for", "last held by", "where", "threads", "since"], 4),
        rows: report.still_waiting.iter().take(most).map(row).collect(),
        ..Table::default()
    }
}

/// An object's holders, waiters, and threads.
fn details(object: &ObjectReport) -> Vec<Table> {
    let about = |what: &str| Some(format!("{} ({}): {what}", object.called(), object.used));
    let stacks = |stacks: &[StackReport], what: &str, whole: f64| {
        let row = |found: &StackReport| {
            let share = percent((found.waited_ns / whole.max(1.0)).min(1.0));
            let waited = time_in_words(found.waited_ns);
            plain(vec![stack(found, MANY_FRAMES), waited, share, count(found.count), time_in_words(found.held_ns)])
        };
        Table {
            title: about(what),
            columns: columns(&["stack", "others waited", "share", "holds", "held"], 1),
            rows: stacks.iter().filter(|stack| stack.waited_ns > 0.0).take(MOST_STACKS).map(row).collect(),
            ..Table::default()
        }
    };
    let holders = stacks(&object.holders, "who let others wait", object.charged_ns);
    let mut waiters = stacks(&object.waiters, "who waited", object.wait.total_ns);
    waiters.columns = columns(&["stack", "waited", "share", "waits"], 1);
    waiters.rows.iter_mut().for_each(|row| row.cells.truncate(4));
    let pair = |pair: &ThreadPair| plain(vec![pair.waiter.clone(), pair.holder.clone(), time_in_words(pair.waited_ns)]);
    let threads = Table {
        title: about("which threads waited for which"),
        columns: columns(&["waiter", "holder", "waited"], 2),
        rows: object.threads.iter().take(MOST_STACKS).map(pair).collect(),
        ..Table::default()
    };
    let between = |cell: &StackPair| {
        let one = |stacks: &[StackReport], index: usize| stacks.get(index).map(|s| stack(s, FEW_FRAMES));
        let [waiter, holder] = [one(&object.waiters, cell.waiter), one(&object.holders, cell.holder)];
        plain(vec![waiter.unwrap_or_default(), holder.unwrap_or_default(), time_in_words(cell.waited_ns)])
    };
    let matrix = Table {
        title: about("which code waited for which"),
        columns: columns(&["waiter", "holder", "waited"], 2),
        rows: object.stacks.iter().take(MOST_STACKS).map(between).collect(),
        ..Table::default()
    };
    [holders, waiters, threads, matrix].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn notes(report: &Report) -> Vec<String> {
    let seen = &report.notes;
    let processes = match seen.processes {
        1 => "one process".to_owned(),
        many => format!("{many} processes"),
    };
    let [waits, holds, stacks, threads] =
        [(seen.waits, "wait"), (seen.holds, "hold"), (seen.stacks, "stack"), (seen.threads, "thread")]
            .map(|(of, what)| number(of, what));
    let noted = format!("{waits}, {holds} and {stacks} of {threads} in {processes} were noted");
    let mut notes = vec![format!("{noted}; the rest is estimated from them.")];
    if report.locks.iter().any(|lock| lock != "pthread" && lock != "interposed-pthread") {
        notes.push(format!("The program ran on {}.", report.locks.join(", ")));
    }
    let dropped = [
        (seen.lost, "records found no room: a larger --spacing or a smaller --stack brings fewer"),
        (seen.unfinished, "records were left unfinished by threads that ended"),
        (seen.unwatched, "waits could not be charged to holders, because too many objects were waited for at once"),
        (seen.orders_left_out, "orders of acquisition are not looked at, for there are too many"),
        (seen.of_other_objects, "events are those of objects beyond the first 100,000, which are summed up as one"),
    ];
    notes.extend(dropped.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}.")));
    notes
}
