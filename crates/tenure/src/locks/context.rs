//! What every part of one [`Locks`](crate::Locks) works with.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::clock::Clock;
use crate::key::Key;
use crate::locks::events::{EventKind, Events};
use crate::locks::options::Options;
use crate::planted::Planted;
use crate::random::Random;
use crate::store::Store;

pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) runtime: Handle,
    pub(crate) options: Options,
    pub(crate) events: Events,
    pub(crate) planted: Planted,
}

impl Context {
    /// The key as errors, events and logs may show it.
    pub(crate) fn label(&self, key: &Key) -> Key {
        self.options.key_policy.label(&self.options.namespace, key)
    }

    pub(crate) fn tell(&self, key: &Key, kind: EventKind) {
        self.events.tell(&*self.clock, &self.label(key), kind);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("store", &self.store.info().name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
