//! One word for one thing in all subcommands, and the words of earlier versions.

use crate::{send, text, wait_for, Place};
use serde_json::Value;

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(place.path(name)).unwrap()).unwrap()
}

#[test]
fn every_option_with_a_time_takes_the_same_times() {
    let place = Place::new();
    for time in ["100ms", "0.1", "100000us"] {
        let output = place.output(&["compare", "--runs", "1", "--timeout", time, "--", "sleep", "30"]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("0.1 s"), "{time}: {error}");
    }
    let kv = ["bench", "kv", "--lock", "ttas", "--export-json", "kv.json"];
    for (time, ns) in [("50ms", 50_000_000), ("0.05", 50_000_000), ("1", 1_000_000_000)] {
        let output = place.output(&[&kv[..], &["--rounds", "1", "--duration", time]].concat());
        assert!(output.status.success(), "{time}: {}", text(&output.stderr));
        assert_eq!(json(&place, "kv.json")["results"][0]["config"]["timing"]["duration"], ns, "{time}");
    }
    let torture = ["torture", "--lock", "futex", "--threads", "2", "--export-json", "torture.json"];
    for time in [["--time", "200ms"], ["--seconds", "0.2"]] {
        let output = place.output(&[&torture[..], &time].concat());
        assert!(output.status.success(), "{time:?}: {}", text(&output.stderr));
        assert_eq!(json(&place, "torture.json")["seconds"], 0.2, "{time:?}");
    }
}

#[test]
fn a_wrong_time_is_quoted_with_what_would_be_right() {
    let place = Place::new();
    for (args, said) in [
        (&["compare", "--timeout", "5x", "--", "true"][..], "5s, 500ms, 50us, 2m or 1h"),
        (&["compare", "--timeout", "0", "--", "true"], "above 0"),
        (&["bench", "kv", "--duration", "2h"], "at most 1h"),
        (&["sim", "--duration", "5x"], "5s, 500ms, 50us, 2m or 1h"),
        (&["sim", "--duration", "1ns"], "from 1us to 60s"),
        (&["sim", "validate", "--simulated", "1h"], "from 1us to 60s"),
        (&["torture", "--time", "1us"], "from 100ms to 24h"),
        (&["torture", "--patience", "x"], "5s, 500ms, 50us, 2m or 1h"),
        (&["slo", "--epoch", "5", "--from", "10", "--to", "1ms", "--", "true"], "10us, 10ms or 10s"),
        (&["run", "--lock", "asl", "--slo", "5=50", "--", "true"], "50us, 50ms or 50s"),
        (&["bench", "ncs", "--ncs", "1us,3"], "3us, 3ms or 3s"),
    ] {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said) && error.contains("invalid value '"), "{args:?}: {error}");
    }
}

/// What is given by its old name has the same effect, and the new name is told once.
#[test]
fn old_names_work_and_the_new_ones_are_told() {
    let place = Place::new();
    let sim = &["sim", "--threads", "2", "--duration", "100us"][..];
    let bench = &["bench", "--lock", "ttas", "--export", "bench.json"][..];
    let torture = &["torture", "--lock", "futex", "--threads", "2"][..];
    let run = &["run"][..];
    for (command, old, new, told) in [
        (sim, &["--locks", "ttas"][..], &["--lock", "ttas"][..], "note: --locks is now called --lock\n"),
        (torture, &["--seconds", "0.1"], &["--time", "0.1"], "note: --seconds is now called --time\n"),
        (
            bench,
            &["kv", "--duration", "20ms", "--rounds=2"],
            &["kv", "--duration", "20ms", "--runs", "2"],
            "note: --rounds is now called --runs\n",
        ),
        (
            bench,
            &["kv", "--duration", "20ms", "--keys", "64", "--runs", "1"],
            &["kv", "--duration", "20ms", "--set", "keys=64", "--runs", "1"],
            "note: --keys is now called --set keys=64\n",
        ),
        (
            bench,
            &["epochs", "--duration", "20ms", "--locks", "2", "--runs", "1"],
            &["epochs", "--duration", "20ms", "--lock-count", "2", "--runs", "1"],
            "note: --locks is now called --lock-count\n",
        ),
        (
            run,
            &["--lock", "asl", "--asl-fifo", "mcs", "--", "echo", "--locks", "--asl-fifo", "mcs"],
            &["--lock", "asl:fifo=mcs_spin", "echo", "--locks", "--asl-fifo", "mcs"],
            "note: --asl-fifo is now written --lock asl:fifo=mcs_spin\n",
        ),
    ] {
        let results = [(old, told), (new, "")].map(|(option, told)| {
            let output = place.output(&[command, option].concat());
            assert!(output.status.success(), "{option:?}: {}", text(&output.stderr));
            // What else is said is about the machine.
            let error = text(&output.stderr);
            let notes = error.lines().filter(|line| line.contains("is now ")).map(|line| format!("{line}\n"));
            assert_eq!(notes.collect::<String>(), told, "{option:?}");
            let help = text(&place.output(&[&command[..1], &["--help"]].concat()).stdout);
            assert!(!help.contains("--locks") && !help.contains("--rounds"), "{help}");
            (command == sim || command == run).then_some(output.stdout)
        });
        assert_eq!(results[0], results[1], "{old:?}");
    }
    let settings = |option: &[&str]| {
        assert!(place.output(&[bench, option].concat()).status.success());
        json(&place, "bench.json")["results"][0]["config"].clone()
    };
    assert_eq!(settings(&["kv", "--duration", "20ms", "--keys", "64", "--runs", "1"])["keys"], 64);
    assert_eq!(settings(&["epochs", "--duration", "20ms", "--lock-count", "3", "--runs", "1"])["locks"], 3);
}

