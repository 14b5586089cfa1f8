//! Every machine in `machines/`: its groups, its kinds, the level for NUMA locks and the numbers of its groups.

use lockswap_machine::captured::Captured;
use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::files::{Files, Folder};
use lockswap_machine::kinds::Source;
use lockswap_machine::places::{choose, find, Level, Reason, Settings, Steps, Summary};
use lockswap_machine::topology::{Group, Topology, Wanted};
use lockswap_platform::{CoreKind, CpuList, Hierarchy, Place, TopologyOverride};
use std::collections::BTreeSet;

macro_rules! machine {
    ($name:literal) => {
        Captured::parse(include_str!(concat!("machines/", $name, ".txt"))).unwrap()
    };
}

fn set(list: &str) -> CpuSet {
    CpuList::parse(list.as_bytes()).unwrap().into()
}

fn read(files: &Captured) -> Box<Topology> {
    lockswap_machine::read(files, None)
}

/// The groups of one sort, each as a list of CPUs.
fn groups(topology: &Topology, group: Group) -> Vec<String> {
    let mut numbers: Vec<_> = topology.online().iter().filter_map(|cpu| topology.group(group, cpu)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| topology.members(group, number).to_string()).collect()
}

fn classes(topology: &Topology) -> Vec<String> {
    let of_class = |class| -> CpuSet { topology.online().iter().filter(|&cpu| topology.class(cpu) == class).collect() };
    (0..topology.classes()).map(|class| of_class(class).to_string()).collect()
}

fn big(topology: &Topology) -> String {
    topology.online().iter().filter(|&cpu| topology.kind(cpu) == CoreKind::Big).collect::<CpuSet>().to_string()
}

/// The level without the user's word or times, and the place of each online CPU.
fn places(topology: &Topology) -> (Level, Vec<Place>, Summary) {
    let (level, _) = choose(topology, None, None);
    let mut places = Vec::new();
    let summary = find(topology, level, |_, place| places.extend(place.group().map(|_| place)));
    (level, places, summary)
}

/// Where each online CPU is in the hierarchy.
fn hierarchy(topology: &Topology, level: Level) -> (Vec<Hierarchy>, Summary) {
    let mut all = Vec::new();
    let summary = find(topology, level, |_, place| all.extend(place.hierarchy()));
    (all, summary)
}

#[test]
fn nodes_lie_in_packages_where_each_has_one_cache() {
    let kunpeng = read(&machine!("kunpeng-920-2s"));
    let (hierarchy, summary) = hierarchy(&kunpeng, Level::Node);
    assert_eq!((summary.groups, summary.outer), (4, 2));
    assert_eq!([0, 32, 64, 96].map(|cpu| hierarchy[cpu].inner), [0, 1, 2, 3]);
    assert_eq!([0, 32, 64, 96].map(|cpu| hierarchy[cpu].outer), [0, 0, 1, 1].map(Some));
}

#[test]
fn two_levels_are_all_where_there_is_no_third() {
    let xeon = read(&machine!("xeon-gold-6242-2s"));
    let (of_xeon, summary) = hierarchy(&xeon, Level::Node);
    assert_eq!(summary.outer, 1);
    assert_eq!([0, 16].map(|cpu| of_xeon[cpu]), [0, 1].map(|inner| Hierarchy { inner, outer: None }));
    // The two nodes of one package, and big and little CPUs.
    for (machine, level) in [(machine!("xeon-snc2"), Level::Node), (machine!("epyc-7742-2s-nps4"), Level::CoreKind)] {
        assert_eq!(hierarchy(&read(&machine), level).1.outer, 1);
    }
}

fn numbers(places: &[Place]) -> Vec<u32> {
    places.iter().map(|place| place.group().unwrap()).collect()
}

