//! No two writes of one object sooner than the store allows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Moment};

/// When each object was last written by this process.
///
/// Google Cloud Storage takes one write per second and object; what comes sooner is refused with
/// 429. Waiting here is what the caller would do anyway.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    clock: Arc<dyn Clock>,
    written: Mutex<HashMap<String, Moment>>,
}

/// From how many names on the old ones are dropped.
const NAMES: usize = 1024;

impl Pace {
    pub(super) fn new(interval: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { interval, clock, written: Mutex::default() }
    }

    /// Waits until the object may be written again.
    pub(super) async fn turn(&self, name: &str) {
        let written = self.written().get(name).copied();
        if let Some(written) = written {
            self.clock.sleep_until(written + self.interval).await;
        }
    }

    /// Writes nothing for so long.
    pub(super) async fn rest(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    /// The object was written, or may have been.
    pub(super) fn wrote(&self, name: &str) {
        if self.interval.is_zero() {
            return;
        }
        let now = self.clock.now();
        let mut written = self.written();
        if written.len() >= NAMES {
            written.retain(|_, at| *at + self.interval > now);
        }
        written.insert(name.to_owned(), now);
    }

    fn written(&self) -> MutexGuard<'_, HashMap<String, Moment>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_second_write_waits_and_another_object_does_not() {
        let interval = Duration::from_millis(60);
        let pace = Pace::new(interval, Arc::new(SystemClock));
        let start = SystemClock.now();
        for name in ["a", "b"] {
            pace.turn(name).await;
            pace.wrote(name);
        }
        assert!(SystemClock.now().since(start) < interval);
        pace.turn("a").await;
        assert!(SystemClock.now().since(start) >= interval);
    }

    #[test]
    fn nothing_is_remembered_for_long_or_for_nothing() {
        let pace = Pace::new(Duration::from_nanos(1), Arc::new(SystemClock));
        (0..NAMES * 3).for_each(|n| pace.wrote(&n.to_string()));
        assert!(pace.written().len() <= NAMES + 1);
        let free = Pace::new(Duration::ZERO, Arc::new(SystemClock));
        free.wrote("a");
        assert!(free.written().is_empty());
    }
}
