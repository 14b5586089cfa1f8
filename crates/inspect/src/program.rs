//! Whether lockswap can work on a program, which is read and never run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lockswap_study::runner::find_in_path;
use serde::Serialize;

use crate::replaced::{grouped, Replaced};
use crate::sanitizer::Sanitizer;
use crate::script::without_interpreters;
use crate::{closure, linking, Error, Finding, Image, Loaded};

/// What an object file imports that lockswap replaces.
#[derive(Debug, Serialize)]
pub struct Imports {
    /// The file of the program or of a library.
    pub object: PathBuf,
    /// The functions.
    pub symbols: Vec<String>,
}

/// What was found about a program.
#[derive(Debug, Serialize)]
pub struct Examined {
    /// Its file; of a script, the interpreter's.
    pub program: PathBuf,
    /// What was found.
    pub checks: Vec<Finding>,
    /// What the program and its libraries import that is replaced.
    pub imports: Vec<Imports>,
    /// What can be done for it.
    #[serde(skip)]
    pub prospect: Prospect,
}

/// What lockswap can do for a program that it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// Replace its locks.
    Replaces,
    /// Nothing: the program calls no lock function.
    Nothing,
    /// Not known before it runs.
    Unknown,
    /// Nothing: ThreadSanitizer must see the locks.
    StandsAside,
}

/// Parts of the C library and of the compiler's runtime: what they import says nothing about the program.
const RUNTIME: [&str; 10] = [
    "libc.so",
    "libpthread.so",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libresolv.so",
    "libmvec.so",
    "libutil.so",
    "ld-linux",
    "libgcc_s.so",
];

/// Reads the program that a shell would run under `name`; `library` is the preload library's file.
pub fn examine(name: &OsStr, library: &[u8]) -> Result<Examined, Error> {
    let missing = || Error::NotFound(name.to_owned());
    let path = find_in_path(name).filter(|p| p.exists()).ok_or_else(missing)?;
    let mut checks = Vec::new();
    let (path, data) = without_interpreters(path, &mut checks)?;
    let image = Image::parse(&data);
    if !matches!(&image, Some(Ok(image)) if image.library) {
        checks.extend(not_executable(&path));
    }
    let mut examined = Examined { program: path, checks, imports: Vec::new(), prospect: Prospect::Nothing };
    match image {
        Some(Ok(image)) => {
            examined.checks.extend(privileges(&examined.program));
            examined.look_at(image, library);
        }
        Some(Err(error)) => {
            let what = format!("a damaged ELF file: {error}");
            examined.checks.push(Finding::problem("file", what, "build or install it again"));
        }
        None => examined.checks.push(Finding::problem(
            "file",
            "neither an ELF program nor a script with a #! line",
            "name the program that runs it, as in: lockswap doctor java",
        )),
    }
    Ok(examined)
}

/// The problem that a file which is to be run is not executable, if so.
pub(crate) fn not_executable(path: &Path) -> Option<Finding> {
    let executable = fs::metadata(path).is_ok_and(|m| m.mode() & 0o111 != 0);
    (!executable)
        .then(|| Finding::problem("permissions", format!("{} is not executable", path.display()), "chmod +x it"))
}

/// Programs that gain privileges at their start ignore LD_PRELOAD.
fn privileges(path: &Path) -> Vec<Finding> {
    let mut checks = Vec::new();
    let Ok(found) = fs::metadata(path) else { return checks };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let remedy = "copy the program without that bit, or run it as its owner; LD_PRELOAD is ignored otherwise";
    for (bit, name, own, id) in
        [(0o4000, "setuid", found.uid() == uid, found.uid()), (0o2010, "setgid", found.gid() == gid, found.gid())]
    {
        if found.mode() & bit != bit {
            continue;
        }
        checks.push(if own {
            Finding::note(name, format!("set, but {id} is who you are"), "for other users LD_PRELOAD is ignored")
        } else {
            Finding::problem(name, format!("it runs as {id}"), remedy)
        });
    }
    let mut value = [0u8; 64];
    if rustix::fs::getxattr(path, "security.capability", &mut value).is_ok() {
        checks.push(if uid == 0 {
            Finding::note("capabilities", "set on the file", "for users other than root LD_PRELOAD is ignored")
        } else {
            Finding::problem(
                "capabilities",
                "set on the file",
                "run a copy without them; LD_PRELOAD is ignored otherwise",
            )
        });
    }
    checks
}

