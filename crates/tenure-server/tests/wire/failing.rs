//! A store that fails as it is told to.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tenure::claim::{Attempt, Claim, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed};
use tenure::clock::SystemClock;
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Error, ErrorKind, Key, Lease, Result, Status, Store};

/// A store in memory. While it has a kind of error, that is its answer to everything.
#[derive(Debug)]
pub(crate) struct Failing {
    inner: Arc<dyn Store>,
    with: Mutex<Option<ErrorKind>>,
}

impl Failing {
    pub(crate) async fn new() -> Arc<Self> {
        let inner = tenure::stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
        Arc::new(Self { inner, with: Mutex::new(None) })
    }

    pub(crate) fn fail(&self, with: Option<ErrorKind>) {
        *self.with.lock().unwrap() = with;
    }

    fn check(&self) -> Result<()> {
        let with = *self.with.lock().unwrap();
        with.map_or(Ok(()), |kind| Err(Error::new(kind, "it was told to fail")))
    }
}

macro_rules! unless_failing {
    ($self:ident.$method:ident($argument:ident)) => {{
        $self.check()?;
        $self.inner.$method($argument).await
    }};
}

#[async_trait]
impl Store for Failing {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        unless_failing!(self.try_acquire(claim))
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        unless_failing!(self.renew(renewal))
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        unless_failing!(self.release(grant))
    }

    async fn force_release(&self, key: &Key) -> Result<Option<Status>> {
        unless_failing!(self.force_release(key))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        unless_failing!(self.inspect(key))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        unless_failing!(self.list(query))
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        unless_failing!(self.watch(key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        unless_failing!(self.agree(pledge))
    }
}
