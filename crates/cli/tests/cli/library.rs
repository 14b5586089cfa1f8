use std::fs;
use std::os::unix::fs::{chown, symlink, MetadataExt};
use std::path::PathBuf;

use crate::{make_executable, text, Place};

fn unpacked(place: &Place) -> PathBuf {
    let output = place.output(&["preload-path"]);
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
