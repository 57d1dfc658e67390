//! alpha1: what today's clients of Dapr call.

use std::time::Duration;

use tenure_api::Code;
use tenure_api::dapr_v1::unlock_response::Status;
use tenure_api::dapr_v1::{TryLockRequest, TryLockResponse, UnlockRequest, UnlockResponse};

use super::failure::DaprFailure;
use super::sidecar::{Sidecar, Target};
use crate::access::Caller;
use crate::api::{Order, Place, Renewal};

impl Sidecar {
    /// Takes a lock if it is free. It is not renewed: it ends with its expiry.
    ///
    /// # Contract
    /// A lock that is held is no error, and held it is for its own owner too.
    pub(super) async fn try_lock(
        &self,
        caller: &Caller,
        request: TryLockRequest,
    ) -> Result<TryLockResponse, DaprFailure> {
        let TryLockRequest { store_name, resource_id, lock_owner, expiry_in_seconds } = request;
        let expiry = u64::try_from(expiry_in_seconds).ok().filter(|expiry| *expiry > 0);
        let expiry = expiry.ok_or_else(|| {
            let text = format!("ExpiryInSeconds is not positive in lock store {store_name}");
            DaprFailure::malformed(text)
        })?;
        let wrong_key = DaprFailure::try_lock;
        let place = self.alpha1_place(&store_name, &resource_id, &lock_owner, wrong_key)?;
        let order = Order {
            place,
            ttl: Some(Duration::from_secs(expiry)),
            immediate: true,
            lock_id: Some(lock_owner),
            renewal: Renewal::Client,
            refuse_reentry: true,
            ..Order::default()
        };
        match self.api.lock(caller, &order).await {
            Ok(_) => Ok(TryLockResponse { success: true }),
            Err(failure) if failure.code == Code::Held => Ok(TryLockResponse { success: false }),
            Err(failure) => Err(DaprFailure::alpha1(failure, DaprFailure::try_lock)),
        }
    }

    /// Gives a lock back.
    pub(super) async fn unlock(
        &self,
        caller: &Caller,
        request: UnlockRequest,
    ) -> Result<UnlockResponse, DaprFailure> {
        let UnlockRequest { store_name, resource_id, lock_owner } = request;
        let wrong_key = DaprFailure::unlock;
        let place = self.alpha1_place(&store_name, &resource_id, &lock_owner, wrong_key)?;
        let status = match self.api.unlock(caller, &place, &lock_owner).await {
            Ok(()) => Status::Success,
            Err(failure) if failure.code == Code::NotFound => Status::LockDoesNotExist,
            Err(failure) if failure.code == Code::WrongOwner => Status::LockBelongsToOthers,
            Err(failure) => return Err(DaprFailure::alpha1(failure, DaprFailure::unlock)),
        };
        Ok(UnlockResponse { status: status.into() })
    }

    fn alpha1_place(
        &self,
        store: &str,
        resource: &str,
        owner: &str,
        wrong_key: fn(String) -> DaprFailure,
    ) -> Result<Place, DaprFailure> {
        let target = Target { store, resource };
        let named = self.find(&target, Some(("LockOwner", owner)))?;
        let key = named.dapr_prefix.key(store, &self.app_id, resource).map_err(wrong_key)?;
        Ok(Place { store: store.to_owned(), key, ..Place::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use tenure::Locks;
    use tenure::clock::SystemClock;
    use tenure_api::DaprCode;

    use super::*;
    use crate::access::Identity;
    use crate::api::{Api, Terms};
    use crate::metrics::Metrics;
    use crate::rooms::Rooms;

    #[tokio::test]
    async fn without_any_store_the_expiry_is_still_looked_at_first() {
        let metrics = Arc::new(Metrics::new());
        let rooms =
            Rooms::new(BTreeMap::new(), String::new(), Locks::builder(), Arc::clone(&metrics));
        let api = Api::new(rooms, Terms::default(), Arc::new(SystemClock), metrics, None);
        let sidecar = Sidecar::new(Arc::new(api), String::new());
        let caller = Caller { identity: Identity::unrestricted("a"), peer: None };
        let ask = |expiry_in_seconds| TryLockRequest { expiry_in_seconds, ..Default::default() };
        let failure = sidecar.try_lock(&caller, ask(0)).await.unwrap_err();
        assert_eq!(failure.code, DaprCode::MalformedRequest);
        let failure = sidecar.try_lock(&caller, ask(1)).await.unwrap_err();
        assert_eq!(failure.code, DaprCode::StoreNotConfigured);
        assert_eq!(failure.message, "lock store is not configured");
        let failure = sidecar.unlock(&caller, UnlockRequest::default()).await.unwrap_err();
        assert_eq!(failure.code, DaprCode::StoreNotConfigured);
    }
}
