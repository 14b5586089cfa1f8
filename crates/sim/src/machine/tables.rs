//! From what a file says to a machine: checks the numbers, and lays out the tables that the engine looks things up in.

use super::file::{File, Llc, Numbering, Placement, Topology};
use super::{Costs, Cpu, Invalid, Kind, Machine, Ps, Told};
use crate::engine::cores::MAX_CORES;
use lockswap_machine::matrix::Matrix;
use lockswap_machine::route::Route;
use lockswap_platform::{group_number, Hierarchy};

/// Node groups that the engine's masks have room for.
const MAX_CLUSTERS: usize = 64;

impl Told {
    /// Levels are, the innermost first: clusters where they have a last-level cache each, nodes, sockets. Of those,
    /// locks are told the two innermost ones of which the machine has several.
    fn of(topology: &Topology, cluster: u32, node: u32) -> Self {
        let sockets = topology.sockets;
        let nodes = sockets * topology.nodes_per_socket;
        let clusters = nodes * topology.clusters.len() as u32;
        let by_node = (node, nodes);
        let by_cache = if topology.llc == Llc::Node { by_node } else { (cluster, clusters) };
        let by_socket = (node / topology.nodes_per_socket, sockets);
        let number = |(rank, count)| group_number(rank, count);
        let outer = [by_node, by_socket].into_iter().find(|(_, count)| (2..by_cache.1).contains(count));
        let hierarchy = Hierarchy { inner: number(by_cache), outer: outer.map(number) };
        Told { node: number(by_node), is_only_node: nodes == 1, llc: number(by_cache), hierarchy }
    }
}

