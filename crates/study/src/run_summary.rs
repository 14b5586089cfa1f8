//! What the preload library counted in a run of a program: for `--summary` and `--stats-json`.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use lockswap_records::counters::{Counter, Plain, CHILDREN, CHILD_WORDS, MOST_RULES, RULES};
use serde::Serialize;

use crate::calls::{self, Answers, Calls};
use crate::latencies::{self, Figures, Latencies};
use crate::model::signal_name;

/// Epochs that a summary shows.
const MOST_EPOCHS: usize = 20;

/// What the library counted, over all processes of the program.
#[derive(Serialize)]
pub struct Stats {
    schema: u32,
    lock: String,
    #[serde(skip)]
    rwlock: String,
    #[serde(skip)]
    spin: String,
    replaced: Replaced,
    passed_through: PassedThrough,
    calls: Calls,
    plain_children: Vec<Child>,
    more_plain_children: u64,
    threads_seen: u64,
    processes: u64,
    processes_left_alone: u64,
    epochs: Vec<Figures>,
    epochs_misused: Misused,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profile: Vec<Followed>,
    #[serde(skip)]
    without_rule: u64,
    #[serde(skip)]
    plain: bool,
}

/// A rule of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct RuleOf {
    /// Its line in the profile.
    pub line: usize,
    /// Which mutexes it is for.
    pub conditions: String,
    /// The lock that it gives, as the profile has it.
    pub lock: String,
}

/// A rule, and how many mutexes got their lock by it.
#[derive(Serialize)]
struct Followed {
    #[serde(flatten)]
    rule: RuleOf,
    mutexes: u64,
}

#[derive(Serialize)]
struct Misused {
    ends_without_start: u64,
    starts_without_end: u64,
    ignored: u64,
    not_recorded: u64,
}

#[derive(Serialize)]
struct Replaced {
    mutex: u64,
    cond: u64,
    rwlock: u64,
    spin: u64,
}

#[derive(Serialize)]
struct PassedThrough {
    robust: u64,
    pi: u64,
    protect: u64,
    pshared: u64,
}

/// A program that was started without the library, because it cannot load it.
#[derive(Serialize)]
struct Child {
    path: String,
    why: &'static str,
}

impl Child {
    /// The child in this record, if there is one.
    fn read(record: &[u64]) -> Option<Self> {
        let (plain, path) = record.split_first()?;
        let index = usize::try_from(plain.checked_sub(1)?).ok()?;
        let bytes: Vec<u8> = path.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
        let why = match Plain::ALL.get(index)? {
            Plain::Static => "statically linked",
            Plain::OtherLibrary => "its C library is not glibc",
            Plain::OldGlibc => "its glibc is older than 2.34",
            Plain::OtherMachine => "for another kind of CPU",
        };
        Some(Self { path: String::from_utf8_lossy(&bytes).into_owned(), why })
    }
}

impl Stats {
    /// Reads what was counted in `file` in a run on these locks for mutexes, rwlocks and spinlocks. `plain`: the
    /// library was not even loaded.
    ///
    /// # Errors
    /// The file is shorter than the library's.
    pub fn read(locks: [String; 3], plain: bool, file: &File, latencies: &Latencies) -> io::Result<Self> {
        let words = calls::words(file)?;
        let of = |counter: Counter| words[counter as usize];
        let [lock, rwlock, spin] = locks;
        Ok(Self {
            schema: 1,
            lock,
            rwlock,
            spin,
            replaced: Replaced {
                mutex: of(Counter::Mutex),
                cond: of(Counter::Cond),
                rwlock: of(Counter::RwLock),
                spin: of(Counter::Spin),
            },
            passed_through: PassedThrough {
                robust: of(Counter::Robust),
                pi: of(Counter::Pi),
                protect: of(Counter::Protect),
                pshared: of(Counter::Pshared),
            },
            calls: Calls::of(&words),
            plain_children: words[CHILDREN..RULES].chunks_exact(CHILD_WORDS).filter_map(Child::read).collect(),
            more_plain_children: of(Counter::Children),
            threads_seen: of(Counter::Threads),
            processes: of(Counter::Processes),
            processes_left_alone: of(Counter::Aside),
            epochs: latencies.epochs.iter().map(Figures::of).collect(),
            epochs_misused: Misused {
                ends_without_start: of(Counter::EpochsNotStarted),
                starts_without_end: of(Counter::EpochsNotEnded),
                ignored: of(Counter::EpochsIgnored),
                not_recorded: latencies.unrecorded,
            },
            profile: Vec::new(),
            without_rule: 0,
            plain,
        })
    }

