//! Makes a report of what was gathered: objects with the same name are put together, and all places are named.

use std::collections::HashMap;

use lockswap_records::trace::Use;

use super::{
    use_name, CycleReport, Estimate, Facts, Notes, ObjectReport, OrderReport, OrderedObject, Report, StackPair,
    StackReport, StillWaiting, ThreadPair, Times, SCHEMA,
};
use crate::gather::{Gathered, Key};
use crate::histogram::Lengths;
use crate::names::{Frame, Names};
use crate::orders::{Cycle, Order};
use crate::origin::{ObjectName, Origin};
use crate::stacks::{StackId, Stacks};
use crate::sums::{Sum, Sums};
use crate::threads::ThreadId;

/// Cells of a matrix that are kept of an object.
const MOST_CELLS: usize = 200;

/// Cycles that are kept.
const MOST_CYCLES: usize = 100;
impl Report {
    /// The report of what was gathered.
    pub fn new(gathered: &Gathered, facts: Facts) -> Self {
        let names = Names::new(&gathered.processes.images);
        let mut groups: HashMap<(Use, ObjectName), Group<'_>> = HashMap::new();
        for (key, object) in &gathered.objects {
            let name = Origin::of(key, object).name(&gathered.stacks, &names);
            groups.entry((key.used, name)).or_default().0.push(&object.sums);
        }
        let mut objects: Vec<(Use, ObjectReport)> = groups
            .into_iter()
            .map(|((used, name), group)| (used, group.report(used, name, gathered, &names)))
            .collect();
        objects.sort_by(|(_, a), (_, b)| {
            let by_time = b.wait.total_ns.total_cmp(&a.wait.total_ns);
            by_time.then(b.hold.total_ns.total_cmp(&a.hold.total_ns)).then(a.name.cmp(&b.name))
        });
        let (objects, conditions) = objects.into_iter().partition(|(used, _)| used.has_holder());
        let plain = |all: Vec<(Use, ObjectReport)>| all.into_iter().map(|(_, object)| object).collect();
        let counts = &gathered.counts;
        let notes = Notes {
            threads: gathered.threads.count() as u64,
            waits: counts.waits,
            holds: counts.holds,
            stacks: counts.stacks,
            of_other_objects: counts.rest,
            orders: gathered.orders.len() as u64,
            orders_left_out: gathered.orders.left_out,
            ..facts.notes
        };
        Self {
            schema: SCHEMA,
            command: facts.command,
            locks: facts.locks,
            duration_ns: counts.first.map_or(0, |first| counts.last.saturating_sub(first)),
            thread_time_ns: gathered.threads.time(),
            notes,
            objects: plain(objects),
            conditions: plain(conditions),
            cycles: cycles(gathered, &names),
            still_waiting: still_waiting(gathered, &names),
        }
    }
}

/// A thread by name and number.
fn thread_name(gathered: &Gathered, number: ThreadId) -> String {
    let thread = gathered.threads.get(number);
    format!("{} ({})", thread.name, thread.thread)
}

fn cycles(gathered: &Gathered, names: &Names) -> Vec<CycleReport> {
    let object = |key: &Key| OrderedObject {
        name: gathered
            .objects
            .get(key)
            .map_or_else(String::new, |object| Origin::of(key, object).name(&gathered.stacks, names).name),
        used: use_name(key.used),
        address: key.object(),
    };
    let order = |order: &Order| OrderReport {
        held: object(&order.held),
        wanted: object(&order.wanted),
        thread: thread_name(gathered, order.thread),
        frames: names.stack(gathered.stacks.frames(order.stack)),
    };
    let report =
        |cycle: &Cycle| CycleReport { orders: cycle.orders.iter().map(order).collect(), others: cycle.others as u64 };
    gathered.orders.cycles().iter().take(MOST_CYCLES).map(report).collect()
}

