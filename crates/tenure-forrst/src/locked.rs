//! Work under a lock: taken, kept, and given back whatever becomes of the work.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tenure::clock::Clock;
use tenure::error::Chain;
use tenure::{Fence, Guard, GuardView, Owner};

use crate::desk::{LockDesk, Wanted};
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
}

/// The guard of a call, which decides what becomes of the lock when the call is dropped.
struct Kept<'a> {
    guard: Option<Guard>,
    goes_on: &'a AtomicBool,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take().filter(|_| self.goes_on.load(Ordering::Relaxed)) {
            drop(guard.detach());
        }
    }
}

impl Locking {
    /// Takes the lock, runs the work, and gives the lock back if that was wanted.
    pub(crate) async fn run<T, W>(
        &self,
        plan: &Plan<'_>,
        stop: &mut Stop,
        work: impl FnOnce(&str, GuardView) -> W,
    ) -> Ended<T>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let full_key = plan.options.full_key(&self.prefix, plan.function);
        let guard = match self.take(plan, &full_key, stop).await {
            Ok(guard) => guard,
            Err(ended) => return ended,
        };
        let (fence, owner, view) = (guard.fence(), guard.owner().clone(), guard.view());
        let mut kept = Kept { guard: Some(guard), goes_on: plan.goes_on };
        let Some(guard) = &kept.guard else { return Ended::failed(Fault::internal()) };
        let work = stop.or(caught(work(&full_key, view)));
        let outcome = guard.while_held(work).await;
        let is_held = guard.is_held();
        let told = self.told(plan, guard, &owner);
        let guard = kept.guard.take();
        match outcome {
            Ok(outcome) if is_held => {
                self.end(plan, &full_key, guard).await;
                Ended { outcome: outcome.and_then(|done| done), told: vec![told] }
            }
            // What outlasts the lease was not alone, even if it came to its end.
            Ok(_) | Err(_) => lost(plan, &full_key, fence),
        }
    }

    async fn take<T>(
        &self,
        plan: &Plan<'_>,
        full_key: &str,
        stop: &mut Stop,
    ) -> Result<Guard, Ended<T>> {
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
            Ok(guard) => Ok(guard),
            Err(refusal) => {
                let fault = options.refused(refusal, full_key);
                let waited = options.block.is_some();
                let data = NotAcquired { key: &options.key, acquired: false };
                // As the specification shows it: a wait that is over tells nothing more.
                let told = (!waited).then(|| Told::new(plan.urn, &data)).into_iter().collect();
                Err(Ended { outcome: Err(fault), told })
            }
        }
    }

    fn told(&self, plan: &Plan<'_>, guard: &Guard, owner: &Owner) -> Told {
        let expires_at = self.clock.wall() + guard.remaining();
        Told::new(plan.urn, &Acquired::new(plan.options, owner, guard.fence(), expires_at))
    }

    /// Gives the lock back, or leaves it to whoever has its owner.
    async fn end(&self, plan: &Plan<'_>, full_key: &str, guard: Option<Guard>) {
        let Some(guard) = guard else { return };
        if !plan.options.auto_release || plan.goes_on.load(Ordering::Relaxed) {
            drop(guard.detach());
            return;
        }
        let owner = guard.owner().clone();
        match guard.release().await {
            Ok(()) => self.released.remember(full_key, &owner),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the lock was not given back cleanly");
            }
        }
    }
}

impl<T> Ended<T> {
    pub(crate) fn failed(fault: Fault) -> Self {
        Self { outcome: Err(fault), told: Vec::new() }
    }
}

fn lost<T>(plan: &Plan<'_>, full_key: &str, fence: Fence) -> Ended<T> {
    Ended::failed(plan.options.lost(full_key, fence))
}

/// The work, with a panic in it turned into an error.
pub(crate) async fn caught<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a function has panicked");
        Err(Fault::internal())
    })
}
