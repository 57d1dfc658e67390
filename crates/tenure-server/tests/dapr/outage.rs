//! What Dapr's API answers while the store fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure::ErrorKind;
use tenure_api::dapr_v1::{LockRequestAlpha2, TryLockRequest};
use tenure_server::config::Config;
use tonic::Code;
use tonic_types::StatusExt;

use crate::failing::Failing;
use crate::stage::{Stage, until};

const KINDS: [ErrorKind; 6] = [
    ErrorKind::Unavailable,
    ErrorKind::Unknown,
    ErrorKind::Unsupported,
    ErrorKind::Denied,
    ErrorKind::Mismatch,
    ErrorKind::Damaged,
];

const ALPHA1: &str = r#"{"resourceId": "r", "lockOwner": "a", "expiryInSeconds": 5}"#;

async fn stage() -> (Stage, Arc<Failing>) {
    let store = Failing::new().await;
    let text = "listen = '127.0.0.1:0'\n[dapr]\nhttp_port = 0\ngrpc_port = 0\n";
    let stores = BTreeMap::from([("lockstore".to_owned(), Arc::clone(&store) as _)]);
    let stage = Stage::on(Config::parse(text).unwrap(), stores).await;
    // Opens the namespace, which asks the store too.
    assert!(stage.holder("lockstore", "none").await.is_none());
    (stage, store)
}

#[tokio::test]
async fn health_is_not_ready() {
    let (stage, store) = stage().await;
    for kind in KINDS {
        store.fail(Some(kind));
        until("it is unwell", async || stage.get("/v1.0/healthz").await.status == 500).await;
        let reply = stage.get("/v1.0/healthz").await;
        let text = reply.message();
        reply.is_error(500, "ERR_HEALTH_NOT_READY", &text);
        assert!(text.starts_with("dapr is not ready: store \"lockstore\": "), "{text}");
        let reply = stage.get("/v1.0/healthz/outbound").await;
        reply.is_error(500, "ERR_OUTBOUND_HEALTH_NOT_READY", "dapr outbound is not ready");
    }
    store.fail(None);
    until("it is well", async || stage.get("/v1.0/healthz").await.status == 204).await;
}

#[tokio::test]
async fn alpha1_cannot_lock_or_unlock() {
    let (stage, store) = stage().await;
    let mut client = stage.grpc().await;
    let request = TryLockRequest {
        store_name: "lockstore".into(),
        resource_id: "r".into(),
        lock_owner: "a".into(),
        expiry_in_seconds: 5,
    };
    for kind in KINDS {
        store.fail(Some(kind));
        for (path, code, begins) in [
            ("/v1.0-alpha1/lock/lockstore", "ERR_TRY_LOCK", "failed to try acquiring lock: "),
            ("/v1.0-alpha1/unlock/lockstore", "ERR_UNLOCK", "failed to release lock: "),
        ] {
            let reply = stage.post(path, ALPHA1).await;
            let text = reply.message();
            reply.is_error(500, code, &text);
            assert!(text.starts_with(begins), "{kind:?}: {text}");
        }
        let status = client.try_lock_alpha1(request.clone()).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{kind:?}: {status}");
    }
    store.fail(None);
    let reply = stage.post("/v1.0-alpha1/lock/lockstore", ALPHA1).await;
    assert_eq!(reply.body, r#"{"success":true}"#, "nothing was granted meanwhile");
}

#[tokio::test]
async fn alpha2_tells_what_may_be_tried_again() {
    let (stage, store) = stage().await;
    let mut client = stage.grpc().await;
    let path = "/v1.0-alpha2/lock/lockstore/r";
    let (store_name, resource_id) = ("lockstore".to_owned(), "r".to_owned());
    let lock = LockRequestAlpha2 { store_name, resource_id, immediate: true, ttl: None };
    for kind in KINDS {
        store.fail(Some(kind));
        let is_away = kind == ErrorKind::Unavailable;
        let told = |otherwise| match is_away {
            true => (503, "ERR_LOCK_STORE_UNAVAILABLE"),
            false => (500, otherwise),
        };
        for (reply, otherwise) in [
            (stage.post(path, r#"{"immediate": true}"#).await, "ERR_LOCK"),
            (stage.delete(path, r#"{"lockID": "x"}"#).await, "ERR_UNLOCK"),
            (stage.delete(path, r#"{"force": true}"#).await, "ERR_UNLOCK"),
        ] {
            let (status, code) = told(otherwise);
            reply.is_error(status, code, &reply.message());
        }
        let status = client.lock_alpha2(lock.clone()).await.unwrap_err();
        let reason = status.get_details_error_info().unwrap().reason;
        let expected = if is_away { Code::Unavailable } else { Code::Internal };
        assert_eq!((status.code(), &*reason), (expected, told("ERR_LOCK").1), "{kind:?}");
    }
}
