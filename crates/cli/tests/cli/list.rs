use crate::{text, Place};
use lockswap_locks::RawLock;
use lockswap_platform::Native;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn json_has_an_object_per_lock_with_the_promised_keys() {
    let output = Place::new().output(&["list", "--json"]);
    assert!(output.status.success());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let locks = value.as_array().unwrap();
    for lock in locks {
        for key in ["id", "role", "family", "waiting", "fairness", "paper", "summary", "timed"] {
            assert!(lock[key].as_str().is_some_and(|s| !s.is_empty()), "{key} in {lock}");
        }
        assert_eq!(lock["in_place"], lock["extra_bytes_per_lock"] == 0);
        assert!(lock["bytes_in_mutex"].is_u64() && lock["bytes_per_acquisition"].is_u64());
        assert!(lock["oversubscribed"].is_boolean());
    }
    let find = |role: &str, id: &str| locks.iter().filter(|l| l["role"] == role && l["id"] == id).count();
    for id in ["pthread", "interposed-pthread", "futex", "ttas", "ticket", "mcs_spin", "shfllock-b"] {
        assert_eq!(find("mutex", id), 1, "{id}");
    }
    assert_eq!((find("rwlock", "rw-futex"), find("spin", "ttas")), (1, 1));
    let of = |id: &str| locks.iter().find(|lock| lock["id"] == id).map(|lock| lock["parameters"].clone()).unwrap();
    assert_eq!(of("ttas"), Value::from(Vec::<Value>::new()));
    assert_eq!((&of("asl")[0]["key"], &of("asl")[1]["default"]), (&"fifo".into(), &"100ms".into()));
    let page = text(&Place::new().output(&["list", "asl"]).stdout);
    assert!(page.contains("fifo=mcs_spin|ticket|cna|futex") && page.contains("max-window=TIME"), "{page}");
}

#[test]
fn the_list_comes_in_four_forms() {
    let place = Place::new();
    let shown = |args: &[&str]| text(&place.output(&[&["list"], args].concat()).stdout);
    assert_eq!(shown(&["--format", "json"]), shown(&["--json"]));
    assert_eq!(shown(&["--format", "table"]), shown(&[]));
    let csv = shown(&["--format", "csv", "--family", "numa"]);
    let mut lines = csv.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with("id,role,default,family,")), "{csv}");
    assert!(lines.clone().count() > 5 && lines.all(|line| line.contains(",numa,")), "{csv}");
    let md = shown(&["ttas", "--format", "md"]);
    assert_eq!(md.lines().filter(|line| line.starts_with("| ttas ")).count(), 2, "{md}");
    assert!(md.starts_with("## mutex locks") && md.contains("\n## spin locks"), "{md}");
    assert_eq!(place.output(&["list", "--format", "csv", "--json"]).status.code(), Some(2));
}

#[test]
fn the_table_names_every_lock_of_the_json() {
    let place = Place::new();
    let table = text(&place.output(&["list"]).stdout);
    let value: Value = serde_json::from_slice(&place.output(&["list", "--json"]).stdout).unwrap();
    for lock in value.as_array().unwrap() {
        let id = lock["id"].as_str().unwrap();
        assert!(table.lines().any(|line| line.split_whitespace().next() == Some(id)), "{id} in\n{table}");
    }
}

/// `(role, id, bytes of the lock, bytes of its context)` of each lock of the catalogue.
macro_rules! sizes {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        [
            $({
                use $mutex as Lock;
                ("mutex", $mutex_id, size_of::<Lock<Native>>(), size_of::<<Lock<Native> as RawLock<Native>>::Ctx>())
            },)*
            $({
                use $rwlock as Lock;
                ("rwlock", $rwlock_id, size_of::<Lock<Native>>(), 0)
            },)*
            $({
                use $spin as Lock;
                ("spin", $spin_id, size_of::<Lock<Native>>(), size_of::<<Lock<Native> as RawLock<Native>>::Ctx>())
            },)*
        ]
    };
}

#[test]
fn the_sizes_of_the_json_are_those_of_the_types() {
    let value: Value = serde_json::from_slice(&Place::new().output(&["list", "--json"]).stdout).unwrap();
    let locks = value.as_array().unwrap();
    let sizes = lockswap_locks::for_each_lock!(sizes);
    assert_eq!(locks.iter().filter(|lock| !lock["source"].is_null()).count(), sizes.len());
    for (role, id, bytes, context) in sizes {
        let lock = locks.iter().find(|l| l["role"] == role && l["id"] == id).unwrap_or_else(|| panic!("{role} {id}"));
        // The object keeps 16 bytes for the lock and the address of the holder's context; else it keeps the lock's
        // address.
        let address = if context == 0 { 0 } else { 8 };
        let in_place = bytes + address <= 16;
        assert_eq!(lock["in_place"], in_place, "{id}");
        assert_eq!(lock["bytes_in_mutex"], if in_place { bytes } else { 8 } + address, "{id}");
        // A block is a line with the owner's name and whole lines for the lock.
        let block = if in_place { 0 } else { 64 + bytes.div_ceil(64) * 64 };
        assert_eq!(lock["extra_bytes_per_lock"], block, "{id}");
        // A context has a line of its own, behind one that says who uses it.
        assert!(context <= 64, "{id}");
        assert_eq!(lock["bytes_per_acquisition"], if context == 0 { 0 } else { 128 }, "{id}");
    }
}

