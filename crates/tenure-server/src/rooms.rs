//! The named stores of this server, and the locks of each namespace on them.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream::{Stream, StreamExt};
use tenure::clock::Clock;
use tenure::{Event, EventKind, Events, Key, KeyPolicy, Locks, LocksBuilder, Namespace, Store};
use tenure_api::Code;

use crate::dapr::KeyPrefix;
use crate::failure::Failure;
use crate::follower::Follower;
use crate::metrics::Metrics;

/// How many namespaces a server keeps open.
const NAMESPACES_MAX: usize = 4096;

/// The namespace of requests that name none, and the only one where keys tell none.
pub(crate) const NAMESPACE: &str = "default";

/// A store under a name of the server's configuration.
#[derive(Clone, Debug)]
pub struct NamedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// How keys are written into it.
    pub key_policy: KeyPolicy,
    /// What stands before every key that comes by Dapr's API.
    pub dapr_prefix: KeyPrefix,
}

impl NamedStore {
    /// The namespace that a key tells, as it stands in this store, or every one.
    pub(crate) fn namespace_of(&self, stored: &str) -> String {
        let told = KeyPolicy::namespace_of(stored).filter(|_| self.key_policy.tells_namespace());
        told.map_or_else(|| "*".to_owned(), |namespace| namespace.to_string())
    }
}

/// The stores, and the locks of each namespace on them.
#[derive(Debug)]
pub struct Rooms {
    stores: BTreeMap<String, NamedStore>,
    default_store: String,
    settings: LocksBuilder,
    metrics: Arc<Metrics>,
    open: Mutex<Open>,
    /// What clients do with a store by themselves, once somebody has listened.
    told: Mutex<HashMap<String, Arc<Events>>>,
}

/// The locks of the namespaces that are open.
#[derive(Debug, Default)]
struct Open {
    seats: HashMap<(String, String), Seat>,
    asked: u64,
}

#[derive(Debug)]
struct Seat {
    /// Nothing but this holds on to locks that nobody uses.
    locks: Arc<Locks>,
    /// Which question was the last for them.
    asked: u64,
}

impl Open {
    fn get(&mut self, place: &(String, String)) -> Option<Arc<Locks>> {
        let seat = self.seats.get_mut(place)?;
        self.asked += 1;
        seat.asked = self.asked;
        Some(Arc::clone(&seat.locks))
    }

    fn put(&mut self, place: (String, String), locks: Arc<Locks>) {
        self.asked += 1;
        self.seats.insert(place, Seat { locks, asked: self.asked });
    }

    /// Whether there is room for one more: if need be, one that nobody uses is closed for it.
    fn make_room(&mut self) -> bool {
        if self.seats.len() < NAMESPACES_MAX {
            return true;
        }
        let unused = self.seats.iter().filter(|(_, seat)| Arc::strong_count(&seat.locks) == 1);
        let oldest = unused.min_by_key(|(_, seat)| seat.asked).map(|(place, _)| place.clone());
        oldest.is_some_and(|place| self.seats.remove(&place).is_some())
    }
}

impl Rooms {
    /// Locks on these stores, opened with these settings. The default store may be none: it is
    /// empty then.
    pub(crate) fn new(
        stores: BTreeMap<String, NamedStore>,
        default_store: String,
        settings: LocksBuilder,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (open, told) = (Mutex::default(), Mutex::default());
        Self { stores, default_store, settings, metrics, open, told }
    }

    /// The store of that name, and the name; the default one for an empty name.
    ///
    /// # Errors
    /// `NoSuchPlace`.
    pub fn store(&self, name: &str) -> Result<(&str, &NamedStore), Failure> {
        let name = if name.is_empty() { &self.default_store } else { name };
        let found = self.stores.get_key_value(name);
        let (name, store) = found.ok_or_else(|| {
            let text = match name {
                "" => "this server has several stores, and none for requests that name none".into(),
                name => format!("this server has no store {name:?}"),
            };
            Failure::new(Code::NoSuchPlace, text)
        })?;
        Ok((name, store))
    }

    /// The stores by name, and which is the default one.
    pub fn stores(&self) -> impl Iterator<Item = (&str, &NamedStore, bool)> {
        self.stores.iter().map(|(name, store)| (&**name, store, *name == self.default_store))
    }