    /// The same of a run that followed a profile with these rules.
    ///
    /// # Errors
    /// The file is shorter than the library's.
    pub fn with_rules(self, rules: Vec<RuleOf>, file: &File) -> io::Result<Self> {
        let words = calls::words(file)?;
        let counts = &words[RULES..];
        let profile = rules.into_iter().zip(counts).map(|(rule, mutexes)| Followed { rule, mutexes: *mutexes });
        Ok(Self { profile: profile.collect(), without_rule: counts[MOST_RULES], ..self })
    }

    /// The summary for people, with how the program ended.
    pub fn words(&self, status: &ExitStatus) -> String {
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, signal) => format!("killed by {}", signal_name(signal.unwrap_or_default())),
        };
        let mut text = format!("lockswap: {end}\n");
        if self.plain {
            return text + "  not preloaded: nothing was replaced or counted\n";
        }
        if self.processes == 0 {
            text += match self.processes_left_alone {
                0 => {
                    "  the preload library was not loaded: nothing was replaced or counted\n\
                     \x20 remedy: 'lockswap doctor PROGRAM' says why\n"
                }
                _ => "  the program was left alone: nothing was replaced or counted\n",
            };
            return text + &self.children();
        }
        let Replaced { mutex, cond, rwlock, spin } = self.replaced;
        let PassedThrough { robust, pi, protect, pshared } = self.passed_through;
        let lock = if self.profile.is_empty() { &self.lock } else { "the locks of the profile" };
        text += &format!("  replaced        {} on {lock}, ", count(mutex, "mutex", "mutexes"));
        text += &format!("{}, ", count(cond, "condition variable", "condition variables"));
        text += &format!("{} on {}, ", count(rwlock, "rwlock", "rwlocks"), self.rwlock);
        text += &format!("{} on {}\n", count(spin, "spinlock", "spinlocks"), self.spin);
        text += "  passed through  ";
        let reasons = [
            (robust, "robust"),
            (pi, "priority-inheriting"),
            (protect, "priority-protected"),
            (pshared, "process-shared"),
        ];
        let some: Vec<String> = reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
        text += &if some.is_empty() { "nothing".into() } else { some.join(", ") };
        let calls = [
            calls_in_words(&self.calls.mutex, "mutex"),
            calls_in_words(&self.calls.cond, "condition variable"),
            calls_in_words(&self.calls.rwlock, "rwlock"),
            calls_in_words(&self.calls.spin, "spinlock"),
        ];
        let calls: Vec<String> = calls.into_iter().flatten().collect();
        text += &format!("\n  calls           {}", if calls.is_empty() { "none".into() } else { calls.join("; ") });
        let threads = count(self.threads_seen, "thread", "threads");
        text += &format!("\n  seen            {threads} in {}", count(self.processes, "process", "processes"));
        if self.processes_left_alone > 0 {
            text += &format!("; {} more left alone", self.processes_left_alone);
        }
        text += "\n";
        text += &self.children();
        text += &self.rules();
        for line in latencies::lines(&self.epochs, MOST_EPOCHS) {
            text += &format!("  epoch           {line}\n");
        }
        let Misused { ends_without_start, starts_without_end, ignored, not_recorded } = self.epochs_misused;
        let misuses = [
            (ends_without_start, "ended without a start"),
            (starts_without_end, "started without an end"),
            (ignored, "ignored (too many ids, or an impossible percentile)"),
            (not_recorded, "not recorded (too many ids)"),
        ];
        let some: Vec<String> = misuses.iter().filter(|(n, _)| *n > 0).map(|(n, how)| format!("{n} {how}")).collect();
        if !some.is_empty() {
            text += &format!("  misused epochs  {}\n", some.join(", "));
        }
        text
    }

    /// What the rules of a profile were for, a line each; last those that were for nothing.
    fn rules(&self) -> String {
        if self.profile.is_empty() {
            return String::new();
        }
        let line = |what: String, RuleOf { line, conditions, lock }: &RuleOf| {
            format!(
                "  profile         {what}: {} -> {} (line {line})\n",
                conditions.escape_debug(),
                lock.escape_debug()
            )
        };
        let (used, unused): (Vec<_>, Vec<_>) = self.profile.iter().partition(|followed| followed.mutexes > 0);
        let mut text: String =
            used.iter().map(|followed| line(count(followed.mutexes, "mutex", "mutexes"), &followed.rule)).collect();
        text += &format!(
            "  profile         {} by no rule -> {}\n",
            count(self.without_rule, "mutex", "mutexes"),
            self.lock
        );
        text + &unused.iter().map(|followed| line("no mutex".into(), &followed.rule)).collect::<String>()
    }

    /// The programs that were started plainly, a line each.
    fn children(&self) -> String {
        let mut lines: Vec<String> =
            self.plain_children.iter().map(|child| format!("{} ({})", child.path.escape_debug(), child.why)).collect();
        if self.more_plain_children > 0 {
            lines.push(format!("{} more", self.more_plain_children));
        }
        lines.iter().map(|line| format!("  ran plainly     {line}\n")).collect()
    }
}