#[test]
fn the_json_says_how_far_each_lock_was_checked() {
    let value: Value = serde_json::from_slice(&Place::new().output(&["list", "--json"]).stdout).unwrap();
    let file = std::fs::read(repository().join("docs/checked.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    for lock in value.as_array().unwrap() {
        let name = format!("{}/{}", lock["role"].as_str().unwrap(), lock["id"].as_str().unwrap());
        let checks = file["locks"].get(&name).and_then(Value::as_array).filter(|checks| !checks.is_empty());
        assert_eq!(lock["checked"].is_null(), checks.is_none(), "{name}");
        let Some(checks) = checks else { continue };
        for engine in ["explore", "loom"] {
            let by = || checks.iter().filter(|check| check["engine"] == engine);
            let said = &lock["checked"][engine];
            assert_eq!(said.is_null(), by().next().is_none(), "{name}");
            if !said.is_null() {
                assert_eq!(said["scenarios"], by().count(), "{name}");
                let executions: u64 = by().map(|check| check["executions"].as_u64().unwrap()).sum();
                assert_eq!(said["executions"], executions, "{name}");
            }
        }
        let whole = |check: &Value| check["complete"] == true && check["failure"].is_null();
        let open = lock["checked"]["not_checked"].as_array().unwrap().len();
        let failures = lock["checked"]["failures"].as_array().unwrap().len();
        assert!(checks.iter().filter(|check| !whole(check)).count() <= open + failures, "{name}");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder by their names.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

#[test]
fn the_pages_of_the_locks_are_those_that_the_command_writes() {
    let place = Place::new();
    let fresh = place.path("locks");
    assert!(place.output(&["list", "--write-docs", fresh.to_str().unwrap()]).status.success());
    let (fresh, kept) = (files(&fresh), files(&repository().join("docs/locks")));
    let names = fresh.keys().chain(kept.keys());
    let stale: BTreeSet<_> = names.filter(|name| fresh.get(*name) != kept.get(*name)).collect();
    assert!(
        stale.is_empty(),
        "docs/locks is not in step with the registry and docs/checked.json: {stale:?}\n\
         cargo run --release -p lockswap-cli -- list --write-docs docs/locks"
    );
    assert!(fresh.len() > 50);
}

/// What the command shows on a terminal of so many columns.
fn on_a_terminal(place: &Place, columns: u16, args: &str) -> Option<String> {
    let own = place.lockswap(&[]);
    let mut command = std::process::Command::new("script");
    let typed = format!("stty cols {columns}; exec {} list {args}", env!("CARGO_BIN_EXE_lockswap"));
    command.args(["-qec", &typed, "/dev/null"]).current_dir(place.dir.path()).stdin(std::process::Stdio::null());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let Ok(output) = command.output() else {
        eprintln!("skipped: script (Debian package bsdutils) is not there");
        return None;
    };
    assert!(output.status.success(), "{}", text(&output.stdout));
    Some(text(&output.stdout).replace('\r', ""))
}

#[test]
fn the_list_and_the_pages_fit_the_terminal() {
    let place = Place::new();
    for columns in [60, 80, 200] {
        for args in ["", "--family numa", "mcs_stp", "pthread"] {
            let Some(shown) = on_a_terminal(&place, columns, args) else { return };
            let widest = shown.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= usize::from(columns), "{columns}, {args}: {widest}");
            assert!(shown.lines().count() > 8, "{columns}, {args}: {shown}");
        }
    }
}

#[test]
fn one_lock_has_a_page_and_one_family_a_table() {
    let place = Place::new();
    let page = text(&place.output(&["list", "MCS-stp"]).stdout);
    for part in ["Mutex (--lock mcs_stp)", "Mellor-Crummey", "bytes per acquisition", "checked", "crates/locks/src/"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("](") && !page.contains('|') && !page.contains('`'), "{page}");
    let both = text(&place.output(&["list", "ttas"]).stdout);
    assert!(both.contains("(--lock ttas)") && both.contains("(--spin ttas, the default)"), "{both}");
    let numa = text(&place.output(&["list", "--family", "NUMA"]).stdout);
    assert!(numa.contains("cna") && !numa.contains("mcs_spin\n") && !numa.contains("rwlock locks"), "{numa}");
    let json: Value = serde_json::from_slice(&place.output(&["list", "--family", "numa", "--json"]).stdout).unwrap();
    assert!(json.as_array().is_some_and(|locks| locks.iter().all(|lock| lock["family"] == "numa") && locks.len() > 5));
    let json: Value = serde_json::from_slice(&place.output(&["list", "ttas", "--json"]).stdout).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    for (args, said) in [(&["list", "mcs_spni"][..], "'mcs_spin'"), (&["list", "--family", "nuna"], "'numa'")] {
        let output = place.output(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
}
