//! What a guard believes of its lease, shared with whoever keeps it alive.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::locks::keep::LostReason;
use crate::planted::{Bug, Planted};

#[derive(Debug)]
pub(crate) struct Hold {
    belief_until: AtomicU64,
    ends_at: Option<Moment>,
    lost: OnceLock<LostReason>,
    given_up: AtomicBool,
    changed: Notify,
    planted: Planted,
}

impl Hold {
    pub(crate) fn new(belief_until: Moment, ends_at: Option<Moment>, planted: Planted) -> Self {
        Self {
            belief_until: AtomicU64::new(belief_until.as_nanos()),
            ends_at,
            lost: OnceLock::new(),
            given_up: AtomicBool::new(false),
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

    /// The guard gives its lease back or hands it on: what else looks at it believes no more.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Why belief has ended, or is about to.
    pub(crate) fn reason(&self) -> LostReason {
        let over = self.ends_at.is_some_and(|end| self.belief_until() >= end);
        let by_time = if over { LostReason::MaxHold } else { LostReason::Expired };
        self.lost.get().copied().unwrap_or(by_time)
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
            let left = self.remaining(clock);
            if left <= ahead {
                return self.reason();
            }
            // A timer of its own: the keeper may be gone with its runtime.
            let alarm = clock.sleep_until(clock.now() + (left - ahead));
            tokio::select! { biased; () = changed => {}, () = alarm => {} }
        }
    }
}