#[test]
fn two_xeons_with_siblings_in_the_second_half() {
    let xeon = read(&machine!("xeon-gold-6242-2s"));
    assert_eq!(groups(&xeon, Group::Package), ["0-15,32-47", "16-31,48-63"]);
    assert_eq!(groups(&xeon, Group::Node), groups(&xeon, Group::Package));
    assert_eq!(groups(&xeon, Group::Llc), groups(&xeon, Group::Package));
    assert_eq!(groups(&xeon, Group::Core).len(), 32);
    assert_eq!(groups(&xeon, Group::Core)[31], "31,63");
    assert_eq!(groups(&xeon, Group::Module), groups(&xeon, Group::Core));
    assert_eq!([xeon.distance(0, 0), xeon.distance(1, 0), xeon.distance(0, 2)], [Some(10), Some(21), None]);
    assert_eq!((xeon.kinds_source(), xeon.classes()), (Source::None, 1));
    let (level, places, summary) = places(&xeon);
    assert_eq!(level, Level::Node);
    assert_eq!(summary, Summary { cpus: 64, groups: 2, caches: 2, outer: 1, little: 0 });
    assert_eq!(numbers(&places), [[0; 16], [1; 16], [0; 16], [1; 16]].concat());
}

#[test]
fn a_cache_that_spans_two_nodes_leaves_the_level_at_the_node() {
    let xeon = read(&machine!("xeon-snc2"));
    assert_eq!(groups(&xeon, Group::Llc), ["0-7"]);
    assert_eq!(groups(&xeon, Group::Node), ["0-3", "4-7"]);
    let (level, places, _) = places(&xeon);
    assert_eq!((level, numbers(&places)), (Level::Node, vec![0, 0, 0, 0, 1, 1, 1, 1]));
    assert!(places.iter().all(|place| place.llc() == Some(0)));
}

#[test]
fn two_epycs_with_four_nodes_each() {
    let epyc = read(&machine!("epyc-7742-2s-nps4"));
    assert_eq!(groups(&epyc, Group::Package).len(), 2);
    assert_eq!(groups(&epyc, Group::Node).len(), 8);
    assert_eq!(groups(&epyc, Group::Llc).len(), 32);
    assert_eq!(groups(&epyc, Group::Llc)[1], "4-7,132-135");
    assert_eq!(groups(&epyc, Group::Node)[7], "112-127,240-255");
    assert_eq!([epyc.distance(0, 3), epyc.distance(0, 4)], [Some(12), Some(32)]);
    let (level, places, summary) = places(&epyc);
    assert_eq!((level, summary.groups, summary.caches), (Level::Llc, 32, 32));
    // 32 caches on 8 entries: the four of a node share one, and all numbers differ.
    let numbers = numbers(&places);
    let nodes: BTreeSet<_> = (0..256).map(|cpu| (numbers[cpu] % 8, epyc.group(Group::Node, cpu))).collect();
    assert_eq!(nodes.len(), 8, "{nodes:?}");
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 32);
    // The caches lie in nodes, whichever of them are the locality groups.
    for level in [Level::Llc, Level::Node] {
        let (hierarchy, summary) = hierarchy(&epyc, level);
        assert_eq!(summary.outer, 8);
        let inner: BTreeSet<_> = (0..256).map(|cpu| (hierarchy[cpu].inner, epyc.group(Group::Llc, cpu))).collect();
        let outer: BTreeSet<_> = (0..256).map(|cpu| (hierarchy[cpu].outer, epyc.group(Group::Node, cpu))).collect();
        assert_eq!((inner.len(), outer.len()), (32, 8));
    }
}

#[test]
fn a_threadripper_whose_outer_dies_have_no_memory() {
    let ripper = read(&machine!("threadripper-2990wx"));
    assert_eq!(groups(&ripper, Group::Node), ["0-7,32-39", "16-23,48-55", "8-15,40-47", "24-31,56-63"]);
    assert_eq!(groups(&ripper, Group::Die).len(), 4);
    assert_eq!([0, 1, 2, 3].map(|node| ripper.has_memory(node)), [true, false, true, false]);
    let (level, places, summary) = places(&ripper);
    assert_eq!((level, summary.groups), (Level::Llc, 8));
    // Numbered node by node.
    assert_eq!([0, 4, 16, 20, 8, 12, 24, 28].map(|cpu| places[cpu].group()), [0, 1, 2, 3, 4, 5, 6, 7].map(Some));
}

