//! A store that fails, and what Dapr's clients are told.

use std::sync::Arc;
use std::time::Duration;

use tenure::Operation;
use tenure::clock::SystemClock;
use tenure::stores::memory::MemoryStore;
use tenure_api::dapr_v1::{TryLockRequest, UnlockRequest};
use tenure_testkit::faults::{Fault, Faults};
use tonic::Code;

use crate::stage::{Reply, Stage, until};

const LOCK: &str = "/v1.0-alpha1/lock/lockstore";
const UNLOCK: &str = "/v1.0-alpha1/unlock/lockstore";

async fn lock(stage: &Stage, expiry: u64) -> Reply {
    let body = format!(r#"{{"resourceId":"r","lockOwner":"a","expiryInSeconds":{expiry}}}"#);
    stage.post(LOCK, &body).await
}

async fn unlock(stage: &Stage) -> Reply {
    stage.post(UNLOCK, r#"{"resourceId":"r","lockOwner":"a"}"#).await
}

async fn stage() -> (Stage, Faults) {
    let faults = Faults::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))));
    (Stage::over(faults.clone()).await, faults)
}

#[tokio::test]
async fn http_tells_when_the_store_is_away() {
    let (stage, faults) = stage().await;
    for operation in [Operation::Acquire, Operation::Release, Operation::Inspect] {
        faults.always(operation, Fault::ErrorBefore);
    }
    let text = r#"failed to try acquiring lock: acquire "lock||app||r": the store is away"#;
    lock(&stage, 60).await.is_error(500, "ERR_TRY_LOCK", text);
    let text = r#"failed to release lock: release "lock||app||r": the store is away"#;
    unlock(&stage).await.is_error(500, "ERR_UNLOCK", text);
    let reply = stage.get("/v1.0/healthz").await;
    let text = reply.message();
    reply.is_error(500, "ERR_HEALTH_NOT_READY", &text);
    assert!(text.starts_with("dapr is not ready: ") && text.contains("away"), "{text}");
    let reply = stage.get("/v1.0/healthz/outbound").await;
    reply.is_error(500, "ERR_OUTBOUND_HEALTH_NOT_READY", "dapr outbound is not ready");
    faults.heal();
    // One look at the stores is good for a moment.
    until("the store to be seen again", async || {
        stage.get("/v1.0/healthz/outbound").await.status == 204
    })
    .await;
    assert_eq!(lock(&stage, 60).await.body, r#"{"success":true}"#);
    assert_eq!(unlock(&stage).await.body, r#"{"status":0}"#);
}

#[tokio::test]
async fn grpc_tells_when_the_store_is_away() {
    let (stage, faults) = stage().await;
    let mut client = stage.grpc().await;
    faults.always(Operation::Acquire, Fault::ErrorBefore);
    faults.always(Operation::Release, Fault::ErrorBefore);
    let lock = TryLockRequest {
        store_name: "lockstore".into(),
        resource_id: "r".into(),
        lock_owner: "a".into(),
        expiry_in_seconds: 60,
    };
    let status = client.try_lock_alpha1(lock).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().starts_with("failed to try acquiring lock: "), "{status}");
    let unlock = UnlockRequest {
        store_name: "lockstore".into(),
        resource_id: "r".into(),
        lock_owner: "a".into(),
    };
    let status = client.unlock_alpha1(unlock).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().starts_with("failed to release lock: "), "{status}");
}

/// Nobody keeps a guard of these locks: that another grant is meant has to be seen otherwise.
#[tokio::test]
async fn a_lost_answer_neither_gives_a_lock_twice_nor_takes_it_away() {
    let (stage, faults) = stage().await;
    assert_eq!(lock(&stage, 60).await.body, r#"{"success":true}"#);
    let first = stage.holder("lockstore", "lock||app||r").await.unwrap().status;
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    assert_eq!(lock(&stage, 1).await.body, r#"{"success":false}"#);
    faults.always(Operation::Inspect, Fault::ErrorBefore);
    faults.next(Operation::Acquire, Fault::ErrorAfter);
    assert_eq!(lock(&stage, 1).await.status, 500);
    faults.heal();
    let locks = stage.running.api().rooms().locks("lockstore", "default").await.unwrap();
    locks.flush().await;
    let standing = stage.holder("lockstore", "lock||app||r").await.unwrap().status;
    assert_eq!((standing.fence, standing.ttl), (first.fence, Duration::from_secs(60)));
    assert_eq!(unlock(&stage).await.body, r#"{"status":0}"#);
}
