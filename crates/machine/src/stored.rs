//! The file that keeps what was measured. Its format, and how a program that starts reads the route in it, is in
//! [`lockswap_topology::stored`].

pub use lockswap_topology::stored::{facts, path, route, Facts, Identity, Unusable, HEAD_BYTES, MAGIC, VERSION};

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::contents;
use crate::cpuset::CpuSet;
use crate::matrix::Matrix;
use crate::route::Route;

/// Where the file of a machine lies, as the environment of this process says.
pub fn path_here(machine: Identity) -> Option<PathBuf> {
    let [file, cache, home] = ["LOCKSWAP_ROUTE_FILE", "XDG_CACHE_HOME", "HOME"]
        .map(|name| env::var_os(name).filter(|value| !value.is_empty()).map(OsString::into_vec));
    let mut buffer = [0; 4096];
    let found = path(&mut buffer, file.as_deref(), cache.as_deref(), home.as_deref(), machine)?;
    Some(OsStr::from_bytes(found.to_bytes()).into())
}

/// The content of this machine's file, if it has a usable one.
pub fn load(machine: Identity) -> Option<String> {
    let text = contents(&path_here(machine)?).ok()?;
    route(text.as_bytes(), machine).is_ok().then_some(text)
}

/// A file's content.
pub fn file(machine: Identity, name: &str, route: &Route, matrix: &Matrix, facts: &Facts<'_>) -> String {
    let cpus: Vec<String> = route.cpus.iter().map(usize::to_string).collect();
    let steps = facts.steps.map_or(String::new(), |steps| format!("steps {steps}\n"));
    let big = facts.big.map(CpuSet::from).map_or(String::new(), |big| format!("big {big}\n"));
    let name = name.replace('\n', " ");
    format!(
        "{MAGIC} {VERSION}\nid {machine}\nname {name}\nroute {}\n{steps}{big}round-trip-ns {:.3}\nlatencies\n{}",
        cpus.join(","),
        route.round_trip_ns,
        matrix.to_csv()
    )
}

/// The latencies in a file whose route is usable; `None` if they are damaged.
pub fn latencies(file: &str) -> Option<Matrix> {
    Matrix::parse(file.split_once("\nlatencies\n")?.1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captured::Captured;
    use crate::places::Steps;
    use lockswap_platform::CpuList;

    const HERE: Identity = Identity(0xabc);

    fn stored() -> String {
        let matrix = Matrix::new(vec![4, 2, 9], |a, b| (10 * (a + b)) as f64);
        let steps = Some(Steps { same_llc: 25.0, same_node: 132.25, far: None });
        let facts = Facts { steps, big: CpuList::parse(b"2,4") };
        file(HERE, "a\nb", &Route::through(&matrix), &matrix, &facts)
    }

    #[test]
    fn what_was_stored_is_read() {
        let text = stored();
        let route: Vec<usize> = route(text.as_bytes(), HERE).unwrap_or_else(|e| panic!("{e}")).cpus().collect();
        assert_eq!(route, [2, 4, 9]);
        assert_eq!(latencies(&text).unwrap().cpus(), [4, 2, 9]);
        let found = facts(text.as_bytes());
        assert_eq!(found.steps, Some(Steps { same_llc: 25.0, same_node: 132.2, far: None }));
        assert_eq!(found.big.unwrap().cpus().collect::<Vec<_>>(), [2, 4]);
        for nonsense in ["steps 25.0", "steps 25.0 -1", "steps 25.0 x", "steps 1 2 3 4", "steps 1 inf"] {
            assert_eq!(facts(text.replace("steps 25.0 132.2", nonsense).as_bytes()).steps, None, "{nonsense}");
        }
    }

    #[test]
    fn every_other_file_is_refused_wherever_it_is_damaged() {
        let text = stored();
        let why = |text: &str| route(text.as_bytes(), HERE).map(|_| ()).unwrap_err();
        assert_eq!(why(""), Unusable::NotOne);
        assert_eq!(why("lockswap-machine 2\nid abc\n"), Unusable::Version);
        assert_eq!(why(&text.replace("abc", "abd")), Unusable::OtherMachine);
        for nonsense in ["route", "route ", "route 1,x", "route 4096", "route 0-70000", "root 1"] {
            assert_eq!(why(&text.replace("route 2,4,9", nonsense)), Unusable::NoRoute, "{nonsense}");
        }
        let end = text.find("\nsteps").unwrap();
        for cut in 0..=end {
            assert!(route(&text.as_bytes()[..cut], HERE).is_err(), "{cut}");
        }
        for byte in 0..end {
            let mut bytes = text.clone().into_bytes();
            for wrong in [0, 0xff, b'\n', b' '] {
                bytes[byte] = wrong;
                let _ = route(&bytes, HERE);
            }
        }
    }

    #[test]
    fn the_largest_route_fits_into_the_head() {
        let matrix = Matrix::new((0..64).collect(), |_, _| 1.0);
        let cpus = (0..lockswap_platform::MAX_CPUS).collect();
        let text = file(HERE, &"x".repeat(200), &Route { cpus, round_trip_ns: 1e9 }, &matrix, &Facts::default());
        let head = &text.as_bytes()[..HEAD_BYTES.min(text.len())];
        assert_eq!(route(head, HERE).map_or(0, |route| route.cpus().count()), lockswap_platform::MAX_CPUS);
    }

    #[test]
    fn a_machine_is_the_same_until_its_cpus_change() {
        let text = "devices/system/cpu/present\t0-3\ndevices/system/node/node0/cpulist\t0-3\n";
        let id = |text: &str| Identity::of(&Captured::parse(text).unwrap());
        assert_eq!(id(text), id(&format!("{text}devices/system/cpu/online\t0-2\n")));
        assert_ne!(id(text), id(&text.replace("0-3", "0-7")));
        assert_ne!(id(text), id(&format!("{text}devices/system/node/node1/cpulist\t4-7\n")));
        let cache = "devices/system/cpu/cpu0/cache/index3/shared_cpu_list\t0-1\n";
        assert_ne!(id(text), id(&format!("{text}{cache}")));
    }

    #[test]
    fn the_path_follows_the_environment() {
        let path = |file: Option<&str>, cache: Option<&str>, home: Option<&str>| {
            let bytes = |text: Option<&'static str>| text.map(str::as_bytes);
            let leak = |text: Option<&str>| text.map(|text| &*text.to_owned().leak());
            let mut buffer = [0; 64];
            let path = path(&mut buffer, bytes(leak(file)), bytes(leak(cache)), bytes(leak(home)), HERE);
            path.map(|path| path.to_str().unwrap().to_owned())
        };
        let own = Some("/c/lockswap/machine-0000000000000abc".to_owned());
        assert_eq!(path(None, Some("/c"), Some("/h")), own);
        assert_eq!(path(None, Some("c"), Some("/h")), Some("/h/.cache/lockswap/machine-0000000000000abc".into()));
        assert_eq!(path(Some("f"), Some("/c"), None), Some("f".into()));
        assert_eq!(path(None, None, None), None);
        assert_eq!(path(Some(&"x".repeat(64)), None, None), None);
    }
}