#[test]
fn a_hybrid_intel_has_two_kinds_and_one_cache() {
    let alder = read(&machine!("alder-lake-12900k"));
    assert_eq!((alder.kinds_source(), classes(&alder)), (Source::CoreTypes, vec!["0-15".into(), "16-23".into()]));
    assert_eq!(groups(&alder, Group::Module)[7..], ["14,15", "16-19", "20-23"]);
    let (level, places, summary) = places(&alder);
    assert_eq!(level, Level::Node);
    assert_eq!(summary, Summary { cpus: 24, groups: 1, caches: 1, outer: 1, little: 8 });
    assert_eq!([15, 16].map(|cpu| places[cpu].kind()), [CoreKind::Big, CoreKind::Little]);
    assert_eq!(choose(&alder, Some(Level::CoreKind), None), (Level::CoreKind, Reason::Asked));
    let mut by_kind = Vec::new();
    find(&alder, Level::CoreKind, |_, place| by_kind.push(place));
    assert_eq!(numbers(&by_kind), [&[0; 16][..], &[1; 8]].concat());
}

#[test]
fn without_the_lists_of_core_types_the_clock_rates_tell() {
    let mut files = machine!("alder-lake-12900k");
    files.set("devices/cpu_atom/cpus", "");
    let alder = read(&files);
    assert_eq!((alder.kinds_source(), big(&alder)), (Source::MaxFrequency, "0-15".into()));
    assert_eq!(classes(&alder).len(), 2, "100 MHz more on two cores make no other kind");
}

#[test]
fn an_m1_has_a_cache_for_each_kind() {
    let m1 = read(&machine!("apple-m1"));
    assert_eq!((m1.kinds_source(), big(&m1)), (Source::Capacity, "4-7".into()));
    assert_eq!(groups(&m1, Group::Llc), ["0-3", "4-7"]);
    assert_eq!(groups(&m1, Group::Die), [""; 0], "a die per CPU is none");
    let (level, places, _) = places(&m1);
    assert_eq!((level, numbers(&places)), (Level::Llc, vec![0, 0, 0, 0, 1, 1, 1, 1]));
}

#[test]
fn a_phone_with_three_classes_has_its_largest_step_below_the_two_fast_ones() {
    let phone = read(&machine!("phone-snapdragon-865"));
    assert_eq!(classes(&phone), ["7", "4-6", "0-3"]);
    assert_eq!((big(&phone), phone.speed(4)), ("4-7".into(), Some(870)));
    assert_eq!(groups(&phone, Group::Package), ["0-3", "4-6", "7"]);
    assert_eq!((groups(&phone, Group::Node), phone.nodes().count()), (vec![], 0));
    let (level, _, summary) = places(&phone);
    assert_eq!((level, summary), (Level::Node, Summary { cpus: 8, groups: 1, caches: 1, outer: 1, little: 4 }));
}

#[test]
fn two_kunpengs_have_clusters_below_a_cache_per_node() {
    let kunpeng = read(&machine!("kunpeng-920-2s"));
    assert_eq!(groups(&kunpeng, Group::Module).len(), 32);
    assert_eq!(groups(&kunpeng, Group::Module)[1], "4-7");
    assert_eq!(groups(&kunpeng, Group::Node), ["0-31", "32-63", "64-95", "96-127"]);
    assert_eq!(groups(&kunpeng, Group::Llc), groups(&kunpeng, Group::Node));
    assert_eq!(groups(&kunpeng, Group::Die), [""; 0]);
    assert_eq!(kunpeng.classes(), 1);
    let (level, reason) = choose(&kunpeng, None, None);
    assert_eq!((level, reason), (Level::Node, Reason::OneCachePerNode));
}

#[test]
fn a_sandbox_that_shows_only_numbers() {
    let sandbox = read(&machine!("vm-hidden"));
    for group in Group::ALL {
        assert_eq!(groups(&sandbox, group), [""; 0], "{group:?}");
    }
    let (level, places, summary) = places(&sandbox);
    assert_eq!((level, numbers(&places)), (Level::Node, vec![0; 4]));
    assert_eq!(summary, Summary { cpus: 4, groups: 1, caches: 1, outer: 1, little: 0 });
}

#[test]
fn a_machine_that_shows_nothing_has_the_cpus_of_the_process() {
    let topology = lockswap_machine::read(&Captured::default(), Some(&set("2,3")));
    assert_eq!(topology.online(), &set("2-3"));
    assert_eq!(places(&topology).2.groups, 1);
    assert_eq!(places(&lockswap_machine::read(&Captured::default(), None)).2.cpus, 0);
}

