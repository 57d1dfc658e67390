//! Waking those who wait for a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::key::Key;

/// A hint that a key has changed since the watch was made or last awaited.
#[derive(Debug)]
pub struct Watch(Option<Subscription>);

#[derive(Debug)]
struct Subscription {
    // Taken by the drop, under the hub's lock: whoever counts the others must not count this one.
    changes: Option<watch::Receiver<()>>,
    hub: Arc<Topics>,
    key: Key,
}

impl Watch {
    /// A watch that never wakes, for a store that cannot.
    #[must_use]
    pub fn never() -> Self {
        Self(None)
    }

    /// Waits for the next change. Level-triggered: a change between two calls is not missed.
    pub async fn changed(&mut self) {
        if let Some(Subscription { changes: Some(changes), .. }) = &mut self.0
            && changes.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut topics = self.hub.lock();
        self.changes = None;
        if topics.get(&self.key).is_some_and(|topic| topic.receiver_count() == 0) {
            topics.remove(&self.key);
        }
    }
}

#[derive(Debug, Default)]
struct Topics(Mutex<HashMap<Key, watch::Sender<()>>>);

impl Topics {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watches of one store in this process, by key.
#[derive(Clone, Debug, Default)]
pub struct WatchHub(Arc<Topics>);

impl WatchHub {
    /// A watch on changes of `key` from now on.
    #[must_use]
    pub fn watch(&self, key: &Key) -> Watch {
        let mut topics = self.0.lock();
        let sender = topics.entry(key.clone()).or_insert_with(|| watch::Sender::new(()));
        let changes = Some(sender.subscribe());
        Watch(Some(Subscription { changes, hub: Arc::clone(&self.0), key: key.clone() }))
    }

    /// Wakes the watches of `key`.
    pub fn ring(&self, key: &Key) {
        if let Some(sender) = self.0.lock().get(key) {
            sender.send_replace(());
        }
    }

    /// Wakes every watch, when the store cannot tell what changed.
    pub fn ring_all(&self) {
        for sender in self.0.lock().values() {
            sender.send_replace(());
        }
    }

    /// The keys that someone watches.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.0.lock().keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_before_the_await_is_not_missed() {
        let hub = WatchHub::default();
        let key = Key::new("k").unwrap();
        let mut watch = hub.watch(&key);
        hub.ring(&key);
        watch.changed().await;
    }

    #[test]
    fn the_last_watch_takes_its_topic_along() {
        let hub = WatchHub::default();
        let key = Key::new("k").unwrap();
        let (one, two) = (hub.watch(&key), hub.watch(&key));
        drop(one);
        assert_eq!(hub.keys(), [key]);
        drop(two);
        assert!(hub.keys().is_empty());
    }
}
