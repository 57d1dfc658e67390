//! Which keys guards of this process hold: whoever waits behind one need not ask the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::locks::hold::Hold;

#[derive(Debug, Default)]
pub(crate) struct Stays(Mutex<HashMap<Key, Held>>);

/// The guards of one key; more than one only when they share an owner, and so a grant.
#[derive(Debug)]
struct Held {
    status: Status,
    hold: Arc<Hold>,
    guards: usize,
    /// Dropped with the entry, which is how those who wait for its end are told.
    sign: Option<watch::Sender<()>>,
}

impl Stays {
    /// One more guard, for this lease.
    pub(crate) fn begin(
        self: &Arc<Self>,
        lease: &Lease,
        hold: &Arc<Hold>,
        clock: &dyn Clock,
    ) -> Stay {
        let key = &lease.key;
        let mut all = self.lock();
        let new = || Held { status: lease.status(), hold: Arc::clone(hold), guards: 0, sign: None };
        let held = all.entry(key.clone()).or_insert_with(new);
        if held.hold.remaining(clock).is_zero() {
            *held = new();
        }
        held.guards += 1;
        Stay { stays: Arc::clone(self), key: key.clone(), hold: Arc::clone(&held.hold) }
    }

    /// `None` when no guard of this process believes that it holds the key.
    pub(crate) fn of(&self, key: &Key, clock: &dyn Clock) -> Option<Departure> {
        let mut all = self.lock();
        let held = all.get_mut(key).filter(|held| !held.hold.remaining(clock).is_zero())?;
        let sign = held.sign.get_or_insert_with(|| watch::Sender::new(()));
        let sign = sign.subscribe();
        Some(Departure { status: held.status.clone(), hold: Arc::clone(&held.hold), sign })
    }

    /// The key was taken from its guards, who do not know of it yet.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard holds the key for as long as this lives.
#[derive(Debug)]
pub(crate) struct Stay {
    stays: Arc<Stays>,
    key: Key,
    hold: Arc<Hold>,
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut all = self.stays.lock();
        // Another entry is that of a later grant.
        let Some(held) = all.get_mut(&self.key).filter(|h| Arc::ptr_eq(&h.hold, &self.hold)) else {
            return;
        };
        held.guards -= 1;
        if held.guards == 0 {
            all.remove(&self.key);
        }
    }
}

/// The end of the guards that hold a key now.
#[derive(Debug)]
pub(crate) struct Departure {
    status: Status,
    hold: Arc<Hold>,
    sign: watch::Receiver<()>,
}

impl Departure {
    /// What they hold, as others may see it.
    pub(crate) fn status(&self, clock: &dyn Clock) -> Status {
        Status { remaining: self.hold.remaining(clock), ..self.status.clone() }
    }

    /// Returns when they are gone, or no longer believe.
    pub(crate) async fn done(&mut self, clock: &dyn Clock) {
        tokio::select! {
            _ = self.sign.changed() => {}
            _ = self.hold.ending(clock, Duration::ZERO) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::clock::{Moment, SystemClock};
    use crate::fence::Fence;
    use crate::holder::Holder;
    use crate::owner::Owner;
    use crate::planted::Planted;

    fn lease() -> Lease {
        Lease {
            key: Key::new("k").unwrap(),
            owner: Owner::parse("o").unwrap(),
            fence: Fence::new(7),
            ttl: Duration::from_secs(30),
            holder: Holder::new("host/1").unwrap(),
            granted_at: SystemTime::UNIX_EPOCH,
            remaining: Duration::from_secs(30),
        }
    }

    fn hold() -> Arc<Hold> {
        let until = Moment::from_nanos(u64::MAX);
        Arc::new(Hold::new(until, None, Planted::default()))
    }

    #[tokio::test]
    async fn the_last_guard_to_go_is_told() {
        let stays = Arc::new(Stays::default());
        let key = Key::new("k").unwrap();
        assert!(stays.of(&key, &SystemClock).is_none());
        let [one, two] = [(); 2].map(|()| stays.begin(&lease(), &hold(), &SystemClock));
        let mut departure = stays.of(&key, &SystemClock).unwrap();
        drop(one);
        assert!(stays.of(&key, &SystemClock).is_some());
        drop(two);
        departure.done(&SystemClock).await;
        assert!(stays.of(&key, &SystemClock).is_none());
    }

    #[tokio::test]
    async fn a_guard_whose_key_was_taken_does_not_end_the_next_ones_stay() {
        let stays = Arc::new(Stays::default());
        let key = Key::new("k").unwrap();
        let evicted = stays.begin(&lease(), &hold(), &SystemClock);
        let mut departure = stays.of(&key, &SystemClock).unwrap();
        stays.forget(&key);
        departure.done(&SystemClock).await;
        let _next = stays.begin(&lease(), &hold(), &SystemClock);
        drop(evicted);
        assert!(stays.of(&key, &SystemClock).is_some());
    }
}
