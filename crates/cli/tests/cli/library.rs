use std::fs;
use std::os::unix::fs::{chown, symlink, MetadataExt};
use std::path::PathBuf;

use crate::{make_executable, text, Place};

fn unpacked(place: &Place) -> PathBuf {
    unpacked_for(place, &[])
}

fn unpacked_for(place: &Place, lock: &[&str]) -> PathBuf {
    let output = place.output(&[&["preload-path"], lock].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim_end().into()
}

fn own_uid(place: &Place) -> u32 {
    fs::metadata(place.path(".")).unwrap().uid()
}

#[test]
fn the_library_lies_in_a_private_folder() {
    let place = Place::new();
    let path = unpacked(&place);
    assert!(path.starts_with(place.path("cache/lockswap")), "{}", path.display());
    assert!(fs::read(&path).unwrap().starts_with(b"\x7fELF"));
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(unpacked(&place), path);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn wrong_content_is_replaced_before_use() {
    let place = Place::new();
    let unpacked = |place| unpacked_for(place, &["--lock", "auto"]);
    let path = unpacked(&place);
    let good = fs::read(&path).unwrap();
    make_executable(&path, 0o700);
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    fs::write(&path, bad).unwrap();
    assert!(place.output(&["run", "--", "true"]).status.success());
    assert!(fs::read(&path).unwrap() == good, "a changed library was left in place");
    make_executable(&path, 0o700);
    fs::write(&path, b"short").unwrap();
    assert_eq!(unpacked(&place), path);
    assert!(fs::read(&path).unwrap() == good);
    make_executable(&path, 0o700);
    fs::write(&path, fs::read(unpacked_for(&place, &[])).unwrap()).unwrap();
    assert_eq!(unpacked(&place), path);
    assert!(fs::read(&path).unwrap() == good, "the library for all locks was left in the place of that for one");
}

#[test]
fn there_is_a_file_for_each_lock_and_an_error_for_others() {
    let place = Place::new();
    let names = [&[][..], &["--lock", "auto"], &["--lock", "MCS-spin"], &["--lock", "interposed-pthread"]]
        .map(|lock| unpacked_for(&place, lock).file_stem().unwrap().to_str().unwrap().to_owned());
    let [all, auto, mcs, interposed] = names;
    assert_eq!((auto, mcs, interposed), (format!("{all}-auto"), format!("{all}-mcs_spin"), all));
    let wrong = place.output(&["preload-path", "--lock", "mcs_spim"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("mcs_spin"), "{}", text(&wrong.stderr));
}

#[test]
fn a_folder_that_others_can_enter_is_closed() {
    let place = Place::new();
    fs::create_dir_all(place.path("cache/lockswap")).unwrap();
    make_executable(&place.path("cache/lockswap"), 0o777);
    let path = unpacked(&place);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn links_foreign_folders_and_paths_that_ld_preload_cannot_name_are_not_used() {
    let place = Place::new();
    let fallback = PathBuf::from(format!("/tmp/lockswap-{}", own_uid(&place)));
    fs::create_dir_all(place.path("cache")).unwrap();
    fs::create_dir(place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("cache/lockswap")).unwrap();
    assert!(unpacked(&place).starts_with(&fallback), "a link was followed");
    fs::remove_file(place.path("cache/lockswap")).unwrap();

    // Only root can give a folder away; other users see the same check on folders of root's.
    if own_uid(&place) == 0 {
        fs::create_dir(place.path("cache/lockswap")).unwrap();
        chown(place.path("cache/lockswap"), Some(65534), None).unwrap();
        assert!(unpacked(&place).starts_with(&fallback), "a folder of someone else's was used");
    }

    let spaced = place.lockswap(&["preload-path"]).env("XDG_CACHE_HOME", place.path("with space")).output().unwrap();
    assert!(text(&spaced.stdout).starts_with(fallback.to_str().unwrap()), "{}", text(&spaced.stderr));
    let homeless = place.lockswap(&["preload-path"]).env_remove("XDG_CACHE_HOME").output().unwrap();
    assert!(text(&homeless.stdout).starts_with(fallback.to_str().unwrap()), "{}", text(&homeless.stderr));
}

#[test]
fn the_printed_path_works_without_the_command() {
    let place = Place::new();
    let path = unpacked(&place);
    let mut command = std::process::Command::new("grep");
    command.args(["-c", path.to_str().unwrap(), "/proc/self/maps"]);
    let output = command.env("LD_PRELOAD", &path).env("LOCKSWAP_LOCK", "ticket").output().unwrap();
    assert!(output.status.success(), "not mapped: {}", text(&output.stderr));
}

/// The folder that comes after the cache folder.
fn second(place: &Place) -> PathBuf {
    fs::create_dir_all(place.path("run")).unwrap();
    make_executable(&place.path("run"), 0o700);
    place.path("run")
}

#[test]
fn folders_above_that_others_can_change_are_refused_with_the_reason() {
    let place = Place::new();
    let second = second(&place);
    fs::create_dir_all(place.path("shared/cache")).unwrap();
    let at = |name: &str| {
        let command = |args: &[&str]| {
            let mut command = place.lockswap(args);
            command.env("XDG_CACHE_HOME", place.path(name)).env("XDG_RUNTIME_DIR", &second);
            command.output().unwrap()
        };
        let path = text(&command(&["preload-path"]).stdout);
        let report: serde_json::Value = serde_json::from_slice(&command(&["doctor", "--json"]).stdout).unwrap();
        (path, report["here"][0]["found"].as_str().unwrap().to_owned())
    };
    for (mode, why) in [(0o777, "mode 777"), (0o775, "mode 775"), (0o757, "mode 757")] {
        make_executable(&place.path("shared"), mode);
        let (path, found) = at("shared/cache");
        assert!(path.starts_with(second.to_str().unwrap()), "{mode:o}: {path}");
        assert!(found.contains("can be written to by others") && found.contains(why), "{found}");
    }
    for mode in [0o1777, 0o755, 0o700] {
        make_executable(&place.path("shared"), mode);
        let (path, found) = at("shared/cache");
        assert!(path.starts_with(place.path("shared").to_str().unwrap()), "{mode:o}: {path}");
        assert!(found.ends_with("loads"), "{found}");
    }
    // Only root can give a folder away.
    if own_uid(&place) == 0 {
        chown(place.path("shared"), Some(65534), None).unwrap();
        let (path, found) = at("shared/cache");
        assert!(path.starts_with(second.to_str().unwrap()), "{path}");
        assert!(found.contains("belongs to user 65534"), "{found}");
    }
    // What a link leads to counts, and not where it lies.
    let link = place.path("link");
    symlink(place.path("shared/cache"), &link).unwrap();
    chown(place.path("shared"), Some(own_uid(&place)), None).unwrap();
    make_executable(&place.path("shared"), 0o777);
    assert!(at("link").0.starts_with(second.to_str().unwrap()), "the folders above a link's target were not looked at");
}

#[test]
fn file_systems_that_cannot_hold_the_library_are_passed_over() {
    let place = Place::new();
    let second = second(&place);
    fs::create_dir_all(place.path("cache")).unwrap();
    for (options, why) in [("noexec", "noexec"), ("size=16k", "No space left"), ("ro", "Read-only")] {
        let mounts = format!("mount -t tmpfs -o {options} tmpfs cache");
        let Some(mut command) = place.lockswap_with_mounts(&mounts, &["doctor", "--json"]) else { return };
        let output = command.env("XDG_RUNTIME_DIR", &second).output().unwrap();
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
        let library = &report["here"][0];
        let found = library["found"].as_str().unwrap();
        assert_eq!(library["status"], "note", "{found}");
        assert!(found.starts_with(second.to_str().unwrap()) && found.contains(why), "{options}: {found}");
    }
}

#[test]
fn where_no_folder_is_fit_the_reasons_are_told() {
    let place = Place::new();
    fs::create_dir_all(place.path("cache")).unwrap();
    // The command itself may lie below /tmp.
    let mounts =
        "while [ \"$1\" != run ]; do command=$1; shift; done; exec 3< \"$command\"; set -- /proc/self/fd/3 \"$@\"
        for dir in cache /tmp /dev/shm; do mount -t tmpfs -o noexec tmpfs $dir; done";
    let Some(mut command) = place.lockswap_with_mounts(mounts, &["run", "--", "echo", "ran"]) else { return };
    let output = command.output().unwrap();
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""), "{error}");
    assert!(error.matches("noexec").count() == 3 && error.contains("remedy: set XDG_CACHE_HOME"), "{error}");
}
