//! A store that halts: every operation is pending a few times before and after it is carried out,
//! so that a future can be dropped at each of these points.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Key, Lease, Result, Status, Store};
use tokio::task::yield_now;

/// A store around a store that halts twice before and twice after each operation.
#[derive(Debug)]
pub struct Halting(Arc<dyn Store>);

impl Halting {
    /// A halting layer over `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self(inner)
    }
}

async fn halt() {
    yield_now().await;
    yield_now().await;
}

macro_rules! halting {
    ($self:ident.$method:ident($argument:ident)) => {{
        halt().await;
        let answer = $self.0.$method($argument).await;
        halt().await;
        answer
    }};
}

#[async_trait]
impl Store for Halting {
    fn info(&self) -> &StoreInfo {
        self.0.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        halting!(self.try_acquire(claim))
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        halting!(self.renew(renewal))
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        halting!(self.release(grant))
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        halting!(self.force_release(eviction))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        halting!(self.inspect(key))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        halting!(self.list(query))
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        halting!(self.watch(key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        halting!(self.agree(pledge))
    }
}
