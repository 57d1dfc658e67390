//! The store where it cannot be had: it needs a boot id and a clock that all processes share.

use std::convert::Infallible;

use async_trait::async_trait;

use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::store::{Store, StoreInfo};
use crate::watch::Watch;

/// Locks in one file. There are none on this operating system.
#[derive(Debug)]
pub struct FileStore(Infallible);

impl FileStore {
    /// Refuses.
    ///
    /// # Errors
    /// `Unsupported`, always.
    pub async fn open(_path: &str) -> Result<Self> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "file: needs Linux, because leases are measured with its boot clock and boot id; use \
             a shared store, or tenure:// to a server that runs on Linux",
        )
        .during(Operation::Open))
    }
}

#[async_trait]
impl Store for FileStore {
    fn info(&self) -> &StoreInfo {
        match self.0 {}
    }

    async fn try_acquire(&self, _: &Claim) -> Result<Attempt> {
        match self.0 {}
    }

    async fn renew(&self, _: &Renewal) -> Result<Renewed> {
        match self.0 {}
    }

    async fn release(&self, _: &Grant) -> Result<Released> {
        match self.0 {}
    }

    async fn force_release(&self, _: &Eviction) -> Result<Option<Status>> {
        match self.0 {}
    }

    async fn inspect(&self, _: &Key) -> Result<Option<Lease>> {
        match self.0 {}
    }

    async fn list(&self, _: &ListQuery) -> Result<Page> {
        match self.0 {}
    }

    async fn watch(&self, _: &Key) -> Result<Watch> {
        match self.0 {}
    }

    async fn agree(&self, _: &Pledge) -> Result<String> {
        match self.0 {}
    }
}