fn still_waiting(gathered: &Gathered, names: &Names) -> Vec<StillWaiting> {
    let mut found: Vec<StillWaiting> = Vec::new();
    for (key, object, waiting) in gathered.still_waiting() {
        let thread = |number| thread_name(gathered, number);
        let new = StillWaiting {
            threads: 1,
            thread: thread(waiting.thread),
            since_ns: waiting.seen.elapsed().as_nanos() as u64,
            name: Origin::of(key, object).name(&gathered.stacks, names).name,
            used: use_name(key.used),
            is_idle: !key.used.has_holder(),
            last_holder: object.last_holder.map(|(holder, _)| thread(holder)),
            frames: names.stack(gathered.stacks.frames(waiting.stack)),
        };
        let is_like =
            |old: &&mut StillWaiting| (&old.name, old.used, &old.frames) == (&new.name, new.used, &new.frames);
        match found.iter_mut().find(is_like) {
            Some(old) if old.since_ns >= new.since_ns => old.threads += 1,
            Some(old) => *old = StillWaiting { threads: old.threads + 1, ..new },
            None => found.push(new),
        }
    }
    found.sort_by(|a, b| a.is_idle.cmp(&b.is_idle).then(b.since_ns.cmp(&a.since_ns)).then(a.thread.cmp(&b.thread)));
    found
}

/// Objects with the same name.
#[derive(Default)]
struct Group<'a>(Vec<&'a Sums>);

impl Group<'_> {
    fn report(&self, used: Use, name: ObjectName, gathered: &Gathered, names: &Names) -> ObjectReport {
        let stacks = &gathered.stacks;
        let mut waiters = StackSums::of(self.0.iter().map(|sums| &sums.waiters), stacks, names);
        let mut holders = StackSums::of(self.0.iter().map(|sums| &sums.holders), stacks, names);
        let mut pairs: HashMap<(usize, usize), f64> = HashMap::new();
        let mut threads: HashMap<(&str, &str), f64> = HashMap::new();
        for sums in &self.0 {
            for ((waiter, holder), waited) in &sums.pairs {
                *pairs.entry((waiters.index(*waiter), holders.index(*holder))).or_default() += waited;
            }
            for ((waiter, holder), waited) in &sums.threads {
                let name = |thread| gathered.threads.get(thread).name.as_str();
                *threads.entry((name(*waiter), name(*holder))).or_default() += waited;
            }
        }
        let stacks = largest(pairs).map(|((waiter, holder), waited_ns)| StackPair { waiter, holder, waited_ns });
        let threads = largest(threads).map(|((waiter, holder), waited_ns)| ThreadPair {
            waiter: waiter.to_owned(),
            holder: holder.to_owned(),
            waited_ns,
        });
        ObjectReport {
            stacks: stacks.collect(),
            threads: threads.collect(),
            waiters: waiters.all,
            holders: holders.all,
            ..ObjectReport::without_stacks(used, name, &self.0)
        }
    }
}

