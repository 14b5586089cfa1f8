use crate::{text, Place};
use serde_json::Value;

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
    }
    let find = |role: &str, id: &str| locks.iter().filter(|l| l["role"] == role && l["id"] == id).count();
    for id in ["pthread", "interposed-pthread", "futex", "ttas", "ticket", "mcs_spin", "shfllock-b"] {
        assert_eq!(find("mutex", id), 1, "{id}");
    }
    assert_eq!((find("rwlock", "rw-futex"), find("spin", "ttas")), (1, 1));
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
