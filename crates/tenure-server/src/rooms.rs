//! The named stores of this server, and the locks of each namespace on them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure::{KeyPolicy, Locks, LocksBuilder, Namespace, Store};
use tenure_api::Code;

use crate::dapr::KeyPrefix;
use crate::failure::Failure;
use crate::metrics::Metrics;

/// How many namespaces a server keeps open.
const NAMESPACES_MAX: usize = 4096;

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

/// The stores, and the locks of each namespace on them.
#[derive(Debug)]
pub struct Rooms {
    stores: BTreeMap<String, NamedStore>,
    default_store: String,
    settings: LocksBuilder,
    metrics: Arc<Metrics>,
    open: Mutex<HashMap<(String, String), Locks>>,
}

impl Rooms {
    /// Locks on these stores, opened with these settings.
    pub(crate) fn new(
        stores: BTreeMap<String, NamedStore>,
        default_store: String,
        settings: LocksBuilder,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { stores, default_store, settings, metrics, open: Mutex::default() }
    }

    /// The store of that name, and the name; the default one for an empty name.
    ///
    /// # Errors
    /// `NoSuchPlace`.
    pub fn store(&self, name: &str) -> Result<(&str, &NamedStore), Failure> {
        let name = if name.is_empty() { &self.default_store } else { name };
        let found = self.stores.get_key_value(name);
        let (name, store) = found.ok_or_else(|| {
            Failure::new(Code::NoSuchPlace, format!("this server has no store {name:?}"))
        })?;
        Ok((name, store))
    }

    /// The stores by name, and which is the default one.
    pub fn stores(&self) -> impl Iterator<Item = (&str, &NamedStore, bool)> {
        self.stores.iter().map(|(name, store)| (&**name, store, *name == self.default_store))
    }

    /// The locks of a namespace on a store; they are opened when they are first asked for.
    ///
    /// # Errors
    /// `NoSuchPlace`, `Invalid` for a bad namespace, or what the store says.
    pub async fn locks(&self, store: &str, namespace: &str) -> Result<Locks, Failure> {
        let (name, named) = self.store(store)?;
        let place = (name.to_owned(), namespace.to_owned());
        if let Some(locks) = self.open().get(&place) {
            return Ok(locks.clone());
        }
        Namespace::new(namespace)?;
        if self.open().len() >= NAMESPACES_MAX {
            let text = format!("{NAMESPACES_MAX} namespaces are open, and no more can be");
            return Err(Failure::new(Code::LimitReached, text));
        }
        let settings = self.settings.clone().namespace(namespace);
        let settings = settings.key_policy(named.key_policy.clone());
        let locks = settings.open_on(Arc::clone(&named.store)).await?;
        let mut open = self.open();
        // Of two that opened it at once, both use the first: they share one line.
        if let Some(locks) = open.get(&place) {
            return Ok(locks.clone());
        }
        self.metrics.follow(&locks);
        open.insert(place, locks.clone());
        Ok(locks)
    }

    /// All locks that are open, with their store and namespace.
    #[must_use]
    pub fn opened(&self) -> Vec<(String, String, Locks)> {
        let open = self.open();
        open.iter().map(|((s, n), locks)| (s.clone(), n.clone(), locks.clone())).collect()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<(String, String), Locks>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