/// Calls of a role in words; nothing if there were none.
fn calls_in_words(answers: &Answers, role: &str) -> Option<String> {
    let passed: Vec<String> = answers.passed().iter().map(|(count, why)| format!("{count} glibc's ({why})")).collect();
    let ours = format!("{} ours", answers.ours);
    (answers.total() > 0).then(|| format!("{role} {}", [vec![ours], passed].concat().join(", ")))
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lockswap_records::counters::{CALLS, FILE_BYTES, SHARD_WORDS};

    use super::*;

    /// Whatever the words of the file are, the summary can be written, and no sum is less than one of its parts.
    #[test]
    fn words_of_a_file_of_counters() {
        use proptest::prelude::*;
        let word = prop_oneof![any::<u64>(), 0..20u64, Just(u64::MAX)];
        // Counts, programs that were started, and anywhere.
        let place = prop_oneof![0..CALLS, CHILDREN..FILE_BYTES / 8, 0..FILE_BYTES / 8];
        lockswap_fuzz::run(proptest::collection::vec((place, word), 0..60), 4, file!(), |changes| {
            let mut bytes = vec![0; FILE_BYTES];
            for (place, word) in changes {
                bytes[place * 8..][..8].copy_from_slice(&word.to_le_bytes());
            }
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&bytes).expect("room for it");
            let stats =
                Stats::read(Default::default(), false, &file, &Latencies::default()).expect("a file as long as that");
            let ours = |shard: &[u8]| u64::from_le_bytes(shard[..8].try_into().expect("8 bytes"));
            let mut shards = bytes[CALLS * 8..CHILDREN * 8].chunks_exact(8 * SHARD_WORDS).map(ours);
            assert!(shards.all(|part| stats.calls.mutex.ours >= part));
            let text = stats.words(&ExitStatus::from_raw(0));
            assert!(text.lines().all(|line| !line.chars().any(char::is_control)), "{text:?}");
            serde_json::to_string(&stats).expect("JSON");
        });
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[0; FILE_BYTES - 1]).expect("room for it");
        assert!(Stats::read(Default::default(), false, &file, &Latencies::default()).is_err());
    }
}
