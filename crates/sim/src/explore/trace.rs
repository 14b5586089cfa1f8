//! The steps of one execution, for people.

use crate::word::{At, Place as Word};
use std::fmt::Write;

/// Smaller numbers are no addresses.
const LEAST_ADDRESS: u64 = 1 << 16;
/// A pointer to so many bytes before a word points to the object that the word lies in.
const OBJECT: u64 = 128;
/// Numbers above are easier to read with base 16.
const DECIMAL: u64 = 99_999;
/// Where the steps end and the places in the source begin, characters.
const COLUMN: usize = 52;

/// What a thread does.
#[derive(Clone, Copy)]
pub enum Deed {
    Reads { word: Word, value: u64 },
    Writes { word: Word, old: u64, new: Option<u64>, reads: bool },
    Uses { address: usize, writes: bool },
    HasUsed,
    TouchesGone(usize),
    Waits,
    Parks,
    Wakes { address: usize, woken: u16 },
    TimesOut,
    Refuses,
    Interrupts { in_vain: bool },
}

struct Step {
    thread: usize,
    deed: Deed,
    at: Option<At>,
}

#[derive(Default)]
pub struct Trace {
    steps: Vec<Step>,
}

/// What has been accessed, in the order of the first access.
struct Known {
    address: usize,
    bytes: u8,
    thread: usize,
    at: Option<At>,
}

impl Trace {
    pub fn add(&mut self, thread: usize, deed: Deed, at: At) {
        self.steps.push(Step { thread, deed, at: Some(at) });
    }

    pub fn goes_on(&mut self, thread: usize, deed: Deed) {
        self.steps.push(Step { thread, deed, at: None });
    }

    /// A line for each step, a gap where another thread goes on, and what the words are.
    pub fn text(&self) -> String {
        let words = self.words();
        let mut names = Names { words: &words, others: Vec::new() };
        let mut text = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            if number > 0 && self.steps[number - 1].thread != step.thread {
                text.push('\n');
            }
            let mut line = format!("{:>4}  thread {}: {}", number + 1, step.thread, names.says(step.deed));
            if line.len() > COLUMN {
                let _ = writeln!(text, "{line}");
                line.clear();
            }
            let _ = match step.at {
                Some(at) => writeln!(text, "{line:COLUMN$}  {}:{}", at.file(), at.line()),
                None => writeln!(text, "{line}"),
            };
        }
        let _ = writeln!(text, "\nwhere");
        for (number, word) in words.iter().enumerate() {
            let size = match word.bytes {
                0 => "is what the lock guards".to_owned(),
                1 => "has 1 byte".to_owned(),
                bytes => format!("has {bytes} bytes"),
            };
            let _ = write!(text, "      word {} {size}, first used by thread {}", number + 1, word.thread);
            let _ = word.at.map_or(Ok(()), |at| write!(text, " at {}:{}", at.file(), at.line()));
            text.push('\n');
        }
        text
    }

    fn words(&self) -> Vec<Known> {
        let mut words: Vec<Known> = Vec::new();
        for step in &self.steps {
            let (address, bytes) = match step.deed {
                Deed::Reads { word, .. } | Deed::Writes { word, .. } => (word.address, word.bytes),
                Deed::Uses { address, .. } | Deed::TouchesGone(address) => (address, 0),
                _ => continue,
            };
            if words.iter().all(|word| word.address != address) {
                words.push(Known { address, bytes, thread: step.thread, at: step.at });
            }
        }
        words
    }
}

struct Names<'a> {
    words: &'a [Known],
    /// Pointers to what nobody has accessed.
    others: Vec<u64>,
}

impl Names<'_> {
    fn word(&self, address: usize) -> String {
        let number = self.words.iter().position(|word| word.address == address);
        number.map_or("a word that is not used any more".into(), |number| format!("word {}", number + 1))
    }

    fn value(&mut self, value: u64, bytes: u8) -> String {
        if bytes < 8 || value < LEAST_ADDRESS {
            return if value > DECIMAL { format!("{value:#x}") } else { value.to_string() };
        }
        let (pointer, flags) = (value & !7, value & 7);
        let ahead = |word: &Known| (word.address as u64).wrapping_sub(pointer);
        let nearest = (0..self.words.len()).min_by_key(|number| ahead(&self.words[*number]));
        let target = match nearest.filter(|number| ahead(&self.words[*number]) < OBJECT) {
            Some(number) if ahead(&self.words[number]) == 0 => format!("&word {}", number + 1),
            Some(number) => format!("&object of word {}", number + 1),
            None => {
                let known = self.others.iter().position(|other| *other == pointer).unwrap_or_else(|| {
                    self.others.push(pointer);
                    self.others.len() - 1
                });
                format!("&object {}", char::from(b'A' + (known % 26) as u8))
            }
        };
        if flags == 0 {
            target
        } else {
            format!("{target} + {flags}")
        }
    }

    fn says(&mut self, deed: Deed) -> String {
        match deed {
            Deed::Reads { word, value } => {
                format!("reads {}: {}", self.word(word.address), self.value(value, word.bytes))
            }
            Deed::Writes { word, old, new: Some(new), reads } => {
                let verb = if reads { "updates" } else { "writes" };
                let (old, new) = (self.value(old, word.bytes), self.value(new, word.bytes));
                format!("{verb} {}: {old} -> {new}", self.word(word.address))
            }
            Deed::Writes { word, old, new: None, .. } => {
                format!("leaves {} as it is: {}", self.word(word.address), self.value(old, word.bytes))
            }
            Deed::Uses { writes: true, .. } => "begins to write what the lock guards".into(),
            Deed::Uses { writes: false, .. } => "begins to read what the lock guards".into(),
            Deed::HasUsed => "has done so".into(),
            Deed::TouchesGone(address) => format!("touches {}, which is gone", self.word(address)),
            Deed::Waits => "waits until what it has read changes".into(),
            Deed::Parks => "sleeps".into(),
            Deed::Wakes { address, woken: 0 } => format!("wakes nobody on {}", self.word(address)),
            Deed::Wakes { address, woken } => {
                let threads = (0..16).filter(|thread| woken >> thread & 1 == 1);
                let threads: Vec<_> = threads.map(|thread| format!("thread {thread}")).collect();
                format!("wakes {} on {}", threads.join(" and "), self.word(address))
            }
            Deed::TimesOut => "its time is over".into(),
            Deed::Refuses => "refuses to store, because it was interrupted".into(),
            Deed::Interrupts { in_vain: false } => "settles stores: who has looked refuses".into(),
            Deed::Interrupts { in_vain: true } => "settles stores: no longer allowed, all refuse".into(),
        }
    }
}