    /// The locks of a namespace on a store; they are opened when they are first asked for, and stay
    /// open for as long as they are held on to. What nobody uses makes room for others.
    ///
    /// # Errors
    /// `NoSuchPlace`, `Invalid` for a bad namespace, `LimitReached` when too many are in use, or
    /// what the store says.
    pub async fn locks(&self, store: &str, namespace: &str) -> Result<Arc<Locks>, Failure> {
        let (name, named) = self.store(store)?;
        if namespace != NAMESPACE && !named.key_policy.tells_namespace() {
            // All of them would be one room, whatever the rights in each.
            let text = format!("store {name:?} has raw keys, and no namespace but {NAMESPACE:?}");
            return Err(Failure::new(Code::NoSuchPlace, text));
        }
        let place = (name.to_owned(), namespace.to_owned());
        if let Some(locks) = self.open().get(&place) {
            return Ok(locks);
        }
        Namespace::new(namespace)?;
        if !self.open().make_room() {
            let text = format!("{NAMESPACES_MAX} namespaces are in use, and no more can be");
            return Err(Failure::new(Code::LimitReached, text));
        }
        let settings = self.settings.clone().namespace(namespace);
        let follower = Arc::new(Follower::new(Arc::clone(&self.metrics)));
        let settings = settings.key_policy(named.key_policy.clone()).observer(follower);
        let locks = Arc::new(settings.open_on(Arc::clone(&named.store)).await?);
        let mut open = self.open();
        // Of two that opened it at once, both use the first: they share one line.
        if let Some(locks) = open.get(&place) {
            return Ok(locks);
        }
        open.put(place, Arc::clone(&locks));
        Ok(locks)
    }

    /// Tells what a client did with a store by itself. The key is that of the store.
    pub(crate) fn tell(&self, store: &str, clock: &dyn Clock, key: &Key, kind: EventKind) {
        self.metrics.happened(&kind);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(events) = self.store(store).ok().and_then(|(name, _)| told.get(name)) {
            events.tell(clock, key, kind);
        }
    }

    /// What clients do with a store by themselves, as those in a namespace may see it.
    pub(crate) fn told(
        &self,
        store: &str,
        namespace: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<impl Stream<Item = Event> + Send + use<>, Failure> {
        let (name, named) = self.store(store)?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let events = told.entry(name.to_owned()).or_default().listen(clock);
        let (is_raw, namespace) = (!named.key_policy.tells_namespace(), namespace.to_owned());
        let seen = move |mut event: Event| {
            if !is_raw && !matches!(event.kind, EventKind::Missed { .. }) {
                KeyPolicy::namespace_of(event.key.as_str())
                    .filter(|told| told.as_str() == namespace)?;
                event.key = KeyPolicy::label_of(&event.key);
            }
            Some(event)
        };
        Ok(events.filter_map(move |event| ready(seen(event))))
    }

    /// All locks that are open.
    #[must_use]
    pub fn opened(&self) -> Vec<Arc<Locks>> {
        self.open().seats.values().map(|seat| Arc::clone(&seat.locks)).collect()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tenure::clock::SystemClock;
    use tenure::stores;

    use super::*;

    #[tokio::test]
    async fn namespaces_that_nobody_uses_make_room() {
        let store = stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
        let (key_policy, dapr_prefix) = (KeyPolicy::plain(), KeyPrefix::default());
        let stores = [("s".to_owned(), NamedStore { store, key_policy, dapr_prefix })].into();
        let rooms = Rooms::new(stores, "s".into(), Locks::builder(), Arc::new(Metrics::new()));
        let used = rooms.locks("", "used").await.unwrap();
        let guard = used.lock("k").acquire().await.unwrap();
        for number in 0..=NAMESPACES_MAX {
            rooms.locks("", &format!("n{number}")).await.unwrap();
        }
        assert_eq!(rooms.opened().len(), NAMESPACES_MAX);
        let again = rooms.locks("", "used").await.unwrap();
        assert!(Arc::ptr_eq(&used, &again), "what is in use stays open");
        assert!(rooms.open().get(&at("n0")).is_none(), "the oldest goes first");
        assert!(rooms.open().get(&at("n4096")).is_some());
        let all = rooms.opened();
        let failure = rooms.locks("", "one-more").await.unwrap_err();
        assert_eq!(failure.code, Code::LimitReached);
        drop((guard, all));
    }

    fn at(namespace: &str) -> (String, String) {
        ("s".to_owned(), namespace.to_owned())
    }
}
