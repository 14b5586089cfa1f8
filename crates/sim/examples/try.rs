use lockswap_sim::{Job, Machine, Workload};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let sets: Vec<(String, String)> = a[6..]
        .iter()
        .map(|s| {
            let (k, v) = s.split_once('=').unwrap();
            (k.to_owned(), v.to_owned())
        })
        .collect();
    let is_machine = |k: &str| {
        ["latency", "core", "fabric", "scheduler", "kind", "topology"].contains(&k.split('.').next().unwrap())
    };
    let m_sets: Vec<_> = sets.iter().filter(|(k, _)| is_machine(k)).cloned().collect();
    let m = Machine::built_in(&a[1], &m_sets).unwrap_or_else(|e| panic!("{e}: {}", e.remedy));
    for lock in a[3].split(',') {
        for t in a[4].split(',') {
            let mut w =
                Workload::named(&a[2]).unwrap().with(t.parse().unwrap(), a[5].parse::<u64>().unwrap() * 1_000_000);
            for (k, v) in sets.iter().filter(|(k, _)| !is_machine(k)) {
                w.set(k, v).unwrap_or_else(|e| panic!("{e}: {}", e.remedy));
            }
            match (Job { machine: &m, workload: w, lock, seed: 1 }).run() {
                Ok(o) => {
                    let h = o.report.handoffs.as_ref();
                    println!("{lock} {t}: {:.3} ops/us  ff {:.3} cv {:.2} node {:.2} handover {:.0} pass {:.0} waiters {:.1} memops {} miss {} host {:.3}s  {:.1} Mops/s", o.report.throughput/1e6, o.report.fairness_factor, o.report.cv, h.map_or(0.0,|h|h.within_node), h.and_then(|h|h.handover_ns).unwrap_or(0.0), h.and_then(|h|h.contention_ns).unwrap_or(0.0), o.report.waiters.unwrap_or(0.0), o.totals.operations, o.totals.misses, o.cpu_time as f64/1e9, o.totals.operations as f64 / o.cpu_time as f64*1e3);
                    if std::env::var("LAT").is_ok() {
                        for (k, d) in &o.report.latency {
                            println!("   {k}: p50 {} p99 {} max {}", d.p50_ns, d.p99_ns, d.max_ns);
                        }
                    }
                }
                Err(e) => println!("{lock} {t}: {e:?}"),
            }
        }
    }
}
