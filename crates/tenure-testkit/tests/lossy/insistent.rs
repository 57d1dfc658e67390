//! A store that asks again until it is answered, as the contract of a store allows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Reentry, Released, Renewal, Renewed,
};
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Error, Key, Lease, Owner, Result, Retry, Status, Store};
use tenure_testkit::wait::sleep;

const QUESTIONS: usize = 20;
/// Longer than a connection that has lost a reply lives: what was on it has arrived or never will.
const PAUSE: Duration = Duration::from_millis(40);

#[derive(Debug)]
pub(crate) struct Insistent {
    inner: Arc<dyn Store>,
    /// How many releases each owner has asked for.
    releases: Mutex<HashMap<Owner, u64>>,
}

impl Insistent {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, releases: Mutex::default() }
    }

    fn releases(&self, owner: &Owner) -> u64 {
        self.releases.lock().unwrap().get(owner).copied().unwrap_or(0)
    }

    /// The same owner gets the same grant, unless that was released since the first question: then
    /// it would be granted twice for one claim.
    async fn adopt(&self, claim: &Claim) -> Result<Attempt> {
        let releases = self.releases(&claim.owner);
        let answer = insist(|| self.inner.try_acquire(claim)).await?;
        if answer.is_repeated && self.releases(&claim.owner) > releases {
            return Err(Error::unknown("released while it was asked for again"));
        }
        Ok(answer.value)
    }
}

/// An answer, and whether one before it may have been lost.
struct Answer<T> {
    value: T,
    is_repeated: bool,
}

async fn insist<T, F>(mut ask: impl FnMut() -> F) -> Result<Answer<T>>
where
    F: Future<Output = Result<T>>,
{
    for asked in 0..QUESTIONS {
        match ask().await {
            Ok(value) => return Ok(Answer { value, is_repeated: asked > 0 }),
            Err(error) if error.retry() == Retry::Never => return Err(error),
            Err(_) => sleep(PAUSE).await,
        }
    }
    Ok(Answer { value: ask().await?, is_repeated: true })
}

#[async_trait]
impl Store for Insistent {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        match claim.reentry {
            Reentry::Adopt => self.adopt(claim).await,
            // Asked again, it would refuse what it may have granted.
            Reentry::Refuse => self.inner.try_acquire(claim).await,
        }
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        Ok(insist(|| self.inner.renew(renewal)).await?.value)
    }

    /// What was released by a question whose answer was lost is no longer held at the next: so it
    /// is looked at before.
    async fn release(&self, grant: &Grant) -> Result<Released> {
        *self.releases.lock().unwrap().entry(grant.owner.clone()).or_default() += 1;
        let before = self.inspect(&grant.key).await?;
        let answer = insist(|| self.inner.release(grant)).await?;
        Ok(match (answer.value, before) {
            (Released::NotHeld(_), Some(lease)) if answer.is_repeated && is_of(&lease, grant) => {
                Released::Released(lease.status())
            }
            (value, _) => value,
        })
    }

    /// Never asked again while the lease may be another one: that would end the wrong one.
    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        let key = &eviction.key;
        let Some(before) = self.inspect(key).await? else {
            return self.inner.force_release(eviction).await;
        };
        loop {
            match self.inner.force_release(eviction).await {
                Err(error) if error.retry() != Retry::Never => sleep(PAUSE).await,
                answer => return answer,
            }
            let now = self.inspect(key).await?;
            if now.is_none_or(|now| now.fence != before.fence) {
                return Ok(Some(before.status()));
            }
        }
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        Ok(insist(|| self.inner.inspect(key)).await?.value)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        Ok(insist(|| self.inner.list(query)).await?.value)
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        Ok(insist(|| self.inner.watch(key)).await?.value)
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        Ok(insist(|| self.inner.agree(pledge)).await?.value)
    }
}

fn is_of(lease: &Lease, grant: &Grant) -> bool {
    lease.owner == grant.owner && grant.fence.is_none_or(|fence| fence == lease.fence)
}
