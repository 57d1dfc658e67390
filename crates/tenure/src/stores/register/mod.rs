//! Stores that offer no more than a register: read a value, swap it if it is still the one read.
//!
//! A [`Register`] is all that such a store has to implement; [`RegisterStore`] turns it into a
//! [`Store`](crate::Store) with the one rule of a lock. Where the register ends entries by itself,
//! it says so, and an entry that is there is live. Otherwise leases are timed by the observer:
//! whoever has seen the same version for a full ttl on its own clock may take over. No timestamp
//! that another host wrote is ever compared.

mod sightings;
mod store;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::key::Key;
use crate::store::StoreInfo;
use crate::watch::Watch;

pub use store::RegisterStore;

/// Which write an entry is of. Equal versions are the same write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// What the register compares.
    pub tag: String,
    /// Where the register numbers all its writes upwards: the number of this one.
    pub revision: Option<u64>,
}

/// What a register holds for a key.
///
/// `Debug` shows the size of the body only, because the owner is part of it; so it does for
/// [`Write`].
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which write it is of.
    pub version: Version,
    /// What was written. Empty, under [`Fences::Revision`]: no one holds the key, and this version
    /// is to be written over.
    pub body: Vec<u8>,
}

impl Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = format_args!("{} bytes", self.body.len());
        f.debug_struct("Entry").field("version", &self.version).field("body", &body).finish()
    }
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A lease: the entry ends by itself after this time, where the register does that.
    Lease(Duration),
    /// Nobody holds the key any more; the lease that ends with this write was of this ttl. Under
    /// [`Fences::Revision`] the body is empty, and the register may forget the key in its own time.
    Free(Duration),
    /// Something to keep for good.
    Note,
}

/// A conditional write.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// Where.
    pub key: &'a Key,
    /// Only over this write; `None`: only if there is no entry.
    pub expected: Option<&'a Version>,
    /// What.
    pub body: &'a [u8],
    /// What for.
    pub purpose: Purpose,
}

impl Debug for Write<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Write")
            .field("key", self.key)
            .field("expected", &self.expected)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("purpose", &self.purpose)
            .finish()
    }
}

/// How a conditional write went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// It was made, and is this version.
    Done(Version),
    /// The entry was not the expected one; nothing was written.
    Conflict,
}

/// Some of the entries of a register, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The entries.
    pub entries: Vec<(Key, Entry)>,
    /// Where the next ones begin: after this key. `None` when these were the last.
    pub next: Option<Key>,
}

/// Where fences come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fences {
    /// A counter in the entry, which therefore is never removed: a released key keeps it.
    Counted,
    /// The number that the register gives to the write of the grant.
    Revision,
}

/// Who ends a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The register: an entry that is there is live.
    Register,
    /// Nobody: observers time it.
    Observer,
}

/// One value per key, and compare-and-swap.
///
/// # Contract
/// - `swap` is atomic, and its condition is never ignored.
/// - `read` may be a little behind; every decision rests on `swap`.
/// - A write whose outcome is not known is an `Unknown` error, never a guess. A client library's
///   own retries of writes are switched off, or a conflict with one's own write must be expected:
///   the adapter finds out by reading, because no two bodies are equal.
#[async_trait]
pub trait Register: Debug + Send + Sync + 'static {
    /// What the store says of itself.
    fn info(&self) -> &StoreInfo;

    /// Where fences come from.
    fn fences(&self) -> Fences;

    /// Who ends a lease.
    fn expiry(&self) -> Expiry;

    /// The entry of the key.
    async fn read(&self, key: &Key) -> Result<Option<Entry>>;

    /// Writes if the entry is still the expected one.
    async fn swap(&self, write: Write<'_>) -> Result<Swap>;

    /// Up to `limit` entries whose keys begin with `prefix` and come after `after`.
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Entries>;

    /// A wake-up for changes of the key from now on.
    async fn watch(&self, key: &Key) -> Result<Watch>;
}
