//! Bounds how long a store may take to answer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;

use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::clock::{Clock, within};
use crate::effect::Effect;
use crate::error::{Operation, Result};
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owned::Owned;
use crate::store::{Store, StoreInfo};
use crate::watch::Watch;

/// Gives up on an answer after a limit. The operation itself is finished in the background: what
/// was sent cannot be unsent, so a write that timed out is `Unknown` and a read `Unavailable`.
#[derive(Debug)]
pub struct TimeoutLayer {
    inner: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limit: Duration,
    runtime: Handle,
}

impl TimeoutLayer {
    /// A layer over `inner` that waits `limit` on `clock` for each answer.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        limit: Duration,
        runtime: Handle,
    ) -> Self {
        Self { inner, clock, limit, runtime }
    }

    async fn bounded<T: Send + 'static>(
        &self,
        operation: Operation,
        effect: Effect,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let work = Owned::new(&self.runtime, work);
        let answer = within(&*self.clock, self.limit, work).await;
        let answer = answer.unwrap_or_else(|_| {
            let text = format!("the store did not answer within {:?}", self.limit);
            Err(effect.unanswered(text))
        });
        answer.map_err(|error| error.during(operation))
    }
}

macro_rules! bounded {
    ($self:ident, $operation:ident, $effect:ident, $method:ident($argument:ident)) => {{
        let inner = Arc::clone(&$self.inner);
        let argument = $argument.clone();
        let work = async move { inner.$method(&argument).await };
        $self.bounded(Operation::$operation, Effect::$effect, work).await
    }};
}

#[async_trait]
impl Store for TimeoutLayer {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        bounded!(self, Acquire, Write, try_acquire(claim))
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        bounded!(self, Renew, Write, renew(renewal))
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        bounded!(self, Release, Write, release(grant))
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        bounded!(self, ForceRelease, Write, force_release(eviction))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        bounded!(self, Inspect, Read, inspect(key))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        bounded!(self, List, Read, list(query))
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        bounded!(self, Watch, Read, watch(key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        bounded!(self, Open, Write, agree(pledge))
    }
}
