//! How often the statistic is wrong: on equal locks, with times as they come, and on locks that differ by a known
//! factor. `docs/statistics.md` shows the table that
//! `cargo test --release -p lockswap-study --test statistics -- --nocapture` prints.

use lockswap_study::stats::{fewest_rounds, holm, shift, ERROR_RATE};

/// Simulated comparisons per kind of data: a rate of 5 % is then known to 0.5 % (one standard deviation).
const TIMES: usize = 2000;

/// Five standard deviations of a rate of 5 %.
const TOLERANCE: f64 = 0.025;

/// Times of one run in a round, before a lock's own factor.
struct Noise {
    name: &'static str,
    draw: fn(&mut fastrand::Rng, usize) -> f64,
}

fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (2.0 * std::f64::consts::PI * rng.f64()).cos()
}

fn two_humps(rng: &mut fastrand::Rng) -> f64 {
    if rng.bool() {
        1.0
    } else {
        1.5
    }
}

fn stall(rng: &mut fastrand::Rng) -> f64 {
    if rng.f64() < 0.05 {
        10.0
    } else {
        1.0
    }
}

const NOISES: [Noise; 7] = [
    Noise { name: "normal, 2 %", draw: |rng, _| 1.0 + 0.02 * normal(rng) },
    Noise { name: "log-normal, 20 %", draw: |rng, _| (0.2 * normal(rng)).exp() },
    Noise { name: "heavy-tailed (Pareto, exponent 1)", draw: |rng, _| 1.0 / (1.0 - rng.f64()) },
    Noise { name: "two humps, 1 and 1.5", draw: |rng, _| two_humps(rng) + 0.01 * normal(rng) },
    Noise { name: "drift of 5 % a round", draw: |rng, round| (1.0 + 0.05 * round as f64) * (1.0 + 0.02 * normal(rng)) },
    Noise { name: "one stall of 10x in 20 runs", draw: |rng, _| stall(rng) * (1.0 + 0.02 * normal(rng)) },
    Noise { name: "ties (three values)", draw: |rng, _| 1.0 + 0.1 * rng.usize(..3) as f64 },
];

/// The differences of so many rounds of two locks, one `factor` times as fast.
fn differences(noise: &Noise, rng: &mut fastrand::Rng, rounds: usize, factor: f64) -> Vec<f64> {
    let mut difference = |round| (factor * (noise.draw)(rng, round) / (noise.draw)(rng, round)).ln();
    (0..rounds).map(&mut difference).collect()
}

#[test]
fn equal_locks_look_different_in_at_most_one_comparison_of_twenty() {
    let mut rng = fastrand::Rng::with_seed(11);
    println!("| noise | rounds | equal locks look different | interval holds the true factor |\n|---|---:|---:|---:|");
    for noise in &NOISES {
        for rounds in [6, 10, 30, 100] {
            let (mut wrong, mut covered) = (0, 0);
            for _ in 0..TIMES {
                let equal = shift(&differences(noise, &mut rng, rounds, 1.0)).unwrap();
                wrong += usize::from(equal.p <= ERROR_RATE);
                let faster = shift(&differences(noise, &mut rng, rounds, 1.3)).unwrap();
                let (low, high) = faster.interval.unwrap();
                let truth = 1.3f64.ln();
                covered += usize::from(low - 1e-9 <= truth && truth <= high + 1e-9);
            }
            let [wrong, covered] = [wrong, covered].map(|count| count as f64 / TIMES as f64);
            println!("| {} | {rounds} | {:.1} % | {:.1} % |", noise.name, 100.0 * wrong, 100.0 * covered);
            assert!(wrong <= ERROR_RATE + TOLERANCE, "{}: {wrong} of equal locks differ", noise.name);
            assert!(covered >= 1.0 - ERROR_RATE - TOLERANCE, "{}: {covered} in {rounds} rounds", noise.name);
        }
    }
}

/// Without the correction one of 50 equal locks would look different in nearly every comparison.
#[test]
fn among_many_equal_locks_one_looks_different_in_at_most_one_comparison_of_twenty() {
    let mut rng = fastrand::Rng::with_seed(12);
    let (locks, rounds) = (50, fewest_rounds(50) as usize);
    let (mut corrected, mut raw) = (0, 0);
    let comparisons = 400;
    for _ in 0..comparisons {
        let one = |_| shift(&differences(&NOISES[1], &mut rng, rounds, 1.0)).unwrap().p;
        let p: Vec<f64> = (0..locks).map(one).collect();
        raw += usize::from(p.iter().any(|p| *p <= ERROR_RATE));
        corrected += usize::from(holm(&p).iter().any(|p| *p <= ERROR_RATE));
    }
    println!(
        "50 equal locks, {comparisons} comparisons: false verdicts in {raw} uncorrected, in {corrected} corrected"
    );
    assert!(raw > comparisons / 2 && corrected <= comparisons / 10, "{raw} {corrected}");
}

/// A statistic that never finds anything would pass the tests above.
#[test]
fn differences_of_the_size_of_the_noise_are_found() {
    let mut rng = fastrand::Rng::with_seed(13);
    for (noise, factor) in [(&NOISES[0], 1.04), (&NOISES[1], 1.5)] {
        let is_found = |_: &i32| shift(&differences(noise, &mut rng, 10, factor)).unwrap().p <= ERROR_RATE;
        let found = (0..200).filter(is_found).count();
        assert!(found > 160, "{}: {found} of 200", noise.name);
    }
}

#[test]
fn estimates_do_not_follow_a_few_wild_runs() {
    let mut rng = fastrand::Rng::with_seed(14);
    let mut calm = differences(&NOISES[0], &mut rng, 20, 1.3);
    let before = shift(&calm).unwrap().value;
    (calm[3], calm[7]) = (9.0, -9.0);
    assert!((shift(&calm).unwrap().value - before).abs() < 0.02);
}

/// As many rows as a long study has.
#[test]
fn a_million_rows_are_no_burden() {
    let mut rng = fastrand::Rng::with_seed(15);
    let rows: Vec<Vec<f64>> = (0..50).map(|_| differences(&NOISES[1], &mut rng, 20_000, 1.1)).collect();
    let begin = std::time::Instant::now();
    for row in &rows {
        let found = shift(row).unwrap();
        assert!((found.value - 1.1f64.ln()).abs() < 0.01, "{found:?}");
    }
    println!("50 locks with 20,000 rounds: {:.2} s", begin.elapsed().as_secs_f64());
}
