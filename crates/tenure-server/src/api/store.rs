//! The stores themselves, for clients that wait, renew and give up by themselves.
//!
//! Keys are those of the store, which tell their namespace by what stands in front of them. A key
//! that does not is everybody's, and needs the right on every namespace.

use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::store::StoreInfo;
use tenure::{EventKind, Fence, KEY_BYTES_MAX, Key, KeyPolicy, LostReason, Status, Store};
use tenure_api::Code;

use super::{Api, Place};
use crate::access::{Caller, Verb};
use crate::audit::Deed;
use crate::failure::Failure;

/// The longest key of a store, in bytes: a key, and `t1h/NAMESPACE/` in front of it.
pub const STORED_KEY_MAX: usize = KEY_BYTES_MAX + "t1h/".len() + 64 + "/".len();

/// How many owners a caller may ask about at once.
pub const OWNERS_MAX: usize = 64;

/// How many leases a page has at the most.
const PAGE_MAX: usize = 1000;

/// Whoever has one of these has something to do with a store.
pub(crate) const ANY_USE: &[Verb] = &[Verb::Acquire, Verb::Read, Verb::List];

/// Whoever may lock a key may also see who holds it, to wait for it.
pub(crate) const LOOK: &[Verb] = &[Verb::Read, Verb::Acquire];

impl Api {
    /// What a store says of itself, narrowed to what this server allows.
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`.
    pub fn store_info(&self, caller: &Caller, store: &str) -> Result<StoreInfo, Failure> {
        caller.must_somewhere(ANY_USE)?;
        let mut info = self.rooms.store(store)?.1.store.info().clone();
        let can = &mut info.capabilities;
        can.ttl_min = can.ttl_min.max(self.terms.ttl_min);
        can.ttl_max = can.ttl_max.min(self.terms.ttl_max);
        can.key_bytes_max = can.key_bytes_max.min(STORED_KEY_MAX);
        Ok(info)
    }

    /// Grants a key of a store; see [`Store::try_acquire`].
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, `Invalid`, or what the store says.
    pub async fn try_acquire(
        &self,
        caller: &Caller,
        store: &str,
        claim: &Claim,
    ) -> Result<Attempt, Failure> {
        let work = async {
            let kept = self.keeping(caller, &[Verb::Acquire], store, &claim.key)?;
            self.check_ttl(&**kept, claim.ttl)?;
            let attempt = kept.try_acquire(claim).await?;
            self.tell(store, &claim.key, tried(&attempt));
            Ok(attempt)
        };
        let outcome = work.await;
        let ended = end(&outcome, |attempt| match attempt {
            Attempt::Granted(lease) => (Some(lease.fence), None),
            Attempt::Held(_) => (None, Some(Code::Held)),
        });
        self.noted(caller, "try_acquire", store, &claim.key, ended);
        outcome
    }

    /// Prolongs a lease of a store; see [`Store::renew`].
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, `Invalid`, or what the store says.
    pub async fn renew_lease(
        &self,
        caller: &Caller,
        store: &str,
        renewal: &Renewal,
    ) -> Result<Renewed, Failure> {
        let key = &renewal.grant.key;
        let work = async {
            let kept = self.keeping(caller, &[Verb::Acquire], store, key)?;
            self.check_ttl(&**kept, renewal.ttl)?;
            let sent = self.clock.now();
            let renewed = kept.renew(renewal).await?;
            self.tell(store, key, prolonged(&renewed, renewal, self.clock.now().since(sent)));
            Ok(renewed)
        };
        let outcome = work.await;
        let ended = end(&outcome, |renewed| match renewed {
            Renewed::Renewed(lease) => (Some(lease.fence), None),
            Renewed::Lost(_) => (None, Some(Code::Lost)),
        });
        self.noted(caller, "renew_lease", store, key, ended);
        outcome
    }

    /// Ends a lease of a store; see [`Store::release`].
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, or what the store says.
    pub async fn release_lease(
        &self,
        caller: &Caller,
        store: &str,
        grant: &Grant,
    ) -> Result<Released, Failure> {
        let work = async {
            let kept = self.keeping(caller, &[Verb::Acquire], store, &grant.key)?;
            let released = kept.release(grant).await?;
            if let Released::Released(Status { fence, .. }) = released {
                self.tell(store, &grant.key, EventKind::Released { fence, held: None });
            }
            Ok(released)
        };
        let outcome = work.await;
        let ended = end(&outcome, |released| match released {
            Released::Released(status) => (Some(status.fence), None),
            Released::NotHeld(_) => (None, Some(Code::NotFound)),
        });
        self.noted(caller, "release_lease", store, &grant.key, ended);
        outcome
    }

    /// Ends whichever lease stands on a key of a store.
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, or what the store says.
    pub async fn force_release(
        &self,
        caller: &Caller,
        store: &str,
        eviction: &Eviction,
    ) -> Result<Option<Status>, Failure> {
        let Eviction { key, reason } = eviction;
        let place = &self.place(store, key);
        let deed =
            |call, fence, code| Deed { call, place, fence, reason: Some(reason.as_str()), code };
        let work = async {
            let kept = self.keeping(caller, &[Verb::Force], store, key)?;
            self.ledger.announce(caller, &deed("force_release_asked", None, None))?;
            let evicted = kept.force_release(eviction).await?;
            if let Some(Status { fence, .. }) = evicted {
                self.tell(store, key, EventKind::Forced { fence, reason: reason.clone() });
            }
            Ok(evicted)
        };
        let outcome = work.await;
        let (fence, code) = end(&outcome, |evicted: &Option<Status>| {
            (evicted.as_ref().map(|status| status.fence), None)
        });
        self.ledger.record(caller, &deed("force_release", fence, code));
        outcome
    }

    /// The lease on a key of a store, and which of `owners` it is, if it is one of them. No owner
    /// leaves the server.
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, `Invalid` for too many owners, or what the store says.
    pub async fn inspect_lease(
        &self,
        caller: &Caller,
        store: &str,
        key: &Key,
        owners: &[String],
    ) -> Result<Option<(Status, Option<usize>)>, Failure> {
        let store = self.keeping(caller, LOOK, store, key)?;
        if owners.len() > OWNERS_MAX {
            let text = format!("owners must be at most {OWNERS_MAX}, these are {}", owners.len());
            return Err(Failure::invalid(text));
        }
        let Some(lease) = store.inspect(key).await? else { return Ok(None) };
        let owner = lease.owner.expose();
        // All of them are compared, so that the time tells nothing.
        let mut found = None;
        for (index, named) in owners.iter().enumerate() {
            if bool::from(owner.as_bytes().ct_eq(named.as_bytes())) {
                found = Some(index);
            }
        }
        Ok(Some((lease.status(), found)))
    }

    /// One page of the leases of a store.
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, `Invalid`, or what the store says.
    pub async fn list_leases(
        &self,
        caller: &Caller,
        store: &str,
        query: &ListQuery,
    ) -> Result<Page, Failure> {
        caller.must(Verb::List, &self.namespace(store, &query.prefix))?;
        let prefix = &query.prefix;
        if prefix.len() > STORED_KEY_MAX {
            let size = prefix.len();
            let text = format!("prefix must have at most {STORED_KEY_MAX} bytes, it has {size}");
            return Err(Failure::invalid(text));
        }
        let limit = query.limit.clamp(1, PAGE_MAX);
        let store = &self.rooms.store(store)?.1.store;
        Ok(store.list(&ListQuery { limit, ..query.clone() }).await?)
    }

    /// Keeps the fingerprint of a namespace in a store, if it has none; see [`Store::agree`].
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchPlace`, or what the store says.
    pub async fn agree(
        &self,
        caller: &Caller,
        store: &str,
        pledge: &Pledge,
    ) -> Result<String, Failure> {
        caller.must_one(ANY_USE, pledge.namespace.as_str())?;
        Ok(self.rooms.store(store)?.1.store.agree(pledge).await?)
    }