#[test]
fn locks_are_found_in_any_spelling_and_shown_in_the_published_one() {
    let place = Place::new();
    let output = place.output(&["run", "--lock", "MCS-spin", "--rwlock", "rw_futex", "--summary", "--", "true"]);
    let summary = text(&output.stderr);
    assert!(output.status.success() && summary.contains("mcs_spin"), "{summary}");
    assert!(!summary.contains("MCS-spin") && !summary.contains("rw_futex"), "{summary}");
    let output = place.lockswap(&["run", "--summary", "--", "true"]).env("LOCKSWAP_LOCK", "mcs_ls").output().unwrap();
    let summary = text(&output.stderr);
    assert!(output.status.success() && summary.contains("mcs-ls") && !summary.contains("mcs_ls"), "{summary}");
    for args in [
        &["compare", "--lock", "MCS_SPIN,mcs-spin", "--runs", "1", "--", "true"][..],
        &["sim", "--lock", "mcs-spin", "--threads", "2", "--duration", "100us"],
        &["bench", "kv", "--lock", "Mcs-Spin", "--runs", "1", "--duration", "20ms"],
        &["torture", "--lock", "mcs-spin,MCS_SPIN", "--threads", "2", "--time", "100ms"],
    ] {
        let output = place.output(args);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        let rows = shown.lines().filter(|line| line.split_whitespace().any(|word| word == "mcs_spin"));
        assert_eq!(rows.count(), 1, "{args:?}: {shown}");
    }
}

#[test]
fn an_unknown_lock_gets_the_nearest_names_and_not_all() {
    let place = Place::new();
    let mcs = "did you mean 'mcs_spin', 'mcs_stp' or 'mcs_stp-barging'? 'lockswap list' shows all\n";
    for (args, said) in [
        (&["run", "--lock", "mcs", "--", "true"][..], mcs),
        (&["compare", "--lock", "mcs", "--", "true"], mcs),
        (&["bench", "kv", "--lock", "mcs"], mcs),
        (&["sim", "--lock", "mcs"], mcs),
        (&["sim", "validate", "--lock", "mcs"], mcs),
        (&["torture", "--lock", "mcs"], mcs),
        (&["run", "--lock", "TICKTE", "--", "true"], "did you mean 'ticket'? "),
        (&["run", "--lock", "xyzzy", "--", "true"], "remedy: 'lockswap list' shows all"),
        (&["run", "--lock", "bravo", "--", "true"], "write --rwlock bravo"),
        (&["run", "--rwlock", "futex", "--", "true"], "write --lock futex"),
        (&["run", "--rwlock", "futexes", "--", "true"], "'lockswap list' shows all"),
    ] {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said), "{args:?}: {error}");
        assert!(error.len() < 250 && !error.contains("cohort-rw"), "{args:?}: {error}");
    }
}

