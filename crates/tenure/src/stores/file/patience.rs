//! Waiting for another process's lock on the file: short naps that grow, up to a limit.

use std::time::Duration;

use crate::clock::{Clock, Moment, SystemClock};
use crate::random::{SystemRandom, fraction};

const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(5);

/// For so long the lock may come at any moment: a transaction takes a millisecond or two.
const ALERT: Duration = Duration::from_millis(20);
const NAP_MAX_ALERT: Duration = Duration::from_micros(200);

/// How long a batch waits for the write lock before it is refused.
pub(super) const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// How long an open goes on trying while other processes create or recover the file.
pub(super) const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// A wait that ends.
#[derive(Debug)]
pub(super) struct Patience {
    start: Moment,
    end: Moment,
    nap: Duration,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        let start = SystemClock.now();
        Self { start, end: start + limit, nap: NAP_MIN }
    }

    /// Naps, longer each time; false once the limit has passed.
    // This blocks: it runs only on the store's own threads, never on the runtime's.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn nap(&mut self) -> bool {
        let now = SystemClock.now();
        let left = self.end.since(now);
        if left.is_zero() {
            return false;
        }
        let varied = self.nap.mul_f64(0.5 + fraction(&SystemRandom));
        std::thread::sleep(varied.min(left));
        let alert = now.since(self.start) < ALERT;
        self.nap = (self.nap * 2).min(if alert { NAP_MAX_ALERT } else { NAP_MAX });
        true
    }
}

/// A busy handler for SQLite that waits up to [`BUSY_LIMIT`] for each lock.
pub(super) fn busy_handler() -> impl FnMut(i32) -> bool + Send + 'static {
    let mut patience = Patience::new(BUSY_LIMIT);
    move |calls_before| {
        if calls_before == 0 {
            patience = Patience::new(BUSY_LIMIT);
        }
        patience.nap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_and_not_early() {
        let limit = Duration::from_millis(20);
        let start = SystemClock.now();
        let mut patience = Patience::new(limit);
        while patience.nap() {}
        assert!(SystemClock.now().since(start) >= limit);
    }
}
