//! Waiting, renewal and loss: written once, here, over any store.

mod acquire;
mod backoff;
mod belief;
mod builder;
mod cleanup;
mod context;
mod events;
mod guard;
mod hold;
mod keep;
mod keeper;
mod options;
mod order;
mod queue;
mod request;
mod run;
mod stays;
mod view;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};

pub use backoff::Backoff;
pub use builder::LocksBuilder;
pub use events::{Event, EventKind, Events, Observer};
pub use guard::Guard;
pub use keep::LostReason;
pub use options::{Excess, Limits};
pub use order::Waiting;
pub use request::LockRequest;
pub use run::LockedFn;
pub use view::GuardView;

use crate::claim::{Eviction, Grant, ListQuery, Released, Renewal, Renewed};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owner::Owner;
use crate::store::StoreInfo;
use crate::watch::Watch;
use cleanup::Cleanup;
use context::Context;
use keeper::Keeper;
use queue::Queue;
pub use queue::QueueLengths;
use stays::Stays;

const PAGE: usize = 256;

/// Locks on one store: the way in. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use std::time::Duration;
///
/// let locks = tenure::Locks::open("memory:").await?;
/// let guard = locks.lock("order:42").wait(Duration::from_secs(5)).acquire().await?;
/// println!("write with fence {}", guard.fence());
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Locks(Arc<Engine>);

#[derive(Debug)]
pub(crate) struct Engine {
    context: Arc<Context>,
    queue: Arc<Queue>,
    stays: Arc<Stays>,
    keeper: Arc<Keeper>,
    cleanup: Arc<Cleanup>,
}

impl Locks {
    /// Opens the store that `url` names, with the usual settings.
    ///
    /// # Errors
    /// As [`LocksBuilder::open`].
    pub async fn open(url: &str) -> Result<Self> {
        Self::builder().open(url).await
    }

    /// Settings to open a store with.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }

    pub(crate) fn start(context: Context) -> Self {
        let context = Arc::new(context);
        let keeper = Arc::new(Keeper::start(Arc::clone(&context)));
        let cleanup = Arc::new(Cleanup::new(Arc::clone(&context), Arc::clone(&keeper)));
        Self(Arc::new(Engine {
            context,
            queue: Arc::default(),
            stays: Arc::default(),
            keeper,
            cleanup,
        }))
    }

    /// The lock with this key, to be acquired or run under.
    pub fn lock(&self, key: &str) -> LockRequest {
        LockRequest::new(Arc::clone(&self.0), key)
    }

    /// What the store says of itself: its class, why, and what it can do.
    #[must_use]
    pub fn store(&self) -> &StoreInfo {
        self.0.context.store.info()
    }

    /// Gives back a lease by key and owner, whichever process acquired it.
    ///
    /// # Errors
    /// `NotFound` when no lease stands on the key, `WrongOwner` when another's does. After
    /// `Unknown` it may have been released, or be released yet: do not ask for the key with the
    /// same owner before the ttl has passed.
    pub async fn release(&self, key: &str, owner: &Owner) -> Result<()> {
        let grant = self.grant(key, owner, Operation::Release)?;
        match self.0.context.store.release(&grant).await? {
            Released::Released(status) => {
                self.0.stays.forget(&grant.key);
                let kind = EventKind::Released { fence: status.fence, held: None };
                self.0.context.tell(&grant.key, kind);
                Ok(())
            }
            Released::NotHeld(other) => {
                Err(self.not_held(&grant.key, other.as_ref(), Operation::Release))
            }
        }
    }

    /// Prolongs a lease by key and owner, whichever process acquired it. It never shortens one and
    /// never revives one that has ended.
    ///
    /// # Errors
    /// `NotFound` when no lease stands on the key, `WrongOwner` when another's does; after
    /// `Unknown` it may have been prolonged.
    pub async fn renew(&self, key: &str, owner: &Owner, ttl: Duration) -> Result<Lease> {
        let grant = self.grant(key, owner, Operation::Renew)?;
        let context = &self.0.context;
        let ttl =
            context.options.limits.ttl(ttl).map_err(|error| error.during(Operation::Renew))?;
        let sent = context.clock.now();
        match context.store.renew(&Renewal { grant: grant.clone(), ttl }).await? {
            Renewed::Renewed(lease) => {
                let took = context.clock.now().since(sent);
                context.tell(&grant.key, EventKind::Renewed { fence: lease.fence, took });
                Ok(lease)
            }
            Renewed::Lost(other) => {
                Err(self.not_held(&grant.key, other.as_ref(), Operation::Renew))
            }
        }
    }

    /// Who holds the key, without the owner; `None` when no one does.
    ///
    /// # Errors
    /// `Unavailable` when the store could not be asked: that never means "free".
    pub async fn status(&self, key: &str) -> Result<Option<Status>> {
        Ok(self.inspect(key).await?.map(|lease| lease.status()))
    }

