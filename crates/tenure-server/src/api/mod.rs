//! What every surface calls: rights and limits are checked here, and nowhere else.

mod call;
mod events;
mod held;
mod hold;
mod lent;
mod lock;
mod read;
mod ready;
mod stay;
mod store;
mod watching;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure::clock::Clock;
use tenure::{Fence, KEY_BYTES_MAX, Key, Locks};
use tenure_api::Code;
use tokio::sync::watch;

pub use hold::{HoldEvent, Holding};
pub use lock::{Granted, Order, Renewal};
pub use read::{LockState, PageOf, StoreState};
pub(crate) use stay::Stay;
pub(crate) use store::{ANY_USE, LOOK};
pub use store::{OWNERS_MAX, STORED_KEY_MAX};
pub use watching::{News, Watching};

use crate::access::{Caller, Identity, Verb};
use crate::audit::{Audit, Deed};
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::metrics::{Metrics, Standing};
use crate::quota::Quota;
use crate::rooms::{NAMESPACE, Rooms};
use held::Held;
use lent::Lent;
use ready::Look;

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
    /// How many locks one client may have, whoever renews them; not those of its streams.
    pub locks_per_client: usize,
    /// How many locks and event streams one client may have open.
    pub streams_per_client: usize,
    /// How many may wait for one key.
    pub waiters_per_key: usize,
    /// The shortest ttl that a client may ask for.
    pub ttl_min: Duration,
    /// The longest ttl that a client may ask for.
    pub ttl_max: Duration,
    /// How often an idle stream says that it is alive.
    pub ping: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            locks_per_client: 10_000,
            streams_per_client: 10_000,
            waiters_per_key: 10_000,
            ttl_min: Duration::from_millis(100),
            ttl_max: Duration::from_secs(24 * 60 * 60),
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
    lent: Lent,
    look: Look,
    locks: Quota,
    streams: Quota,
    closing: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    ledger: Arc<Ledger>,
}

/// The locks that a call is about, and the checked key.
struct Room {
    place: Place,
    locks: Arc<Locks>,
}

impl Api {
    /// The calls on these stores.
    pub(crate) fn new(
        rooms: Rooms,
        terms: Terms,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        audit: Option<Audit>,
    ) -> Self {
        Self {
            rooms,
            ledger: Arc::new(Ledger::new(audit, Arc::clone(&metrics), Arc::clone(&clock))),
            metrics,
            clock,
            held: Arc::default(),
            lent: Lent::default(),
            look: Look::default(),
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

    /// Ends all streams and all waits, telling them why; locks that are held by streams are given
    /// back.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Gives back every lock that this server keeps for a client, also what comes later.
    pub async fn release_kept(&self) {
        self.held.release_all().await;
    }

    /// Stops renewing every lock that this server keeps for a client: each ends with its ttl.
    pub fn leave_kept(&self) {
        self.held.leave_all();
    }

    /// Whether this server renews the locks that it keeps: not while its application is unwell.
    #[must_use]
    pub fn renews(&self) -> bool {
        self.held.renews()
    }

    /// Renews again what it keeps from now on.
    pub fn go_on_renewing(&self) {
        self.held.go_on_renewing();
    }

    /// The metrics, in Prometheus' text form.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn metrics(&self, caller: &Caller) -> Result<String, Failure> {
        caller.must(Verb::Admin, "*")?;
        let mut standing = Standing {
            kept: self.held.len(),
            streams: self.streams.total(),
            ..Standing::default()
        };
        for locks in self.rooms.opened() {
            let queue = locks.queue();
            standing.lines += queue.lines;
            standing.waiters += queue.waiters;
            standing.longest = standing.longest.max(queue.longest);
        }
        let failed = |_| Failure::new(Code::Internal, "the metrics cannot be written");
        self.metrics.text(standing).map_err(failed)
    }

    /// Writes down that someone was not let in.
    pub(crate) fn turned_away(&self, peer: IpAddr, failure: &Failure) {
        let identity = Identity { name: "nobody".into(), grants: [].into() };
        let caller = Caller { identity, peer: Some(peer) };
        let (place, code) = (&Place::default(), Some(failure.code));
        let deed = Deed { call: "enter", place, fence: None, reason: None, code };
        self.ledger.record(&caller, &deed);
    }

    /// Writes down how a call ended.
    fn record<T>(
        &self,
        caller: &Caller,
        call: &'static str,
        place: &Place,
        fence: impl FnOnce(&T) -> Option<Fence>,
        outcome: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (fence, code) = match &outcome {
            Ok(value) => (fence(value), None),
            Err(failure) => (None, Some(failure.code)),
        };
        if self.ledger.writes(call) {
            let place = &self.meant(place);
            self.ledger.record(caller, &Deed { call, place, fence, reason: None, code });
        } else {
            self.ledger.count(call, code);
        }
        outcome
    }

    /// A place as whoever reads of it later has to know it: with the namespace and the store that
    /// are meant where none was named.
    fn meant(&self, place: &Place) -> Place {
        let place = settled(place);
        match self.rooms.store(&place.store) {
            Ok((store, _)) => Place { store: store.to_owned(), ..place },
            Err(_) => place,
        }
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
    let namespace = if place.namespace.is_empty() { NAMESPACE } else { &place.namespace };
    Place { namespace: namespace.to_owned(), ..place.clone() }
}