impl Machine {
    /// The machine that `file` describes, which is called `name`.
    pub(super) fn new(name: &str, file: &File) -> Result<Self, Invalid> {
        let bad = |key: &str, problem: String| Invalid::new(format!("{name}: {key} {problem}"), "change that key");
        let topology = &file.topology;
        // As floating-point numbers, which grow without an overflow.
        let nodes = f64::from(topology.sockets) * f64::from(topology.nodes_per_socket);
        if nodes == 0.0 || topology.clusters.is_empty() || topology.clusters.iter().any(|cluster| cluster.cores == 0) {
            return Err(bad("topology", "has a level with nothing in it".into()));
        }
        let clusters = nodes * topology.clusters.len() as f64;
        let cores = nodes * topology.clusters.iter().map(|cluster| f64::from(cluster.cores)).sum::<f64>();
        if cores > MAX_CORES as f64 || clusters > MAX_CLUSTERS as f64 {
            return Err(bad(
                "topology",
                format!("has {cores} cores in {clusters} clusters, over {MAX_CORES} or {MAX_CLUSTERS}"),
            ));
        }
        let nodes = topology.sockets * topology.nodes_per_socket;
        let costs = costs(file).map_err(|(key, problem)| bad(&key, problem))?;
        let mut kinds = Vec::new();
        for kind in &file.kinds {
            for (key, speed) in [("speed", kind.speed), ("access_speed", kind.access_speed.unwrap_or(kind.speed))] {
                if !(0.01..=1.0).contains(&speed) {
                    return Err(bad(&format!("kind '{}': {key}", kind.name), format!("is {speed}, not in 0.01 to 1")));
                }
            }
            let stream = kind.stream.unwrap_or(file.core.stream);
            if kind.stream.is_some() && !(0.0..=1.0).contains(&stream) {
                return Err(bad(&format!("kind '{}': stream", kind.name), format!("is {stream}, not in 0 to 1")));
            }
            if !(1..=8).contains(&kind.threads) {
                return Err(bad(
                    &format!("kind '{}': threads", kind.name),
                    format!("is {}, not in 1 to 8", kind.threads),
                ));
            }
            if !(-1.0..=1.0).contains(&kind.favour) {
                return Err(bad(
                    &format!("kind '{}': favour", kind.name),
                    format!("is {}, not in -1 to 1", kind.favour),
                ));
            }
            kinds.push(Kind {
                little: kind.little,
                compute: (1024.0 / kind.speed) as u64,
                access: (1024.0 / kind.access_speed.unwrap_or(kind.speed)) as u64,
                stream: (stream * 1024.0) as u64,
                favour: (kind.favour * 1024.0) as i32,
            });
        }
        // Cores, cluster by cluster.
        let clusters = nodes * topology.clusters.len() as u32;
        let (mut node_of_cluster, mut cluster_of_core, mut kind_of_core) = (Vec::new(), Vec::new(), Vec::new());
        for node in 0..nodes {
            for cluster in &topology.clusters {
                let Some(kind) = file.kinds.iter().position(|kind| kind.name == cluster.kind) else {
                    return Err(bad(
                        "topology.clusters",
                        format!("names the kind '{}', which no [[kind]] describes", cluster.kind),
                    ));
                };
                for _ in 0..cluster.cores {
                    cluster_of_core.push(node_of_cluster.len() as u32);
                    kind_of_core.push(kind as u32);
                }
                node_of_cluster.push(node);
            }
        }
        let cores = cluster_of_core.len() as u32;
        let cpu = |core: u32| {
            let cluster = cluster_of_core[core as usize];
            let node = node_of_cluster[cluster as usize];
            let kind = kind_of_core[core as usize];
            Cpu { core, cluster, node, kind, rank: 0, told: Told::of(topology, cluster, node) }
        };
        let threads_of = |core: u32| file.kinds[kind_of_core[core as usize] as usize].threads;
        let most = file.kinds.iter().map(|kind| kind.threads).max().unwrap_or(1);
        let mut cpus: Vec<Cpu> = match topology.numbering {
            Numbering::CoresFirst => (0..most)
                .flat_map(|sibling| (0..cores).filter(move |core| sibling < threads_of(*core)))
                .map(cpu)
                .collect(),
            Numbering::SiblingsAdjacent => {
                (0..cores).flat_map(|core| (0..threads_of(core)).map(move |_| core)).map(cpu).collect()
            }
        };
        if cpus.len() != topology.cpus as usize {
            return Err(bad(
                "topology.cpus",
                format!("is {}, but the other keys make {} CPUs", topology.cpus, cpus.len()),
            ));
        }
        let distances = distances(file, clusters, nodes).map_err(|(key, problem)| bad(&key, problem))?;
        let along = if topology.route.is_empty() {
            let cores = route(&distances, clusters, &node_of_cluster, &cluster_of_core);
            let of_core = |core: u32| (0..cpus.len() as u32).filter(|cpu| cpus[*cpu as usize].core == core).collect();
            cores.into_iter().flat_map::<Vec<u32>, _>(of_core).collect()
        } else {
            topology.route.clone()
        };
        let ranks = ranks(&along, topology.cpus).map_err(|problem| bad("topology.route", problem))?;
        for (cpu, rank) in cpus.iter_mut().zip(ranks) {
            cpu.rank = rank;
        }
        let order = order(topology.placement, &cpus, nodes / topology.nodes_per_socket, topology.nodes_per_socket);
        Ok(Machine {
            id: name.to_owned(),
            title: lockswap_toml::visible(&file.title).collect(),
            has_siblings: most > 1,
            order,
            cpus,
            cores,
            nodes,
            clusters,
            kinds,
            llc_is_node: topology.llc == Llc::Node,
            distances,
            node_of_cluster,
            cluster_of_core,
            costs,
        })
    }
}

