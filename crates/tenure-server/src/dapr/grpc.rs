//! `dapr.proto.runtime.v1.Dapr`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tenure_api::dapr_v1::dapr_server::Dapr;
use tenure_api::dapr_v1::lock_stream_response_alpha2::LockServerStream;
use tenure_api::dapr_v1::{
    ForceUnlockRequestAlpha2, ForceUnlockResponseAlpha2, GetMetadataRequest, GetMetadataResponse,
    LockAcquiredAlpha2, LockPingAlpha2, LockRequestAlpha2, LockResponseAlpha2,
    LockStreamResponseAlpha2, SetMetadataRequest, SetMetadataResponse, TryLockRequest,
    TryLockResponse, UnlockRequest, UnlockRequestAlpha2, UnlockResponse, UnlockResponseAlpha2,
};
use tenure_api::time::from_wire;
use tonic::{Request, Response, Status};

use super::alpha2::Wish;
use super::failure::DaprFailure;
use super::sidecar::{Sidecar, Target};
use crate::api::HoldEvent;
use crate::failure::Failure;
use crate::grpc::caller_of;

type Answer<T> = Result<Response<T>, Status>;

/// The service for clients of Dapr.
#[derive(Debug)]
pub(crate) struct DaprGrpc(pub(super) Arc<Sidecar>);

#[tonic::async_trait]
impl Dapr for DaprGrpc {
    async fn try_lock_alpha1(&self, request: Request<TryLockRequest>) -> Answer<TryLockResponse> {
        let caller = caller_of(&request)?;
        let answer = self.0.try_lock(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(DaprFailure::plain_status)
    }

    async fn unlock_alpha1(&self, request: Request<UnlockRequest>) -> Answer<UnlockResponse> {
        let caller = caller_of(&request)?;
        let answer = self.0.unlock(&caller, request.into_inner()).await;
        answer.map(Response::new).map_err(DaprFailure::plain_status)
    }

    async fn lock_alpha2(&self, request: Request<LockRequestAlpha2>) -> Answer<LockResponseAlpha2> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let granted = self.0.lock(&caller, &wish(&request)).await;
        let granted = granted.map_err(DaprFailure::status)?;
        let (lock_id, fence) = (granted.lock_id, granted.fence.get());
        Ok(Response::new(LockResponseAlpha2 { lock_id, fence }))
    }

    type LockStreamAlpha2Stream =
        Pin<Box<dyn Stream<Item = Result<LockStreamResponseAlpha2, Status>> + Send>>;

    async fn lock_stream_alpha2(
        &self,
        request: Request<LockRequestAlpha2>,
    ) -> Answer<Self::LockStreamAlpha2Stream> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let holding = self.0.hold(&caller, &wish(&request)).await;
        let holding = holding.map_err(DaprFailure::status)?;
        Ok(Response::new(Box::pin(holding.map(told))))
    }

    async fn unlock_alpha2(
        &self,
        request: Request<UnlockRequestAlpha2>,
    ) -> Answer<UnlockResponseAlpha2> {
        let caller = caller_of(&request)?;
        let UnlockRequestAlpha2 { resource_id, lock_id, store_name } = request.into_inner();
        let target = Target { store: &store_name, resource: &resource_id };
        let released = self.0.release(&caller, &target, &lock_id).await;
        released.map_err(DaprFailure::status)?;
        Ok(Response::new(UnlockResponseAlpha2 {}))
    }

    async fn force_unlock_alpha2(
        &self,
        request: Request<ForceUnlockRequestAlpha2>,
    ) -> Answer<ForceUnlockResponseAlpha2> {
        let caller = caller_of(&request)?;
        let ForceUnlockRequestAlpha2 { store_name, resource_id, reason } = request.into_inner();
        let target = Target { store: &store_name, resource: &resource_id };
        self.0.force(&caller, &target, &reason).await.map_err(DaprFailure::status)?;
        Ok(Response::new(ForceUnlockResponseAlpha2 {}))
    }

    async fn get_metadata(
        &self,
        request: Request<GetMetadataRequest>,
    ) -> Answer<GetMetadataResponse> {
        let caller = caller_of(&request)?;
        let metadata = self.0.metadata(&caller);
        metadata.map(Response::new).map_err(DaprFailure::plain_status)
    }

    async fn set_metadata(
        &self,
        request: Request<SetMetadataRequest>,
    ) -> Answer<SetMetadataResponse> {
        let caller = caller_of(&request)?;
        let SetMetadataRequest { key, value } = request.into_inner();
        self.0.set_metadata(&caller, key, value).map_err(DaprFailure::plain_status)?;
        Ok(Response::new(SetMetadataResponse {}))
    }
}

fn wish(request: &LockRequestAlpha2) -> Wish<'_> {
    // One that is negative is the default too.
    let ttl = request.ttl.as_ref().and_then(from_wire).filter(|ttl| *ttl > Duration::ZERO);
    let target = Target { store: &request.store_name, resource: &request.resource_id };
    Wish { target, immediate: request.immediate, ttl }
}

fn told(event: Result<HoldEvent, Failure>) -> Result<LockStreamResponseAlpha2, Status> {
    let event = event.map_err(|failure| DaprFailure::lock(failure).status())?;
    let told = match event {
        HoldEvent::Acquired(granted) => {
            LockServerStream::LockAcquired(LockAcquiredAlpha2 { fence: granted.fence.get() })
        }
        HoldEvent::Waiting(_) | HoldEvent::Ping => LockServerStream::Ping(LockPingAlpha2 {}),
    };
    Ok(LockStreamResponseAlpha2 { lock_server_stream: Some(told) })
}
