//! Locks for your own tests, which can be lost, paused and skewed on command.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! use tenure_testkit::fake::Fake;
//!
//! let fake = Fake::new();
//! let locks = fake.locks().await?;
//! let guard = locks.lock("report").acquire().await?;
//! fake.lose_now("report").await?;
//! guard.lost().await; // what your code must react to
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tenure::clock::{Clock, Moment, Sleep, SystemClock};
use tenure::stores::memory::MemoryStore;
use tenure::{Locks, Operation, Result};
use tokio::sync::watch;

use crate::faults::{Fault, Faults};

/// A store in this process whose faults are at your command.
#[derive(Clone, Debug)]
pub struct Fake {
    faults: Faults,
    holder_clock: Arc<SkewedClock>,
}

impl Default for Fake {
    fn default() -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        Self { faults: Faults::new(store), holder_clock: Arc::default() }
    }
}

impl Fake {
    /// An empty fake.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks on this fake: every call is like another process on the same store, and all of them
    /// are subject to the same commands.
    ///
    /// # Errors
    /// As [`tenure::LocksBuilder::open_on`].
    pub async fn locks(&self) -> Result<Locks> {
        let clock = Arc::clone(&self.holder_clock) as Arc<dyn Clock>;
        Locks::builder()
            .default_ttl(Duration::from_secs(2))
            .clock(clock)
            .open_on(Arc::new(self.faults.clone()))
            .await
    }

    /// Takes `key` from whoever holds it, as an operator or an expiry would. Its guard is told at
    /// its next renewal, within a third of its ttl.
    ///
    /// # Errors
    /// `NotFound` when no one holds it.
    pub async fn lose_now(&self, key: &str) -> Result<()> {
        match self.locks().await?.force_release(key, "lost on command").await? {
            Some(_) => Ok(()),
            None => Err(tenure::Error::new(tenure::ErrorKind::NotFound, "no one holds it")),
        }
    }

    /// Renewals fail from now on, as when the network is cut: guards are lost when their time is
    /// over, and told before.
    pub fn pause_renewal(&self) {
        self.faults.always(Operation::Renew, Fault::ErrorBefore);
    }

    /// Renewals work again.
    pub fn resume_renewal(&self) {
        self.faults.heal();
    }

    /// Moves the holders' clock ahead at once, as if the process or machine had slept that long:
    /// guards find out that their time is over. The store's clock stays.
    pub fn skew(&self, ahead: Duration) {
        self.holder_clock.skew(ahead);
    }

    /// The faults behind the commands, for anything else.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

/// The machine's clock, ahead by as much as it was told.
#[derive(Debug, Default)]
struct SkewedClock(watch::Sender<Duration>);

impl SkewedClock {
    fn skew(&self, ahead: Duration) {
        self.0.send_modify(|sum| *sum = sum.saturating_add(ahead));
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Moment {
        SystemClock.now() + *self.0.borrow()
    }

    fn wall(&self) -> SystemTime {
        SystemClock.wall()
    }

    fn sleep_until(&self, at: Moment) -> Sleep {
        let mut ahead = self.0.subscribe();
        Box::pin(async move {
            loop {
                let by = *ahead.borrow_and_update();
                tokio::select! {
                    biased;
                    () = SystemClock.sleep_until(at.before(by)) => return,
                    skewed = ahead.changed() => if skewed.is_err() {
                        return SystemClock.sleep_until(at.before(by)).await;
                    },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::LostReason;

    #[tokio::test]
    async fn a_lock_is_lost_on_command() {
        let fake = Fake::new();
        let guard = fake.locks().await.unwrap().lock("k").acquire().await.unwrap();
        fake.lose_now("k").await.unwrap();
        assert_eq!(guard.lost().await, LostReason::Refused);
        assert!(fake.lose_now("k").await.is_err());
    }

    #[tokio::test]
    async fn a_skew_ends_belief_at_once() {
        let fake = Fake::new();
        let guard = fake.locks().await.unwrap().lock("k").acquire().await.unwrap();
        fake.skew(Duration::from_secs(3));
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, LostReason::Expired);
    }

    #[tokio::test]
    async fn without_renewals_the_guard_is_lost_in_time() {
        let fake = Fake::new();
        let locks = fake.locks().await.unwrap();
        let ttl = Duration::from_millis(300);
        let guard = locks.lock("k").ttl(ttl).acquire().await.unwrap();
        fake.pause_renewal();
        assert_eq!(guard.lost().await, LostReason::Expired);
        fake.resume_renewal();
        let again = locks.lock("k").ttl(ttl).acquire().await.unwrap();
        assert!(again.fence() > guard.fence());
    }
}