/// The cores in the order of a short round trip: node by node, and within a node cluster by cluster, because nothing
/// is nearer than that.
fn route(distances: &[Ps], clusters: u32, node_of_cluster: &[u32], cluster_of_core: &[u32]) -> Vec<u32> {
    let nodes = node_of_cluster.last().map_or(0, |last| last + 1);
    let per_node = clusters / nodes;
    let between = |a: usize, b: usize| {
        let (a, b) = (a as u32 * per_node, b as u32 * per_node);
        if a == b {
            0.0
        } else {
            distances[(a * clusters + b) as usize] as f64
        }
    };
    let trip = Route::through(&Matrix::new((0..nodes as usize).collect(), between)).cpus;
    let node_of = |core: u32| node_of_cluster[cluster_of_core[core as usize] as usize] as usize;
    let cores = || 0..cluster_of_core.len() as u32;
    trip.into_iter().flat_map(|node| cores().filter(move |core| node_of(*core) == node)).collect()
}

/// The position of each CPU on `route`, or what is wrong with it.
fn ranks(route: &[u32], cpus: u32) -> Result<Vec<u32>, String> {
    let mut ranks = vec![u32::MAX; cpus as usize];
    for (rank, cpu) in route.iter().enumerate() {
        match ranks.get_mut(*cpu as usize) {
            Some(place) if *place == u32::MAX => *place = rank as u32,
            Some(_) => return Err(format!("names CPU {cpu} twice")),
            None => return Err(format!("names CPU {cpu}, but there are {cpus}")),
        }
    }
    match ranks.iter().position(|rank| *rank == u32::MAX) {
        Some(cpu) => Err(format!("leaves out CPU {cpu}")),
        None => Ok(ranks),
    }
}

fn order(placement: Placement, cpus: &[Cpu], sockets: u32, nodes_per_socket: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..cpus.len() as u32).collect();
    if placement == Placement::Spread {
        // The n-th CPU of each socket, socket by socket; siblings of a core already taken come last.
        let mut taken = std::collections::BTreeMap::new();
        let mut keys = Vec::new();
        for cpu in cpus {
            let socket = cpu.node / nodes_per_socket;
            let sibling = *taken.entry((u32::MAX, cpu.core)).and_modify(|n| *n += 1).or_insert(0u32);
            let place = *taken.entry((sockets + sibling, socket)).and_modify(|n| *n += 1).or_insert(0u32);
            keys.push((sibling, place, socket));
        }
        order.sort_by_key(|cpu| keys[*cpu as usize]);
    }
    order
}

type Problem = (String, String);

fn ps(key: &str, ns: f64) -> Result<Ps, Problem> {
    if !(0.0..=1e12).contains(&ns) {
        return Err((key.to_owned(), format!("is {ns}, not in 0 to 1e12 ns")));
    }
    Ok((ns * 1e3).round() as Ps)
}

fn distances(file: &File, clusters: u32, nodes: u32) -> Result<Vec<Ps>, Problem> {
    let (topology, latency) = (&file.topology, &file.latency);
    let per_node = topology.clusters.len() as u32;
    if let Some(matrix) = &latency.nodes {
        if matrix.len() != nodes as usize || matrix.iter().any(|row| row.len() != nodes as usize) {
            return Err(("latency.nodes".into(), format!("is not {nodes} rows of {nodes} numbers")));
        }
    }
    let mut table = Vec::new();
    for from in 0..clusters {
        for to in 0..clusters {
            let (a, b) = (from / per_node, to / per_node);
            let (key, ns) = if from == to {
                let kind = &topology.clusters[(from % per_node) as usize].kind;
                (format!("cluster.{kind}"), latency.cluster.get(kind).copied())
            } else if a == b {
                ("node".to_owned(), latency.node)
            } else if let Some(matrix) = &latency.nodes {
                ("nodes".to_owned(), Some(matrix[a as usize][b as usize]))
            } else if a / topology.nodes_per_socket == b / topology.nodes_per_socket {
                ("socket".to_owned(), latency.socket)
            } else {
                ("remote".to_owned(), latency.remote)
            };
            let key = format!("latency.{key}");
            let ns = ns.ok_or_else(|| (key.clone(), "is missing: there are cores that far apart".to_owned()))?;
            table.push(ps(&key, ns)?);
        }
    }
    Ok(table)
}

