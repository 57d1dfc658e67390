//! alpha2: Dapr's proposal, completed.
//!
//! A lock is renewed by this server until it is unlocked, or held for as long as a stream is open.
//! Its id is made here and proves who holds it. The errors are those of [`DaprCode`].
//!
//! [`DaprCode`]: tenure_api::DaprCode

use std::time::Duration;

use super::failure::DaprFailure;
use super::sidecar::{Sidecar, Target};
use crate::access::Caller;
use crate::api::{Granted, Holding, Order, Place};

/// The reason of a lock taken away by force, where none is given.
const NO_REASON: &str = "by Dapr's API, without a reason";

/// Asking for a lock.
pub(super) struct Wish<'a> {
    pub(super) target: Target<'a>,
    pub(super) immediate: bool,
    /// The server's default if not set.
    pub(super) ttl: Option<Duration>,
}

impl Sidecar {
    /// Waits for a lock and takes it; it is renewed until it is unlocked.
    pub(super) async fn lock(
        &self,
        caller: &Caller,
        wish: &Wish<'_>,
    ) -> Result<Granted, DaprFailure> {
        let order = self.order(wish)?;
        self.api.lock(caller, &order).await.map_err(DaprFailure::lock)
    }

    /// Waits for a lock and holds it for as long as the stream is open.
    pub(super) async fn hold(
        &self,
        caller: &Caller,
        wish: &Wish<'_>,
    ) -> Result<Holding, DaprFailure> {
        let order = self.order(wish)?;
        self.api.hold(caller, &order).await.map_err(DaprFailure::lock)
    }

    /// Gives a lock back.
    pub(super) async fn release(
        &self,
        caller: &Caller,
        target: &Target<'_>,
        lock_id: &str,
    ) -> Result<(), DaprFailure> {
        let place = self.alpha2_place(target, Some(("LockID", lock_id)))?;
        let released = self.api.unlock(caller, &place, lock_id).await;
        released.map_err(|failure| DaprFailure::alpha2(failure, DaprFailure::unlock))
    }

    /// Takes a lock from whoever holds it. That nobody does is no error: it is free now.
    pub(super) async fn force(
        &self,
        caller: &Caller,
        target: &Target<'_>,
        reason: &str,
    ) -> Result<(), DaprFailure> {
        let place = self.alpha2_place(target, None)?;
        let reason = if reason.is_empty() { NO_REASON } else { reason };
        match self.api.force_unlock(caller, &place, reason).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(DaprFailure::alpha2(failure, DaprFailure::unlock)),
        }
    }

    fn order(&self, wish: &Wish<'_>) -> Result<Order, DaprFailure> {
        Ok(Order {
            place: self.alpha2_place(&wish.target, None)?,
            ttl: wish.ttl,
            immediate: wish.immediate,
            ..Order::default()
        })
    }

    fn alpha2_place(
        &self,
        target: &Target<'_>,
        secret: Option<(&str, &str)>,
    ) -> Result<Place, DaprFailure> {
        let named = self.find(target, secret)?;
        let key = named.dapr_prefix.key(target.store, &self.app_id, target.resource);
        let key = key.map_err(DaprFailure::malformed)?;
        Ok(Place { store: target.store.to_owned(), key, ..Place::default() })
    }
}
