//! What happens to locks, told to whoever listens. Never an owner.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, Stream};
use tokio::sync::broadcast;

use crate::clock::Clock;
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::locks::keep::LostReason;

const BACKLOG: usize = 1024;

/// One thing that happened to a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The key; under keyed hashing a short digest of it. `*` where events were missed.
    pub key: Key,
    /// When, by this process's wall clock.
    pub at: SystemTime,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A guard was handed out.
    Granted {
        /// Its fence.
        fence: Fence,
        /// Time from the request to the grant, where this process knows.
        waited: Option<Duration>,
    },
    /// A request found the key held. Told once per wait.
    Contended {
        /// The fence of whoever holds it.
        fence: Fence,
        /// Who holds it.
        holder: Holder,
        /// Time from the request to the answer, where this process knows.
        waited: Option<Duration>,
    },
    /// A request's wait was over before the key was free.
    TimedOut {
        /// How long it waited.
        waited: Duration,
    },
    /// A lease was prolonged.
    Renewed {
        /// Its fence.
        fence: Fence,
        /// How long the renewal took.
        took: Duration,
    },
    /// A guard stopped believing in its lease.
    Lost {
        /// Its fence.
        fence: Fence,
        /// Why.
        reason: LostReason,
        /// How long it was held, where this process knows.
        held: Option<Duration>,
    },
    /// A lease was given back.
    Released {
        /// Its fence.
        fence: Fence,
        /// How long it was held, where this process knows.
        held: Option<Duration>,
    },
    /// A lease was taken from its owner.
    Forced {
        /// Its fence.
        fence: Fence,
        /// The reason that was given.
        reason: String,
    },
    /// This listener was too slow: so many events were dropped before this one.
    Missed {
        /// How many.
        count: u64,
    },
}

/// Sees every event as it happens, and misses none.
///
/// It is called by whoever makes the event, between a grant and its guard as well: what takes time
/// belongs behind [`Locks::events`](crate::Locks::events).
pub trait Observer: fmt::Debug + Send + Sync {
    /// This has happened.
    fn saw(&self, event: &Event);
}

/// Tells events to whoever listens. [`Locks`](crate::Locks) have their own; this is for a program
/// that lends its store to others, and tells what they do with it.
#[derive(Debug)]
pub struct Events {
    listeners: broadcast::Sender<Event>,
    observer: Option<Arc<dyn Observer>>,
}

impl Default for Events {
    fn default() -> Self {
        Self::seen_by(None)
    }
}

impl Events {
    pub(crate) fn seen_by(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { listeners: broadcast::Sender::new(BACKLOG), observer }
    }

    /// Tells that this happened to the key.
    pub fn tell(&self, clock: &dyn Clock, key: &Key, kind: EventKind) {
        log(key, &kind);
        let has_listeners = self.listeners.receiver_count() > 0;
        if !has_listeners && self.observer.is_none() {
            return;
        }
        let event = Event { key: key.clone(), at: clock.wall(), kind };
        if let Some(observer) = &self.observer {
            observer.saw(&event);
        }
        if has_listeners {
            // A listener that left meanwhile is no failure.
            let _ = self.listeners.send(event);
        }
    }

    /// What is told from now on.
    pub fn listen(&self, clock: Arc<dyn Clock>) -> impl Stream<Item = Event> + Send + use<> {
        stream::unfold((self.listeners.subscribe(), clock), |(mut receiver, clock)| async move {
            let event = match receiver.recv().await {
                Ok(event) => event,
                Err(broadcast::error::RecvError::Lagged(count)) => {
                    let key = Key::stored("*".into());
                    Event { key, at: clock.wall(), kind: EventKind::Missed { count } }
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            Some((event, (receiver, clock)))
        })
    }
}

fn log(key: &Key, kind: &EventKind) {
    match kind {
        EventKind::Granted { fence, waited } => {
            tracing::debug!(%key, %fence, ?waited, "granted");
        }
        EventKind::Contended { fence, holder, .. } => {
            tracing::debug!(%key, %fence, %holder, "held by another, waiting");
        }
        EventKind::TimedOut { waited } => tracing::info!(%key, ?waited, "wait is over"),
        EventKind::Renewed { fence, took } => tracing::trace!(%key, %fence, ?took, "renewed"),
        EventKind::Lost { fence, reason, held } => {
            tracing::warn!(%key, %fence, ?reason, ?held, "lost");
        }
        EventKind::Released { fence, held } => tracing::debug!(%key, %fence, ?held, "released"),
        EventKind::Forced { fence, reason } => {
            tracing::warn!(%key, %fence, %reason, "released by force");
        }
        EventKind::Missed { .. } => {}
    }
}
