//! Servers under load on a few locks, compared with their plain run. Each run proves by its statistics that the lock
//! was used.

use lockswap_e2e::{
    compare_on, free_port, load_memcached, need, run_with_timeout, scratch_dir, Server, Variant, Which,
};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// What a client program may take.
const LIMIT: Duration = Duration::from_secs(60);

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

/// The standard output of a client program, which must succeed.
fn output(program: &Path, arguments: &[String]) -> Result<String, String> {
    let outcome = run_with_timeout(Command::new(program).args(arguments), LIMIT);
    if outcome.success() {
        return Ok(outcome.stdout);
    }
    Err(format!("{} {arguments:?} {}:\n{}", program.display(), outcome.ending(), outcome.tail()))
}

/// The number behind `label` in a client's report.
fn number_after(label: &str, report: &str) -> Result<u64, String> {
    let rest = report.split_once(label).map(|(_, rest)| rest.trim_start());
    let digits = rest.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("no {label:?} in\n{report}"))
}

#[test]
fn memcached() {
    let Some(path) = need("memcached", "memcached") else { return };
    compare_on("memcached", Which::Representatives, |variant| {
        let (directory, port) = (scratch_dir(), free_port());
        let arguments = words(&format!("-l 127.0.0.1 -p {port} -U 0 -t 4 -m 8 -u nobody"));
        let server = Server::start(variant, &path, &arguments, directory.path());
        let total = load_memcached(port, 6, 250).map_err(|error| server.explain(format!("client: {error}")))?;
        server.stop()?;
        Ok(format!("{total} increments"))
    });
}

#[test]
fn redis_with_io_threads() {
    let Some(program) = need("redis-check-rdb", "redis-tools") else { return };
    let Some(client) = need("redis-cli", "redis-tools") else { return };
    let Some(benchmark) = need("redis-benchmark", "redis-tools") else { return };
    compare_on("redis", Which::Few, |variant| {
        let (directory, port) = (scratch_dir(), free_port());
        // One program is everything that begins with "redis-": the name that it is started by decides. Debian has this
        // name in a package of its own, which starts a server of the system.
        let server = directory.path().join("redis-server");
        symlink(&program, &server).map_err(|error| error.to_string())?;
        let arguments = format!(
            "--bind 127.0.0.1 --port {port} --io-threads 4 --io-threads-do-reads yes --appendonly yes --dir {}",
            directory.path().display()
        );
        let mut server = Server::start(variant, &server, &words(&arguments), directory.path());
        let ask = |question: &str| output(&client, &words(&format!("-h 127.0.0.1 -p {port} {question}")));
        server.wait_for("answer to PING", || ask("ping").ok().filter(|answer| answer.trim() == "PONG"))?;
        let load = |what: &str| {
            // Several requests at once: on few CPUs a round of spinning I/O threads takes milliseconds.
            let options = "-h 127.0.0.1 --csv -c 60 -n 9600 -P 8 --threads 2";
            output(&benchmark, &words(&format!("{options} -p {port} -t {what}")))
        };
        load("incr,lpush")?;
        // A child process is made of one that has threads, under load, and meanwhile another thread writes the log.
        thread::scope(|scope| {
            let loading = scope.spawn(|| load("set,incr"));
            ask("bgrewriteaof")?;
            loading.join().expect("no panic")
        })?;
        server.wait_for("end of BGREWRITEAOF", || {
            ask("info persistence").ok().filter(|text| text.contains("aof_rewrite_in_progress:0"))
        })?;
        if !ask("info persistence")?.contains("aof_last_bgrewrite_status:ok") {
            return Err(server.explain("BGREWRITEAOF failed"));
        }
        if number_after("io_threaded_reads_processed:", &ask("info stats")?)? == 0 {
            return Err(server.explain("no I/O thread has read anything"));
        }
        let counted = ask("get counter:__rand_int__")?;
        let pushed = ask("llen mylist")?;
        server.stop()?;
        Ok(format!("counted {} pushed {}", counted.trim(), pushed.trim()))
    });
}

