use crate::{text, Place};

/// Runs one round and gives the standard output and the exported file.
fn bench(args: &[&str]) -> (String, serde_json::Value) {
    let place = Place::new();
    let output = place.output(&[&["bench", "--rounds", "1", "--export-json", "bench.json"], args].concat());
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    let exported = std::fs::read(place.path("bench.json")).unwrap();
    (text(&output.stdout), serde_json::from_slice(&exported).unwrap())
}

#[test]
fn oversub_measures_the_longest_wait_of_each_lock() {
    let (shown, exported) = bench(&["oversub", "--lock", "futex", "--threads", "5"]);
    assert!(shown.contains("5 threads, each") && shown.contains("interposed-pthread"), "{shown}");
    let locks = exported["locks"].as_array().unwrap();
    assert_eq!(
        locks.iter().map(|lock| lock["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["pthread", "interposed-pthread", "futex"]
    );
    for lock in locks {
        for id in ["oversub", "longest_wait"] {
            assert!(lock["rounds"][0][id].as_f64().is_some_and(|ns| ns > 0.0), "{lock}");
        }
    }
    assert_eq!(exported["part"], "oversub");
}

/// With and without a context that lives from acquisition to release.
#[test]
fn direct_measures_each_lock_twice() {
    let (shown, exported) = bench(&["direct", "--lock", "ttas,clh_spin"]);
    assert!(shown.contains("of 2 locks within 5 %"), "{shown}");
    let locks = exported["locks"].as_array().unwrap();
    let forms: Vec<_> = locks.iter().map(|lock| (lock["id"].as_str().unwrap(), lock["directly"] == true)).collect();
    assert_eq!(forms, [("ttas", true), ("ttas", false), ("clh_spin", true), ("clh_spin", false)]);
    for lock in locks {
        for id in ["kv", "uncontended"] {
            assert!(lock["rounds"][0][id].as_f64().is_some_and(|ns| ns > 0.0), "{lock}");
        }
    }
}
