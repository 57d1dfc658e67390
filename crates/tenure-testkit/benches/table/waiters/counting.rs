//! A store that counts how often it is asked.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::store::{Store, StoreInfo};
use tenure::stores::memory::MemoryStore;
use tenure::watch::Watch;
use tenure::{Key, Lease, Result, Status};

#[derive(Debug)]
pub(super) struct Counting {
    inner: MemoryStore,
    calls: AtomicU64,
}

impl Counting {
    pub(super) fn new(inner: MemoryStore) -> Self {
        Self { inner, calls: AtomicU64::new(0) }
    }

    /// Questions so far; a subscription is one as well.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn counted(&self) -> &MemoryStore {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

#[async_trait::async_trait]
impl Store for Counting {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.counted().try_acquire(claim).await
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        self.counted().renew(renewal).await
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        self.counted().release(grant).await
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.counted().force_release(eviction).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        self.counted().inspect(key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.counted().list(query).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.counted().watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.counted().agree(pledge).await
    }
}