fn costs(file: &File) -> Result<Costs, Problem> {
    let (latency, core, fabric, scheduler) = (&file.latency, &file.core, &file.fabric, &file.scheduler);
    for (key, share) in [
        ("core.stream", core.stream),
        ("fabric.near", fabric.near),
        ("fabric.jitter", fabric.jitter),
        ("fabric.request", fabric.request),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return Err((key.into(), format!("is {share}, not in 0 to 1")));
        }
    }
    for (key, factor) in [("core.sibling_busy", core.sibling_busy), ("core.sibling_spinning", core.sibling_spinning)] {
        if !(1.0..=8.0).contains(&factor) {
            return Err((key.into(), format!("is {factor}, not in 1 to 8")));
        }
    }
    for (key, ns) in [
        ("core.hit", core.hit),
        ("core.rmw", core.rmw),
        ("core.pause", core.pause),
        ("core.clock", core.clock),
        ("core.counter", core.counter.unwrap_or(core.clock)),
        ("core.cycle", core.cycle),
        ("fabric.serve", fabric.serve),
    ] {
        // Time must pass in every loop.
        if ns < 0.01 {
            return Err((key.into(), format!("is {ns}, under 0.01 ns")));
        }
    }
    if !matches!(core.line, 64 | 128) {
        return Err(("core.line".into(), format!("is {}, not 64 or 128", core.line)));
    }
    if scheduler.slice < 1000.0 {
        return Err(("scheduler.slice".into(), format!("is {}, under 1000 ns", scheduler.slice)));
    }
    Ok(Costs {
        line: core.line.ilog2(),
        sibling: ps("latency.sibling", latency.sibling)?,
        shared_cache: ps("latency.shared_cache", latency.shared_cache)?,
        memory: ps("latency.memory", latency.memory)?,
        hit: ps("core.hit", core.hit)?,
        rmw: ps("core.rmw", core.rmw)?,
        pause: ps("core.pause", core.pause)?,
        clock: ps("core.clock", core.clock)?,
        counter: ps("core.counter", core.counter.unwrap_or(core.clock))?,
        cycle: ps("core.cycle", core.cycle)?,
        store_buffer: core.store_buffer.max(1) as usize,
        sibling_busy: (core.sibling_busy * 1024.0) as u64,
        sibling_spinning: (core.sibling_spinning * 1024.0) as u64,
        migratory: fabric.migratory,
        outstanding: fabric.outstanding,
        request: (fabric.request * 1024.0) as u64,
        writes_ahead: core.writes_ahead,
        serve: ps("fabric.serve", fabric.serve)?,
        invalidate: ps("fabric.invalidate", fabric.invalidate)?,
        home: ps("fabric.home", fabric.home)?,
        link: ps("fabric.link", fabric.link)?,
        three_hops: ps("fabric.three_hops", fabric.three_hops)?,
        near: (fabric.near * 1024.0) as u32,
        jitter: (fabric.jitter * 1024.0) as u64,
        start: ps("scheduler.start", scheduler.start)?,
        slice: ps("scheduler.slice", scheduler.slice)?,
        wakeup_granularity: ps("scheduler.wakeup_granularity", scheduler.wakeup_granularity)?,
        switch: ps("scheduler.switch", scheduler.switch)?,
        yield_: ps("scheduler.yield", scheduler.yield_)?,
        park: ps("scheduler.park", scheduler.park)?,
        unpark: ps("scheduler.unpark", scheduler.unpark)?,
        wake: ps("scheduler.wake", scheduler.wake)?,
        settle: ps("scheduler.settle", scheduler.settle)?,
        interrupt: ps("scheduler.interrupt", scheduler.interrupt)?,
        interrupt_each: ps("scheduler.interrupt_each", scheduler.interrupt_each)?,
        interrupted: ps("scheduler.interrupted", scheduler.interrupted)?,
        timer_slack: ps("scheduler.timer_slack", scheduler.timer_slack)?,
        migrate: scheduler.migrate,
        patience: scheduler.patience,
    })
}
