use std::process::Command;

use crate::{compile, text, Place};

/// Runs a command under a filter that does with `sched_yield` as the first argument says.
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
    if (argc < 3) return 97;
    if (!strcmp(argv[1], "kill")) action = SECCOMP_RET_KILL_PROCESS;
    if (!strcmp(argv[1], "refuse")) action = SECCOMP_RET_ERRNO | EPERM;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execvp(argv[2], argv + 2);
    return 98;
}
"#;

#[test]
fn locks_are_told_to_yield_only_where_a_filter_lets_them() {
    let place = Place::new();
    let filter = compile(&place, "filter", FILTER, &[]);
    let own = place.lockswap(&["run", "--", "/bin/sh", "-c", "echo \"$LOCKSWAP_YIELD\""]);
    for (action, told) in [("allow", "1"), ("kill", ""), ("refuse", "")] {
        let mut command = Command::new(&filter);
        command.arg(action).arg(own.get_program()).args(own.get_args()).current_dir(place.path(""));
        // What an outer command found counts for its own filter only.
        command.env("XDG_CACHE_HOME", place.path("cache")).env("LOCKSWAP_YIELD", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{action}: {:?} {}", output.status, text(&output.stderr));
        assert_eq!(text(&output.stdout).trim_end(), told, "{action}");
        assert_eq!(text(&output.stderr), "", "{action}");
    }
    let cores = std::fs::read_dir(place.path("")).unwrap().flatten().filter(|e| e.file_name() != "filter.c");
    let left: Vec<_> =
        cores.map(|entry| entry.file_name()).filter(|name| name != "filter" && name != "cache").collect();
    assert!(left.is_empty(), "the attempt left {left:?}");
}
