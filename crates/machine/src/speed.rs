//! How fast each CPU is: the same loop, timed on one after the other, where the system does not tell the kinds.
//!
//! The loop does what programs do between locks: independent and dependent arithmetic, loads that hit the first cache,
//! and branches that are hard to foresee. So it tells not only clock rates apart but also wide cores from narrow ones.
//! Other programs and an SMT sibling at work only ever make it slower: the shortest of many times counts, and the CPUs
//! take turns, so that a busy moment meets all of them.

use std::hint::black_box;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use lockswap_platform::CoreKind;

use crate::cpuset::CpuSet;
use crate::kinds::Source;
use crate::topology::Topology;

/// Turns of each CPU.
pub const TURNS: usize = 15;
/// Steps of the loop: about 1 ms, long enough for the clock rate to rise, short enough to be left alone now and then.
const STEPS: u32 = 300_000;
/// The speed of the fastest CPU, as Linux counts capacity.
const FASTEST: f64 = 1024.0;

/// The speeds of CPUs: 1024 for the fastest, and 512 for one that takes twice as long.
pub type Speeds = Vec<(usize, u32)>;

/// About how long [`measure`] takes.
pub fn estimate(cpus: &CpuSet) -> Duration {
    Duration::from_millis(2) * (TURNS * cpus.len()) as u32
}

/// Times the loop on each of `cpus`; `done` is called after each turn of all of them. An error names a CPU on which
/// this process may not run.
pub fn measure(cpus: &CpuSet, mut done: impl FnMut()) -> io::Result<Speeds> {
    let mut best: Vec<(usize, Duration)> = cpus.iter().map(|cpu| (cpu, Duration::MAX)).collect();
    let timed = |cpu: usize| {
        let alone: CpuSet = [cpu].into_iter().collect();
        alone.bind_this_thread().map_err(|error| {
            io::Error::other(format!("CPU {cpu}: {}", io::Error::from_raw_os_error(error.into_raw())))
        })?;
        // The first one warms up caches and clock rate.
        Ok::<_, io::Error>((0..2).map(|_| once()).min().unwrap_or(Duration::MAX))
    };
    for _ in 0..TURNS {
        // A thread of its own, since nothing else is to stay on the last CPU.
        let turn = || best.iter().map(|(cpu, _)| timed(*cpu)).collect::<io::Result<Vec<_>>>();
        let times =
            thread::scope(|scope| scope.spawn(turn).join()).map_err(|_| io::Error::other("a thread failed"))??;
        best.iter_mut().zip(times).for_each(|((_, best), time)| *best = time.min(*best));
        done();
    }
    let fastest = best.iter().map(|(_, time)| *time).min().unwrap_or_default();
    let speed = |time: Duration| (FASTEST * fastest.as_secs_f64() / time.as_secs_f64()).round() as u32;
    Ok(best.into_iter().map(|(cpu, time)| (cpu, speed(time).max(1))).collect())
}

/// The time of the loop on the CPU where this thread is.
fn once() -> Duration {
    let table: Vec<u32> = (0..1024u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let start = Instant::now();
    let (mut a, mut b, mut c) = (1u32, 2u32, 3u32);
    for step in 0..black_box(STEPS) {
        a = a.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b ^= table[(a >> 22) as usize].rotate_left(step & 15);
        if a & 0x1000_0000 != 0 {
            c = c.wrapping_add(b);
        } else {
            c ^= table[(step & 1023) as usize];
        }
    }
    black_box((a, b, c));
    start.elapsed()
}

/// Times the loop on each of these CPUs and tells the topology; those that it finds fast, if it finds slower ones.
/// `done` is called after each turn.
pub fn find_big(topology: &mut Topology, cpus: &CpuSet, done: impl FnMut()) -> io::Result<Option<CpuSet>> {
    let speeds = measure(cpus, done)?;
    let of = |cpu| speeds.iter().find(|speed| speed.0 == cpu).map(|speed| speed.1);
    let differ = topology.set_speeds(Source::Measured, of);
    let is_big = |cpu: &usize| topology.kind(*cpu) == CoreKind::Big;
    Ok(differ.then(|| cpus.iter().filter(is_big).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_measured_and_a_missing_one_refused() {
        let one: CpuSet = CpuSet::of_this_thread().first().into_iter().collect();
        let mut turns = 0;
        assert_eq!(measure(&one, || turns += 1).unwrap(), [(one.first().unwrap(), 1024)]);
        assert_eq!(turns, TURNS);
        let missing = [4095].into_iter().collect();
        assert!(measure(&missing, || {}).unwrap_err().to_string().starts_with("CPU 4095: "));
    }
}
