//! What stands below the table.

use lockswap_study::numbers::{percent, time_in_words};
use lockswap_trace::live::Line;
use lockswap_trace::report::{StackReport, Times};

use crate::terminal::visible;

/// Stacks of each side.
const MOST_STACKS: usize = 20;

/// Everything about one lock: its numbers, who let others wait, and who waited.
pub fn lock(line: &Line) -> Vec<String> {
    let object = &line.object;
    let mut text = vec![format!("{} ({})", object.called(), object.used)];
    if line.waiting.threads > 0 {
        let longest = time_in_words(line.waiting.longest.as_nanos() as f64);
        text.push(match line.waiting.threads {
            1 => format!("one thread waits now, for {longest}"),
            many => format!("{many} threads wait now, the first for {longest}"),
        });
    }
    let times = |name: &str, times: &Times| {
        let [p50, p90, p99, max] = [times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns as f64].map(time_in_words);
        format!("{name} p50 {p50}, p90 {p90}, p99 {p99}, max {max}")
    };
    if object.wait.noted > 0 {
        text.push(format!("{}; {} slept", times("waited", &object.wait), percent(object.slept)));
    }
    if object.hold.noted > 0 {
        let [slept, preempted] = [object.holder_slept, object.holder_preempted].map(percent);
        text.push(format!("{}; the holder slept in {slept}, lost its CPU in {preempted}", times("held", &object.hold)));
    }
    if object.handed.noted > 0 {
        let [thread, cpu] = [object.changed_owner, object.changed_cpu].map(percent);
        let wake_up = time_in_words(object.handed.p50_ns);
        text.push(format!("handed to another thread {thread}, to another CPU {cpu}; wake-up p50 {wake_up}"));
    }
    let sides = [
        ("Who let others wait", &object.holders, object.charged_ns),
        ("Who waited", &object.waiters, object.wait.total_ns),
    ];
    for (title, stacks, whole) in sides {
        let mut stacks = stacks.iter().filter(|stack| stack.waited_ns > 0.0).take(MOST_STACKS).peekable();
        if stacks.peek().is_some() {
            text.push(title.into());
        }
        text.extend(stacks.flat_map(|found| stack(found, whole)));
    }
    text.iter().map(|line| visible(line)).collect()
}

/// A stack, with its share of the time that was waited.
fn stack(stack: &StackReport, whole: f64) -> Vec<String> {
    let share = percent((stack.waited_ns / whole.max(1.0)).min(1.0));
    let mut head = format!("{share:>7}  {:>8}  ", time_in_words(stack.waited_ns));
    let below = " ".repeat(head.len());
    let own = stack.own_frames();
    let frames = if own.is_empty() { stack.place().into_iter().collect() } else { own };
    if frames.is_empty() {
        return vec![head + "[no stack]"];
    }
    frames.into_iter().map(|frame| std::mem::replace(&mut head, below.clone()) + &frame.words()).collect()
}

/// The keys and the columns.
pub fn help() -> Vec<String> {
    HELP.lines().map(str::to_owned).collect()
}

const HELP: &str = "\
up, down, j, k  choose a lock; Home, End, page up and down go further
Enter           holders' and waiters' stacks of the chosen lock; page up and down scroll them
s               other order: waited, acquired, held, queue
t               the last interval, or all since the beginning
space           pause; what happens meanwhile is in the first picture after it
r               forget what was until now
?, h            this help
q, Esc, Ctrl-C  quit
lock            its variable; by F: initialised in F; at F: F was the first seen waiting for it
waited s/s      how many seconds threads waited for it in each second, counted when a wait ends
contended       share of the acquisitions that had to wait
acquired/s      acquisitions in each second
held p50, p99   how long it was held
queue           the most threads that were seen waiting at once
other thread    share of the hand-overs that went to another thread
worst holder    the function that let others wait longest, with its share
worst waiter    the function that waited longest";
