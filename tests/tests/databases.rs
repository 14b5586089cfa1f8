//! `lockswap advise` on databases from Debian: whatever it finds, what it says has to follow from what it measured,
//! and what it recommends has to run.

use lockswap_e2e::{lockswap, need, run_with_timeout, scratch_dir, Outcome};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What a run of the program may take.
const LIMIT: Duration = Duration::from_secs(60);

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// Runs `advise` with these options on a program, in the folder.
fn advise(options: &[&str], command: &[&str], folder: &Path) -> (Outcome, Value) {
    let mut advise = Command::new(lockswap());
    advise.current_dir(folder).env("XDG_CACHE_HOME", folder).arg("advise");
    // No simulation: this machine would have to be probed first.
    advise.args(["-o", "profile.toml", "--export", "advice.json", "--no-simulation"]);
    let outcome = run_with_timeout(advise.args(options).arg("--").args(command), Duration::from_secs(280));
    assert!(outcome.success(), "{}", outcome.tail());
    let advice = serde_json::from_slice(&fs::read(folder.join("advice.json")).unwrap()).unwrap();
    (outcome, advice)
}

/// Whether the locks that matter were tried, and the answer is what the runs say. Returns the options of
/// `lockswap run` that are recommended, if any are.
fn check(outcome: &Outcome, advice: &Value, folder: &Path) -> Option<Vec<String>> {
    assert!(advice["run"]["noted"].as_u64() > Some(100), "nothing was traced: {:#}", advice["run"]);
    let (answer, trials) = (&advice["answer"], list(&advice["trials"]));
    let says = |words: &str| outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(words);
    for sentence in list(&answer["sentences"]) {
        assert!(says(sentence.as_str().unwrap()), "{sentence} {}", outcome.stdout);
    }
    let weighs = |lock: &&Value| lock["weight"].as_f64() >= Some(0.02) && lock["kind"] != "spinlock";
    let heavy = list(&advice["locks"]).iter().filter(weighs).count();
    // Of locks that share a target one is tried, and of those that are held all the time none.
    assert!(trials.len() <= heavy && (heavy > 0 || !list(&advice["causes"]).is_empty()), "{advice:#}");
    let rows = |comparison: &Value| list(&comparison["summary"][0]).to_vec();
    for trial in trials {
        let rows = rows(&trial["comparison"]);
        assert!(rows.len() >= 3 && rows[0]["good_runs"].as_u64() >= Some(7), "{rows:#?}");
        let is_chosen = |row: &&Value| row["lock"] == trial["chosen"];
        let is_better = |row: &Value| row["judgement"] == "better";
        match trial["chosen"].as_str() {
            Some(_) => assert!(rows.iter().find(is_chosen).is_some_and(is_better), "{trial:#}"),
            None => assert!(!rows.iter().any(is_better), "{trial:#}"),
        }
        assert!(says(trial["name"].as_str().unwrap()), "{}", outcome.stdout);
    }
    if answer["helps"] == false {
        assert!(says("No lock ") && list(&answer["sentences"]).len() > 1, "no reason: {}", outcome.stdout);
        assert!(advice["run_with"].is_null() && !folder.join("profile.toml").exists(), "{advice:#}");
        return None;
    }
    let fresh = rows(&advice["confirmation"]["comparison"]);
    assert!(fresh[1..].iter().any(|row| row["judgement"] == "better"), "{fresh:#?}");
    let command = advice["run_with"].as_str().unwrap();
    assert!(says(command) && command.contains("--profile") == folder.join("profile.toml").exists(), "{command}");
    let options = command.split(' ').skip(2).take_while(|word| *word != "--");
    Some(options.map(str::to_owned).collect())
}

/// Runs the command with these options of `lockswap run`.
fn run(options: &[String], command: &[&str], folder: &Path) -> Outcome {
    let mut run = Command::new(lockswap());
    run.current_dir(folder).args(["run", "--summary"]).args(options).arg("--").args(command);
    run_with_timeout(&mut run, LIMIT)
}

