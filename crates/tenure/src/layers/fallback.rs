//! A process-local store in place of a shared one, where the policy allows that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::clock::{Clock, Moment};
use crate::degraded::DegradedPolicy;
use crate::error::Result;
use crate::finding::Finding;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::store::{Class, Store, StoreInfo};
use crate::watch::Watch;

const THROTTLE: Duration = Duration::from_secs(60);

/// A local store that says, as often as the policy asks, that it excludes only this process.
#[derive(Debug)]
pub struct FallbackLayer {
    inner: Arc<dyn Store>,
    info: StoreInfo,
    clock: Arc<dyn Clock>,
    policy: DegradedPolicy,
    reason: String,
    warned_at: Mutex<Option<Moment>>,
}

impl FallbackLayer {
    /// A layer over the local store `inner`, in use because of `reason`.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        policy: DegradedPolicy,
        reason: String,
    ) -> Self {
        let mut info = inner.info().clone();
        info.class = Class::Efficiency;
        let text = format!("degraded to locks within this process: {reason}");
        info.findings.insert(0, Finding::lowering("degraded", text));
        Self { inner, info, clock, policy, reason, warned_at: Mutex::new(None) }
    }

    fn warn(&self) {
        let due = match self.policy {
            DegradedPolicy::Refuse | DegradedPolicy::Local => false,
            DegradedPolicy::Warn => true,
            DegradedPolicy::WarnThrottled => self.minute_is_over(),
        };
        if due {
            tracing::warn!(
                reason = %self.reason,
                "degraded: this lock excludes only this process, not others"
            );
        }
    }

    fn minute_is_over(&self) -> bool {
        let now = self.clock.now();
        let mut warned_at = self.warned_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = warned_at.is_none_or(|at| now.since(at) >= THROTTLE);
        if due {
            *warned_at = Some(now);
        }
        due
    }
}

#[async_trait]
impl Store for FallbackLayer {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.warn();
        self.inner.try_acquire(claim).await
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        self.inner.renew(renewal).await
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        self.inner.release(grant).await
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.inner.force_release(eviction).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        self.inner.inspect(key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.inner.list(query).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.inner.watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.inner.agree(pledge).await
    }
}
