//! Writes keys the way the key policy says, and reads them back.

use std::sync::Arc;

use async_trait::async_trait;

use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::key::{Key, Namespace};
use crate::key_policy::KeyPolicy;
use crate::lease::{Lease, Status};
use crate::store::{Store, StoreInfo};
use crate::watch::Watch;

/// Puts every key into its namespace, as the [`KeyPolicy`] writes it.
#[derive(Debug)]
pub struct KeyLayer {
    inner: Arc<dyn Store>,
    policy: KeyPolicy,
    namespace: Namespace,
}

impl KeyLayer {
    /// A layer over `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, policy: KeyPolicy, namespace: Namespace) -> Self {
        Self { inner, policy, namespace }
    }

    fn stored(&self, key: &Key) -> Result<Key> {
        let stored = self.policy.store_key(&self.namespace, key);
        let (size, max) = (stored.as_str().len(), self.inner.info().capabilities.key_bytes_max);
        if size > max {
            return Err(Error::invalid(format!(
                "key must have at most {max} bytes in this store, with its namespace it has {size}"
            )));
        }
        Ok(stored)
    }

    fn stored_grant(&self, grant: &Grant) -> Result<Grant> {
        Ok(Grant { key: self.stored(&grant.key)?, ..grant.clone() })
    }

    fn name_error(&self, error: Error, key: &Key) -> Error {
        error.about(self.policy.label(&self.namespace, key).as_str())
    }
}

fn named(key: &Key) -> impl Fn(Status) -> Status {
    let key = key.clone();
    move |status| Status { key: key.clone(), ..status }
}

#[async_trait]
impl Store for KeyLayer {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let key = &claim.key;
        let stored = Claim { key: self.stored(key)?, ..claim.clone() };
        match self.inner.try_acquire(&stored).await {
            Ok(Attempt::Granted(lease)) => {
                Ok(Attempt::Granted(Lease { key: key.clone(), ..lease }))
            }
            Ok(Attempt::Held(status)) => Ok(Attempt::Held(named(key)(status))),
            Err(error) => Err(self.name_error(error, key)),
        }
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let key = &renewal.grant.key;
        let stored = Renewal { grant: self.stored_grant(&renewal.grant)?, ttl: renewal.ttl };
        match self.inner.renew(&stored).await {
            Ok(Renewed::Renewed(lease)) => {
                Ok(Renewed::Renewed(Lease { key: key.clone(), ..lease }))
            }
            Ok(Renewed::Lost(other)) => Ok(Renewed::Lost(other.map(named(key)))),
            Err(error) => Err(self.name_error(error, key)),
        }
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let key = &grant.key;
        match self.inner.release(&self.stored_grant(grant)?).await {
            Ok(Released::Released(status)) => Ok(Released::Released(named(key)(status))),
            Ok(Released::NotHeld(other)) => Ok(Released::NotHeld(other.map(named(key)))),
            Err(error) => Err(self.name_error(error, key)),
        }
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        let stored = Eviction { key: self.stored(key)?, ..eviction.clone() };
        let evicted = self.inner.force_release(&stored).await;
        evicted.map(|s| s.map(named(key))).map_err(|error| self.name_error(error, key))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        match self.inner.inspect(&self.stored(key)?).await {
            Ok(lease) => Ok(lease.map(|lease| Lease { key: key.clone(), ..lease })),
            Err(error) => Err(self.name_error(error, key)),
        }
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        if self.policy.is_hashed() && !query.prefix.is_empty() {
            let why = "keys are hashed, so they cannot be listed by prefix";
            return Err(Error::new(ErrorKind::Unsupported, why).during(Operation::List));
        }
        let scheme = self.policy.store_prefix(&self.namespace);
        let stored = |tail: &str| format!("{scheme}{tail}");
        let query = ListQuery {
            prefix: stored(&query.prefix),
            after: query.after.as_ref().map(|after| Key::stored(stored(after.as_str()))),
            limit: query.limit,
        };
        let mut page = self.inner.list(&query).await?;
        let keys = page.items.iter_mut().map(|status| &mut status.key).chain(&mut page.next);
        for key in keys {
            if let Some(tail) = key.as_str().strip_prefix(&scheme) {
                *key = Key::stored(tail.to_owned());
            }
        }
        Ok(page)
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.inner.watch(&self.stored(key)?).await.map_err(|error| self.name_error(error, key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.inner.agree(pledge).await
    }
}
