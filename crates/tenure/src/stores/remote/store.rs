//! The operations of a store, each one call of the server.

use std::sync::Arc;

use async_trait::async_trait;
use tenure_api::tenure_v1::{
    AgreeRequest, ForceReleaseRequest, GetInfoRequest, InspectLeaseRequest, ListLeasesRequest,
    ReleaseLeaseRequest, RenewLeaseRequest, TryAcquireRequest,
};
use tenure_api::time::to_wire;

use super::client::{Client, PATIENCE};
use super::options::RemoteOptions;
use super::owners::Owners;
use super::watcher::Watcher;
use super::wire::{info, needed, owned, status, stored_grant};
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Reentry, Released, Renewal, Renewed,
};
use crate::clock::Clock;
use crate::error::{Result, Retry};
use crate::finding::Finding;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owner::Owner;
use crate::random::SystemRandom;
use crate::store::{Store, StoreInfo};
use crate::watch::Watch;

/// How many owners the server can be asked about at once.
const OWNERS_MAX: usize = 64;

/// Locks on a tenure server; see the [module](super).
#[derive(Debug)]
pub struct RemoteStore {
    info: StoreInfo,
    clock: Arc<dyn Clock>,
    client: Arc<Client>,
    store: String,
    owners: Owners,
    watcher: Watcher,
}

impl RemoteStore {
    pub(super) async fn open(options: RemoteOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let client = Arc::new(Client::new(&options, Arc::clone(&clock))?);
        let store = options.store.clone();
        let mut info = info(client.call(GetInfoRequest { store: store.clone() }).await?)?;
        if options.shows_token() {
            let text = "the token travels in the clear to another machine";
            let remedy = "use tenures:// and give the server a certificate";
            info.findings.push(Finding::warning("token", text).remedy(remedy));
        }
        let watcher = Watcher::start(Arc::clone(&client), Arc::clone(&clock), store.clone());
        Ok(Self { info, clock, client, store, owners: Owners::default(), watcher })
    }

    /// What is known of a claim's owner after the answer.
    fn note(&self, claim: &Claim, answer: &Result<Attempt>) {
        let now = self.clock.now();
        let is_over = match answer {
            Ok(Attempt::Granted(_)) => false,
            Ok(Attempt::Held(_)) => true,
            Err(error) => error.retry() != Retry::Unknown,
        };
        if is_over {
            self.owners.close(&claim.key, &claim.owner);
        } else {
            // The server may have decided as late as now.
            let until = now + claim.ttl + PATIENCE;
            self.owners.prolong(&claim.key, &claim.owner, now, until);
        }
    }

    /// The lease on the key, and its owner, if it is one of these.
    async fn look(&self, key: &Key, owners: &[Owner]) -> Result<Option<(Status, Option<Owner>)>> {
        let request = InspectLeaseRequest {
            store: self.store.clone(),
            key: key.to_string(),
            owners: owners.iter().map(Owner::expose).collect(),
        };
        let answer = self.client.exchange(request).await?;
        let Some(lease) = answer.lease else { return Ok(None) };
        let place = usize::try_from(answer.owner).ok().and_then(|place| place.checked_sub(1));
        let owner = place.and_then(|place| owners.get(place)).cloned();
        Ok(Some((status(lease)?, owner)))
    }

    async fn ask(&self, claim: &Claim) -> Result<Attempt> {
        let request = TryAcquireRequest {
            store: self.store.clone(),
            key: claim.key.to_string(),
            owner: claim.owner.expose(),
            ttl: Some(to_wire(claim.ttl)),
            holder: claim.holder.to_string(),
            refuse_reentry: claim.reentry == Reentry::Refuse,
        };
        let answer = self.client.exchange(request).await?;
        let status = needed(answer.lease)?;
        Ok(match answer.granted {
            true => Attempt::Granted(owned(status, claim.owner.clone())),
            false => Attempt::Held(status),
        })
    }
}

#[async_trait]
impl Store for RemoteStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let now = self.clock.now();
        self.owners.open(&claim.key, &claim.owner, now, now + claim.ttl + 2 * PATIENCE);
        let answer = self.ask(claim).await;
        self.note(claim, &answer);
        answer
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let Renewal { grant, ttl } = renewal;
        let now = self.clock.now();
        self.owners.prolong(&grant.key, &grant.owner, now, now + *ttl + 2 * PATIENCE);
        let request = RenewLeaseRequest {
            store: self.store.clone(),
            grant: Some(stored_grant(grant)),
            ttl: Some(to_wire(*ttl)),
        };
        let answer = self.client.exchange(request).await?;
        Ok(match answer.renewed {
            true => Renewed::Renewed(owned(needed(answer.lease)?, grant.owner.clone())),
            false => Renewed::Lost(answer.lease.map(status).transpose()?),
        })
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let request =
            ReleaseLeaseRequest { store: self.store.clone(), grant: Some(stored_grant(grant)) };
        let answer = self.client.exchange(request).await?;
        if !answer.released {
            return Ok(Released::NotHeld(answer.lease.map(status).transpose()?));
        }
        self.owners.close(&grant.key, &grant.owner);
        Ok(Released::Released(needed(answer.lease)?))
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let request = ForceReleaseRequest {
            store: self.store.clone(),
            key: eviction.key.to_string(),
            reason: eviction.reason.clone(),
        };
        self.client.call(request).await?.evicted.map(status).transpose()
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let owners = self.owners.of(key, self.clock.now());
        let (first, more) = owners.split_at(owners.len().min(OWNERS_MAX));
        let Some((mut seen, mut owner)) = self.look(key, first).await? else { return Ok(None) };
        // So many tries at once are rare, and so is a key that changes hands between two looks.
        let mut batches = more.chunks(OWNERS_MAX);
        while let (None, Some(batch)) = (&owner, batches.next()) {
            let Some((now, found)) = self.look(key, batch).await? else { return Ok(None) };
            if now.fence != seen.fence && found.is_none() {
                batches = owners.chunks(OWNERS_MAX);
            }
            (seen, owner) = (now, found);
        }
        let owner = match owner {
            Some(owner) => owner,
            // Somebody else's, which nobody here may know: equal to none.
            None => Owner::generate(&SystemRandom)?,
        };
        Ok(Some(owned(seen, owner)))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        let request = ListLeasesRequest {
            store: self.store.clone(),
            prefix: query.prefix.clone(),
            after: query.after.as_ref().map(Key::to_string).unwrap_or_default(),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
        };
        let answer = self.client.call(request).await?;
        let items = answer.leases.into_iter().map(status).collect::<Result<_>>()?;
        let next = Some(answer.next).filter(|next| !next.is_empty()).map(Key::stored);
        Ok(Page { items, next })
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        if !self.info.capabilities.wakes {
            return Ok(Watch::never());
        }
        self.watcher.watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        let request = AgreeRequest {
            store: self.store.clone(),
            namespace: pledge.namespace.to_string(),
            fingerprint: pledge.fingerprint.clone(),
        };
        Ok(self.client.call(request).await?.fingerprint)
    }
}
