use lockswap_sim::{body, Machine};
macro_rules! go { ($($id:literal => $t:path),*) => { |id: &str, m: &Machine, c: &body::Config| match id { $($id => { use $t as L; body::run::<L<lockswap_sim::Sim>>(m, c) })* _ => panic!() } } }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = Machine::built_in(&a[1], &[]).unwrap_or_else(|e| panic!("{e}: {}", e.remedy));
    let f = go!("mcs" => lockswap_locks::queue::mcs::McsSpin, "ticket" => lockswap_locks::flat::ticket::Ticket, "ttas" => lockswap_locks::flat::ttas::Ttas, "spinlock" => lockswap_locks::flat::ttas::Spinlock, "cna" => lockswap_locks::numa::cna::Cna, "k42" => lockswap_locks::queue::k42::K42, "shfl"=>lockswap_locks::shuffle::shfllock::ShflLock,
      "ron"=>lockswap_locks::routed::ron::Ron, "hmcs"=>lockswap_locks::numa::hmcs::Hmcs, "cbomcs"=>lockswap_locks::numa::cohort::CBoMcsSpin, "futex"=>lockswap_locks::flat::futex::Futex, "mcsstp"=>lockswap_locks::queue::mcs::McsStp);
    for lock in a[2].split(',') {
        for t in a[3].split(',') {
            let c = body::Config {
                threads: t.parse().unwrap(),
                duration: 20_000_000,
                seed: 1,
                lines: a[4].parse().unwrap(),
                outside: a[5].parse().unwrap(),
            };
            match f(lock, &m, &c) {
                Ok(o) => {
                    let mut p = o.per_thread.clone();
                    p.sort();
                    p.reverse();
                    let s: u64 = p.iter().sum();
                    let h: u64 = p[..p.len().div_ceil(2)].iter().sum();
                    println!(
                        "{lock} {t}: {:.3} ops/us  ff {:.3}  memops {} misses {} host {:.3}s  {:.1} Mops/s",
                        s as f64 / 20_000.0,
                        h as f64 / s as f64,
                        o.totals.operations,
                        o.totals.misses,
                        o.elapsed as f64 / 1e9,
                        o.totals.operations as f64 / o.elapsed as f64 * 1e3
                    );
                }
                Err(e) => println!("{lock} {t}: {e:?}"),
            }
        }
    }
}
