//! What both of Dapr's surfaces call, HTTP and gRPC.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_api::DaprCode;

use super::failure::DaprFailure;
use crate::api::Api;
use crate::rooms::NamedStore;

/// Dapr's API, as one application sees it from its sidecar.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(super) api: Arc<Api>,
    pub(super) app_id: String,
    extended: Mutex<BTreeMap<String, String>>,
}

/// A lock that a request names: of that store, under that key.
pub(super) struct Target<'a> {
    pub(super) store: &'a str,
    pub(super) resource: &'a str,
}

impl Sidecar {
    pub(crate) fn new(api: Arc<Api>, app_id: String) -> Self {
        Self { api, app_id, extended: Mutex::default() }
    }

    /// The checks that every call of a lock begins with, in Dapr's order. `secret` is what proves
    /// who holds the lock, with its name; not every call takes one.
    pub(super) fn find(
        &self,
        target: &Target<'_>,
        secret: Option<(&str, &str)>,
    ) -> Result<&NamedStore, DaprFailure> {
        let Target { store, resource } = target;
        let rooms = self.api.rooms();
        if rooms.stores().next().is_none() {
            let text = "lock store is not configured";
            return Err(DaprFailure::new(DaprCode::StoreNotConfigured, text));
        }
        if resource.is_empty() {
            let text = format!("ResourceId is empty in lock store {store}");
            return Err(DaprFailure::malformed(text));
        }
        if let Some((name, "")) = secret {
            return Err(DaprFailure::malformed(format!("{name} is empty in lock store {store}")));
        }
        // Without a name there is no default: Dapr has none.
        let named = if store.is_empty() { None } else { rooms.store(store).ok() };
        named.map(|(_, named)| named).ok_or_else(|| {
            DaprFailure::new(DaprCode::StoreNotFound, format!("lock store {store} not found"))
        })
    }

    /// What applications have added to what is told about this sidecar.
    pub(super) fn extended(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.extended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
