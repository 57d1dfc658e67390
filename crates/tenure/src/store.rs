//! The contract of a store.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::error::Result;
use crate::finding::{Finding, Severity};
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::watch::Watch;

/// What a store can be trusted with, here and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Fenced-correct: fences grow and grants hold through every fault that the store survives.
    Fenced,
    /// Efficiency only: a fail-over, a restart or an eviction may lose a grant.
    Efficiency,
}

impl Class {
    /// Its letter, as the documents have it: `F` or `E`.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Fenced => "F",
            Self::Efficiency => "E",
        }
    }
}

/// Whose clock ends a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timing {
    /// The store's own.
    Store,
    /// That of whoever waits: it has seen the same grant unchanged for a full ttl.
    Observer,
}

/// What a store can do. A plain yes or a plain limit each; the conformance suite reads it and
/// holds the store to both answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Other processes see the same locks.
    pub shared: bool,
    /// Leases and fences outlive the process that opened the store.
    pub durable: bool,
    /// A waiter is woken by a release instead of finding it by polling.
    pub wakes: bool,
    /// Keys can be listed.
    pub lists: bool,
    /// The shortest ttl that it can keep.
    pub ttl_min: Duration,
    /// The longest ttl that it can keep.
    pub ttl_max: Duration,
    /// The longest key that it can keep, in bytes, with namespace and scheme.
    pub key_bytes_max: usize,
}

impl Default for Capabilities {
    /// What an in-process store can do: wake and list, and share with no one.
    fn default() -> Self {
        Self {
            shared: false,
            durable: false,
            wakes: true,
            lists: true,
            ttl_min: Duration::from_millis(1),
            ttl_max: Duration::from_secs(365 * 24 * 60 * 60),
            key_bytes_max: 2048,
        }
    }
}

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Its scheme: `file`, `redis` and so on.
    pub name: &'static str,
    /// What it can be trusted with.
    pub class: Class,
    /// What was found when it was opened: first of all, why it is of that class.
    pub findings: Vec<Finding>,
    /// Whose clock ends a lease.
    pub timing: Timing,
    /// What it can do.
    pub capabilities: Capabilities,
}

impl StoreInfo {
    /// What a store says of itself. One finding that lowers it makes it
    /// [`Class::Efficiency`]; without any it is [`Class::Fenced`].
    #[must_use]
    pub fn new(
        name: &'static str,
        timing: Timing,
        capabilities: Capabilities,
        findings: Vec<Finding>,
    ) -> Self {
        let lowered = findings.iter().any(|finding| finding.severity >= Severity::Lowering);
        let class = if lowered { Class::Efficiency } else { Class::Fenced };
        Self { name, class, findings, timing, capabilities }
    }
}

/// Atomic lease operations on one store.
///
/// Waiting, retrying, renewing and giving up are not a store's business: they are written once, in
/// [`Locks`](crate::Locks). There are no default bodies, so a wrapper cannot forget a method.
///
/// # Contract
/// - Every method is one atomic step, decided with one clock: the store's, or for
///   [`Timing::Observer`] the reader's. Timestamps that another host wrote are never compared.
/// - Every grant carries a fence greater than all earlier ones of its key, taken in the same step.
/// - After `Ok`, the change stands as durably as [`StoreInfo::class`] says. After an error whose
///   [`retry`](crate::Error::retry) is `Safe` or `Never`, nothing was changed. After `Unknown`, it
///   may have been, now or later.
/// - A lease never ends before its ttl, counted from the moment the store decided.
/// - Reads change nothing, and a failed read never means "free".
/// - A future that is dropped midway leaves the operation either done or not done.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// What the store says of itself.
    fn info(&self) -> &StoreInfo;

    /// Grants the key, if it is free, has expired, or is this owner's and the claim adopts.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;

    /// Prolongs a live lease of that owner. Never creates one and never revives an expired one.
    async fn renew(&self, renewal: &Renewal) -> Result<Renewed>;

    /// Ends a live lease of that owner.
    async fn release(&self, grant: &Grant) -> Result<Released>;

    /// Ends whichever lease stands on the key; says which it was. An entry that a store cannot read
    /// and says to force-release is replaced, and no fence goes back by that.
    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>>;

    /// The live lease on the key, with its owner: callers above keep that to themselves. An owner
    /// that this store was never told, in a claim or a renewal, may be a placeholder which is equal
    /// to none. What is left of it may be told as more than it is, by a store that does not know
    /// when it was written; only a grant and a renewal say it for sure.
    async fn inspect(&self, key: &Key) -> Result<Option<Lease>>;

    /// One page of live leases.
    async fn list(&self, query: &ListQuery) -> Result<Page>;

    /// A wake-up for changes of the key from now on. It may come early or for nothing; where
    /// [`Capabilities::wakes`] is false it never comes.
    async fn watch(&self, key: &Key) -> Result<Watch>;

    /// Keeps the fingerprint if the namespace has none yet; returns the one that stands.
    async fn agree(&self, pledge: &Pledge) -> Result<String>;
}
