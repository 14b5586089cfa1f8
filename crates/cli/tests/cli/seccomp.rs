use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::{compile, text, Place};

/// Runs a command under a filter that does with a system call, the second argument, as the first one says.
const FILTER: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    unsigned action = SECCOMP_RET_ALLOW;
    if (argc < 4) return 97;
    unsigned call = !strcmp(argv[2], "membarrier") ? SYS_membarrier : SYS_sched_yield;
    if (!strcmp(argv[1], "kill")) action = SECCOMP_RET_KILL_PROCESS;
    if (!strcmp(argv[1], "refuse")) action = SECCOMP_RET_ERRNO | EPERM;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execvp(argv[3], argv + 3);
    return 98;
}
"#;

/// `command` under that filter.
fn under(filter: &str, action: &str, call: &str, command: &Command) -> Command {
    let mut under = Command::new(filter);
    under.args([action, call]).arg(command.get_program()).args(command.get_args());
    under
}

#[test]
fn locks_are_told_which_calls_a_filter_allows() {
    let place = Place::new();
    let filter = compile(&place, "filter", FILTER, &[]);
    let script = "echo \"$LOCKSWAP_YIELD,$LOCKSWAP_MEMBARRIER\"";
    let own = place.lockswap(&["run", "--", "/bin/sh", "-c", script]);
    // Nobody calls it elsewhere.
    let settles = if cfg!(target_arch = "x86_64") { "1" } else { "" };
    for (action, call, told) in [
        ("allow", "membarrier", format!("1,{settles}")),
        ("kill", "sched_yield", format!(",{settles}")),
        ("refuse", "sched_yield", format!(",{settles}")),
        ("kill", "membarrier", "1,".into()),
        ("refuse", "membarrier", "1,".into()),
    ] {
        let mut command = under(&filter, action, call, &own);
        command.current_dir(place.path("")).env("XDG_CACHE_HOME", place.path("cache"));
        // What an outer command found counts for its own filter only.
        let output = command.env("LOCKSWAP_YIELD", "1").env("LOCKSWAP_MEMBARRIER", "1").output().unwrap();
        assert!(output.status.success(), "{action} {call}: {:?} {}", output.status, text(&output.stderr));
        assert_eq!(text(&output.stdout).trim_end(), told, "{action} {call}");
        assert_eq!(text(&output.stderr), "", "{action} {call}");
    }
    let cores = std::fs::read_dir(place.path("")).unwrap().flatten().filter(|e| e.file_name() != "filter.c");
    let left: Vec<_> =
        cores.map(|entry| entry.file_name()).filter(|name| name != "filter" && name != "cache").collect();
    assert!(left.is_empty(), "the attempt left {left:?}");
}

/// Who is told so, wrongly here, makes the call, and nobody else does: neither untold, nor under more filters.
#[test]
fn a_filter_meets_membarrier_only_where_it_is_said_to_allow_it() {
    let place = Place::new();
    let filter = compile(&place, "filter", FILTER, &[]);
    let library = place.lockswap(&["preload-path"]).output().unwrap();
    for (told, dies) in [(None, false), (Some("1"), cfg!(target_arch = "x86_64")), (Some("2"), false)] {
        let mut command = Command::new("env");
        command.arg(format!("LD_PRELOAD={}", text(&library.stdout).trim_end()));
        command.args(told.map(|filters| format!("LOCKSWAP_MEMBARRIER={filters}"))).arg("/bin/true");
        let mut command = under(&filter, "kill", "membarrier", &command);
        let status = command.current_dir(place.path("")).env_remove("LOCKSWAP_MEMBARRIER").status().unwrap();
        assert_eq!(status.signal(), dies.then_some(nix::libc::SIGSYS), "{told:?}: {status}");
        assert_eq!(status.success(), !dies, "{told:?}: {status}");
    }
}
