//! A trace, watched while it goes on: what the last step brought, and all steps together.
//!
//! A [`Step`] is what was noted since the one before; it takes the sums away from where they are gathered, so that
//! nothing has to be subtracted, and the percentiles of a step are its own. [`Live`] adds the steps up, by the names
//! of the objects. It looks names of objects up when they come, and those of code when a row is asked for.

mod step;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockswap_records::trace::Use;

use crate::gather::Key;
use crate::names::Names;
use crate::origin::{ObjectName, Origin};
use crate::process::Images;
use crate::report::{named_stacks, ObjectReport, StackReport};
use crate::stacks::{StackId, Stacks};
use crate::sums::{Sum, Sums};

pub use step::{Step, Waiting};

/// Which time is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The last step.
    Last,
    /// All steps since the beginning, or since [`Live::reset`].
    All,
}

/// Which objects come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Those for which threads waited longest.
    Waited,
    /// Those that were acquired most often.
    Acquired,
    /// Those that were held longest.
    Held,
    /// Those with the longest queue.
    Queue,
}

impl Order {
    /// All of them.
    pub const ALL: [Order; 4] = [Order::Waited, Order::Acquired, Order::Held, Order::Queue];
}

/// The number of a row: of objects with the same name and use. A row keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowId(usize);

/// Objects with the same name and use.
struct Row {
    used: Use,
    name: ObjectName,
    objects: u64,
    last: Option<Box<Sums>>,
    all: Option<Box<Sums>>,
    waiting: Waiting,
}

impl Row {
    fn sums(&self, over: Over) -> Option<&Sums> {
        match over {
            Over::Last => self.last.as_deref(),
            Over::All => self.all.as_deref(),
        }
    }

    /// What it is ordered by.
    fn value(&self, over: Over, order: Order) -> f64 {
        let of_sums = |of: fn(&Sums) -> f64| self.sums(over).map_or(0.0, of);
        match order {
            // What threads wait now is in no sum; it matters where nothing else is known.
            Order::Waited => of_sums(|sums| sums.waits.total).max(self.waiting.longest.as_secs_f64()),
            Order::Acquired => of_sums(|sums| sums.holds.count),
            Order::Held => of_sums(|sums| sums.holds.total),
            Order::Queue => of_sums(|sums| sums.longest_queue().into()).max(self.waiting.threads.into()),
        }
    }
}

/// What is shown of a row.
pub struct Line {
    /// Its numbers, without stacks.
    pub object: ObjectReport,
    /// Who waits for it now.
    pub waiting: Waiting,
    /// The function that let others wait longest.
    pub holder: Option<Share>,
    /// The function that waited longest.
    pub waiter: Option<Share>,
}

/// A function, and its share of the time that was waited.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Its name.
    pub function: Arc<str>,
    /// Its share.
    pub share: f64,
}

/// All rows together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Whole {
    /// How long threads waited, estimated, ns.
    pub waited_ns: f64,
    /// How often objects were acquired, estimated.
    pub acquisitions: f64,
    /// How many objects there are.
    pub objects: u64,
}

/// All steps until now.
pub struct Live {
    names: Names,
    stacks: Stacks,
    /// The row of each object, and by which origin it got there.
    objects: HashMap<Key, (Origin, usize)>,
    numbers: HashMap<(Use, ObjectName), usize>,
    rows: Vec<Row>,
    functions: RefCell<HashMap<StackId, Arc<str>>>,
    lengths: [Duration; 2],
}

impl Default for Live {
    fn default() -> Self {
        Self {
            names: Names::new(&Images::default()),
            stacks: Stacks::default(),
            objects: HashMap::new(),
            numbers: HashMap::new(),
            rows: Vec::new(),
            functions: RefCell::default(),
            lengths: [Duration::ZERO; 2],
        }
    }
}

impl Live {
    /// How many stacks are known: what the next step begins with.
    pub fn stacks(&self) -> usize {
        self.stacks.count()
    }

    /// Adds a step.
    pub fn add(&mut self, step: Step) {
        self.names.know(step.images);
        self.stacks.follow(step.stacks);
        for row in &mut self.rows {
            (row.last, row.waiting) = (None, Waiting::default());
        }
        for part in step.parts {
            let row = self.row_of(part.key, part.origin);
            let row = &mut self.rows[row];
            match &mut row.last {
                Some(last) => last.merge(&part.sums),
                None => row.last = Some(part.sums),
            }
            row.waiting.merge(&part.waiting);
        }
        for row in &mut self.rows {
            if let Some(last) = &row.last {
                row.all.get_or_insert_default().merge(last);
            }
        }
        self.lengths = [step.length, self.lengths[1] + step.length];
    }

