//! Measures how long a store takes to answer.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::clock::Clock;
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Key, Lease, Result, Status, Store};
use tracing::Instrument;

use crate::failure::code_of;
use crate::metrics::{Metrics, Operation};
use crate::trace::TARGET;

/// A store around a store that tells the metrics about every call.
#[derive(Debug)]
pub(crate) struct MeterLayer {
    inner: Arc<dyn Store>,
    name: Arc<str>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl MeterLayer {
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        name: &str,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { inner, name: name.into(), metrics, clock }
    }

    async fn measured<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let begun = self.clock.now();
        let span = tracing::debug_span!(target: TARGET, "store", store = %self.name, operation);
        let outcome = call.instrument(span).await;
        let took = self.clock.now().since(begun).as_secs_f64();
        let result = outcome.as_ref().map_or_else(|error| code_of(error.kind()).name(), |_| "done");
        let label = Operation { store: Arc::clone(&self.name), operation, result };
        self.metrics.operations.get_or_create(&label).observe(took);
        outcome
    }
}

#[async_trait]
impl Store for MeterLayer {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.measured("try_acquire", self.inner.try_acquire(claim)).await
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        self.measured("renew", self.inner.renew(renewal)).await
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        self.measured("release", self.inner.release(grant)).await
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.measured("force_release", self.inner.force_release(eviction)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        self.measured("inspect", self.inner.inspect(key)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.measured("list", self.inner.list(query)).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.measured("watch", self.inner.watch(key)).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.measured("agree", self.inner.agree(pledge)).await
    }
}
