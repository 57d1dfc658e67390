//! What a guard believes of its lease, shared with whoever keeps it alive.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::locks::keep::LostReason;
use crate::planted::{Bug, Planted};

#[derive(Debug)]
pub(crate) struct Hold {
    belief_until: AtomicU64,
    lost: OnceLock<LostReason>,
    changed: Notify,
    planted: Planted,
}

impl Hold {
    pub(crate) fn new(belief_until: Moment, planted: Planted) -> Self {
        Self {
            belief_until: AtomicU64::new(belief_until.as_nanos()),
            lost: OnceLock::new(),
            changed: Notify::new(),
            planted,
        }
    }

    pub(crate) fn belief_until(&self) -> Moment {
        Moment::from_nanos(self.belief_until.load(Ordering::Acquire))
    }

    pub(crate) fn believe_until(&self, until: Moment) {
        self.belief_until.store(until.as_nanos(), Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        if self.lost.set(reason).is_ok() {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn reason(&self) -> Option<LostReason> {
        self.lost.get().copied()
    }

    /// What is left to believe. It reads the clock every time: a flag that a timer sets is still
    /// up when a paused process goes on.
    pub(crate) fn remaining(&self, clock: &dyn Clock) -> Duration {
        if self.lost.get().is_some() {
            return Duration::ZERO;
        }
        let left = self.belief_until().since(clock.now());
        if left.is_zero() && self.planted.has(Bug::CachedBelief) {
            return Duration::from_millis(1);
        }
        left
    }

    /// Returns when the lease is lost, or no more than `ahead` is left of it.
    pub(crate) async fn ending(&self, clock: &dyn Clock, ahead: Duration) -> LostReason {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            let left = self.remaining(clock);
            if left <= ahead {
                return LostReason::Expired;
            }
            if ahead.is_zero() {
                // The keeper tells when belief ends; a timer per waiter would tell no more.
                changed.await;
            } else {
                let alarm = clock.sleep_until(self.belief_until().before(ahead));
                tokio::select! { biased; () = changed => {}, () = alarm => {} }
            }
        }
    }
}
