//! Which keys guards of this process hold: whoever waits behind one need not ask the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::key::Key;

#[derive(Debug, Default)]
pub(crate) struct Stays(Mutex<HashMap<Key, Held>>);

#[derive(Debug, Default)]
struct Held {
    guards: usize,
    /// Dropped with the last guard, which is how those who wait for it are told.
    sign: Option<watch::Sender<()>>,
}

impl Stays {
    /// One more guard of the key.
    pub(crate) fn begin(self: &Arc<Self>, key: &Key) -> Stay {
        self.lock().entry(key.clone()).or_default().guards += 1;
        Stay { stays: Arc::clone(self), key: key.clone() }
    }

    /// `None` when no guard of this process holds the key.
    pub(crate) fn of(&self, key: &Key) -> Option<Departure> {
        let mut held = self.lock();
        let sign = &mut held.get_mut(key)?.sign;
        Some(Departure(sign.get_or_insert_with(|| watch::Sender::new(())).subscribe()))
    }

    /// The key was taken from its guards, who do not know of it yet. A guard that goes later may
    /// end another's stay by that, which only makes a waiter ask the store.
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
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut all = self.stays.lock();
        let Some(held) = all.get_mut(&self.key) else { return };
        held.guards -= 1;
        if held.guards == 0 {
            all.remove(&self.key);
        }
    }
}

/// The end of the guards that hold a key now.
#[derive(Debug)]
pub(crate) struct Departure(watch::Receiver<()>);

impl Departure {
    /// Returns when they are gone.
    pub(crate) async fn done(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_guard_to_go_is_told() {
        let stays = Arc::new(Stays::default());
        let key = Key::new("k").unwrap();
        assert!(stays.of(&key).is_none());
        let (one, two) = (stays.begin(&key), stays.begin(&key));
        let mut departure = stays.of(&key).unwrap();
        drop(one);
        assert!(stays.of(&key).is_some());
        drop(two);
        departure.done().await;
        assert!(stays.of(&key).is_none());
    }
}