impl ObjectReport {
    /// The numbers of objects with the same name.
    pub(crate) fn without_stacks(used: Use, name: ObjectName, all: &[&Sums]) -> Self {
        let lengths = |of: fn(&Sums) -> &Lengths| {
            let mut sum = Lengths::default();
            all.iter().for_each(|sums| sum.merge(of(sums)));
            sum
        };
        let sum = |of: fn(&Sums) -> f64| all.iter().map(|sums| of(sums)).sum::<f64>();
        let (waits, holds, handed) = (lengths(|s| &s.waits), lengths(|s| &s.holds), lengths(|s| &s.handed));
        let share = |part: f64, whole: &Lengths| if whole.count > 0.0 { (part / whole.count).min(1.0) } else { 0.0 };
        let failed = sum(|s| s.failed);
        let outside = (sum(Sums::involved) - waits.total - holds.total).max(0.0);
        let contended = (holds.count > 0.0).then(|| ((waits.count - failed) / holds.count).clamp(0.0, 1.0));
        Self {
            name: name.name,
            used: use_name(used),
            module: name.module,
            identity: name.identity,
            objects: all.len() as u64,
            users: all.iter().map(|sums| sums.users.len()).max().unwrap_or_default() as u64,
            think_ns: if holds.count > 0.0 { outside / holds.count } else { 0.0 },
            acquisitions: Estimate { value: holds.count, error: holds.count_error() },
            contended,
            wait: times(&waits),
            slept: share(sum(|s| s.slept), &waits),
            failed: share(failed, &waits),
            hold: times(&holds),
            holder_slept: share(sum(|s| s.holder_slept), &holds),
            holder_preempted: share(sum(|s| s.holder_preempted), &holds),
            longest_queue: all.iter().map(|sums| sums.longest_queue()).max().unwrap_or_default(),
            handed: times(&handed),
            changed_owner: share(sum(|s| s.changed_owner), &handed),
            changed_cpu: share(sum(|s| s.changed_cpu), &handed),
            changed_node: share(sum(|s| s.changed_node), &handed),
            charged_ns: sum(|s| s.charged),
            waiters: Vec::new(),
            holders: Vec::new(),
            stacks: Vec::new(),
            threads: Vec::new(),
        }
    }
}

/// The stacks that these have, with names, those first that waited or let others wait longest.
pub(crate) fn named_stacks(sums: &HashMap<StackId, Sum>, stacks: &Stacks, names: &Names) -> Vec<StackReport> {
    StackSums::of(std::iter::once(sums), stacks, names).all
}

/// The largest first.
fn largest<K: Ord>(cells: HashMap<K, f64>) -> impl Iterator<Item = (K, f64)> {
    let mut cells: Vec<(K, f64)> = cells.into_iter().collect();
    cells.sort_by(|(a_key, a), (b_key, b)| b.total_cmp(a).then(a_key.cmp(b_key)));
    cells.into_iter().take(MOST_CELLS)
}

/// Stacks with the same frames.
struct StackSums {
    all: Vec<StackReport>,
    index: HashMap<StackId, usize>,
}

impl StackSums {
    fn of<'o>(sums: impl Iterator<Item = &'o HashMap<StackId, Sum>>, stacks: &Stacks, names: &Names) -> Self {
        let mut found: HashMap<Vec<Frame>, (StackReport, Vec<StackId>)> = HashMap::new();
        for (stack, sum) in sums.flatten() {
            let frames = names.stack(stacks.frames(*stack));
            let (all, ids) = found.entry(frames).or_default();
            all.count += sum.count;
            all.waited_ns += sum.waited;
            all.held_ns += sum.held;
            ids.push(*stack);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by(|(a_frames, (a, _)), (b_frames, (b, _))| {
            let by_time = b.waited_ns.total_cmp(&a.waited_ns).then(b.held_ns.total_cmp(&a.held_ns));
            by_time.then(b.count.total_cmp(&a.count)).then_with(|| a_frames.cmp(b_frames))
        });
        let mut sums = Self { all: Vec::new(), index: HashMap::new() };
        for (frames, (stack, ids)) in found {
            sums.index.extend(ids.into_iter().map(|id| (id, sums.all.len())));
            sums.all.push(StackReport { frames, ..stack });
        }
        sums
    }

    /// Which one has this stack; one without frames where none does.
    fn index(&mut self, stack: StackId) -> usize {
        *self.index.entry(stack).or_insert_with(|| {
            self.all.push(StackReport::default());
            self.all.len() - 1
        })
    }
}

fn times(lengths: &Lengths) -> Times {
    Times {
        count: lengths.count,
        noted: lengths.noted,
        total_ns: lengths.total,
        total_error_ns: lengths.total_error(),
        p50_ns: lengths.percentile(0.5),
        p90_ns: lengths.percentile(0.9),
        p99_ns: lengths.percentile(0.99),
        max_ns: lengths.max,
    }
}
