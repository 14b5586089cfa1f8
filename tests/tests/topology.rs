//! What locks are told about CPUs while a program runs: a machine made of files, which change.

use lockswap_e2e::{lockswap, program, run_with_timeout, scratch_dir, skip};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Seconds that the program runs. The files change after a third of that time.
const SECONDS: u64 = 6;

/// CPUs that this process may use, two of them.
fn two_cpus() -> Option<[usize; 2]> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let mut cpus = list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    Some([cpus.next()?, cpus.next()?])
}

struct Sysfs<'a>(&'a Path);

impl Sysfs<'_> {
    fn set(&self, path: &str, content: &str) {
        let path = self.0.join("devices/system/cpu").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As the kernel does it, readers see the old content or the new one.
        let temporary = path.with_extension("new");
        fs::write(&temporary, format!("{content}\n")).unwrap();
        fs::rename(temporary, path).unwrap();
    }
}

/// Runs a program in which a thread on the second CPU asks for a mutex before one on the first. Returns how often it
/// also got it first, of ten, at the beginning and at the end.
fn rounds(
    before: impl FnOnce(&Sysfs<'_>, [usize; 2]),
    change: impl FnOnce(&Sysfs<'_>, [usize; 2]) + Send,
) -> Option<[usize; 2]> {
    let Some(cpus) = two_cpus() else {
        skip("two CPUs");
        return None;
    };
    let program = program("order")?;
    let dir = scratch_dir();
    let sysfs = Sysfs(dir.path());
    sysfs.set("online", &format!("{},{}", cpus[0], cpus[1]));
    before(&sysfs, cpus);
    let mut command = Command::new(lockswap());
    command.args(["run", "--lock", "asl", "--"]).arg(program);
    command.args(cpus.map(|cpu| cpu.to_string())).arg(SECONDS.to_string()).env("LOCKSWAP_SYSFS", dir.path());
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(SECONDS / 3));
            change(&sysfs, cpus);
        });
        run_with_timeout(&mut command, Duration::from_secs(30))
    });
    assert!(outcome.success(), "{}\n{}", outcome.ending(), outcome.tail());
    let letters = outcome.stdout.as_bytes();
    assert!(letters.len() >= 30, "too slow a machine: {}", outcome.stdout);
    println!("{}", outcome.stdout);
    let first = |rounds: &[u8]| rounds.iter().filter(|letter| **letter == b'f').count();
    Some([first(&letters[..10]), first(&letters[letters.len() - 10..])])
}

#[test]
fn a_cpu_that_gets_faster_queues_from_then_on() {
    let counts = rounds(
        |sysfs, cpus| {
            sysfs.set(&format!("cpu{}/cpu_capacity", cpus[0]), "1024");
            sysfs.set(&format!("cpu{}/cpu_capacity", cpus[1]), "400");
        },
        |sysfs, cpus| sysfs.set(&format!("cpu{}/cpu_capacity", cpus[1]), "1024"),
    );
    if let Some([before, after]) = counts {
        assert!(before <= 2, "a little CPU stands back: it was first {before} times of 10");
        assert!(after >= 8, "a big CPU queues: it was first {after} times of 10");
    }
}

#[test]
fn a_cpu_that_comes_online_is_known_for_little() {
    let counts = rounds(
        |sysfs, cpus| {
            sysfs.set("online", &cpus[0].to_string());
            sysfs.set(&format!("cpu{}/cpu_capacity", cpus[0]), "1024");
        },
        |sysfs, cpus| {
            sysfs.set(&format!("cpu{}/cpu_capacity", cpus[1]), "400");
            sysfs.set("online", &format!("{},{}", cpus[0], cpus[1]));
        },
    );
    if let Some([before, after]) = counts {
        assert!(before >= 8, "an unknown CPU counts as big: it was first {before} times of 10");
        assert!(after <= 2, "a little CPU stands back: it was first {after} times of 10");
    }
}