    /// The row of an object. One that gets its name from the first that waits for it was in the row of those without
    /// a name until then; what it did there stays there.
    fn row_of(&mut self, key: Key, origin: Origin) -> usize {
        match self.objects.get(&key) {
            Some((known, row)) if *known == origin => return *row,
            Some((_, row)) => self.rows[*row].objects -= 1,
            None => {}
        }
        let name = origin.name(&self.stacks, &self.names);
        let row = *self.numbers.entry((key.used, name)).or_insert_with_key(|(used, name)| {
            let (used, name) = (*used, name.clone());
            self.rows.push(Row { used, name, objects: 0, last: None, all: None, waiting: Waiting::default() });
            self.rows.len() - 1
        });
        self.rows[row].objects += 1;
        self.objects.insert(key, (origin, row));
        row
    }

    /// Forgets what was added; names and numbers of rows stay.
    pub fn reset(&mut self) {
        self.rows.iter_mut().for_each(|row| (row.last, row.all) = (None, None));
        self.lengths = [Duration::ZERO; 2];
    }

    /// How long the time is.
    pub fn length(&self, over: Over) -> Duration {
        match over {
            Over::Last => self.lengths[0],
            Over::All => self.lengths[1],
        }
    }

    /// The rows of mutexes, rwlocks and spinlocks of which anything was noted or for which threads wait, in this
    /// order; those of which the last step has nothing come last, in the order of all steps.
    pub fn ranked(&self, over: Over, order: Order) -> Vec<RowId> {
        let is_shown = |row: &Row| row.used.has_holder() && (row.all.is_some() || row.waiting.threads > 0);
        let rows = self.rows.iter().enumerate().filter(|(_, row)| is_shown(row));
        let mut ranked: Vec<(f64, f64, usize)> =
            rows.map(|(index, row)| (row.value(over, order), row.value(Over::All, order), index)).collect();
        ranked.sort_by(|(a, a_all, a_row), (b, b_all, b_row)| {
            b.total_cmp(a).then(b_all.total_cmp(a_all)).then(a_row.cmp(b_row))
        });
        ranked.into_iter().map(|(_, _, row)| RowId(row)).collect()
    }

    /// All rows of [`Live::ranked`] together.
    pub fn whole(&self, over: Over) -> Whole {
        let mut whole = Whole::default();
        for row in self.rows.iter().filter(|row| row.used.has_holder()) {
            whole.objects += row.objects;
            if let Some(sums) = row.sums(over) {
                whole.waited_ns += sums.waits.total;
                whole.acquisitions += sums.holds.count;
            }
        }
        whole
    }

    /// What is to be shown of a row.
    pub fn line(&self, RowId(index): RowId, over: Over) -> Line {
        let (row, none) = (&self.rows[index], Sums::default());
        let sums = row.sums(over).unwrap_or(&none);
        let object = ObjectReport::without_stacks(row.used, row.name.clone(), &[sums]);
        Line {
            waiting: row.waiting,
            holder: self.worst(&sums.holders, sums.charged),
            waiter: self.worst(&sums.waiters, sums.waits.total),
            object: ObjectReport { objects: row.objects, ..object },
        }
    }

    /// The same with the stacks of holders and of waiters.
    pub fn line_with_stacks(&self, row: RowId, over: Over) -> Line {
        let stacks = |of: fn(&Sums) -> &HashMap<StackId, Sum>| {
            let sums = self.rows[row.0].sums(over).map(of);
            sums.map(|sums| named_stacks(sums, &self.stacks, &self.names)).unwrap_or_default()
        };
        let line = self.line(row, over);
        let object = ObjectReport {
            holders: stacks(|sums| &sums.holders),
            waiters: stacks(|sums| &sums.waiters),
            ..line.object
        };
        Line { object, ..line }
    }

    /// The function in whose stacks most was waited, of so much in all.
    fn worst(&self, stacks: &HashMap<StackId, Sum>, whole: f64) -> Option<Share> {
        let mut functions: HashMap<Arc<str>, f64> = HashMap::new();
        for (stack, sum) in stacks.iter().filter(|(_, sum)| sum.waited > 0.0) {
            *functions.entry(self.function(*stack)).or_default() += sum.waited;
        }
        let worst = functions.into_iter().max_by(|(a_name, a), (b_name, b)| a.total_cmp(b).then(b_name.cmp(a_name)));
        worst.map(|(function, waited)| Share { function, share: (waited / whole.max(1.0)).min(1.0) })
    }

    /// The innermost function of a stack.
    fn function(&self, stack: StackId) -> Arc<str> {
        let known = self.functions.borrow().get(&stack).cloned();
        known.unwrap_or_else(|| {
            let frames = self.names.stack(self.stacks.frames(stack));
            let stack_report = StackReport { frames, ..StackReport::default() };
            let function: Arc<str> = stack_report.place().map_or("[no stack]".into(), |frame| (*frame.function).into());
            self.functions.borrow_mut().insert(stack, Arc::clone(&function));
            function
        })
    }
}
