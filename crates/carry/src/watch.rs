//! Keeps what locks are told about CPUs up to date while a program runs: its preload library maps a file that is
//! written here.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::places::{find, Settings};
use lockswap_machine::shared;
use lockswap_machine::topology::{Topology, Wanted};
use lockswap_platform::{CoreKind, Place, MAX_CPUS};
use rustix::fs::{fcntl_add_seals, memfd_create, MemfdFlags, SealFlags};

/// How often the machine is read again: it costs some 3 ms with 256 CPUs.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file, and what is in it.
pub struct Watch {
    file: File,
    settings: Settings,
    places: Vec<Place>,
}

impl Watch {
    /// Reads the machine and makes the file. `None` if that is not possible: the program then reads the machine
    /// itself, and says what is wrong with the environment.
    pub fn begin() -> Option<Self> {
        let settings = lockswap_machine::settings().ok()?;
        let (places, said) = look(&settings)?;
        let file = make(&settings, &said).ok()?;
        let mut watch = Self { file, settings, places: vec![Place::default(); MAX_CPUS] };
        watch.write(places).ok()?;
        Some(watch)
    }

    /// Whether there are big CPUs, and little ones.
    pub fn kinds(&self) -> (bool, bool) {
        let known = || self.places.iter().filter(|place| place.group().is_some());
        let any = |kind: CoreKind| known().any(|place| place.kind() == kind);
        (any(CoreKind::Big), any(CoreKind::Little))
    }

    /// The variable that tells the program about the file. It has no name in a folder, so nothing is left behind.
    pub fn variable(&self) -> (OsString, Option<OsString>) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        ("LOCKSWAP_MACHINE".into(), Some(path.into()))
    }

    /// Looks again from time to time, until this process ends.
    pub fn go_on(mut self) {
        thread::spawn(move || loop {
            thread::sleep(INTERVAL);
            // Where the CPUs that may be used have changed, they have for the program, too.
            self.settings.allowed = CpuSet::of_this_thread();
            if let Some((places, _)) = look(&self.settings) {
                // What cannot be written now is written the next time.
                let _ = self.write(places);
            }
        });
    }

    /// Writes the places that have changed.
    fn write(&mut self, places: Vec<Place>) -> io::Result<()> {
        for (cpu, place) in places.into_iter().enumerate() {
            if self.places[cpu] != place {
                if let Some((offset, bytes)) = shared::entry(cpu, place) {
                    self.file.write_all_at(&bytes, offset)?;
                }
                self.places[cpu] = place;
            }
        }
        Ok(())
    }
}

/// The place of each CPU now, and what there is to say about all of them.
fn look(settings: &Settings) -> Option<(Vec<Place>, String)> {
    let folder = lockswap_machine::open(&lockswap_machine::root()).ok()?;
    let mut topology = Box::new(Topology::UNKNOWN);
    topology.read(&folder, Some(&settings.allowed), Wanted { all_groups: false, kinds: true });
    settings.apply(&mut topology);
    let (level, reason) = lockswap_machine::judge(&folder, &mut topology, settings);
    let mut places = vec![Place::default(); MAX_CPUS];
    let summary = find(&topology, level, |cpu, place| places[cpu] = place);
    let kinds = topology.kinds_source();
    Some((places, format!("level {} ({reason}): {summary}, kinds from {kinds}", level.name())))
}

/// An empty file in memory, which nobody can make shorter: a program that has mapped it cannot lose it.
fn make(settings: &Settings, said: &str) -> io::Result<File> {
    let file = File::from(memfd_create("lockswap-machine", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(shared::FILE_BYTES as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    file.write_all_at(&shared::header(settings.fingerprint(), said), 0)?;
    Ok(file)
}
