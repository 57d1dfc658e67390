//! Stores with known bugs, to prove that the suite finds them.
//!
//! Bugs of the client are switched on in the engine ([`tenure::planted`]); those of a store are
//! wrappers here.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Reentry, Released, Renewal, Renewed,
};
use tenure::planted::Bug;
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Error, ErrorKind, Fence, Key, Lease, Result, Status, Store};

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Runs `work` with a client bug switched on in every conformance case that it starts.
pub fn with_planted<T>(bug: Bug, work: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(bug));
    let outcome = work();
    PLANTED.set(None);
    outcome
}

pub(crate) fn planted() -> Option<Bug> {
    PLANTED.get()
}

/// A bug of a store that was seen in the wild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBug {
    /// A lease ends early, by a clock that another one stepped.
    ExpiresEarly,
    /// No lease is prolonged, and no renewal says that it is lost.
    RenewFails,
    /// A renewal writes the lease back whether it stands or not.
    RenewRevives,
    /// A release takes away whatever stands on the key.
    ReleaseTakesAny,
    /// A claim is granted without a look at what stands.
    IgnoresCondition,
    /// A passing failure is reported as "held by another".
    FailureIsHeld,
    /// A release wakes no one.
    NoWakeUp,
    /// The fence starts again after every release.
    FenceRestarts,
    /// The same owner's repeated request is refused.
    NotIdempotent,
    /// A lease stays for several times the ttl that was asked for.
    ExpiresLate,
    /// A connection that has failed once is never made anew.
    NeverReconnects,
    /// A force says whose lease it ended, and ends none.
    ForceDoesNothing,
    /// A look is answered with what was found by the look before.
    StaleStatus,
    /// A release is answered, and nothing is released.
    ReleaseDoesNothing,
}

impl StoreBug {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ExpiresEarly,
        Self::RenewFails,
        Self::RenewRevives,
        Self::ReleaseTakesAny,
        Self::IgnoresCondition,
        Self::FailureIsHeld,
        Self::NoWakeUp,
        Self::FenceRestarts,
        Self::NotIdempotent,
        Self::ExpiresLate,
        Self::NeverReconnects,
        Self::ForceDoesNothing,
        Self::StaleStatus,
        Self::ReleaseDoesNothing,
    ];
}

/// How many times its ttl a lease stays that ends late.
const LATE: u32 = 4;

/// A store with one bug.
#[derive(Debug)]
pub struct Mutant {
    inner: Arc<dyn Store>,
    bug: StoreBug,
    restarted: AtomicU64,
    /// Whether its connection has failed.
    failed: AtomicBool,
    /// What was found by the last look at each key.
    seen: Mutex<HashMap<Key, Option<Lease>>>,
}

impl Mutant {
    /// `inner` with `bug`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, bug: StoreBug) -> Self {
        Self {
            inner,
            bug,
            restarted: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    /// What comes of work on a connection that is never made anew.
    async fn connected<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let is_sticky = self.bug == StoreBug::NeverReconnects;
        if is_sticky && self.failed.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the connection is gone"));
        }
        let answer = work.await;
        let is_gone =
            |error: &Error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        if answer.as_ref().is_err_and(is_gone) {
            self.failed.store(true, Ordering::SeqCst);
        }
        answer
    }

    /// Asks for a lease of another ttl, and says that it has the one that was asked for.
    async fn take_for(&self, ttl: Duration, claim: &Claim) -> Result<Attempt> {
        let other = Claim { ttl, ..claim.clone() };
        Ok(match self.inner.try_acquire(&other).await? {
            Attempt::Granted(lease) => Attempt::Granted(told(lease, claim.ttl)),
            held @ Attempt::Held(_) => held,
        })
    }

    async fn take_anyway(&self, claim: &Claim) -> Result<Attempt> {
        self.inner.force_release(&evicting(&claim.key)?).await?;
        self.inner.try_acquire(claim).await
    }

    fn renumber(&self, attempt: Attempt) -> Attempt {
        match attempt {
            Attempt::Granted(lease) => {
                let since = lease.fence.get() - self.restarted.load(Ordering::SeqCst);
                Attempt::Granted(Lease { fence: Fence::new(since), ..lease })
            }
            Attempt::Held(status) => Attempt::Held(status),
        }
    }
}

