//! Waking waiters: one consumer for each key that someone here waits for.
//!
//! A plain subscription to the key's subject would hear of a release *before* the stream has stored
//! it: whoever looked then would find the lease still there, and wait on. Only a consumer tells
//! what is stored, and it tells of leases that the server ended, too.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use super::bucket::Bucket;
use super::error::{refused, silent};
use super::link::{Link, Signal};
use super::register::frees;
use super::subject;
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::Timing;
use crate::watch::{Watch, WatchHub};

/// How often consumers that nobody needs are deleted and the others are confirmed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// When the server deletes the consumers of a process that is gone.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// The watches of one store.
#[derive(Debug)]
pub(super) struct Bells(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    hub: WatchHub,
    stream: String,
    subjects: String,
    /// Who times leases wants to see renewals, too.
    heeds_renewals: bool,
    consumers: Mutex<HashMap<Key, Consumer>>,
    named: AtomicU64,
    hearing: OnceCell<Hearing>,
}

/// Where consumers deliver to, and the task that listens there.
#[derive(Debug)]
struct Hearing {
    inbox: String,
    task: AbortHandle,
}

#[derive(Clone, Debug)]
struct Consumer {
    name: String,
    /// When the server made it: another time is another consumer. `None`: it may not have yet.
    created: Option<String>,
}

#[derive(Deserialize)]
struct Made {
    created: String,
}

impl Drop for Bells {
    fn drop(&mut self) {
        if let Some(hearing) = self.0.hearing.get() {
            hearing.task.abort();
        }
    }
}

impl Bells {
    pub(super) fn new(link: Arc<Link>, bucket: &Bucket, subjects: &str) -> Self {
        Self(Arc::new(Shared {
            link,
            hub: WatchHub::default(),
            stream: bucket.stream.clone(),
            subjects: subjects.to_owned(),
            heeds_renewals: bucket.timing == Timing::Observer,
            consumers: Mutex::default(),
            named: AtomicU64::new(0),
            hearing: OnceCell::new(),
        }))
    }

    /// A watch that is active at the server when this returns.
    pub(super) async fn watch(&self, key: &Key) -> Result<Watch> {
        let shared = &self.0;
        // In this order: the sweep looks at the hub while it holds the consumers.
        let watch = shared.hub.watch(key);
        let inbox = &shared.hearing().await?.inbox;
        let consumer = shared.named(key, inbox);
        if consumer.created.is_none() {
            shared.confirm(key, &consumer, inbox).await?;
        }
        Ok(watch)
    }
}

impl Shared {
    fn consumers(&self) -> MutexGuard<'_, HashMap<Key, Consumer>> {
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer of the key. Its name is taken before it is made, so that the sweep finds it
    /// even if whoever makes it gives up.
    fn named(&self, key: &Key, inbox: &str) -> Consumer {
        let new = || {
            let session = inbox.rsplit('.').next().unwrap_or_default();
            let number = self.named.fetch_add(1, Ordering::Relaxed);
            Consumer { name: format!("tenure-{session}-{number}"), created: None }
        };
        self.consumers().entry(key.clone()).or_insert_with(new).clone()
    }

    async fn hearing(self: &Arc<Self>) -> Result<&Hearing> {
        let start = || async {
            // Signals first: a break after the subscription must not be missed.
            let signals = self.link.signals();
            let (inbox, messages) = self.link.inbox().await?;
            let (shared, to) = (Arc::clone(self), inbox.clone());
            let task = tokio::spawn(async move {
                tokio::join!(shared.hear(messages), shared.keep_up(&to, signals));
            });
            Ok::<_, Error>(Hearing { inbox, task: task.abort_handle() })
        };
        self.hearing.get_or_try_init(start).await
    }

    /// Rings for what consumers deliver.
    async fn hear(&self, mut messages: Subscriber) {
        while let Some(message) = messages.next().await {
            self.ring(&message);
        }
    }

    /// Sees to it that the consumers that are needed are there, and no others.
    async fn keep_up(&self, inbox: &str, mut signals: Receiver<Signal>) {
        let clock = self.link.clock();
        let mut sweep = clock.sleep_until(clock.now() + SWEEP_EVERY);
        loop {
            tokio::select! {
                signal = signals.recv() => match signal {
                    Ok(Signal::Connected) | Err(RecvError::Lagged(_)) => {
                        self.hub.ring_all();
                        self.confirm_all(inbox).await;
                    }
                    Ok(Signal::Disconnected | Signal::Refused(_)) => {}
                    Err(RecvError::Closed) => return,
                },
                () = &mut sweep => {
                    self.sweep().await;
                    self.confirm_all(inbox).await;
                    sweep = clock.sleep_until(clock.now() + SWEEP_EVERY);
                }
            }
        }
    }

    fn ring(&self, message: &Message) {
        let is_free = message.headers.as_ref().is_some_and(frees);
        if !is_free && !self.heeds_renewals {
            return;
        }
        let name = message.subject.strip_prefix(&*self.subjects);
        if let Some(key) = name.and_then(subject::decode) {
            self.hub.ring(&Key::stored(key));
        }
    }

    /// Deletes the consumers of keys that nobody waits for any more.
    async fn sweep(&self) {
        let unwanted: Vec<_> = {
            let mut consumers = self.consumers();
            let watched: HashSet<_> = self.hub.keys().into_iter().collect();
            consumers.extract_if(|key, _| !watched.contains(key)).collect()
        };
        for (_, consumer) in unwanted {
            let verb = format!("CONSUMER.DELETE.{}.{}", self.stream, consumer.name);
            // What fails here ends by itself: the server forgets it with this connection.
            drop(self.link.api::<serde_json::Value>(&verb, &json!({})).await);
        }
    }

    async fn confirm_all(&self, inbox: &str) {
        let all = self.consumers().clone();
        for (key, consumer) in all {
            // What fails now is tried again with the next sweep, and waiters look now and then.
            drop(self.confirm(&key, &consumer, inbox).await);
        }
    }

    /// Makes the consumer, which changes nothing if it is still there. One that was not may have
    /// missed something.
    async fn confirm(&self, key: &Key, consumer: &Consumer, inbox: &str) -> Result<()> {
        let created = Some(self.make(key, &consumer.name, inbox).await?);
        if consumer.created.is_some() && consumer.created != created {
            self.hub.ring(key);
        }
        if let Some(known) = self.consumers().get_mut(key).filter(|c| c.name == consumer.name) {
            known.created = created;
        }
        Ok(())
    }

    /// Makes a consumer of what is stored under `key` from now on; says when it was made.
    async fn make(&self, key: &Key, name: &str, inbox: &str) -> Result<String> {
        let filter = format!("{}{}", self.subjects, subject::encode(key.as_str()));
        let verb = format!("CONSUMER.CREATE.{}.{name}.{filter}", self.stream);
        let body = json!({ "stream_name": self.stream, "config": {
            "name": name,
            "deliver_subject": inbox,
            "filter_subject": filter,
            "deliver_policy": "new",
            "ack_policy": "none",
            "replay_policy": "instant",
            "headers_only": true,
            "mem_storage": true,
            "num_replicas": 1,
            "inactive_threshold": u64::try_from(FORGOTTEN_AFTER.as_nanos()).unwrap_or(u64::MAX),
        }});
        let made = self.link.api::<Made>(&verb, &body).await;
        let made = made.map_err(|silence| silent(silence, Effect::Read))?;
        Ok(made.map_err(|error| refused(&error))?.created)
    }
}
