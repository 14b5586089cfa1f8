//! Clustering of a stream: each chunk of points gets centres such that the points' distances to theirs, and a price
//! for each centre, are small in sum. Point after point is tried as a further centre; all threads weigh what that
//! would save for their share of the points, one decides, and all follow, with barriers between the steps: local
//! search for facility location, as in PARSEC's `streamcluster`. All numbers are integers, so that the result does not
//! hang on the threads.

use super::barrier::Barrier;
use super::Config;
use crate::random::Random;
use std::sync::{Mutex, RwLock};

/// Coordinates of a point.
const DIMENSIONS: usize = 16;
/// Points of a chunk.
const POINTS: usize = 1200;
/// Chunks of scale 1.
const CHUNKS: usize = 3;
/// Points of a chunk that are tried.
const TRIED: usize = 250;
/// Groups that the points are drawn around.
const GROUPS: u32 = 12;
/// The price of a centre.
const PRICE: i64 = 20_000;

type Point = [i32; DIMENSIONS];

fn distance(a: &Point, b: &Point) -> i64 {
    a.iter().zip(b).map(|(a, b)| i64::from(a - b) * i64::from(a - b)).sum()
}

fn points(chunk: usize) -> Vec<Point> {
    let mut random = Random::seeded(3, chunk as u64);
    let groups: Vec<Point> = (0..GROUPS).map(|_| std::array::from_fn(|_| random.below(100) as i32)).collect();
    let mut point = || {
        let group = groups[random.below(GROUPS) as usize];
        group.map(|part| part + random.below(15) as i32)
    };
    (0..POINTS).map(|_| point()).collect()
}

/// A thread's share of the points.
struct Share {
    first: usize,
    /// Of each point the distance to its centre, and which point that is.
    centres: Vec<(i64, usize)>,
    /// What the points would save that would go over to the point that is tried.
    saved: i64,
    /// For each centre, by its number: what its other points would lose by going over with it.
    lost: Vec<i64>,
}

impl Share {
    fn weigh(&mut self, points: &[Point], tried: usize) {
        self.saved = 0;
        self.lost.fill(0);
        for (point, (own, centre)) in points[self.first..].iter().zip(&self.centres) {
            let other = distance(point, &points[tried]);
            if other < *own {
                self.saved += own - other;
            } else {
                self.lost[*centre] += other - own;
            }
        }
    }

    fn follow(&mut self, points: &[Point], tried: usize, closed: &[bool]) {
        for (point, (own, centre)) in points[self.first..].iter().zip(&mut self.centres) {
            let other = distance(point, &points[tried]);
            if other < *own || closed[*centre] {
                (*own, *centre) = (other, tried);
            }
        }
    }
}

/// What was decided of the point that is tried.
struct Decision {
    is_opened: bool,
    /// Which centres it replaces.
    closed: Vec<bool>,
    is_centre: Vec<bool>,
    /// Distances and prices in sum.
    cost: i64,
}

impl Decision {
    fn decide(&mut self, shares: &[Mutex<Share>], tried: usize) {
        let mut gain = -PRICE;
        let mut lost = vec![0; POINTS];
        for share in shares {
            let share = share.lock().expect("no thread panicked");
            gain += share.saved;
            lost.iter_mut().zip(&share.lost).for_each(|(sum, lost)| *sum += lost);
        }
        // A centre whose other points lose less than its price closes.
        for (centre, lost) in lost.iter().enumerate() {
            self.closed[centre] = self.is_centre[centre] && *lost < PRICE;
            gain += if self.closed[centre] { PRICE - lost } else { 0 };
        }
        self.is_opened = gain > 0 && !self.is_centre[tried];
        if self.is_opened {
            self.cost -= gain;
            self.is_centre.iter_mut().zip(&self.closed).for_each(|(is_centre, closed)| *is_centre &= !closed);
            self.is_centre[tried] = true;
        }
    }
}

/// Clusters a chunk: its cost, and how many centres there are.
fn cluster(chunk: usize, threads: usize) -> (i64, usize) {
    let points = &points(chunk);
    let share = |thread: usize| {
        let (first, end) = (thread * POINTS / threads, (thread + 1) * POINTS / threads);
        let centres = points[first..end].iter().map(|point| (distance(point, &points[0]), 0)).collect();
        Mutex::new(Share { first, centres, saved: 0, lost: vec![0; POINTS] })
    };
    let shares: &Vec<Mutex<Share>> = &(0..threads).map(share).collect();
    let mut is_centre = vec![false; POINTS];
    is_centre[0] = true;
    let cost = PRICE + points.iter().map(|point| distance(point, &points[0])).sum::<i64>();
    let decision = RwLock::new(Decision { is_opened: false, closed: vec![false; POINTS], is_centre, cost });
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (decision, barrier) = (&decision, &barrier);
            scope.spawn(move || {
                for turn in 1..=TRIED {
                    let tried = turn * POINTS / (TRIED + 1);
                    shares[thread].lock().expect("no thread panicked").weigh(points, tried);
                    barrier.wait();
                    if thread == 0 {
                        decision.write().expect("no thread panicked").decide(shares, tried);
                    }
                    barrier.wait();
                    let decision = decision.read().expect("no thread panicked");
                    if decision.is_opened {
                        shares[thread].lock().expect("no thread panicked").follow(points, tried, &decision.closed);
                    }
                }
            });
        }
    });
    let decision = decision.into_inner().expect("no thread panicked");
    let centres = decision.is_centre.iter().filter(|is_centre| **is_centre).count();
    let mut cost = PRICE * centres as i64;
    for share in shares {
        let share = share.lock().expect("no thread panicked");
        for (point, (own, centre)) in points[share.first..].iter().zip(&share.centres) {
            assert!(decision.is_centre[*centre], "a point belongs to what is no centre");
            assert!(*own == distance(point, &points[*centre]), "a point has a wrong distance to its centre");
            cost += own;
        }
    }
    assert!(cost == decision.cost, "the steps lead to cost {}, and the result has {cost}", decision.cost);
    (cost, centres)
}

/// Clusters the stream.
pub fn run(config: Config) -> String {
    let chunks = CHUNKS * config.scale as usize;
    let found = (0..chunks).map(|chunk| cluster(chunk, config.threads));
    let (cost, centres) = found.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    format!("{} points, {centres} centres, cost {cost}", chunks * POINTS)
}
