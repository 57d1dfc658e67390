//! alpha2 over gRPC.

use std::time::Duration;

use tenure_api::dapr_v1::lock_stream_response_alpha2::LockServerStream;
use tenure_api::dapr_v1::{
    ForceUnlockRequestAlpha2, LockRequestAlpha2, LockStreamResponseAlpha2, UnlockRequestAlpha2,
};
use tenure_api::time::to_wire;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::stage::{Stage, pause, until};

const KEY: &str = "lock||app||a/b";

fn lock(immediate: bool, ttl: Option<Duration>) -> LockRequestAlpha2 {
    LockRequestAlpha2 {
        immediate,
        resource_id: "a/b".into(),
        ttl: ttl.map(to_wire),
        store_name: "lockstore".into(),
    }
}

fn unlock(lock_id: &str) -> UnlockRequestAlpha2 {
    let (resource_id, store_name) = ("a/b".into(), "lockstore".into());
    UnlockRequestAlpha2 { resource_id, lock_id: lock_id.into(), store_name }
}

fn force() -> ForceUnlockRequestAlpha2 {
    let (resource_id, store_name) = ("a/b".into(), "lockstore".into());
    ForceUnlockRequestAlpha2 { store_name, resource_id, reason: String::new() }
}

#[track_caller]
fn is(status: &Status, code: Code, reason: &str, message: &str) {
    assert_eq!((status.code(), status.message()), (code, message));
    let info = status.get_details_error_info().unwrap();
    assert_eq!((&*info.reason, &*info.domain), (reason, "dapr.io"));
}

/// The next of a stream that is no ping.
async fn next(stream: &mut Streaming<LockStreamResponseAlpha2>) -> Result<Option<u64>, Status> {
    loop {
        let Some(message) = stream.message().await? else { return Ok(None) };
        if let LockServerStream::LockAcquired(acquired) = message.lock_server_stream.unwrap() {
            return Ok(Some(acquired.fence));
        }
    }
}

#[tokio::test]
async fn a_lock_is_renewed_until_it_is_unlocked() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    let ttl = Some(Duration::from_secs(2));
    let first = client.lock_alpha2(lock(false, ttl)).await.unwrap().into_inner();
    pause(Duration::from_secs(3)).await;
    let status = client.lock_alpha2(lock(true, None)).await.unwrap_err();
    is(&status, Code::Aborted, "ERR_LOCK_HELD", "the resource is already locked");
    let text = "the resource is locked with a different lock ID or the lock does not exist";
    let status = client.unlock_alpha2(unlock("another")).await.unwrap_err();
    is(&status, Code::NotFound, "ERR_LOCK_NOT_FOUND", text);
    client.unlock_alpha2(unlock(&first.lock_id)).await.unwrap();
    let status = client.unlock_alpha2(unlock(&first.lock_id)).await.unwrap_err();
    is(&status, Code::NotFound, "ERR_LOCK_NOT_FOUND", text);
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let request = LockRequestAlpha2 { ttl: Some(negative), ..lock(true, None) };
    let second = client.lock_alpha2(request).await.unwrap().into_inner();
    assert!(second.fence > first.fence);
    client.force_unlock_alpha2(force()).await.unwrap();
    assert!(stage.holder("lockstore", KEY).await.is_none());
}

#[tokio::test]
async fn a_lock_goes_with_its_stream() {
    let stage = Stage::new().await;
    let (mut one, mut two) = (stage.grpc().await, stage.grpc().await);
    let mut first = one.lock_stream_alpha2(lock(false, None)).await.unwrap().into_inner();
    let fence = next(&mut first).await.unwrap().unwrap();
    let mut second = two.lock_stream_alpha2(lock(false, None)).await.unwrap().into_inner();
    let message = second.message().await.unwrap().unwrap();
    assert!(matches!(message.lock_server_stream, Some(LockServerStream::Ping(_))));
    drop(first);
    assert!(next(&mut second).await.unwrap().unwrap() > fence);
    drop(second);
    until("it is free", async || stage.holder("lockstore", KEY).await.is_none()).await;
}

#[tokio::test]
async fn a_lost_lock_ends_its_stream_with_an_error() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    let ttl = Some(Duration::from_secs(2));
    let mut stream = client.lock_stream_alpha2(lock(false, ttl)).await.unwrap().into_inner();
    next(&mut stream).await.unwrap().unwrap();
    let mut refused = client.lock_stream_alpha2(lock(true, None)).await.unwrap().into_inner();
    let status = next(&mut refused).await.unwrap_err();
    is(&status, Code::Aborted, "ERR_LOCK_HELD", "the resource is already locked");
    client.force_unlock_alpha2(force()).await.unwrap();
    let status = next(&mut stream).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(status.get_details_error_info().unwrap().reason, "ERR_LOCK_LOST");
    assert_eq!(next(&mut stream).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    let malformed = "ERR_MALFORMED_REQUEST";
    let none = LockRequestAlpha2 { resource_id: String::new(), ..lock(false, None) };
    let status = client.lock_alpha2(none).await.unwrap_err();
    let text = "ResourceId is empty in lock store lockstore";
    is(&status, Code::InvalidArgument, malformed, text);
    let none = LockRequestAlpha2 { store_name: String::new(), ..lock(false, None) };
    let status = client.lock_stream_alpha2(none).await.unwrap_err();
    is(&status, Code::InvalidArgument, "ERR_LOCK_STORE_NOT_FOUND", "lock store  not found");
    let status = client.unlock_alpha2(unlock("")).await.unwrap_err();
    let text = "LockID is empty in lock store lockstore";
    is(&status, Code::InvalidArgument, malformed, text);
}
