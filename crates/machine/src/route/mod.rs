//! The shortest round trip through all CPUs: the travelling salesman's problem, for a lock that visits them in turn.
//!
//! Up to [`EXACT`] CPUs it is solved [exactly](exact), above by local [search].
//!
//! Latencies may differ by direction. The result depends on the matrix alone: the work is counted, not timed.

mod exact;
mod search;

use crate::matrix::Matrix;
use exact::exact;
use search::Search;

/// Up to this many CPUs the tour is the shortest for certain.
const EXACT: usize = 12;

/// A round trip.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The numbers of the CPUs in the order of the trip, beginning with the smallest.
    pub cpus: Vec<usize>,
    /// The latencies from each CPU to the next and from the last to the first, in sum.
    pub round_trip_ns: f64,
}

impl Route {
    /// A short round trip through all CPUs of the matrix.
    pub fn through(matrix: &Matrix) -> Self {
        let side = matrix.side();
        let cost = Cost::new(matrix);
        let tour = if side <= EXACT { exact(&cost) } else { Search::new(&cost).run() };
        Self::along(matrix, tour)
    }

    /// The trip along these rows of the matrix, written in the one way in which it always is.
    fn along(matrix: &Matrix, mut rows: Vec<usize>) -> Self {
        let cpu = |row: &usize| matrix.cpus()[*row];
        if let Some(first) = (0..rows.len()).min_by_key(|at| cpu(&rows[*at])) {
            rows.rotate_left(first);
        }
        let length = |rows: &[usize]| -> f64 {
            let next = rows.iter().cycle().skip(1);
            rows.iter().zip(next).map(|(from, to)| matrix.ns(*from, *to)).sum()
        };
        let mut back = rows.clone();
        if rows.len() > 2 {
            back[1..].reverse();
            let (there_ns, back_ns) = (length(&rows), length(&back));
            let as_short = (there_ns - back_ns).abs() <= 1e-9 * there_ns;
            if (as_short && cpu(&back[1]) < cpu(&rows[1])) || (!as_short && back_ns < there_ns) {
                rows = back;
            }
        }
        Self { cpus: rows.iter().map(cpu).collect(), round_trip_ns: length(&rows) }
    }
}

/// Latencies as whole numbers, so that sums are exact.
struct Cost {
    side: usize,
    cells: Vec<i32>,
    symmetric: bool,
}

impl Cost {
    fn new(matrix: &Matrix) -> Self {
        let side = matrix.side();
        let cells = || (0..side * side).map(|cell| matrix.ns(cell / side, cell % side));
        let scale = f64::from(1 << 30) / cells().fold(f64::MIN_POSITIVE, f64::max);
        let cells: Vec<i32> = cells().map(|ns| (ns * scale) as i32).collect();
        let symmetric = (0..side * side).all(|cell| cells[cell] == cells[cell % side * side + cell / side]);
        Self { side, cells, symmetric }
    }

    #[inline(always)]
    fn of(&self, from: usize, to: usize) -> i64 {
        i64::from(self.cells[from * self.side + to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    pub fn random(side: usize, symmetric: bool, seed: u64) -> Matrix {
        let mut random = Rng::with_seed(seed);
        let cells: Vec<f64> = (0..side * side).map(|_| 10.0 + random.f64() * 100.0).collect();
        let cell = |a: usize, b: usize| cells[if symmetric { a.min(b) * side + a.max(b) } else { a * side + b }];
        Matrix::new((0..side).collect(), cell)
    }

    /// All orders that begin with 0.
    fn shortest(matrix: &Matrix) -> f64 {
        fn go(matrix: &Matrix, path: &mut Vec<usize>, length: f64) -> f64 {
            let last = path[path.len() - 1];
            if path.len() == matrix.side() {
                return length + matrix.ns(last, 0);
            }
            let mut best = f64::INFINITY;
            for next in (1..matrix.side()).filter(|cpu| !path.contains(cpu)).collect::<Vec<_>>() {
                path.push(next);
                best = best.min(go(matrix, path, length + matrix.ns(last, next)));
                path.pop();
            }
            best
        }
        go(matrix, &mut vec![0], 0.0)
    }

    fn is_tour(matrix: &Matrix, route: &Route) {
        let mut sorted = route.cpus.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, matrix.cpus(), "every CPU once");
        let along = Route::along(matrix, route.cpus.clone());
        assert!((along.round_trip_ns - route.round_trip_ns).abs() < 1e-6);
    }

    #[test]
    fn few_cpus_get_the_shortest_trip() {
        for side in 1..=8 {
            for symmetric in [true, false] {
                let matrix = random(side, symmetric, side as u64);
                let route = Route::through(&matrix);
                is_tour(&matrix, &route);
                assert!((route.round_trip_ns - shortest(&matrix)).abs() < 1e-3, "{side}");
            }
        }
    }

    #[test]
    fn the_search_finds_what_dynamic_programming_finds() {
        for seed in 0..20 {
            for symmetric in [true, false] {
                let matrix = random(EXACT, symmetric, seed);
                let cost = Cost::new(&matrix);
                let found = Route::along(&matrix, Search::new(&cost).run());
                let shortest = Route::along(&matrix, exact(&cost));
                assert_eq!(found.round_trip_ns, shortest.round_trip_ns, "{seed} {symmetric}");
            }
        }
    }

    #[test]
    fn a_ring_is_found_and_written_from_the_smallest_cpu() {
        let side = 60usize;
        // CPU 7i mod 60 stands at place i of a ring.
        let place = |cpu: usize| (0..side).find(|i| i * 7 % side == cpu).unwrap();
        let distance = |a: usize, b: usize| {
            let apart = place(a).abs_diff(place(b));
            apart.min(side - apart) as f64
        };
        let route = Route::through(&Matrix::new((0..side).collect(), distance));
        assert_eq!(route.round_trip_ns, 60.0);
        assert_eq!(route.cpus[..4], [0, 7, 14, 21]);
        let odd = Matrix::new(vec![9, 4, 5], |a, b| if (a + 1) % 3 == b { 1.0 } else { 5.0 });
        assert_eq!(Route::through(&odd), Route { cpus: vec![4, 5, 9], round_trip_ns: 3.0 });
    }
}
