//! Lengths of time, sampled with weights.

use lockswap_records::latency::{bounds, bucket};

/// How many events there were and what their lengths add up to, estimated from a sample; and how they are distributed.
///
/// An event that was noted with weight w was noted with probability 1/w. Then the sum of w x over the noted events
/// estimates the sum of x over all events without bias, and, where events are noted independently of each other, the
/// sum of w (w - 1) x² estimates the variance of that: Horvitz and Thompson, "A generalization of sampling without
/// replacement from a finite universe", JASA 47 (1952), for this case in Särndal, Swensson and Wretman, "Model
/// assisted survey sampling", section 3.2 (Poisson sampling).
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// Events that were noted.
    pub noted: u64,
    /// How many there were, estimated.
    pub count: f64,
    /// What their lengths add up to, estimated, ns.
    pub total: f64,
    count_variance: f64,
    total_variance: f64,
    /// The longest that was noted, ns.
    pub max: u64,
    /// By bucket of 1/32 of a power of two, as in the latencies of epochs: numbers of buckets, ascending, with
    /// weights.
    buckets: Vec<(u16, f64)>,
}

/// Times the standard deviation, a 95 % interval reaches so far to each side.
const NORMAL_95: f64 = 1.96;

impl Lengths {
    /// Counts an event.
    pub fn add(&mut self, length: u64, weight: u32) {
        let (x, w) = (length as f64, f64::from(weight));
        self.noted += 1;
        self.count += w;
        self.total += w * x;
        self.count_variance += w * (w - 1.0);
        self.total_variance += w * (w - 1.0) * x * x;
        self.max = self.max.max(length);
        self.add_to_bucket(bucket(length) as u16, w);
    }

    fn add_to_bucket(&mut self, number: u16, weight: f64) {
        match self.buckets.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(index) => self.buckets[index].1 += weight,
            Err(index) => self.buckets.insert(index, (number, weight)),
        }
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        self.noted += other.noted;
        self.count += other.count;
        self.total += other.total;
        self.count_variance += other.count_variance;
        self.total_variance += other.total_variance;
        self.max = self.max.max(other.max);
        other.buckets.iter().for_each(|(number, weight)| self.add_to_bucket(*number, *weight));
    }

    /// How far the number may be off either way, with 95 % confidence.
    pub fn count_error(&self) -> f64 {
        NORMAL_95 * self.count_variance.sqrt()
    }

    /// The same of the sum, ns.
    pub fn total_error(&self) -> f64 {
        NORMAL_95 * self.total_variance.sqrt()
    }

    /// The length that this share of the events do not exceed, ns, within 1.6 %.
    pub fn percentile(&self, share: f64) -> f64 {
        let rank = share * self.count;
        let mut below = 0.0;
        for (number, weight) in &self.buckets {
            let (least, end) = bounds(usize::from(*number));
            if below + weight >= rank {
                let width = (end - least - 1) as f64;
                return (least as f64 + width * ((rank - below) / weight).max(0.0)).min(self.max as f64);
            }
            below += weight;
        }
        self.max as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_weighted_and_percentiles_are_right_within_two_percent() {
        let mut lengths = Lengths::default();
        (1..=10_000).for_each(|length| lengths.add(length, 10));
        assert_eq!((lengths.noted, lengths.count, lengths.max), (10_000, 100_000.0, 10_000));
        assert_eq!(lengths.total, 10.0 * 10_000.0 * 10_001.0 / 2.0);
        for share in [0.1, 0.5, 0.99, 1.0] {
            let (found, exact) = (lengths.percentile(share), share * 10_000.0);
            assert!((found / exact - 1.0).abs() < 0.02, "{share}: {found}");
        }
        let mut both = Lengths::default();
        both.merge(&lengths);
        both.merge(&lengths);
        assert_eq!((both.count, both.percentile(0.5)), (200_000.0, lengths.percentile(0.5)));
        assert_eq!(Lengths::default().percentile(0.5), 0.0);
    }

    #[test]
    fn the_stated_error_covers_the_truth_in_95_of_100_samples() {
        let mut random = fastrand::Rng::with_seed(17);
        let population: Vec<u64> = (0..20_000).map(|_| 100 + random.u64(0..1_000)).collect();
        let truth: f64 = population.iter().map(|length| *length as f64).sum();
        let (mut covered, mut counted) = (0, 0);
        const SAMPLES: u32 = 1_000;
        for _ in 0..SAMPLES {
            let mut sample = Lengths::default();
            for length in &population {
                // Noted more seldom the shorter.
                let weight = if *length < 500 { 64 } else { 16 };
                if random.u32(0..weight) == 0 {
                    sample.add(*length, weight);
                }
            }
            covered += u32::from((sample.total - truth).abs() <= sample.total_error());
            counted += u32::from((sample.count - population.len() as f64).abs() <= sample.count_error());
        }
        for hits in [covered, counted] {
            assert!((920..=975).contains(&hits), "{covered} and {counted} of {SAMPLES}");
        }
    }

    #[test]
    fn what_was_noted_completely_has_no_error() {
        let mut lengths = Lengths::default();
        (0..100).for_each(|length| lengths.add(length, 1));
        assert_eq!((lengths.count_error(), lengths.total_error()), (0.0, 0.0));
    }
}