/// A configuration of Debian's Apache that needs nothing outside `directory`.
fn apache_configuration(directory: &Path, port: u16) -> String {
    let modules = "/usr/lib/apache2/modules";
    let own = directory.display();
    // Started by root its workers run as this user; else the line means nothing.
    let user = "User nobody\nGroup nogroup";
    format!(
        "ServerRoot {own}\nDefaultRuntimeDir {own}\nPidFile {own}/pid\nErrorLog {own}/errors\nServerName localhost\n\
         Listen 127.0.0.1:{port}\nDocumentRoot {own}/pages\n{user}\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         StartServers 2\nThreadsPerChild 16\nMinSpareThreads 1\nMaxSpareThreads 64\nMaxRequestWorkers 64\n\
         MaxKeepAliveRequests 0\n"
    )
}

#[test]
fn apache_event_with_graceful_restarts() {
    let Some(program) = need("apache2", "apache2-bin") else { return };
    let Some(client) = need("ab", "apache2-utils") else { return };
    compare_on("apache2", Which::Few, |variant| {
        let (directory, port) = (scratch_dir(), free_port());
        let (configuration, pages) = (directory.path().join("configuration"), directory.path().join("pages"));
        let prepare = || {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
            fs::create_dir(&pages)?;
            fs::write(pages.join("page"), "a page of 10,000 bytes\n".repeat(1000).get(..10_000).unwrap_or_default())?;
            fs::write(&configuration, apache_configuration(directory.path(), port))
        };
        prepare().map_err(|error| error.to_string())?;
        let arguments = words(&format!("-DFOREGROUND -f {}", configuration.display()));
        let mut server = Server::start(variant, &program, &arguments, directory.path());
        let generations = || {
            let log = fs::read_to_string(directory.path().join("errors")).unwrap_or_default();
            log.matches("resuming normal operations").count()
        };
        server.wait_for("first generation", || (generations() == 1).then_some(()))?;
        let url = format!("http://127.0.0.1:{port}/page");
        let load = |options: &str| {
            let report = output(&client, &words(&format!("-q {options} {url}")))?;
            let failed = number_after("Failed requests:", &report)?;
            if failed > 0 || report.contains("Non-2xx responses") {
                return Err(report);
            }
            number_after("Complete requests:", &report)
        };
        // Fewer connections than threads in one process: when these are all busy it closes connections that are kept
        // alive, which the client calls failed requests.
        let kept_alive = load("-k -c 8 -n 20000").map_err(|error| server.explain(error))?;
        // Each request has a connection of its own here: one that is kept alive may be closed by a restart.
        let seconds = 2;
        let restarts = thread::scope(|scope| {
            let loading = scope.spawn(|| load(&format!("-c 8 -t {seconds} -n 10000000")));
            let mut restarts = 0;
            while !loading.is_finished() && restarts < 3 {
                thread::sleep(Duration::from_millis(200));
                server.signal(Signal::USR1);
                restarts += 1;
                server.wait_for("next generation", || (generations() == 1 + restarts).then_some(()))?;
            }
            let requests = loading.join().expect("no panic").map_err(|error| server.explain(error))?;
            if requests < 100 {
                return Err(server.explain(format!("only {requests} requests in {seconds} s")));
            }
            Ok(restarts)
        })?;
        server.stop()?;
        Ok(format!("{kept_alive} requests, {restarts} restarts"))
    });
}

/// Debian's MariaDB with all of its files in one directory and no network.
struct MariaDb {
    install: PathBuf,
    server: PathBuf,
    client: PathBuf,
    sysbench: PathBuf,
}

/// Rows of each of sysbench's two tables. A transaction deletes and inserts the same row, so that their number stays.
const ROWS: u32 = 2000;

impl MariaDb {
    fn start(&self, variant: Option<&Variant>, directory: &Path) -> Result<Server, String> {
        let own = directory.display();
        // Small files: each lock gets a copy of them.
        let arguments = format!(
            "--no-defaults --user=root --skip-networking --datadir={own}/data --socket={own}/socket \
             --pid-file={own}/pid --innodb-log-file-size=8M --innodb-buffer-pool-size=32M"
        );
        let mut server = Server::start(variant, &self.server, &words(&arguments), directory);
        // It listens when it has recovered.
        server.wait_for("socket", || UnixStream::connect(directory.join("socket")).ok())?;
        Ok(server)
    }

