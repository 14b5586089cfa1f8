//! Where CPUs lie, for processes that measure.

use lockswap_machine::places::find;
use lockswap_machine::topology::Group;
use lockswap_platform::set_place;
use lockswap_workloads::crew::Place;

/// Tells this process what the preload library finds out by itself, which CPUs are near each other and which are
/// little; where the CPUs lie, by number: nothing where the machine does not tell.
///
/// # Errors
/// The environment declares something about the machine that cannot be read.
pub fn look_around() -> Result<Vec<Place>, lockswap_machine::Error> {
    let settings = lockswap_machine::settings()?;
    let Ok(folder) = lockswap_machine::open(&lockswap_machine::root()) else { return Ok(Vec::new()) };
    let mut topology = lockswap_machine::read(&folder, Some(&settings.allowed));
    settings.apply(&mut topology);
    let (level, _) = lockswap_machine::judge(&folder, &mut topology, &settings);
    find(&topology, level, set_place);
    let Some(last) = topology.present().iter().last() else { return Ok(Vec::new()) };
    let of = |cpu: usize| {
        // A level that is not known has nobody else in it, but all CPUs are of one node then.
        let group = |group, unknown: usize| topology.group(group, cpu).unwrap_or(unknown) as u32;
        let apart = usize::MAX / 2 + cpu;
        Place { core: group(Group::Core, apart), llc: group(Group::Llc, apart), node: group(Group::Node, 0) }
    };
    Ok((0..=last).map(of).collect())
}