#[test]
fn caches_that_no_cores_share_make_no_groups() {
    let vm = read(&machine!("vm-sockets"));
    assert_eq!(groups(&vm, Group::Llc).len(), 4);
    assert!(!vm.caches_are_shared());
    assert_eq!((vm.kinds_source(), places(&vm).0), (Source::None, Level::Node));
    assert!(places(&vm).1.iter().all(|place| place.llc() == Some(0)));
    let asked = choose(&vm, Some(Level::Llc), None);
    assert_eq!(asked, (Level::Node, Reason::NotVisible(Level::Llc)));
}

#[test]
fn ranks_of_equal_cores_make_no_kinds_and_offline_cpus_are_left_out() {
    let ryzen = read(&machine!("ryzen-5950x-smt-off"));
    assert_eq!(ryzen.online(), &set("0-4,6-15"));
    assert_eq!(ryzen.present().without(ryzen.online()), set("5,16-31"));
    assert_eq!((ryzen.kinds_source(), ryzen.classes()), (Source::None, 1));
    assert_eq!(groups(&ryzen, Group::Llc), ["0-4,6,7", "8-15"]);
    let (level, places, summary) = places(&ryzen);
    assert_eq!((level, places.len(), summary.groups), (Level::Llc, 15, 2));
}

#[test]
fn dense_cores_are_another_kind() {
    let strix = read(&machine!("ryzen-strix-point"));
    assert_eq!((strix.kinds_source(), big(&strix)), (Source::Cppc, "0-3,12-15".into()));
}

#[test]
fn a_process_sees_its_own_cpus_first() {
    let epyc = lockswap_machine::read(&machine!("epyc-7742-2s-nps4"), Some(&set("72-79,300")));
    assert_eq!(epyc.allowed(), &set("72-79"));
    let (level, places, summary) = places(&epyc);
    assert_eq!((level, summary.cpus, summary.groups), (Level::Llc, 8, 2));
    assert_eq!([72, 76, 0].map(|cpu| places[cpu].group()), [Some(0), Some(1), Some(2)]);
    // On one cache nothing is far.
    let ccx = lockswap_machine::read(&machine!("epyc-7742-2s-nps4"), Some(&set("0-3,128-131")));
    assert_eq!(choose(&ccx, None, None).0, Level::Node);
}

#[test]
fn a_container_is_confined_to_its_cpuset() {
    let files = machine!("container-cpuset");
    let cpus = lockswap_machine::cgroup::cpus(&files, None).unwrap();
    let container = lockswap_machine::read(&files, Some(&cpus));
    assert_eq!(container.allowed(), &set("8,9,12,13"));
    assert_eq!(groups(&container, Group::Llc).len(), 4);
    let (level, places, summary) = places(&container);
    assert_eq!(level, Level::Llc);
    assert_eq!(summary, Summary { cpus: 4, groups: 2, caches: 2, outer: 1, little: 0 });
    // Its own groups come first, then the others.
    assert_eq!([8, 12, 0, 4].map(|cpu| places[cpu].group()), [0, 1, 2, 3].map(Some));
}

#[test]
fn a_process_on_little_cpus_alone_has_no_big_ones_to_wait_for() {
    let m1 = lockswap_machine::read(&machine!("apple-m1"), Some(&set("0-2")));
    assert_eq!(places(&m1).2.little, 0);
    let mut declared = lockswap_machine::read(&machine!("apple-m1"), Some(&set("0-2")));
    declared.declare_big(&set("4-7"));
    assert_eq!(places(&declared).2.little, 3);
    let mut ryzen = read(&machine!("ryzen-5950x-smt-off"));
    ryzen.declare_big(&set("0-15"));
    let mut offline = Vec::new();
    find(&ryzen, Level::Node, |cpu, place| {
        if place.group().is_none() {
            offline.push((cpu, place.kind()));
        }
    });
    assert_eq!(offline[..2], [(5, CoreKind::Big), (16, CoreKind::Little)], "known before they come online");
}

