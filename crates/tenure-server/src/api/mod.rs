//! What every surface calls: rights and limits are checked here, and nowhere else.

mod events;
mod held;
mod hold;
mod lock;
mod read;

use std::sync::Arc;
use std::time::Duration;

use tenure::clock::Clock;
use tenure::{KEY_BYTES_MAX, Key, Locks};
use tokio::sync::watch;

pub use hold::{HoldEvent, Holding};
pub use lock::{Granted, Order, Renewal};
pub use read::{LockState, PageOf, StoreState};

use crate::access::{Caller, Verb};
use crate::failure::Failure;
use crate::quota::Quota;
use crate::rooms::Rooms;
use held::Held;

/// Which lock is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// A store of the configuration; empty for the default one.
    pub store: String,
    /// The room for the key; empty for `default`.
    pub namespace: String,
    /// What is locked.
    pub key: String,
}

/// What a server allows and how it behaves, apart from its stores.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How many locks the server keeps for one client.
    pub locks_per_client: usize,
    /// How many locks and event streams one client may have open.
    pub streams_per_client: usize,
    /// How many may wait for one key.
    pub waiters_per_key: usize,
    /// How often an idle stream says that it is alive.
    pub ping: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            locks_per_client: 10_000,
            streams_per_client: 10_000,
            waiters_per_key: 10_000,
            ping: Duration::from_secs(5),
        }
    }
}

/// The calls that every surface is made of.
#[derive(Debug)]
pub struct Api {
    rooms: Rooms,
    clock: Arc<dyn Clock>,
    terms: Terms,
    held: Arc<Held>,
    locks: Quota,
    streams: Quota,
    closing: watch::Sender<bool>,
}

/// The locks that a call is about, and the checked key.
struct Room {
    place: Place,
    locks: Locks,
}

impl Api {
    /// The calls on these stores.
    #[must_use]
    pub fn new(rooms: Rooms, terms: Terms, clock: Arc<dyn Clock>) -> Self {
        Self {
            rooms,
            clock,
            held: Arc::default(),
            locks: Quota::new("locks", terms.locks_per_client),
            streams: Quota::new("streams", terms.streams_per_client),
            closing: watch::Sender::new(false),
            terms,
        }
    }

    /// The stores.
    #[must_use]
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Ends all streams, telling them why; locks that are held by them are given back.
    pub fn close_streams(&self) {
        self.closing.send_replace(true);
    }

    /// Gives back every lock that this server keeps for a client.
    pub async fn release_kept(&self) {
        self.held.release_all().await;
    }

    /// Stops renewing every lock that this server keeps for a client: each ends with its ttl.
    pub fn leave_kept(&self) {
        self.held.leave_all();
    }

    /// How many locks this server keeps for clients.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.held.len()
    }

    /// Opens the door to a place, for whoever may do this there.
    async fn enter(&self, caller: &Caller, verb: Verb, place: &Place) -> Result<Room, Failure> {
        let place = settled(place);
        caller.must(verb, &place.namespace)?;
        Key::with_limit(&place.key, KEY_BYTES_MAX)?;
        let locks = self.rooms.locks(&place.store, &place.namespace).await?;
        let (store, _) = self.rooms.store(&place.store)?;
        let place = Place { store: store.to_owned(), ..place };
        Ok(Room { place, locks })
    }
}

/// The place, with the usual namespace where none was named.
fn settled(place: &Place) -> Place {
    let namespace = if place.namespace.is_empty() { "default" } else { &place.namespace };
    Place { namespace: namespace.to_owned(), ..place.clone() }
}