/// What follows `--` or the first other word is the program's, and nothing else.
#[test]
fn a_mistyped_option_is_not_taken_for_a_program() {
    let place = Place::new();
    for (args, said) in [
        (&["run", "--locks", "futex", "--", "echo"][..], "a similar argument exists: '--lock'"),
        (&["run", "--foo", "echo"], "unexpected argument '--foo'"),
        (&["compare", "-R", "3", "--", "true"], "an option of the program stands behind the program's name"),
        (&["compare", "--rnus", "3", "true"], "a similar argument exists: '--runs'"),
        (&["slo", "--epoch", "5", "--form", "10us", "--to", "1ms", "echo"], "a similar argument exists: '--from'"),
        (&["bench", "kv", "-t", "3"], "a similar argument exists: '--threads'"),
    ] {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{args:?}: {error}");
        assert!(error.contains(said) && error.contains("unexpected argument"), "{args:?}: {error}");
        assert!(!error.contains("as a value"), "{args:?}: {error}");
    }
    for before in [&["run", "--lock", "futex"][..], &["run", "--lock", "futex", "--"]] {
        let output = place.output(&[before, &["echo", "--lock", "-r", "--", "-x"]].concat());
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "--lock -r -- -x\n"), "{before:?}");
    }
}

#[test]
fn frequent_options_have_a_letter() {
    let place = Place::new();
    let output = place.output(&["run", "-l", "ticket", "sh", "-c", "echo $LOCKSWAP_LOCK"]);
    assert_eq!(text(&output.stdout), "ticket\n");
    let output = place
        .output(&["compare", "-l", "ttas", "-r", "1", "-w", "0", "-n", "it", "-e", "it.csv", "-p", "true", "true"]);
    assert!(output.status.success() && text(&output.stdout).starts_with("it\n"), "{output:?}");
    assert!(std::fs::read_to_string(place.path("it.csv")).unwrap().contains("\nttas,"));
}

