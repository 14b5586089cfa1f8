//! What holds a program up, and what would help, in words.

use lockswap_study::numbers::{percent, time_in_words};

use crate::cause::Cause;

impl Cause {
    /// What it is, and what would help, in a sentence or two.
    pub fn words(&self) -> String {
        let share_in_words = |share: &f64| percent(*share);
        match self {
            Cause::NoLocks => {
                "No pthread lock of the program was seen: if it has locks, they are of its own making, as \
                               in Rust's std and in Go, and nobody can replace them from outside; 'lockswap doctor' \
                               says more."
                    .into()
            }
            Cause::LightLocks { share } => format!(
                "Its threads waited {} of their time for locks: without any wait it would hardly be faster by more.",
                share_in_words(share)
            ),
            Cause::LongSection { name, held, mean_ns, holder } => {
                let whose = holder.as_ref().map(|(place, share)| {
                    format!(": look at {place}, which let others wait {} of what they waited", share_in_words(share))
                });
                format!(
                    "{name} was held {} of the run, {} each time: what would help is a shorter section, or several \
                     locks in its place{}.",
                    share_in_words(held),
                    time_in_words(*mean_ns),
                    whose.unwrap_or_default()
                )
            }
            Cause::MostlyRead { name, reads } => format!(
                "{} of the acquisitions of {name} are to read: what would help is to read without a lock (RCU, a copy \
                 for each thread), or shorter sections that write.",
                share_in_words(reads)
            ),
            Cause::OftenWritten { name, reads } => format!(
                "{} of the acquisitions of {name} are to read, and the others hold up readers: what would help are \
                 shorter sections that write, or several locks in its place.",
                share_in_words(reads)
            ),
            Cause::Allocator { name, place } => format!(
                "{name} is held while memory is allocated ({place}): what would help is another allocator (jemalloc, \
                 mimalloc), or to allocate before the lock is taken."
            ),
            Cause::Spinlock { name, share } => format!(
                "Threads waited {} of their time for {name}, a spinlock: what would help is a mutex in its place, or \
                 a section without anything that can last.",
                share_in_words(share)
            ),
            Cause::Computes { share } => format!(
                "It uses {} of the CPUs' time: what would help is less work; 'perf record -g' shows where it is done.",
                share_in_words(share)
            ),
            Cause::Conditions { name, place, share } => {
                let at = place.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
                format!(
                    "Threads spend {} of their time waiting for conditions, longest for {name}{at}, because they have \
                     nothing to do: what would help is work that is spread over more threads, or handed over in \
                     larger parts.",
                    share_in_words(share)
                )
            }
            Cause::SleepsElsewhere { sleeps, known } => format!(
                "Threads give up their CPU {sleeps:.0} times in a second, and only about {known:.0} times for a \
                 pthread object: they wait for something else, such as files, the network, or futexes of the \
                 program's own; 'strace -c -f' shows for which."
            ),
        }
    }
}
