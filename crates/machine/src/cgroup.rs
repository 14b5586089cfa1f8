//! The CPUs to which a control group confines its processes.

use crate::cpuset::CpuSet;
use crate::files::{Files, Reader};

/// The CPUs of a process's group, read below `/sys`; `None` where no such limit is visible. `membership` is what
/// `/proc/self/cgroup` says; without it, the process is in the root of each hierarchy, as it looks from inside a
/// container.
///
/// Both versions are known: the file of version 2 is `fs/cgroup/GROUP/cpuset.cpus.effective`, those of version 1 lie
/// in `fs/cgroup/cpuset/GROUP`.
pub fn cpus(sys: &impl Files, membership: Option<&str>) -> Option<CpuSet> {
    let mut reader = Reader::new(sys);
    let lines = membership.unwrap_or("1:cpuset:/\n0::/").lines();
    let groups = lines.filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let version_1 = controllers.split(',').any(|controller| controller == "cpuset");
        (version_1 || controllers.is_empty()).then_some((version_1, group))
    });
    groups.filter_map(|(version_1, group)| of_group(&mut reader, version_1, group)).reduce(|all, one| all.and(&one))
}

/// The limit of a group, or of the nearest ancestor that is visible: in a container the group's own path may not be.
fn of_group<F: Files>(reader: &mut Reader<'_, F>, version_1: bool, group: &str) -> Option<CpuSet> {
    let (folder, files) = match version_1 {
        true => ("cpuset/", ["cpuset.effective_cpus", "cpuset.cpus"]),
        false => ("", ["cpuset.cpus.effective", "cpuset.cpus"]),
    };
    let mut group = group.trim_matches('/');
    loop {
        let slash = if group.is_empty() { "" } else { "/" };
        for file in files {
            if let Some(cpus) = reader.list(format_args!("fs/cgroup/{folder}{group}{slash}{file}")) {
                return Some(cpus.into());
            }
        }
        if group.is_empty() {
            return None;
        }
        group = group.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captured::Captured;

    #[test]
    fn the_nearest_visible_group_counts() {
        let mut files = Captured::default();
        assert_eq!(cpus(&files, Some("0::/a/b\n")), None);
        files.set("fs/cgroup/cpuset.cpus.effective", "0-7");
        files.set("fs/cgroup/a/cpuset.cpus.effective", "0-3");
        files.set("fs/cgroup/cpuset/c/cpuset.effective_cpus", "2-5");
        let of = |membership| cpus(&files, membership).map(|cpus| cpus.to_string());
        assert_eq!(of(Some("0::/a/b\n")).as_deref(), Some("0-3"));
        assert_eq!(of(Some("0::/\n")).as_deref(), Some("0-7"));
        assert_eq!(of(Some("12:cpu,cpuset:/c\n9:cpu:/a\n0::/a\n")).as_deref(), Some("2,3"));
        assert_eq!(of(None).as_deref(), Some("0-7"));
    }
}
