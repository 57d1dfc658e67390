//! Where locks come from, and who may do what with them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use http::Extensions;
use tenure::claim::Reentry;
use tenure::error::Chain;
use tenure::{Error, ErrorKind, Fence, Guard, Lease, Locks, Owner};

/// Gives out locks. [`Locks`] do, behind rights of the application's own; a server may have its own
/// way to check, to count and to write down.
///
/// `caller` is what the application around has put beside the HTTP request.
#[async_trait]
pub trait LockDesk: fmt::Debug + Send + Sync + 'static {
    /// Takes a lock.
    ///
    /// # Contract
    /// As [`LockRequest::acquire`](tenure::LockRequest::acquire): after an error, and when the
    /// future is dropped, nothing stays locked. An owner that holds the lock already is refused.
    async fn acquire(&self, caller: &Extensions, wanted: &Wanted) -> Result<Lent, Refusal>;

    /// Gives a lock back by its owner.
    async fn release(&self, caller: &Extensions, key: &str, owner: &Owner) -> Result<(), Refusal>;

    /// Takes a lock from whoever holds it; `false` when no one did.
    async fn force_release(&self, caller: &Extensions, key: &str) -> Result<bool, Refusal>;

    /// Who holds a lock. The owner is told only to those who may see it: an administrator, or
    /// whoever names it as `known`.
    async fn status(
        &self,
        caller: &Extensions,
        key: &str,
        known: Option<&Owner>,
    ) -> Result<Option<Seen>, Refusal>;

    /// Whether locks can be had at all.
    async fn check(&self) -> Result<(), Refusal>;

    /// Whether the caller may have calls handed on to another server at all.
    ///
    /// # Errors
    /// `Forbidden`.
    fn admit(&self, caller: &Extensions) -> Result<(), Refusal>;

    /// Who calls, for what must not be shared between callers.
    fn name(&self, caller: &Extensions) -> String;
}

/// A lock that was taken for a call.
pub struct Lent {
    /// It gives the lock back, unless that stays with the caller.
    pub guard: Guard,
    /// What to do when it stays. Otherwise this is dropped with the call.
    pub stays: Option<Stays>,
}

/// Told the lease of a lock that stays with the caller of a call.
pub type Stays = Box<dyn FnOnce(&Lease) + Send + Sync>;

impl Lent {
    /// Leaves the lock to whoever has its owner, until its ttl has passed.
    pub(crate) fn leave(self) {
        let lease = self.guard.detach();
        if let Some(stays) = self.stays {
            stays(&lease);
        }
    }
}

impl From<Guard> for Lent {
    fn from(guard: Guard) -> Self {
        Self { guard, stays: None }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// A lock that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The whole key, with its prefix.
    pub key: String,
    /// For how long it outlives whoever keeps it alive.
    pub ttl: Duration,
    /// How long to wait; zero is not at all.
    pub wait: Duration,
    /// The owner that the caller wants to be; a new one if not set.
    pub owner: Option<Owner>,
    /// A note for people.
    pub note: String,
}

/// A lock as it is held.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The secret that gives it back, if the caller may see it.
    pub owner: Option<Owner>,
    /// The number of the grant.
    pub fence: Fence,
    /// When it was granted, for people.
    pub granted_at: SystemTime,
    /// What is left of it.
    pub remaining: Duration,
}

impl Seen {
    /// This lease, with its owner if that may be seen.
    #[must_use]
    pub fn of(lease: Lease, with_owner: bool) -> Self {
        let owner = with_owner.then_some(lease.owner);
        let Lease { fence, granted_at, remaining, .. } = lease;
        Self { owner, fence, granted_at, remaining }
    }
}

/// Why there is no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another holds it.
    Held,
    /// Another held it until the wait was over.
    TimedOut,
    /// No one holds it.
    NotFound,
    /// Another holds it.
    WrongOwner,
    /// What is asked for is wrong.
    Invalid(String),
    /// The caller may not do this.
    Forbidden(String),
    /// The caller has as much as it may have, or too many wait already.
    Limit(String),
    /// The store cannot be used at the moment, or did not answer.
    Unavailable(String),
    /// The store failed in a way that does not go away by itself.
    Failed(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Held => Self::Held,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::WrongOwner => Self::WrongOwner,
            ErrorKind::Invalid => Self::Invalid(error.to_string()),
            ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Lost => {
                tracing::warn!(error = %Chain(&error), "the store failed");
                Self::Unavailable(error.to_string())
            }
            _ => {
                tracing::warn!(error = %Chain(&error), "the store failed");
                Self::Failed(error.to_string())
            }
        }
    }
}

/// Names a caller by what the application has put beside a request.
pub(crate) type Naming = Arc<dyn Fn(&Extensions) -> String + Send + Sync>;

/// Decides by what the application has put beside a request.
pub(crate) type Right = Arc<dyn Fn(&Extensions) -> bool + Send + Sync>;

/// Locks for everyone who gets this far, except for what needs a right of its own.
#[derive(Clone)]
pub(crate) struct OpenDesk {
    pub(crate) locks: Locks,
    /// Who may take a lock away by force: no one, unless the application says so.
    pub(crate) may_force: Right,
    /// Who sees owners: everyone, as the specification has it, unless the application says so.
    pub(crate) sees_owners: Right,
    /// Who calls: no one in particular, unless the application says so.
    pub(crate) naming: Naming,
}

impl OpenDesk {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            may_force: Arc::new(|_| false),
            sees_owners: Arc::new(|_| true),
            naming: Arc::new(|_| String::new()),
        }
    }
}

impl fmt::Debug for OpenDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenDesk").field("locks", &self.locks).finish_non_exhaustive()
    }
}

#[async_trait]
impl LockDesk for OpenDesk {
    async fn acquire(&self, _: &Extensions, wanted: &Wanted) -> Result<Lent, Refusal> {
        let Wanted { key, ttl, wait, owner, note } = wanted;
        let request = self.locks.lock(key).ttl(*ttl).wait(*wait).holder(note);
        let request = match owner {
            Some(owner) => request.owner(owner.clone()).reentry(Reentry::Refuse),
            None => request,
        };
        match request.acquire().await {
            Ok(guard) => Ok(guard.into()),
            // Whoever waits is refused at once only where too many wait already.
            Err(error) if error.kind() == ErrorKind::Held && !wait.is_zero() => {
                Err(Refusal::Limit(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, _: &Extensions, key: &str, owner: &Owner) -> Result<(), Refusal> {
        Ok(self.locks.release(key, owner).await?)
    }

    async fn force_release(&self, caller: &Extensions, key: &str) -> Result<bool, Refusal> {
        if !(self.may_force)(caller) {
            let text = "Force release operation requires administrative privileges";
            return Err(Refusal::Forbidden(text.into()));
        }
        Ok(self.locks.force_release(key, "Forrst force-release").await?.is_some())
    }

    async fn status(
        &self,
        caller: &Extensions,
        key: &str,
        known: Option<&Owner>,
    ) -> Result<Option<Seen>, Refusal> {
        let lease = self.locks.inspect(key).await?;
        Ok(lease.map(|lease| {
            let with_owner = known == Some(&lease.owner) || (self.sees_owners)(caller);
            Seen::of(lease, with_owner)
        }))
    }

    async fn check(&self) -> Result<(), Refusal> {
        self.locks.inspect("health").await?;
        Ok(())
    }

    fn admit(&self, _: &Extensions) -> Result<(), Refusal> {
        Ok(())
    }

    fn name(&self, caller: &Extensions) -> String {
        (self.naming)(caller)
    }
}
