//! What a machine file says: TOML, in nanoseconds. `docs/simulator.md` describes every key.

use super::Invalid;
use serde::Deserialize;

/// A machine file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// One line for people.
    pub title: String,
    pub topology: Topology,
    #[serde(rename = "kind")]
    pub kinds: Vec<Kind>,
    pub latency: Latency,
    pub core: Core,
    pub fabric: Fabric,
    pub scheduler: Scheduler,
}

impl File {
    /// What `text` says, with some keys set to other values. `name` stands for the file in messages.
    pub fn read(name: &str, text: &str, changes: &[(String, String)]) -> Result<Self, Invalid> {
        const READ_THE_DOCS: &str = "docs/simulator.md says what each key means";
        // Read as it is first: those messages have lines.
        let file: File =
            lockswap_toml::from_str(text).map_err(|error| Invalid::new(format!("{name}: {error}"), READ_THE_DOCS))?;
        if changes.is_empty() {
            return Ok(file);
        }
        let mut table: toml::Table =
            lockswap_toml::from_str(text).map_err(|error| Invalid::new(error.to_string(), READ_THE_DOCS))?;
        for (key, value) in changes {
            set(&mut table, key, value)?;
        }
        table.try_into().map_err(|error: toml::de::Error| {
            let keys: Vec<_> = changes.iter().map(|(key, _)| key.as_str()).collect();
            Invalid::new(format!("{name}, with {} set: {}", keys.join(", "), error.message()), READ_THE_DOCS)
        })
    }
}

/// How the CPUs are arranged. All nodes are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Logical CPUs of the machine: must be what the other numbers amount to.
    pub cpus: u32,
    pub sockets: u32,
    #[serde(default = "one")]
    pub nodes_per_socket: u32,
    /// The clusters of one node: the kind of their cores, and how many.
    pub clusters: Vec<Cluster>,
    /// Which cores share a last-level cache.
    #[serde(default)]
    pub llc: Llc,
    #[serde(default)]
    pub numbering: Numbering,
    #[serde(default)]
    pub placement: Placement,
    /// CPU numbers in the order of the route through them; if left out, core by core, ascending within nodes, and
    /// those on a shortest round trip.
    #[serde(default)]
    pub route: Vec<u32>,
}

/// Cores next to each other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Index into the kinds.
    pub kind: String,
    pub cores: u32,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Llc {
    /// Those of a cluster.
    #[default]
    Cluster,
    /// Those of a node.
    Node,
}

/// How logical CPUs are numbered.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// First one CPU of each core, then the siblings.
    #[default]
    CoresFirst,
    /// Siblings are neighbours.
    SiblingsAdjacent,
}

/// On which CPU thread number i starts.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// CPU i.
    #[default]
    Ascending,
    /// Sockets in turn, cores of their own first: what an idle Linux does.
    Spread,
}

/// A sort of core.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub name: String,
    /// Of the fastest kind.
    #[serde(default = "one_f")]
    pub speed: f64,
    /// Speed of its memory accesses that hit and of its read-modify-writes; `speed` if left out.
    pub access_speed: Option<f64>,
    /// As `core.stream`, which it replaces for this kind.
    pub stream: Option<f64>,
    #[serde(default = "one")]
    pub threads: u32,
    #[serde(default)]
    pub little: bool,
    /// Extra share of the races for a contended line that its cores win, -1 to 1.
    #[serde(default)]
    pub favour: f64,
}

/// Nanoseconds that a modified line takes from one core to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Between the hardware threads of a core.
    pub sibling: f64,
    /// Within a cluster, by kind.
    pub cluster: std::collections::BTreeMap<String, f64>,
    /// Within a node.
    pub node: Option<f64>,
    /// Within a socket.
    pub socket: Option<f64>,
    /// Between sockets.
    pub remote: Option<f64>,
    /// Between nodes, node by node, instead of `socket` and `remote`. The diagonal is not used.
    pub nodes: Option<Vec<Vec<f64>>>,
    /// A clean line from the cluster's shared cache.
    pub shared_cache: f64,
    /// From memory.
    pub memory: f64,
}

/// What a core does by itself, ns at speed 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Bytes of a cache line, 64 or 128.
    #[serde(default = "usual_line")]
    pub line: u32,
    /// One clock cycle.
    pub cycle: f64,
    /// A load or store that hits the own cache, with the instructions around it.
    pub hit: f64,
    /// A read-modify-write that hits.
    pub rmw: f64,
    /// One pause instruction.
    pub pause: f64,
    /// A look at the clock.
    #[serde(default = "usual_clock")]
    pub clock: f64,
    /// A look at the cycle counter, with which short times are measured; as `clock` if left out.
    pub counter: Option<f64>,
    /// Stores that may wait in the store buffer.
    pub store_buffer: u32,
    /// Of misses that overlap, each comes this share of its latency after the one before, 0 to 1.
    pub stream: f64,
    /// Whether a read-modify-write overlaps with other misses.
    #[serde(default)]
    pub writes_ahead: bool,
    /// How many times slower a hardware thread is beside a busy sibling.
    #[serde(default = "one_f")]
    pub sibling_busy: f64,
    /// The same beside a sibling that spins.
    #[serde(default = "one_f")]
    pub sibling_spinning: f64,
}

/// Which reads of lines that another core has modified bring the right to write along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Migratory {
    /// None: both cores share the line then.
    #[default]
    Never,
    /// Those from one NUMA node to another.
    BetweenNodes,
    /// All.
    Always,
}

