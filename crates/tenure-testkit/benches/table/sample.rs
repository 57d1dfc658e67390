//! Taking measurements: how long, how often, and which one counts.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::clock::{Clock, Moment, SystemClock};

/// How far the high and the low tenth of a reference may be apart.
const SPREAD_MAX: f64 = 2.0;

/// The middle one, or the one at another share of the sorted values.
pub(crate) fn quantile<T: Copy + PartialOrd>(values: &mut [T], share: f64) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

pub(crate) fn median<T: Copy + PartialOrd>(values: &mut [T]) -> Option<T> {
    quantile(values, 0.5)
}

/// Two kinds of measurement that took turns, so that a slow spell of the machine hits both.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<[f64; 2]>);

impl Pairs {
    pub(crate) fn push(&mut self, measured: f64, reference: f64) {
        self.0.push([measured, reference]);
    }

    pub(crate) fn measured(&self) -> Result<f64> {
        self.middle(|[measured, _]| measured)
    }

    pub(crate) fn reference(&self) -> Result<f64> {
        self.middle(|[_, reference]| reference)
    }

    /// The median of the pairs' ratios, which is steadier than the ratio of the medians.
    pub(crate) fn ratio(&self) -> Result<f64> {
        self.middle(|[measured, reference]| measured / reference)
    }

    /// Whether the reference went up and down so much that no ratio to it says anything.
    pub(crate) fn is_unsteady(&self) -> bool {
        is_unsteady(self.0.iter().map(|[_, reference]| *reference))
    }

    fn middle(&self, of: impl Fn([f64; 2]) -> f64) -> Result<f64> {
        let mut values: Vec<f64> = self.0.iter().copied().map(of).collect();
        median(&mut values).context("nothing was measured")
    }
}

/// Whether these went up and down so much that none of them says anything.
pub(crate) fn is_unsteady(values: impl Iterator<Item = f64>) -> bool {
    let mut values: Vec<f64> = values.collect();
    match (quantile(&mut values, 0.1), quantile(&mut values, 0.9)) {
        (Some(low), Some(high)) => high > low * SPREAD_MAX,
        _ => true,
    }
}

pub(crate) fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// How long `work` took.
pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = SystemClock.now();
    let value = work()?;
    Ok((value, SystemClock.now().since(start)))
}

pub(crate) fn elapsed_since(start: Moment) -> Duration {
    SystemClock.now().since(start)
}

pub(crate) async fn pause(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

/// Runs on one thread, as a program with `flavor = "current_thread"` does.
pub(crate) fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Runs on a worker per core, as a program with `#[tokio::main]` does.
pub(crate) fn on_all_cores<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// A key of 34 bytes, anywhere in the order of keys: neighbours in number are none in the store.
pub(crate) fn key(number: u64) -> String {
    // An odd factor makes this a permutation of the 64-bit numbers.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("bench:row:{spread:016x}{number:08x}")
}
