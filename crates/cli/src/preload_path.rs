//! `lockswap preload-path`

use std::process::ExitCode;

use lockswap_locks::registry::Role;

use crate::{library, selection, terminal};

/// Prints the path of the preload library, unpacked and verified, for use without the command.
#[derive(clap::Args)]
#[command(after_help = "\
The library lies in $XDG_CACHE_HOME/lockswap or ~/.cache/lockswap, else in
$XDG_RUNTIME_DIR/lockswap, /tmp/lockswap-UID or /dev/shm/lockswap-UID: the first
of them that nobody else can write to, the folders above it included, and whose
file system has room and is not mounted noexec. Only you can read that folder: a
service that runs as another user needs a copy of the file that it may read.

A call goes through a table to the functions of the lock that LOCKSWAP_LOCK
names. The file that --lock asks for leads to those of one lock directly, which
saves about a tenth of an uncontended lock and unlock; 'lockswap run' takes it by
itself. LOCKSWAP_LOCK still says which lock it is, and any other works as well.

Examples:
  LD_PRELOAD=$(lockswap preload-path) LOCKSWAP_LOCK=mcs_spin ./app
  LD_PRELOAD=$(lockswap preload-path --lock auto) ./app

  install -m 755 $(lockswap preload-path) /usr/local/lib/liblockswap.so
    and in a systemd unit, which does not expand $(...):
  Environment=LD_PRELOAD=/usr/local/lib/liblockswap.so LOCKSWAP_LOCK=mcs_spin

Environment of the library:
  LOCKSWAP_LOCK=ID      lock for mutexes, with its parameters, as in
                        asl:max-window=1ms       [default: auto]
  LOCKSWAP_RWLOCK=ID    lock for rwlocks         [default: rw-futex]
  LOCKSWAP_SPIN=ID      lock for spinlocks       [default: ttas]
  LOCKSWAP_TOPOLOGY=2x1 nodes x CPUs per node    [default: the machine's]
  LOCKSWAP_ROUTE=0,2,1,3 order of the CPUs for locks that travel along a route
                        [default: what 'lockswap topo --measure' stored, else
                        along the topology]
  LOCKSWAP_BIG=0-3      the big CPUs, all others are little [default: the
                        machine's]
  LOCKSWAP_LEVEL=LEVEL  what is near for NUMA locks: node, llc or core-kind
                        [default: as the machine is, see 'lockswap topo']
  LOCKSWAP_SLO=5=50us,7=1ms targets of epochs   [default: the program's]
  LOCKSWAP_ONLY=NAME    keeps the locks to the executable of that name or path,
                        as /proc/PID/exe shows it [default: every process]
  LOCKSWAP_YIELD=1      under a system call filter (seccomp): waiting threads may
                        call sched_yield [default: they sleep for moments]
  LOCKSWAP_MEMBARRIER=1 the same: locks may call membarrier [default: auto, the
                        lock, takes two atomic instructions for a release]
  LOCKSWAP_SPINS_BEFORE_PARK=N  looks of a waiter that take as long as a round
                        trip through a sleep, for locks whose waiters sleep after
                        a fixed time (mcs_stp) [default: 500; lockswap run and
                        all commands that measure find it out]
  LOCKSWAP_TRACE=ready  lets 'lockswap trace --pid' and 'lockswap top' trace the
                        program while it runs; LOCKSWAP_TRACE=probes: for
                        SystemTap, bcc and bpftrace, the probes that glibc may
                        have [default: off; lockswap run says ready]
  LOCKSWAP_VERBOSE=1    what was chosen, and notes about fallbacks, on stderr")]
pub struct PreloadPathArgs {
    /// The library for programs that run on this lock: calls lead to its functions directly
    #[arg(long, value_name = "ID")]
    lock: Option<String>,
}

/// Runs `lockswap preload-path`.
pub fn run(PreloadPathArgs { lock }: PreloadPathArgs) -> anyhow::Result<ExitCode> {
    let unpacked = match lock {
        Some(lock) => library::unpack_for(selection::read(Role::Mutex, lock.trim())?.entry.info.id),
        None => library::unpack(),
    };
    terminal::print(&format!("{}\n", unpacked?.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::PreloadPathArgs;
    use lockswap_locks::registry::Role;

    #[test]
    fn help_names_the_default_locks() {
        let command = <PreloadPathArgs as clap::Args>::augment_args(clap::Command::new("preload-path"));
        let help = command.get_after_help().expect("there is one").to_string();
        for role in [Role::Mutex, Role::RwLock, Role::Spin] {
            assert!(help.contains(&format!("[default: {}]", role.default_id())), "{role:?}: {help}");
        }
    }
}
