//! What this sidecar is made of, and what applications add to that.

use std::collections::HashMap;

use tenure_api::dapr_v1::actor_runtime::ActorRuntimeStatus;
use tenure_api::dapr_v1::{ActorRuntime, GetMetadataResponse, RegisteredComponents};

use super::failure::DaprFailure;
use super::sidecar::Sidecar;
use crate::access::{Caller, Verb};
use crate::api::ANY_USE;

/// How much applications may add.
const ENTRIES_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 4096;

/// Not a version of Dapr's.
const VERSION: &str = concat!("tenure-", env!("CARGO_PKG_VERSION"));

impl Sidecar {
    /// For whoever may do anything with locks.
    pub(super) fn metadata(&self, caller: &Caller) -> Result<GetMetadataResponse, DaprFailure> {
        caller.must_somewhere(ANY_USE).map_err(DaprFailure::lock)?;
        let component = |name: &str, kind: &str| RegisteredComponents {
            name: name.to_owned(),
            r#type: format!("lock.{kind}"),
            version: "v1".to_owned(),
            capabilities: Vec::new(),
        };
        let stores = self.api.rooms().stores();
        let components = stores.map(|(name, named, _)| component(name, named.store.info().name));
        let mut extended: HashMap<_, _> = self.extended().clone().into_iter().collect();
        extended.insert("daprRuntimeVersion".to_owned(), VERSION.to_owned());
        let runtime_status = ActorRuntimeStatus::Disabled.into();
        Ok(GetMetadataResponse {
            id: self.app_id.clone(),
            registered_components: components.collect(),
            extended_metadata: extended,
            runtime_version: VERSION.to_owned(),
            enabled_features: Vec::new(),
            actor_runtime: Some(ActorRuntime { runtime_status, ..ActorRuntime::default() }),
        })
    }

    /// Adds to what is told, or replaces what was added.
    pub(super) fn set_metadata(
        &self,
        caller: &Caller,
        key: String,
        value: String,
    ) -> Result<(), DaprFailure> {
        caller.must(Verb::Acquire, "default").map_err(DaprFailure::lock)?;
        let limit = |what: &str, size: usize, max: usize| {
            let text =
                format!("metadata {what} must have at most {max} bytes, this one has {size}");
            if size > max { Err(DaprFailure::malformed(text)) } else { Ok(()) }
        };
        limit("key", key.len(), KEY_BYTES_MAX)?;
        limit("value", value.len(), VALUE_BYTES_MAX)?;
        let mut extended = self.extended();
        if extended.len() >= ENTRIES_MAX && !extended.contains_key(&key) {
            let text = format!("there are {ENTRIES_MAX} entries of metadata, which is the limit");
            return Err(DaprFailure::malformed(text));
        }
        extended.insert(key, value);
        Ok(())
    }
}