/// What lies between the cores, ns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// When a core that reads a line which another has modified gets it for itself.
    #[serde(default)]
    pub migratory: Migratory,
    /// Whether several requests for a line may be outstanding: then the next one is on its way to whom the line is on
    /// its way to; else it is sent there when the line has come.
    #[serde(default)]
    pub outstanding: bool,
    /// What a request takes of the latency of a line, 0 to 1; the line takes the rest.
    #[serde(default = "half")]
    pub request: f64,
    /// A clean line serves the next reader after this time.
    pub serve: f64,
    /// To invalidate one more sharer.
    pub invalidate: f64,
    /// A request keeps the home directory of its line this busy.
    pub home: f64,
    /// A line keeps the link between two nodes this busy.
    pub link: f64,
    /// Added where requester, supplier and home are three nodes.
    pub three_hops: f64,
    /// How much the latencies of misses vary: this share of them more or less, by chance.
    #[serde(default = "usual_jitter")]
    pub jitter: f64,
    /// The share of the races for a contended line that the nearest core wins; the others are first come, first
    /// served.
    pub near: f64,
}

/// What the operating system does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// From the start of one thread to that of the next, ns: a barrier lets them go one after the other.
    #[serde(default = "usual_start")]
    pub start: f64,
    /// A thread's time on a CPU that others wait for, ns.
    pub slice: f64,
    /// A woken thread preempts one that has run this long, ns.
    pub wakeup_granularity: f64,
    /// One context switch, ns.
    pub switch: f64,
    /// `sched_yield` with nobody else to run, ns.
    #[serde(rename = "yield")]
    pub yield_: f64,
    /// The system call that puts a thread to sleep, ns.
    pub park: f64,
    /// The system call that wakes a thread, ns.
    pub unpark: f64,
    /// From the wake-up to the first instruction on an idle CPU, ns.
    pub wake: f64,
    /// The system call that settles conditional stores (`membarrier`), while no other thread of the process runs, ns.
    #[serde(default = "usual_settle")]
    pub settle: f64,
    /// What it takes longer where another one runs: to interrupt its CPU and hear that it has been interrupted, ns.
    #[serde(default = "usual_interrupt")]
    pub interrupt: f64,
    /// What it takes longer for each further CPU, ns.
    #[serde(default = "usual_interrupt_each")]
    pub interrupt_each: f64,
    /// How long an interrupt keeps a CPU from its thread, ns.
    #[serde(default = "usual_interrupted")]
    pub interrupted: f64,
    /// A timer fires this much late, ns.
    pub timer_slack: f64,
    /// Whether threads move to idle CPUs.
    pub migrate: bool,
    /// Whether waits that spin end in yields and naps, as those of `Native` do.
    #[serde(default)]
    pub patience: bool,
}

fn usual_jitter() -> f64 {
    0.1
}

fn usual_line() -> u32 {
    64
}

/// `clock_gettime` without a system call, on most machines.
fn usual_clock() -> f64 {
    20.0
}

fn usual_start() -> f64 {
    2000.0
}

/// As measured on two CPUs of an Intel server.
fn usual_settle() -> f64 {
    150.0
}

/// As above.
fn usual_interrupt() -> f64 {
    850.0
}

/// A guess: the kernel writes to a line of each CPU's queue, which is in that CPU's cache.
fn usual_interrupt_each() -> f64 {
    100.0
}

/// The median on two CPUs of an AMD EPYC: 170.
fn usual_interrupted() -> f64 {
    170.0
}

fn one() -> u32 {
    1
}

fn half() -> f64 {
    0.5
}

fn one_f() -> f64 {
    1.0
}

/// Sets `key`, as `latency.remote` or `kind.little.speed`, to `value`.
fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), Invalid> {
    let unknown = |known: Vec<&str>| Invalid::unknown(format!("the machine has no key '{key}'"), key, known);
    let parsed = lockswap_toml::from_str::<toml::Table>(&format!("v = {value}"))
        .or_else(|_| lockswap_toml::from_str(&format!("v = '{value}'")))
        .ok()
        .and_then(|mut table| table.remove("v"))
        .ok_or_else(|| Invalid::new(format!("cannot read the value of {key}={value}"), "write numbers as in 1.5"))?;
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let mut here = table;
    for part in parts {
        let known: Vec<String> = here.keys().cloned().collect();
        let known = || unknown(known.iter().map(String::as_str).collect());
        here = match here.get_mut(part) {
            Some(toml::Value::Table(table)) => table,
            Some(toml::Value::Array(list)) => {
                // Kinds are found by name, which is the next part; they are looked up there.
                return set_in_list(list, key, last, parsed);
            }
            _ => return Err(known()),
        };
    }
    // A key that does not exist is refused by name when the table is read.
    here.insert(last.to_owned(), parsed);
    Ok(())
}

fn set_in_list(list: &mut [toml::Value], key: &str, last: &str, value: toml::Value) -> Result<(), Invalid> {
    let name = key.split('.').nth(1).unwrap_or_default();
    let found = list.iter_mut().filter_map(toml::Value::as_table_mut);
    let found = found.into_iter().find(|entry| entry.get("name").and_then(toml::Value::as_str) == Some(name));
    match found {
        Some(entry) => {
            entry.insert(last.to_owned(), value);
            Ok(())
        }
        None => Err(Invalid::new(format!("{key}: nothing is called '{name}'"), "write kind.NAME.KEY=VALUE")),
    }
}
