//! The machine that measures.

use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a result depends on besides the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Host", deny_unknown_fields)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: String,
    /// The architecture, as in `x86_64`.
    pub arch: String,
    /// CPUs that are online.
    pub cpus_online: usize,
    /// CPUs that this process may run on.
    pub cpus_allowed: usize,
    /// CPUs' worth of time that the control group grants, where it sets a limit.
    pub cpu_quota: Option<f64>,
    /// Threads of all programs that ran or wanted to, averaged over the minute before the measurement.
    #[serde(default)]
    pub load_average: f64,
    /// Release of the kernel.
    pub kernel: String,
    /// Version of glibc, where it is known.
    pub glibc: Option<String>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        Self {
            cpu_model: cpu_model(&read("/proc/cpuinfo")).unwrap_or_else(|| "unknown CPU".into()),
            arch: std::env::consts::ARCH.into(),
            cpus_online: count_cpu_list(&read("/sys/devices/system/cpu/online")).unwrap_or_else(parallelism),
            cpus_allowed: cpus_allowed().unwrap_or_else(parallelism),
            cpu_quota: cpu_quota(Path::new("/")),
            load_average: read("/proc/loadavg").split(' ').next().and_then(|l| l.parse().ok()).unwrap_or_default(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            glibc: glibc_path().and_then(|p| fs::read(p).ok()).and_then(|image| glibc_version(&image)),
        }
    }

    /// Whether other programs took a good part of the CPUs just before, which makes timings noisy.
    pub fn is_busy(&self) -> bool {
        self.load_average > 0.5 * self.cpus_online as f64
    }

    /// What is said where it [was busy](Self::is_busy).
    pub fn busy_note(&self) -> Option<String> {
        let load = self.load_average;
        let note =
            || format!("note: the machine was busy before (load average {load:.1}); an idle one gives clearer results");
        self.is_busy().then(note)
    }

    /// In one line.
    pub fn words(&self) -> String {
        let allowed = match (self.cpus_allowed, self.cpus_online) {
            (allowed, online) if allowed != online => format!("{allowed} of {online} CPUs"),
            (_, 1) => "1 CPU".into(),
            (_, online) => format!("{online} CPUs"),
        };
        let quota = self.cpu_quota.map_or(String::new(), |q| format!(" (quota {q:.2})"));
        let glibc = self.glibc.as_deref().unwrap_or("of unknown version");
        format!("{}, {allowed}{quota}, {}, Linux {}, glibc {glibc}", self.cpu_model, self.arch, self.kernel)
    }
}

fn read(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn cpus_allowed() -> Option<usize> {
    rustix::thread::sched_getaffinity(None).ok().map(|set| set.count() as usize)
}

/// The name in `/proc/cpuinfo`: x86 gives it in words, arm64 only in numbers.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name").or_else(|| {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("arm64 implementer {implementer} part {part}"))
    })
}

/// Number of CPUs in a list such as `0-3,8`.
fn count_cpu_list(list: &str) -> Option<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        last.checked_add(1)?.checked_sub(first)
    };
    list.trim().split(',').map(range).try_fold(0, |count: usize, range| count.checked_add(range?))
}

/// CPUs' worth of time granted to this process by the tightest of its control groups, seen under `root`.
pub fn cpu_quota(root: &Path) -> Option<f64> {
    let membership = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mount = root.join("sys/fs/cgroup");
    let mut tightest: Option<f64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let base = match controllers {
            "" => mount.clone(),
            _ if controllers.split(',').any(|c| c == "cpu") => match mount.join("cpu") {
                cpu if cpu.is_dir() => cpu,
                _ => mount.join(controllers),
            },
            _ => continue,
        };
        // A limit of any ancestor binds too; in a container the group's path may not be visible, its root then is.
        let group = Path::new(group.trim_start_matches('/'));
        for ancestor in group.ancestors() {
            if let Some(quota) = quota_of(&base.join(ancestor)) {
                tightest = Some(tightest.map_or(quota, |t| t.min(quota)));
            }
        }
    }
    tightest
}

fn quota_of(group: &Path) -> Option<f64> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<f64>().ok();
    let (quota, period) = match fs::read_to_string(group.join("cpu.max")) {
        Ok(max) => {
            let mut words = max.split_whitespace();
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?)
        }
        Err(_) => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    Some(quota / period).filter(|quota: &f64| *quota > 0.0 && quota.is_finite())
}

/// Where the C library of this process lies.
fn glibc_path() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().filter_map(|l| l.find('/').map(|at| &l[at..]));
    path.map(Path::new)
        .find(|p| p.file_name().is_some_and(|n| n == "libc.so.6" || n.to_string_lossy().starts_with("libc-2.")))
        .map(Path::to_owned)
}

/// The version in the banner that every `libc.so.6` of glibc carries: "... release version 2.36."
pub fn glibc_version(image: &[u8]) -> Option<String> {
    let banner = b"GNU C Library";
    let marker = b" release version ";
    let from = image.windows(banner.len()).position(|w| w == banner)?;
    let line: Vec<u8> = image[from..].iter().copied().take_while(|b| *b != b'\n' && *b != 0).collect();
    let at = line.windows(marker.len()).position(|w| w == marker)? + marker.len();
    let version: String =
        line[at..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').map(|b| char::from(*b)).collect();
    Some(version.trim_end_matches('.').to_owned()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        let here = Machine::here();
        assert!(here.cpus_online >= here.cpus_allowed && here.cpus_allowed >= 1);
        assert!(here.kernel.contains('.'));
        if cfg!(target_env = "gnu") {
            let glibc = here.glibc.expect("the C library of this process");
            assert!(glibc.starts_with("2."), "{glibc}");
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(count_cpu_list("0-1\n"), Some(2));
        assert_eq!(count_cpu_list("0-3,8,10-11"), Some(7));
        for nonsense in ["", "3-1", "0-18446744073709551615", "0-18446744073709551614,0-1", "1,,2"] {
            assert_eq!(count_cpu_list(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn cpu_names() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2GHz\n").as_deref(), Some("Some CPU @ 2GHz"));
        let arm = cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
        assert_eq!(arm.as_deref(), Some("arm64 implementer 0x41 part 0xd0c"));
    }

    #[test]
    fn banners() {
        let image = b"..\0GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.\nCopyright";
        assert_eq!(glibc_version(image).as_deref(), Some("2.36"));
        assert_eq!(glibc_version(b"musl libc (x86_64)"), None);
    }

    #[test]
    fn the_tightest_quota_of_all_ancestors_counts() {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("proc/self/cgroup", "0::/a/b\n");
        file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
        file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        assert_eq!(cpu_quota(root.path()), Some(1.5));
        file("proc/self/cgroup", "4:cpu,cpuacct:/c\n");
        file("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000");
        file("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000");
        file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
        file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
        assert_eq!(cpu_quota(root.path()), Some(0.5));
    }
}