#[test]
fn completions_and_man_pages_are_installed_where_shells_look() {
    let place = Place::new();
    let nowhere = place.output(&["install-docs"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("set HOME, or name a folder with --into DIR"), "{}", text(&nowhere.stderr));
    let home = place.dir.path();
    let output = place.lockswap(&["install-docs"]).env("HOME", home).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let data = home.join(".local/share");
    for (file, content) in [
        ("bash-completion/completions/lockswap", "mcs_spin"),
        ("zsh/site-functions/_lockswap", "#compdef lockswap"),
        ("fish/vendor_completions.d/lockswap.fish", "c-bo-mcs_stp"),
    ] {
        assert!(said.contains(data.join(file).to_str().unwrap()), "{said}");
        let script = std::fs::read_to_string(data.join(file)).unwrap();
        assert!(
            script.contains(content)
                && script.contains("torture")
                && !script.contains("__loaded")
                && !script.contains("--keys"),
            "{file}"
        );
    }
    for page in ["lockswap.1", "lockswap-run.1", "lockswap-sim-validate.1"] {
        let manual = std::fs::read_to_string(data.join("man/man1").join(page)).unwrap();
        assert!(manual.starts_with(".") && manual.contains(".SH SYNOPSIS") && !manual.contains("__loaded"), "{page}");
    }
    let folder = home.join("elsewhere");
    let output = place.output(&["install-docs", "--into", folder.to_str().unwrap()]);
    assert!(output.status.success() && folder.join("man/man1/lockswap-bench.1").is_file());
    // The shell that is there on every Debian reads its script.
    let script = data.join("bash-completion/completions/lockswap");
    let typed = format!(
        "source {}; COMP_WORDS=(lockswap run --lock mcs_s); COMP_CWORD=3; COMP_LINE='lockswap run --lock mcs_s'; \
         _lockswap lockswap mcs_s --lock; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let output = std::process::Command::new("bash").args(["-c", &typed]).output().unwrap();
    assert_eq!(text(&output.stdout).trim(), "mcs_spin mcs_stp mcs_stp-barging", "{}", text(&output.stderr));
    std::fs::write(home.join("file"), "").unwrap();
    let output = place.output(&["install-docs", "--into", home.join("file").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot make the folder"), "{}", text(&output.stderr));
}

/// Catches SIGINT by now, so that it no longer ends the process at once.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
    caught.and_then(|caught| u64::from_str_radix(caught, 16).ok()).is_some_and(|caught| caught & 0b10 != 0)
}

#[test]
fn ctrl_c_leaves_what_was_measured_so_far() {
    let place = Place::new();
    let json = ["--export-json", "out.json"];
    for args in [
        &["bench", "kv", "--lock", "ttas", "--runs", "1000", "--duration", "20ms"][..],
        &["bench", "contended", "--lock", "ttas", "--runs", "1000"],
        &["bench", "simulator", "--runs", "1000"],
        &["sim", "reproduce", "--seeds", "100"],
        &[
            "sim",
            "validate",
            "--machine",
            "apple-m1",
            "--lock",
            "ttas,ticket",
            "--workloads",
            "counter",
            "--runs",
            "1000",
        ],
    ] {
        let _ = std::fs::remove_file(place.path("out.json"));
        let mut command = place.lockswap(&[args, &json[..]].concat());
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        wait_for("catching SIGINT", || catches_interrupts(child.id()));
        if args[0] == "bench" {
            wait_for("the first results", || place.path("out.json").exists());
        }
        send(child.id(), "-INT");
        let output = child.wait_with_output().unwrap();
        let (shown, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(130), "{args:?}: {error}");
        assert!(error.contains("interrupted: "), "{args:?}: {error}");
        if args[0] == "bench" {
            assert!(shown.contains("pthread") || shown.contains("per CPU-second"), "{args:?}: {shown}");
        }
        if args[1] == "reproduce" {
            assert_eq!(shown.contains("claims agree"), !error.contains("no claim had been"), "{shown}{error}");
        }
        if args[1] == "validate" {
            assert_eq!(shown.contains("ticket"), !error.contains("nothing was measured"), "{shown}{error}");
        }
    }
}

#[test]
fn users_are_not_shown_the_projects_targets() {
    let place = Place::new();
    for (args, marks) in [(&[][..], false), (&["--targets"], true)] {
        let output = place.output(&[&["bench", "uncontended", "--lock", "ttas", "--runs", "1"], args].concat());
        let shown = text(&output.stdout);
        assert!(output.status.success() && text(&output.stderr).is_empty(), "{}", text(&output.stderr));
        assert_eq!(shown.contains("MISS: missed") && shown.contains("Targets: "), marks, "{shown}");
    }
    assert!(!text(&place.output(&["bench", "--help"]).stdout).contains("--targets"));
}

#[test]
fn declarations_that_cannot_be_meant_are_told() {
    let place = Place::new();
    let with = |name: &str, value: &str, args: &[&str]| place.lockswap(args).env(name, value).output().unwrap();
    let output = with("LOCKSWAP_BIG", "4000", &["topo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("LOCKSWAP_BIG=4000 names none of the CPUs"), "{}", text(&output.stderr));
    let output = with("LOCKSWAP_BIG", "4000", &["run", "--lock", "asl", "--", "echo", "ran"]);
    assert_eq!(text(&output.stdout), "ran\n");
    assert!(
        text(&output.stderr).contains("all CPUs are little, as LOCKSWAP_BIG=4000 says"),
        "{}",
        text(&output.stderr)
    );
    let output = with("LOCKSWAP_BIG", "0-4000", &["run", "--lock", "asl", "--", "echo", "ran"]);
    assert!(text(&output.stderr).contains("all CPUs are big, as LOCKSWAP_BIG=0-4000 says"), "{}", text(&output.stderr));
    let output = with("LOCKSWAP_BIG", "4000", &["run", "--lock", "futex", "--", "echo", "ran"]);
    assert_eq!(text(&output.stderr), "", "a lock that does not ask");
    let output = with("LOCKSWAP_ROUTE", "3999,4000", &["topo"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("LOCKSWAP_ROUTE is ignored") && !shown.contains("as LOCKSWAP_ROUTE says"), "{shown}{said}");
    let output = with("LOCKSWAP_ROUTE", "0,4000", &["topo"]);
    assert!(text(&output.stderr).contains("may not use: 4000"), "{}", text(&output.stderr));
}

#[test]
fn what_is_no_number_gets_plain_words() {
    let place = Place::new();
    for args in
        [&["compare", "--runs", "x", "true"][..], &["bench", "kv", "--threads", ""], &["sim", "--threads", "1,y"]]
    {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(error.contains("write a number in digits") && error.contains("invalid value '"), "{args:?}: {error}");
        assert!(!error.contains("found in string") && !error.contains("parse integer"), "{args:?}: {error}");
    }
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let place = Place::new();
    let args = ["bench", "uncontended", "--lock", "ttas", "--runs", "1"];
    let of = |locale: &str| place.lockswap(&args).env("LC_ALL", locale).output().unwrap().stdout;
    assert!(of("C").is_ascii() && !of("C.UTF-8").is_ascii());
}