    /// The store that keeps a key, for whoever may do one of these with it.
    fn keeping(
        &self,
        caller: &Caller,
        verbs: &[Verb],
        store: &str,
        key: &Key,
    ) -> Result<&Arc<dyn Store>, Failure> {
        caller.must_one(verbs, &self.namespace(store, key.as_str()))?;
        Ok(&self.rooms.store(store)?.1.store)
    }

    /// The namespace that a key tells, as it stands in a store, or every one.
    fn namespace(&self, store: &str, stored: &str) -> String {
        match self.rooms.store(store) {
            Ok((_, named)) => named.namespace_of(stored),
            // Where nothing is, nothing is told but the rights of the caller.
            Err(_) => KeyPolicy::namespace_of(stored).map_or("*".into(), |told| told.to_string()),
        }
    }

    /// A key of a store, for the audit log.
    fn place(&self, store: &str, key: &Key) -> Place {
        let namespace = self.namespace(store, key.as_str());
        Place { store: store.to_owned(), namespace, key: key.to_string() }
    }

    /// Tells what a client did by itself. How long it waited or held is for it to know.
    fn tell(&self, store: &str, key: &Key, kind: EventKind) {
        self.rooms.tell(store, &*self.clock, key, kind);
    }

    /// Writes down how a call ended.
    fn noted(
        &self,
        caller: &Caller,
        call: &'static str,
        store: &str,
        key: &Key,
        (fence, code): (Option<Fence>, Option<Code>),
    ) {
        if !self.ledger.writes(call) {
            return self.ledger.count(call, code);
        }
        let place = &self.place(store, key);
        self.ledger.record(caller, &Deed { call, place, fence, reason: None, code });
    }

    fn check_ttl(&self, store: &dyn Store, ttl: Duration) -> Result<(), Failure> {
        let can = &store.info().capabilities;
        let min = can.ttl_min.max(self.terms.ttl_min);
        let max = can.ttl_max.min(self.terms.ttl_max);
        if (min..=max).contains(&ttl) {
            return Ok(());
        }
        let text = format!("ttl must be {min:?} to {max:?}, this one is {ttl:?}");
        Err(Failure::invalid(text))
    }
}

fn tried(attempt: &Attempt) -> EventKind {
    match attempt {
        Attempt::Granted(lease) => EventKind::Granted { fence: lease.fence, waited: None },
        Attempt::Held(status) => {
            let (fence, holder) = (status.fence, status.holder.clone());
            EventKind::Contended { fence, holder, waited: None }
        }
    }
}

fn prolonged(renewed: &Renewed, renewal: &Renewal, took: Duration) -> EventKind {
    match renewed {
        Renewed::Renewed(lease) => EventKind::Renewed { fence: lease.fence, took },
        Renewed::Lost(_) => {
            let fence = renewal.grant.fence.unwrap_or(Fence::new(0));
            EventKind::Lost { fence, reason: LostReason::Refused, held: None }
        }
    }
}

/// The fence and the code that a call ended with.
fn end<T>(
    outcome: &Result<T, Failure>,
    done: impl FnOnce(&T) -> (Option<Fence>, Option<Code>),
) -> (Option<Fence>, Option<Code>) {
    outcome.as_ref().map_or_else(|failure| (None, Some(failure.code)), done)
}