/// Threads that read what lies in a cache, of which all parts have one mutex.
#[test]
fn rocksdb() {
    let (Some(program), folder) = (need("db_bench", "rocksdb-tools"), scratch_dir()) else { return };
    let folder = folder.path();
    let options = "--db=db --benchmarks=fillseq,readrandom --num=20000 --reads=50000 --threads=4 --seed=1 \
                   --write_buffer_size=500000 --cache_size=50000000 --cache_numshardbits=0";
    let command: Vec<&str> = [program.to_str().unwrap()].into_iter().chain(options.split_whitespace()).collect();
    let around = ["--prepare", "rm -rf db", "--metric", "readrandom +:.* ([0-9]+) ops/sec"];
    // A lock that is hopeless costs no more than two runs of 3 s.
    let (outcome, advice) = advise(&[&around[..], &["--time", "4m", "--timeout", "3s"]].concat(), &command, folder);
    let is_of_rocksdb = |lock: &Value| lock["name"].as_str().is_some_and(|name| name.contains("rocksdb::"));
    assert!(list(&advice["locks"]).iter().any(is_of_rocksdb), "{advice:#}");
    let Some(options) = check(&outcome, &advice, folder) else { return };
    fs::remove_dir_all(folder.join("db")).unwrap();
    let outcome = run(&options, &command, folder);
    assert!(outcome.success() && outcome.stdout.contains("readrandom"), "{}", outcome.tail());
    assert!(outcome.stderr.contains(" on the locks of the profile") || !options.contains(&"--profile".into()));
}

/// A server that waits for its clients, for conditions and for locks of its own making: advise says so.
#[test]
fn mariadb() {
    let Some(install) = need("mariadb-install-db", "mariadb-server-core") else { return };
    let Some(server) = need("mariadbd", "mariadb-server-core") else { return };
    let Some(client) = need("mariadb", "mariadb-client-core") else { return };
    let Some(sysbench) = need("sysbench", "sysbench") else { return };
    let folder = scratch_dir();
    let folder = folder.path();
    let own = folder.display();
    let arguments = format!(
        "--no-defaults --user=root --skip-networking --datadir={own}/data --socket={own}/socket --pid-file={own}/pid \
         --innodb-log-file-size=8M --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=2"
    );
    let command: Vec<&str> = [server.to_str().unwrap()].into_iter().chain(arguments.split(' ')).collect();
    let load = format!(
        "exec {} oltp_read_write --db-driver=mysql --mysql-socket={own}/socket --mysql-user=root --tables=2 \
         --table-size=2000 --threads=4",
        sysbench.display()
    );
    let prepare = format!(
        "set -e
         {} --no-defaults --user=root --auth-root-authentication-method=normal --innodb-log-file-size=8M \
             --datadir={own}/data >install 2>&1
         {} >output 2>&1 &
         ask='{} --no-defaults --socket={own}/socket --user=root --execute'
         until $ask 'create database sbtest' 2>/dev/null; do kill -0 $!; sleep 0.1; done
         sh -c '{load} prepare'
         kill $!
         wait $!",
        install.display(),
        command.join(" "),
        client.display()
    );
    let prepared = run_with_timeout(Command::new("sh").current_dir(folder).args(["-c", &prepare]), LIMIT);
    let said = || fs::read_to_string(folder.join("output")).unwrap_or_default();
    assert!(prepared.success(), "{}{}", prepared.tail(), said());
    let (ready, load) = (format!("file:{own}/socket"), format!("{load} --time=1 run"));
    let around =
        ["--prepare", "rm -f socket", "--ready", &ready, "--load", &load, "--metric", "transactions: +([0-9]+)"];
    let (outcome, advice) = advise(&[&around[..], &["--time", "4m"]].concat(), &command, folder);
    assert!(advice["run"]["threads"].as_u64() > Some(4), "its threads were not seen: {:#}", advice["run"]);
    let is_of_server = |lock: &Value| lock.to_string().contains("mariadbd");
    assert!(list(&advice["locks"]).iter().any(is_of_server), "{advice:#}");
    let Some(options) = check(&outcome, &advice, folder) else { return };
    // With the arguments that are recommended it starts, and says what it is.
    let outcome = run(&options, &[command[0], "--version"], folder);
    assert!(outcome.success() && outcome.stdout.contains("MariaDB"), "{}", outcome.tail());
}
