//! Collects what the source of each lock says about it at its top, for the lock's page.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("Cargo sets it")).join("../locks/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut found = Vec::new();
    for folder in entries(&sources).into_iter().filter(|path| path.is_dir()) {
        for file in entries(&folder) {
            let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let lines: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
            let lines: Vec<&str> = lines.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            let name = file.strip_prefix(&sources).expect("inside").with_extension("");
            found.push((name.to_str().expect("ASCII").replace('\\', "/"), lines.join("\n")));
        }
    }
    found.sort();
    let out = PathBuf::from(env::var("OUT_DIR").expect("Cargo sets it")).join("headers.rs");
    fs::write(&out, format!("&{found:?}")).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    read.map(|entry| entry.expect("readable").path()).collect()
}
