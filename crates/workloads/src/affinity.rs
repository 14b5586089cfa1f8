//! Placing the calling thread on CPUs.

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

/// The CPUs that the calling thread may run on, in ascending order; empty if the kernel does not tell.
pub fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Lets the calling thread, and threads it starts later, run on `cpus` only.
///
/// # Errors
/// The kernel refuses an empty list and CPUs that do not exist or are not granted to the process.
pub fn pin(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_there_only() {
        std::thread::spawn(|| {
            let cpu = *allowed().last().expect("at least one CPU");
            pin(&[cpu]).expect("an allowed CPU");
            assert_eq!(allowed(), [cpu]);
            assert!(pin(&[]).is_err());
        })
        .join()
        .expect("the pinned thread");
    }
}
