//! Measured times, and what they come to.

use std::time::Duration;

use serde_json::{Value, json};

/// How long each of many operations took, and how long all of them together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// In nanoseconds, in order.
    times: Vec<u64>,
    elapsed: Duration,
}

/// How many took from `from` to less than `to` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) count: usize,
}

impl Sample {
    pub(super) fn new(mut times: Vec<u64>, elapsed: Duration) -> Self {
        times.sort_unstable();
        Self { times, elapsed }
    }

    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    pub(super) fn per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.times.len() as f64 / seconds } else { 0.0 }
    }

    /// The time that so many thousandths of all took at the most, in nanoseconds.
    pub(super) fn permille(&self, share: usize) -> u64 {
        let rank = (self.times.len() * share).div_ceil(1000).max(1);
        self.times.get(rank - 1).copied().unwrap_or(0)
    }

    pub(super) fn max(&self) -> u64 {
        self.times.last().copied().unwrap_or(0)
    }

    /// How many of `other`'s medians its own is.
    pub(super) fn ratio(&self, other: &Self) -> f64 {
        self.permille(500) as f64 / other.permille(500).max(1) as f64
    }

    /// Each twice as wide as the one before, without a gap, from the first that has any to the
    /// last.
    pub(super) fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for time in &self.times {
            let power = time.max(&1).ilog2();
            loop {
                match buckets.last_mut() {
                    Some(bucket) if *time < bucket.to => {
                        bucket.count += 1;
                        break;
                    }
                    Some(Bucket { to, .. }) => {
                        let from = *to;
                        buckets.push(Bucket { from, to: from.saturating_mul(2), count: 0 });
                    }
                    None => {
                        let from = 1 << power;
                        buckets.push(Bucket { from, to: from * 2, count: 0 });
                    }
                }
            }
        }
        buckets
    }

    pub(super) fn json(&self) -> Value {
        let us = |nanos: u64| nanos as f64 / 1000.0;
        let bucket = |Bucket { from, to, count }| {
            let (from_us, to_us) = (us(from), us(to));
            json!({ "from_us": from_us, "to_us": to_us, "count": count })
        };
        json!({
            "count": self.count(),
            "per_second": self.per_second(),
            "p50_us": us(self.permille(500)),
            "p90_us": us(self.permille(900)),
            "p99_us": us(self.permille(990)),
            "max_us": us(self.max()),
            "buckets": self.buckets().into_iter().map(bucket).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(times: impl IntoIterator<Item = u64>) -> Sample {
        Sample::new(times.into_iter().collect(), Duration::from_secs(2))
    }

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let sample = sample((1..=100).rev());
        assert_eq!(sample.permille(500), 50);
        assert_eq!(sample.permille(900), 90);
        assert_eq!(sample.permille(990), 99);
        assert_eq!(sample.max(), 100);
        assert!((sample.per_second() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_and_one_have_percentiles_too() {
        assert_eq!(sample([]).permille(500), 0);
        assert_eq!(sample([7]).permille(1), 7);
        assert_eq!(sample([7]).permille(990), 7);
        assert!(sample([7]).ratio(&sample([])) > 0.0);
    }

    #[test]
    fn buckets_double_and_hold_everything() {
        let buckets = sample([0, 1, 3, 17]).buckets();
        let ends: Vec<_> = buckets.iter().map(|b| (b.from, b.to, b.count)).collect();
        assert_eq!(ends, [(1, 2, 2), (2, 4, 1), (4, 8, 0), (8, 16, 0), (16, 32, 1)]);
        assert_eq!(sample([]).buckets(), []);
        assert_eq!(sample([u64::MAX / 4]).buckets().len(), 1);
    }
}