#[test]
fn measured_speeds_count_where_the_system_says_nothing() {
    let big = |machine: &Captured, measured: &str| {
        let mut topology = read(machine);
        topology.fall_back_to_measured(&set(measured));
        (topology.kinds_source(), big(&topology))
    };
    assert_eq!(big(&machine!("vm-hidden"), "0,1"), (Source::Measured, "0,1".into()));
    assert_eq!(big(&machine!("vm-hidden"), "0-3"), (Source::None, "0-3".into()));
    assert_eq!(big(&machine!("vm-hidden"), "7"), (Source::None, "0-3".into()));
    assert_eq!(big(&machine!("apple-m1"), "0"), (Source::Capacity, "4-7".into()));
    // A fifth slower may be somebody else's work.
    let mut vm = read(&machine!("vm-hidden"));
    assert!(!vm.set_speeds(Source::Measured, |cpu| Some([1024, 1000, 850, 1010][cpu])));
    assert!(vm.set_speeds(Source::Measured, |cpu| Some([1024, 1000, 600, 1010][cpu])));
    assert_eq!((vm.kinds_source(), vm.kind(2)), (Source::Measured, CoreKind::Little));
}

#[test]
fn measured_times_decide_between_cache_and_node() {
    let epyc = read(&machine!("epyc-7742-2s-nps4"));
    let level = |same_llc, same_node, far| choose(&epyc, None, Some(Steps { same_llc, same_node, far })).0;
    assert_eq!(level(25.0, 132.0, Some(267.0)), Level::Llc);
    assert_eq!(level(40.0, 50.0, Some(140.0)), Level::Node);
    assert_eq!(level(40.0, 44.0, None), Level::Node);
    assert_eq!(level(18.0, 85.0, None), Level::Llc);
}

#[test]
fn what_the_user_declares_takes_the_place_of_what_was_read() {
    let mut m1 = read(&machine!("apple-m1"));
    let settings =
        Settings { level: None, nodes: TopologyOverride::parse(b"4x2"), big: Some(set("0")), allowed: set("0-7") };
    settings.apply(&mut m1);
    let (level, places, summary) = places(&m1);
    assert_eq!((level, numbers(&places)), (Level::Node, vec![0, 0, 1, 1, 2, 2, 3, 3]));
    assert_eq!(summary, Summary { cpus: 8, groups: 4, caches: 4, outer: 1, little: 7 });
    let other = Settings { level: Some(Level::Node), ..settings.clone() };
    assert_ne!(settings.fingerprint(), other.fingerprint());
    assert_eq!(settings.fingerprint(), settings.clone().fingerprint());
}

/// Counts what is read.
struct Counting<'a>(&'a Captured, std::cell::Cell<usize>);

impl Files for Counting<'_> {
    fn read<'b>(&self, path: std::fmt::Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        self.1.set(self.1.get() + 1);
        self.0.read(path, buffer)
    }
}

#[test]
fn few_files_are_read_at_the_start_of_a_program() {
    let reads = |machine: &Captured, wanted| {
        let files = Counting(machine, 0.into());
        let mut topology = Box::new(Topology::UNKNOWN);
        topology.read(&files, None, wanted);
        files.1.get()
    };
    let locality = Wanted { all_groups: false, kinds: false };
    // 32 caches and 8 nodes of 256 CPUs.
    assert!(reads(&machine!("epyc-7742-2s-nps4"), locality) <= 130);
    assert!(reads(&machine!("xeon-gold-6242-2s"), locality) <= 20);
    assert!(reads(&machine!("vm-hidden"), Wanted::ALL) <= 30);
}

#[test]
fn a_folder_on_disk_reads_like_the_text_of_it() {
    let captured = machine!("apple-m1");
    let dir = std::env::temp_dir().join(format!("lockswap-machine-{}", std::process::id()));
    captured.write_to(&dir).unwrap();
    let folder = lockswap_machine::open(&dir).unwrap();
    let topology = lockswap_machine::read(&folder, None);
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(groups(&topology, Group::Llc), ["0-3", "4-7"]);
    assert_eq!(big(&topology), "4-7");
    assert!(lockswap_machine::open(&dir).is_err());
}

#[test]
fn this_machine_can_be_read() {
    let folder = Folder::open(c"/sys").unwrap();
    let allowed = CpuSet::of_this_thread();
    let here = lockswap_machine::read(&folder, Some(&allowed));
    assert_eq!(here.allowed(), &allowed);
    let summary = find(&here, choose(&here, None, None).0, |_, _| {});
    assert!(summary.cpus == allowed.len() && summary.groups >= 1);
}