impl Examined {
    fn look_at(&mut self, image: Image, library: &[u8]) {
        let checks = &mut self.checks;
        let ours = Image::parse(library).and_then(Result::ok).unwrap_or_default();
        if image.machine != ours.machine {
            let found = format!("for {}; this lockswap is for {}", image.machine_name(), ours.machine_name());
            checks.push(Finding::problem("architecture", found, "use a lockswap built for that architecture"));
            return;
        }
        checks.push(Finding::ok("architecture", image.machine_name()));
        match linking::check(&image) {
            Ok(check) => checks.push(check),
            Err(problem) => {
                checks.push(problem);
                return;
            }
        }
        if image.go {
            let what = "a Go program: goroutines use Go's own locks, only its C libraries use pthread locks";
            checks.push(Finding::note("Go", what, "compare it only if its C code is what waits"));
        }
        let readable = image.has_symbols;
        if !readable {
            let what = "the file has no section headers, so its imports cannot be read";
            checks.push(Finding::note("imports", what, "examine an unstripped build"));
        }
        let (objects, missing) = closure(Loaded { path: self.program.clone(), image });
        if !missing.is_empty() {
            let what = format!("not found, or no libraries for it: {}", missing.join(", "));
            checks.push(Finding::note("libraries", what, "install them, or set LD_LIBRARY_PATH as for running it"));
        }
        let examined: Vec<&Loaded> =
            objects.iter().enumerate().filter(|(i, o)| *i == 0 || !is_runtime(o)).map(|(_, o)| o).collect();
        checks.extend(java(&examined));
        let sanitizer = Sanitizer::of(&examined);
        checks.extend(sanitizer.map(Sanitizer::check));
        let replaced = Replaced::by(&ours);
        for object in &examined {
            let symbols = replaced.imported(&object.image);
            if !symbols.is_empty() {
                let name = object.path.file_name().unwrap_or_default().to_string_lossy();
                checks.push(Finding::ok("imports", format!("{name}: {}", grouped(&symbols))));
                self.imports.push(Imports { object: object.path.clone(), symbols });
            }
        }
        let loads_more = examined.iter().any(|o| o.image.imports.contains("dlopen"));
        if self.imports.is_empty() && sanitizer.is_none() {
            checks.push(nothing_found(&examined, loads_more));
        } else if loads_more {
            checks.push(Finding::ok("plug-ins", "it can load more libraries (dlopen); their locks are replaced too"));
        }
        self.prospect = if sanitizer == Some(Sanitizer::Thread) {
            Prospect::StandsAside
        } else if !self.imports.is_empty() {
            Prospect::Replaces
        } else if loads_more || sanitizer.is_some() || !readable || !missing.is_empty() {
            // A sanitizer's runtime in the program has lock functions of its own, which call the replaced ones.
            Prospect::Unknown
        } else {
            Prospect::Nothing
        };
    }
}

fn is_runtime(object: &Loaded) -> bool {
    let name = object.path.file_name().unwrap_or_default().as_bytes();
    RUNTIME.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// What is to be said of a program that starts a Java virtual machine.
fn java(objects: &[&Loaded]) -> Option<Finding> {
    let launches = objects.iter().any(|o| o.image.needed.iter().any(|name| name == "libjli.so" || name == "libjvm.so"));
    let what =
        "it starts a Java virtual machine: HotSpot's threads wait for monitors and parkers in pthread mutexes and \
                condition variables, and these are replaced; the word by which a monitor is first tried is Java's own";
    launches.then(|| Finding::ok("Java", what))
}

fn nothing_found(examined: &[&Loaded], loads_more: bool) -> Finding {
    let threading = |s: &&String| ["pthread_", "sem_", "thrd_", "syscall"].iter().any(|p| s.starts_with(p));
    let others: BTreeSet<&str> =
        examined.iter().flat_map(|o| &o.image.imports).filter(threading).map(String::as_str).collect();
    let others: Vec<&str> = others.into_iter().collect();
    let names = if others.is_empty() { "no threading function at all".into() } else { others.join(", ") };
    let libraries = match examined.len() - 1 {
        0 => "and needs no library but the C library".into(),
        n => format!("neither in it nor in the libraries it needs ({n} examined)"),
    };
    let found = format!("no pthread lock functions, {libraries}; it imports {names}");
    let remedy = if loads_more {
        "it can load libraries (dlopen) that use such locks: 'lockswap run --summary' counts them"
    } else {
        "its locks, if it has any, are its own (as in Go and Rust's std) and cannot be swapped from outside"
    };
    Finding::note("imports", found, remedy)
}