    /// The lease that stands on the key, with its owner; `None` when there is none. The owner is a
    /// credential: show it to no one but its owner and an administrator.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn inspect(&self, key: &str) -> Result<Option<Lease>> {
        let key = self.key(key, Operation::Inspect)?;
        self.0.context.store.inspect(&key).await
    }

    /// A hint that the key has changed since this call.
    ///
    /// # Contract
    /// A release is what it is for. It may come early or for nothing, late, and once for several
    /// changes; whether a grant or a renewal brings it is up to the store, and the end of a ttl
    /// never does. Where [`Capabilities::wakes`](crate::store::Capabilities::wakes) is false it
    /// does not come at all. So: watch first, then look with [`status`](Self::status), wait for the
    /// hint or for the end of what is left of the lease, but never longer than you can bear not to
    /// know, and look again.
    ///
    /// # Errors
    /// `Unavailable` when the store could not be asked.
    pub async fn watch(&self, key: &str) -> Result<Watch> {
        let key = self.key(key, Operation::Watch)?;
        self.0.context.store.watch(&key).await
    }

    /// Whether someone holds the key.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn is_locked(&self, key: &str) -> Result<bool> {
        Ok(self.status(key).await?.is_some())
    }

    /// All leases whose keys begin with `prefix`, in the order of their keys, fetched page by
    /// page. Leases that come and go meanwhile may or may not be among them. The stream ends at
    /// the first error.
    pub fn list(&self, prefix: &str) -> impl Stream<Item = Result<Status>> + Send + use<> {
        self.list_after(prefix, None)
    }

    /// As [`list`](Self::list), but only what comes after this key: to go on where an earlier
    /// listing was left.
    pub fn list_after(
        &self,
        prefix: &str,
        after: Option<&Key>,
    ) -> impl Stream<Item = Result<Status>> + Send + use<> {
        let first = ListQuery { prefix: prefix.to_owned(), after: after.cloned(), limit: PAGE };
        let start = Listing {
            engine: Arc::clone(&self.0),
            next: Some(first),
            page: Vec::new().into_iter(),
        };
        stream::unfold(start, |mut listing| async move {
            let item = listing.next_item().await?;
            Some((item, listing))
        })
    }

    /// Takes the key from whoever holds it; says who that was, `None` when no one did. The next
    /// grant's fence is greater, and the old holder's guard learns of it at its next renewal: at
    /// once where the store refuses it, and in any case by its deadline. Where a store says that an
    /// entry is `Damaged`, this is what makes the key usable again.
    ///
    /// # Errors
    /// `Invalid` without a reason; after `Unknown` it may have been released.
    pub async fn force_release(&self, key: &str, reason: &str) -> Result<Option<Status>> {
        let eviction = Eviction::new(self.key(key, Operation::ForceRelease)?, reason)?;
        let evicted = self.0.context.store.force_release(&eviction).await?;
        let Eviction { key, reason } = eviction;
        self.0.stays.forget(&key);
        if let Some(status) = &evicted {
            self.0.context.tell(&key, EventKind::Forced { fence: status.fence, reason });
        }
        Ok(evicted)
    }

    /// What happens from now on to the locks of this value and its clones. A listener that is too
    /// slow is told how many events it missed.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        self.0.context.events.listen(Arc::clone(&self.0.context.clock))
    }

    /// How many of this process wait for the key or are about to ask for it.
    #[must_use]
    pub fn waiters(&self, key: &str) -> usize {
        self.0.queue.len(key)
    }

    /// How many of this process wait, in how many lines.
    #[must_use]
    pub fn queue(&self) -> QueueLengths {
        self.0.queue.lengths()
    }

    /// Returns when everything that was dropped, cancelled or left in doubt has been given back,
    /// or must have ended by itself: a ttl after the last try was given up. Call it before the
    /// process ends.
    pub async fn flush(&self) {
        self.0.cleanup.flush().await;
    }

    fn key(&self, key: &str, operation: Operation) -> Result<Key> {
        let limit = self.0.context.options.limits.key_bytes;
        Key::with_limit(key, limit).map_err(|error| error.during(operation))
    }

    fn grant(&self, key: &str, owner: &Owner, operation: Operation) -> Result<Grant> {
        Ok(Grant { key: self.key(key, operation)?, owner: owner.clone(), fence: None })
    }

    fn not_held(&self, key: &Key, other: Option<&Status>, operation: Operation) -> Error {
        let error = match other {
            Some(status) => Error::new(
                ErrorKind::WrongOwner,
                format!("held by {} under another owner", status.holder),
            ),
            None => Error::new(ErrorKind::NotFound, "no lease stands on this key"),
        };
        error.during(operation).about(self.0.context.label(key).as_str())
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locks").field(&self.0.context).finish()
    }
}

struct Listing {
    engine: Arc<Engine>,
    next: Option<ListQuery>,
    page: std::vec::IntoIter<Status>,
}

impl Listing {
    async fn next_item(&mut self) -> Option<Result<Status>> {
        loop {
            if let Some(status) = self.page.next() {
                return Some(Ok(status));
            }
            let query = self.next.take()?;
            match self.engine.context.store.list(&query).await {
                Ok(page) => {
                    self.next = page.next.map(|next| ListQuery { after: Some(next), ..query });
                    self.page = page.items.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
