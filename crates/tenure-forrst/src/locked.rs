//! Work under a lock: taken, kept, and given back whatever becomes of the work.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tenure::clock::Clock;
use tenure::error::Chain;
use tenure::{ErrorKind, Guard, GuardView};

use crate::desk::{Lent, LockDesk, Wanted};
use crate::extension::atomic_lock::{Acquired, LockOptions, NotAcquired};
use crate::fault::Fault;
use crate::released::ReleasedLocks;
use crate::response::Told;
use crate::stop::Stop;

/// What is needed to take locks.
#[derive(Debug)]
pub(crate) struct Locking {
    pub(crate) desk: Arc<dyn LockDesk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) prefix: String,
    pub(crate) released: Arc<ReleasedLocks>,
}

/// A lock that a call wants to run under.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) urn: &'a str,
    pub(crate) options: &'a LockOptions,
    pub(crate) function: &'a str,
    pub(crate) caller: &'a http::Extensions,
    /// Whether the work may still go on elsewhere after it is dropped here. Then its lock is left
    /// to end with its ttl.
    pub(crate) goes_on: &'a AtomicBool,
}

/// How work under a lock ended, and what to tell about the lock.
pub(crate) struct Ended<T> {
    pub(crate) outcome: Result<T, Fault>,
    pub(crate) told: Vec<Told>,
    /// Whether the function came to its end all the same, where the outcome is an error.
    pub(crate) was_done: bool,
}

/// The lock of a call, which decides what becomes of itself when the call is dropped.
struct Kept<'a> {
    lent: Option<Lent>,
    goes_on: &'a AtomicBool,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take().filter(|_| self.goes_on.load(Ordering::Relaxed)) {
            lent.leave();
        }
    }
}

/// Another had the lock before the call was done.
struct Lost;

impl Locking {
    /// Takes the lock, runs the work, and gives the lock back if that was wanted, or if the work
    /// was stopped. `was_done` says whether the function ran: a lock that should stay does so only
    /// then.
    pub(crate) async fn run<T, W>(
        &self,
        plan: &Plan<'_>,
        stop: &mut Stop,
        work: impl FnOnce(&str, GuardView) -> W,
        was_done: impl FnOnce(&Result<T, Fault>) -> bool,
    ) -> Ended<T>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let full_key = plan.options.full_key(&self.prefix, plan.function);
        let lent = match self.take(plan, &full_key, stop).await {
            Ok(lent) => lent,
            Err(ended) => return ended,
        };
        let (fence, view) = (lent.guard.fence(), lent.guard.view());
        let mut kept = Kept { lent: Some(lent), goes_on: plan.goes_on };
        let Some(Lent { guard, .. }) = &kept.lent else { return Ended::failed(Fault::internal()) };
        let work = stop.or_done(caught(plan.function, work(&full_key, view)));
        let ended = guard.while_held(work).await;
        let (is_held, told) = (guard.is_held(), self.told(plan, guard));
        let came_to_its_end = matches!(ended, Ok(Ok(Ok(_))));
        let lost = || {
            let fault = plan.options.lost(&full_key, fence);
            Ended { was_done: came_to_its_end, ..Ended::failed(fault) }
        };
        // What outlasts the lease was not alone, even if it came to its end.
        let Some(ended) = ended.ok().filter(|_| is_held) else { return lost() };
        // What was stopped did not do what its lock should stay for.
        let stays = !plan.options.auto_release && ended.as_ref().is_ok_and(was_done);
        match self.end(plan, &full_key, kept.lent.take(), stays).await {
            Ok(()) => Ended::told(ended.and_then(|done| done), vec![told]),
            Err(Lost) => lost(),
        }
    }

    async fn take<T>(
        &self,
        plan: &Plan<'_>,
        full_key: &str,
        stop: &mut Stop,
    ) -> Result<Lent, Ended<T>> {
        let options = plan.options;
        let wanted = Wanted {
            key: full_key.to_owned(),
            ttl: options.ttl.duration(),
            wait: options.wait(),
            owner: options.owner.clone(),
            note: plan.function.to_owned(),
        };
        let asked = stop.or(self.desk.acquire(plan.caller, &wanted)).await;
        match asked.map_err(Ended::failed)? {
            Ok(lent) => {
                if let Some(owner) = &options.owner {
                    self.released.forget(full_key, owner);
                }
                Ok(lent)
            }
            Err(refusal) => {
                let fault = options.refused(refusal, full_key);
                let waited = options.block.is_some();
                let data = NotAcquired { key: &options.key, acquired: false };
                // As the specification shows it: a wait that is over tells nothing more.
                let told = (!waited).then(|| Told::new(plan.urn, &data)).into_iter().collect();
                Err(Ended::told(Err(fault), told))
            }
        }
    }

    fn told(&self, plan: &Plan<'_>, guard: &Guard) -> Told {
        let expires_at = self.clock.wall() + guard.remaining() + margin(guard.ttl());
        let (owner, fence) = (guard.owner(), guard.fence());
        Told::new(plan.urn, &Acquired::new(plan.options, owner, fence, expires_at))
    }

    /// Gives the lock back, or leaves it to whoever has its owner.
    async fn end(
        &self,
        plan: &Plan<'_>,
        full_key: &str,
        lent: Option<Lent>,
        stays: bool,
    ) -> Result<(), Lost> {
        let Some(lent) = lent else { return Ok(()) };
        if stays || plan.goes_on.load(Ordering::Relaxed) {
            lent.leave();
            return Ok(());
        }
        let owner = lent.guard.owner().clone();
        match lent.guard.release().await {
            Ok(()) => self.released.remember(full_key, &owner),
            Err(error) if error.kind() == ErrorKind::Lost => return Err(Lost),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the lock was not given back cleanly");
            }
        }
        Ok(())
    }
}

impl<T> Ended<T> {
    pub(crate) fn told(outcome: Result<T, Fault>, told: Vec<Told>) -> Self {
        Self { outcome, told, was_done: false }
    }

    pub(crate) fn failed(fault: Fault) -> Self {
        Self::told(Err(fault), Vec::new())
    }
}

/// For how much longer than its guard believes a lease is good, at the least: see the contract of
/// [`Guard`]. So the end that is told with the answer is the one that `status` tells.
fn margin(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// The work, with a panic in it turned into an error.
pub(crate) async fn caught<T>(
    function: &str,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(function, "a function has panicked");
        Err(Fault::internal())
    })
}