    fn ask(&self, directory: &Path, question: &str) -> Result<String, String> {
        let socket = format!("--socket={}/socket", directory.display());
        let options =
            ["--no-defaults", &socket, "--user=root", "--skip-column-names", "--batch", "--execute", question];
        output(&self.client, &options.map(String::from))
    }

    fn sysbench(directory: &Path, action: &str) -> Vec<String> {
        words(&format!(
            "oltp_read_write --db-driver=mysql --mysql-socket={}/socket --mysql-user=root --mysql-db=sbtest \
             --tables=2 --table-size={ROWS} --threads=4 {action}",
            directory.display()
        ))
    }

    /// An empty server with sysbench's tables, made without lockswap.
    fn prepare(&self, directory: &Path) -> Result<(), String> {
        let data = format!("--datadir={}/data", directory.display());
        let options = "--no-defaults --user=root --auth-root-authentication-method=normal --innodb-log-file-size=8M";
        output(&self.install, &words(&format!("{options} {data}")))?;
        let server = self.start(None, directory)?;
        self.ask(directory, "create database sbtest")?;
        output(&self.sysbench, &Self::sysbench(directory, "prepare"))?;
        server.stop()
    }

    fn tables(&self, directory: &Path) -> Result<String, String> {
        // Waits for the purge, without which the check warns of deleted records that an index has and the table has
        // not.
        self.ask(directory, "set global innodb_max_purge_lag_wait = 0")?;
        let both = "check table sbtest.sbtest1, sbtest.sbtest2 extended";
        let count = "select count(*) from sbtest.sbtest1 union all select count(*) from sbtest.sbtest2";
        self.ask(directory, &format!("{both}; {count}"))
    }

    /// Load, kill -9, recovery, load, clean end.
    fn survives(&self, variant: Option<&Variant>, prepared: &Path) -> Result<String, String> {
        let scratch = scratch_dir();
        let directory = scratch.path();
        let data = [prepared.join("data"), directory.join("data")].map(|path| path.display().to_string());
        output(Path::new("/bin/cp"), &["-a".to_string(), data[0].clone(), data[1].clone()])?;

        let mut server = self.start(variant, directory)?;
        let load = scratch_dir();
        let endless = Self::sysbench(directory, "--time=0 run");
        let sysbench = Server::start(None, &self.sysbench, &endless, load.path());
        server.wait_for("200 transactions", || {
            let count = self.ask(directory, "show global status like 'Com_commit'").ok()?;
            (number_after("Com_commit", &count).ok()? >= 200).then_some(())
        })?;
        server.kill(&directory.join("pid"))?;
        drop(sysbench);

        let server = self.start(variant, directory)?;
        let recovered = server.explain("").contains("Starting crash recovery");
        let after_recovery = self.tables(directory)?;
        let report = output(&self.sysbench, &Self::sysbench(directory, "--time=2 run"))?;
        let worked = number_after("transactions:", &report)? >= 20;
        let at_the_end = self.tables(directory)?;
        server.stop()?;
        Ok(format!("recovered: {recovered}, worked: {worked}\n{after_recovery}{at_the_end}"))
    }
}

#[test]
fn mariadb_with_a_crash_under_load() {
    let Some(install) = need("mariadb-install-db", "mariadb-server-core") else { return };
    let Some(server) = need("mariadbd", "mariadb-server-core") else { return };
    let Some(client) = need("mariadb", "mariadb-client-core") else { return };
    let Some(sysbench) = need("sysbench", "sysbench") else { return };
    let mariadb = MariaDb { install, server, client, sysbench };
    let prepared = scratch_dir();
    mariadb.prepare(prepared.path()).unwrap_or_else(|error| panic!("MariaDB without lockswap: {error}"));
    let good = format!(
        "recovered: true, worked: true\n{0}{0}",
        "sbtest.sbtest1\tcheck\tstatus\tOK\nsbtest.sbtest2\tcheck\tstatus\tOK\n2000\n2000\n"
    );
    compare_on("MariaDB", Which::Few, |variant| {
        let got = mariadb.survives(variant, prepared.path())?;
        if got == good {
            return Ok(got);
        }
        Err(format!("expected\n{good}\ngot\n{got}"))
    });
}
