//! What is asked of a lock, and the ways to ask.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Reentry};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::key::Key;
use crate::locks::Engine;
use crate::locks::acquire::acquire;
use crate::locks::guard::Guard;
use crate::locks::order::{OnWait, Order, Waiting};
use crate::locks::run::{LockedFn, run_under};
use crate::owner::Owner;

/// A lock that is about to be asked for: made by [`Locks::lock`](crate::Locks::lock).
///
/// It can be used any number of times; every use is a new acquire with a new owner, unless one was
/// set.
#[derive(Clone)]
#[must_use = "a request does nothing until it is acquired or run"]
pub struct LockRequest {
    engine: Arc<Engine>,
    key: String,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    owner: Option<Owner>,
    note: Option<String>,
    reentry: Reentry,
    keep_alive: Option<bool>,
    max_hold: Option<Duration>,
    on_wait: Option<OnWait>,
}

impl LockRequest {
    pub(crate) fn new(engine: Arc<Engine>, key: &str) -> Self {
        Self {
            engine,
            key: key.to_owned(),
            ttl: None,
            wait: None,
            owner: None,
            note: None,
            reentry: Reentry::Adopt,
            keep_alive: None,
            max_hold: None,
            on_wait: None,
        }
    }

    /// For how long each grant and renewal holds, at the least. A lock whose process dies is free
    /// after this time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for a key that is held. Zero: not at all. Not set: until it is granted.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Uses this owner instead of a new random one.
    ///
    /// While it holds the key, another acquire with it gets the same grant again (see
    /// [`reentry`](Self::reentry)): two guards then share it, and releasing or dropping one ends
    /// both. The other is told first, if it is of the same [`Locks`](crate::Locks) and asked with
    /// this owner too; an owner belongs to one of them at a time. One that a guard was given
    /// without asking for it is that guard's alone until the guard has ended.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// A note for people, behind the host and process in the holder's label.
    pub fn holder(mut self, note: &str) -> Self {
        self.note = Some(note.to_owned());
        self
    }

    /// What happens when the owner already holds the key. An owner that is refused then holds it by
    /// one acquire at a time: the holder's label gets a mark, by which they are told apart.
    pub fn reentry(mut self, reentry: Reentry) -> Self {
        self.reentry = reentry;
        self
    }

    /// Whether the guard renews its lease. Without, it is lost when its ttl is over.
    pub fn keep_alive(mut self, on: bool) -> Self {
        self.keep_alive = Some(on);
        self
    }

    /// The longest time to hold: renewal stops there and the guard is lost.
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// Calls `show` while waiting: on joining the line of this process, and again when its place
    /// in it or the holder has changed, about once a second or, far behind, every few seconds; at
    /// the head of the line, as soon as another holder is seen.
    pub fn on_wait(mut self, show: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.on_wait = Some(Arc::new(show));
        self
    }

    /// The ttl that will be used, after clamping to the limits.
    ///
    /// # Errors
    /// `Invalid` when it is beyond the limits and those refuse.
    pub fn effective_ttl(&self) -> Result<Duration> {
        let options = &self.engine.context.options;
        options.limits.ttl(self.ttl.unwrap_or(options.default_ttl))
    }

    /// The wait that will be used, after clamping to the limits; `None` is without end.
    ///
    /// # Errors
    /// `Invalid` when it is beyond the limits and those refuse.
    pub fn effective_wait(&self) -> Result<Option<Duration>> {
        self.engine.context.options.limits.wait(self.wait)
    }

    /// Waits for the lock.
    ///
    /// # Contract
    /// After `Ok`, the store has granted the key to this guard. After an error, and when the
    /// future is dropped at any point, nothing stays locked: what may have been granted is given
    /// back in the background, and ends by itself after the ttl at the latest.
    ///
    /// A store that fails is asked again until the wait is over; without a wait limit for 30
    /// seconds of failure on end, or as the builder says.
    ///
    /// # Errors
    /// `Held` with a wait of zero, `TimedOut` when the wait was over, `Unavailable` or `Unknown`
    /// when the store could not be asked, `Invalid` for bad input.
    pub async fn acquire(&self) -> Result<Guard> {
        let order = self.order(self.effective_wait())?;
        Box::pin(acquire(&self.engine, &order)).await
    }

    /// Takes the lock if it is free now; `None` when it is held.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never `Held` or `TimedOut`.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let order = self.order(Ok(Some(Duration::ZERO)))?;
        match Box::pin(acquire(&self.engine, &order)).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::Held => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock, runs `work` under it, and gives it back when the work returns, panics
    /// or is cancelled.
    ///
    /// # Contract
    /// The work's future is dropped, and not polled again, before the lease can end. Work that
    /// blocks its thread cannot be stopped so: have it ask [`Guard::is_held`], and the resource
    /// check the fence. After `Ok`, the work ran to its end while the lock was held. After `Lost`
    /// it was stopped, or had ended too late to be sure: [`Error::overrun`] says by how much.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` when the lease was lost and the work was stopped.
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.acquire().await?;
        Box::pin(run_under(guard, work)).await
    }

    /// Runs `work` under the lock if that is free now; `None` when it is held and the work was not
    /// run. Otherwise as [`run`](Self::run).
    ///
    /// # Errors
    /// As [`run`](Self::run), but never `Held` or `TimedOut`.
    pub async fn run_if_free<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<Option<T>> {
        match self.try_acquire().await? {
            Some(guard) => Box::pin(run_under(guard, work)).await.map(Some),
            None => Ok(None),
        }
    }

    /// A function that runs under this lock whenever it is called.
    pub fn wrap<F>(self, function: F) -> LockedFn<F> {
        LockedFn::new(self, function)
    }

    fn order(&self, wait: Result<Option<Duration>>) -> Result<Order> {
        self.checked_order(wait).map_err(|error| error.during(Operation::Acquire))
    }

    fn checked_order(&self, wait: Result<Option<Duration>>) -> Result<Order> {
        let context = &self.engine.context;
        let options = &context.options;
        let key = Key::with_limit(&self.key, options.limits.key_bytes)?;
        let ttl = self.effective_ttl()?;
        if self.max_hold.is_some_and(|hold| hold.is_zero()) {
            return Err(Error::invalid("max_hold must be longer than 0"));
        }
        let owner = match &self.owner {
            Some(owner) => owner.clone(),
            None => Owner::generate(&*context.random)?,
        };
        let holder = match (&self.owner, self.reentry) {
            (Some(_), Reentry::Refuse) => options.holder.marked(&*context.random)?,
            _ => options.holder.clone(),
        };
        let holder = match &self.note {
            Some(note) => holder.with_note(note)?,
            None => holder,
        };
        let keep_alive = self.keep_alive.unwrap_or(options.keep_alive);
        Ok(Order {
            claim: Claim { key, owner, ttl, holder, reentry: self.reentry },
            owner_is_chosen: self.owner.is_some(),
            wait: wait?,
            interval: keep_alive.then(|| ttl / options.keep_alive_factor),
            max_hold: self.max_hold,
            on_wait: self.on_wait.clone(),
        })
    }
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest")
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