#[async_trait]
impl Store for Mutant {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        match self.bug {
            StoreBug::ExpiresEarly => self.take_for(claim.ttl.mul_f64(0.7), claim).await,
            StoreBug::ExpiresLate => self.take_for(claim.ttl * LATE, claim).await,
            StoreBug::IgnoresCondition => self.take_anyway(claim).await,
            StoreBug::FailureIsHeld => match self.inner.try_acquire(claim).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    Ok(Attempt::Held(nobody(claim)))
                }
                answer => answer,
            },
            StoreBug::FenceRestarts => Ok(self.renumber(self.inner.try_acquire(claim).await?)),
            StoreBug::NotIdempotent => {
                let strict = Claim { reentry: Reentry::Refuse, ..claim.clone() };
                self.inner.try_acquire(&strict).await
            }
            StoreBug::NeverReconnects => self.connected(self.inner.try_acquire(claim)).await,
            StoreBug::RenewFails
            | StoreBug::RenewRevives
            | StoreBug::ReleaseTakesAny
            | StoreBug::NoWakeUp
            | StoreBug::ForceDoesNothing
            | StoreBug::StaleStatus
            | StoreBug::ReleaseDoesNothing => self.inner.try_acquire(claim).await,
        }
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        if self.bug == StoreBug::RenewFails {
            return Err(Error::unavailable("no lease is prolonged here"));
        }
        if self.bug == StoreBug::ExpiresLate {
            let longer = Renewal { ttl: renewal.ttl * LATE, ..renewal.clone() };
            return Ok(match self.inner.renew(&longer).await? {
                Renewed::Renewed(lease) => Renewed::Renewed(told(lease, renewal.ttl)),
                lost @ Renewed::Lost(_) => lost,
            });
        }
        let answer = self.connected(self.inner.renew(renewal)).await?;
        if self.bug == StoreBug::RenewRevives && answer == Renewed::Lost(None) {
            let Grant { key, owner, .. } = renewal.grant.clone();
            let holder = tenure::Holder::this_process();
            let claim = Claim { key, owner, ttl: renewal.ttl, holder, reentry: Reentry::Adopt };
            if let Attempt::Granted(lease) = self.inner.try_acquire(&claim).await? {
                return Ok(Renewed::Renewed(lease));
            }
        }
        Ok(answer)
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        let answer = match self.bug {
            StoreBug::ReleaseTakesAny => {
                match self.inner.force_release(&evicting(&grant.key)?).await? {
                    Some(status) => Released::Released(status),
                    None => Released::NotHeld(None),
                }
            }
            StoreBug::ReleaseDoesNothing => match self.inner.inspect(&grant.key).await? {
                Some(lease) if lease.owner == grant.owner => Released::Released(lease.status()),
                other => Released::NotHeld(other.map(|lease| lease.status())),
            },
            StoreBug::FenceRestarts => {
                self.inner.release(&Grant { fence: None, ..grant.clone() }).await?
            }
            _ => self.connected(self.inner.release(grant)).await?,
        };
        if let Released::Released(status) = &answer {
            self.restarted.store(status.fence.get(), Ordering::SeqCst);
        }
        Ok(answer)
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        if self.bug == StoreBug::ForceDoesNothing {
            let lease = self.inner.inspect(&eviction.key).await?;
            return Ok(lease.map(|lease| lease.status()));
        }
        self.connected(self.inner.force_release(eviction)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let found = self.connected(self.inner.inspect(key)).await?;
        if self.bug != StoreBug::StaleStatus {
            return Ok(found);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.insert(key.clone(), found.clone()).unwrap_or(found))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.connected(self.inner.list(query)).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        match self.bug {
            StoreBug::NoWakeUp => Ok(Watch::never()),
            _ => self.connected(self.inner.watch(key)).await,
        }
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.connected(self.inner.agree(pledge)).await
    }
}

/// A lease that is said to have this ttl.
fn told(lease: Lease, ttl: Duration) -> Lease {
    Lease { ttl, remaining: ttl, ..lease }
}

fn nobody(claim: &Claim) -> Status {
    Status {
        key: claim.key.clone(),
        fence: Fence::new(0),
        ttl: claim.ttl,
        holder: claim.holder.clone(),
        granted_at: std::time::SystemTime::UNIX_EPOCH,
        remaining: Duration::ZERO,
    }
}

fn evicting(key: &Key) -> Result<Eviction> {
    Eviction::new(key.clone(), "a planted bug")
}
