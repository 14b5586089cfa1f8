//! Builds the preload library, which `library.rs` embeds: `cargo install --path crates/cli` alone gives a command that
//! works.
//!
//! It is a build of its own because it differs from ours in everything: profile, panic strategy, unwind tables, and no
//! wrapper such as clippy's may stand in for the compiler, since a real library must come out under `cargo clippy`
//! too.
//!
//! Packagers who build liblockswap.so themselves name it in `LOCKSWAP_PREBUILT=/path/to/liblockswap.so`; nothing is
//! built here then.

mod direct;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=LOCKSWAP_PREBUILT");
    let library = match env::var_os("LOCKSWAP_PREBUILT").filter(|path| !path.is_empty()) {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", Path::new(&path).display());
            PathBuf::from(path)
        }
        None => build(),
    };
    let image = fs::read(&library).unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    assert!(image.starts_with(b"\x7fELF"), "{} is not a shared library", library.display());
    let embedded = variable_path("OUT_DIR").join("liblockswap.so");
    fs::write(&embedded, &image).unwrap_or_else(|e| panic!("{}: {e}", embedded.display()));
    println!("cargo::rustc-env=LOCKSWAP_EMBEDDED={}", embedded.display());
    let direct = direct::find(&image).unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    let none = || "Direct { entries: [&[]; 3], locks: &[] }".into();
    fs::write(variable_path("OUT_DIR").join("direct.rs"), direct.unwrap_or_else(none)).expect("OUT_DIR is ours");
    println!("cargo::rustc-env=LOCKSWAP_EMBEDDED_HASH={:016x}", fnv1a(&image));
}

fn build() -> PathBuf {
    let crates = variable_path("CARGO_MANIFEST_DIR").join("..");
    let workspace = crates.join("..");
    for part in ["preload", "locks", "profile", "records", "topology", "platform"] {
        println!("cargo::rerun-if-changed={}", crates.join(part).display());
    }
    for manifest in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(manifest).display());
    }
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let target_dir = variable_path("OUT_DIR").join("preload");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo.args(["build", "--profile", "preload", "-p", "lockswap-preload", "--locked", "--target", &target]);
    cargo.arg("--target-dir").arg(&target_dir).arg("--manifest-path").arg(workspace.join("Cargo.toml"));
    // What the outer build says about its own crates: wrappers, flags and the job server, whose pipe is not passed on.
    for variable in ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS", "CLIPPY_ARGS"] {
        cargo.env_remove(variable);
    }
    if env::var("RUSTC_WRAPPER").is_ok_and(|wrapper| wrapper.contains("clippy-driver")) {
        cargo.env_remove("RUSTC_WRAPPER");
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags());
    run(&mut cargo);
    let library = variable_path("OUT_DIR").join("linked.so");
    let mut link = Command::new(crates.join("preload/link"));
    link.arg(linker(&target)).arg(target_dir.join(&target).join("preload/liblockswap.a")).arg(&library);
    run(&mut link);
    library
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("cannot run {command:?} for the preload library: {e}"));
    assert!(status.success(), "building the preload library failed: {command:?}");
}

/// The linker that cargo would call for the target, as far as the environment names one; else the C compiler.
fn linker(target: &str) -> OsString {
    let name = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    println!("cargo::rerun-if-env-changed={name}");
    let of_flags = flags()
        .to_str()
        .and_then(|flags| flags.split('\x1f').find_map(|flag| flag.strip_prefix("-Clinker=")).map(OsString::from));
    of_flags.or_else(|| env::var_os("RUSTC_LINKER")).or_else(|| env::var_os(name)).unwrap_or_else(|| "cc".into())
}

/// Flags for the preload library, in cargo's encoding. Of the outer ones only those that a cross build cannot do
/// without are kept; lints, sanitizers, coverage and `--cfg`s of the outer build are not for this library.
fn flags() -> OsString {
    const KEPT: [&str; 5] = ["linker=", "linker-flavor=", "link-self-contained=", "target-cpu=", "target-feature="];
    // Unwind tables: a cancelled thread unwinds through the library. Functions on lines of their own: worth 0.3 to 0.6
    // ns of the 6 ns that an uncontended lock and unlock take, and no more luck of the layout.
    let mut flags: Vec<String> = vec!["-Cforce-unwind-tables=yes".into(), "-Cllvm-args=-align-all-functions=6".into()];
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut outer = outer.split('\x1f').peekable();
    while let Some(flag) = outer.next() {
        let codegen = match flag {
            "-C" | "--codegen" => outer.next(),
            _ => flag.strip_prefix("-C").or_else(|| flag.strip_prefix("--codegen=")),
        };
        match codegen {
            Some(option) if KEPT.iter().any(|kept| option.starts_with(kept)) => flags.push(format!("-C{option}")),
            None if flag == "--sysroot" => flags.extend(outer.next().map(|dir| format!("--sysroot={dir}"))),
            None if flag.starts_with("--sysroot=") => flags.push(flag.into()),
            _ => {}
        }
    }
    flags.join("\x1f").into()
}

fn variable_path(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")))
}

/// Names the library's file; that it holds the right bytes is checked by comparing them.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
