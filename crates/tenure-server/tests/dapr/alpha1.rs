//! alpha1: every row of Dapr's table, over HTTP and over gRPC.

use std::time::Duration;

use tenure_api::dapr_v1::{TryLockRequest, UnlockRequest};
use tonic::Code;

use crate::stage::{Stage, ask, pause};

const LOCK: &str = "/v1.0-alpha1/lock/lockstore";
const UNLOCK: &str = "/v1.0-alpha1/unlock/lockstore";

fn lock(resource: &str, owner: &str, expiry: i32) -> String {
    format!(r#"{{"resourceId":"{resource}","lockOwner":"{owner}","expiryInSeconds":{expiry}}}"#)
}

fn unlock(resource: &str, owner: &str) -> String {
    format!(r#"{{"resourceId":"{resource}","lockOwner":"{owner}"}}"#)
}

#[tokio::test]
async fn http_takes_refuses_and_gives_back() {
    let stage = Stage::new().await;
    let asked = async |path, body: String| {
        let reply = stage.post(path, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
        reply.body
    };
    assert_eq!(asked(UNLOCK, unlock("r", "a")).await, r#"{"status":1}"#);
    assert_eq!(asked(LOCK, lock("r", "a", 60)).await, r#"{"success":true}"#);
    assert_eq!(asked(LOCK, lock("r", "b", 60)).await, r#"{"success":false}"#);
    // Its own owner is refused too.
    assert_eq!(asked(LOCK, lock("r", "a", 60)).await, r#"{"success":false}"#);
    assert_eq!(asked(UNLOCK, unlock("r", "b")).await, r#"{"status":2}"#);
    assert_eq!(asked(UNLOCK, unlock("r", "a")).await, r#"{"status":0}"#);
    assert_eq!(asked(LOCK, lock("r", "b", 60)).await, r#"{"success":true}"#);
}

#[tokio::test]
async fn a_lock_is_not_renewed() {
    let stage = Stage::new().await;
    assert_eq!(stage.post(LOCK, &lock("r", "a", 1)).await.body, r#"{"success":true}"#);
    let held = stage.holder("lockstore", "lock||app||r").await.unwrap();
    assert_eq!(held.status.ttl, Duration::from_secs(1));
    pause(Duration::from_millis(1100)).await;
    assert_eq!(stage.post(UNLOCK, &unlock("r", "a")).await.body, r#"{"status":1}"#);
    assert_eq!(stage.post(LOCK, &lock("r", "b", 1)).await.body, r#"{"success":true}"#);
}

#[tokio::test]
async fn http_tells_what_is_wrong_in_dapr_s_order_and_words() {
    let stage = Stage::new().await;
    let nowhere = |verb| format!("/v1.0-alpha1/{verb}/none");
    let malformed = "ERR_MALFORMED_REQUEST";
    // The expiry comes first, even before the store.
    let text = "ExpiryInSeconds is not positive in lock store none";
    stage.post(&nowhere("lock"), "").await.is_error(400, malformed, text);
    stage.post(&nowhere("lock"), &lock("", "", -1)).await.is_error(400, malformed, text);
    let text = "ResourceId is empty in lock store none";
    stage.post(&nowhere("lock"), &lock("", "", 1)).await.is_error(400, malformed, text);
    stage.post(&nowhere("unlock"), "").await.is_error(400, malformed, text);
    let text = "LockOwner is empty in lock store none";
    stage.post(&nowhere("lock"), &lock("r", "", 1)).await.is_error(400, malformed, text);
    stage.post(&nowhere("unlock"), &unlock("r", "")).await.is_error(400, malformed, text);
    let (code, text) = ("ERR_LOCK_STORE_NOT_FOUND", "lock store none not found");
    stage.post(&nowhere("lock"), &lock("r", "a", 1)).await.is_error(400, code, text);
    stage.post(&nowhere("unlock"), &unlock("r", "a")).await.is_error(400, code, text);
    let why = "input key/keyPrefix 'a||b' can't contain '||'";
    let text = format!("failed to try acquiring lock: {why}");
    stage.post(LOCK, &lock("a||b", "a", 1)).await.is_error(500, "ERR_TRY_LOCK", &text);
    let text = format!("failed to release lock: {why}");
    stage.post(UNLOCK, &unlock("a||b", "a")).await.is_error(500, "ERR_UNLOCK", &text);
}

#[tokio::test]
async fn http_tells_what_is_beyond_the_limits() {
    let stage = Stage::new().await;
    let reply = stage.post(LOCK, &lock("r", "a", 1_000_000)).await;
    let text = reply.message();
    reply.is_error(500, "ERR_TRY_LOCK", &text);
    assert!(text.starts_with("failed to try acquiring lock: "), "{text}");
    assert!(text.contains("ttl must be 100ms to 86400s"), "{text}");
    let reply = stage.post(UNLOCK, &unlock("r", &"a".repeat(300))).await;
    let text = reply.message();
    reply.is_error(500, "ERR_UNLOCK", &text);
    assert!(text.starts_with("failed to release lock: "), "{text}");
}

#[tokio::test]
async fn http_reads_json_as_protocol_buffers_do() {
    let stage = Stage::new().await;
    for (n, body) in [
        r#"{"resource_id":"N","lock_owner":"a","expiry_in_seconds":"5"}"#,
        r#"{"resourceId":"N","lockOwner":"a","expiryInSeconds":5.0,"more":{"x":[null]}}"#,
        r#"{"resourceId":"N","lockOwner":"a","expiryInSeconds":"5e0","storeName":"other"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let reply = stage.post(LOCK, &body.replace('N', &n.to_string())).await;
        assert_eq!((reply.status, &*reply.body), (200, r#"{"success":true}"#), "{body}");
    }
    for body in ["{", "[]", "null", " ", r#"{"resourceId":7}"#, r#"{"expiryInSeconds":"x"}"#] {
        let reply = stage.post(LOCK, body).await;
        let text = reply.message();
        reply.is_error(400, "ERR_MALFORMED_REQUEST", &text);
        assert!(text.starts_with("failed deserializing HTTP body: "), "{text}");
    }
    let kind = "content-type: text/plain\r\n";
    let reply = stage.ask("POST", LOCK, kind, &lock("kind", "a", 5)).await;
    assert_eq!(reply.body, r#"{"success":true}"#);
}

#[tokio::test]
async fn http_reads_bodies_of_four_mebibytes() {
    let stage = Stage::new().await;
    let filled = |size: usize| {
        let body = lock("r", "a", 5).replace('}', r#","more":""}"#);
        body.replace(r#"more":""#, &format!(r#"more":"{}"#, "x".repeat(size - body.len())))
    };
    let reply = stage.post(LOCK, &filled(4 << 20)).await;
    assert_eq!(reply.body, r#"{"success":true}"#);
    let reply = stage.post(LOCK, &filled((4 << 20) + 1)).await;
    let text = "failed to read request body: http: request body too large";
    reply.is_error(400, "ERR_BODY_READ", text);
}

#[tokio::test]
async fn slashes_and_encoded_names_find_their_store() {
    let stage = Stage::new().await;
    let main = stage.running.address();
    for (n, path) in [
        "//v1.0-alpha1/lock/lockstore",
        "/v1.0-alpha1/lock/lockstore/",
        "/v1.0-alpha1//lock///lockstore//",
        "/v1.0-alpha1/lock/lock%73tore",
        "/v1.0-alpha1/lock/a%2Fb%20%C3%BC",
    ]
    .into_iter()
    .enumerate()
    {
        for (at, owner) in [(stage.running.dapr_http().unwrap(), "dapr"), (main, "main")] {
            let body = lock(&format!("{owner}{n}"), owner, 5);
            let reply = ask(at, "POST", path, "", &body).await;
            assert_eq!((reply.status, &*reply.body), (200, r#"{"success":true}"#), "{path}");
        }
    }
    assert_eq!(stage.post("/v1.0-alpha1/lock/", "").await.status, 404);
    assert_eq!(stage.post("//v1.0-alpha1/nothing", "").await.status, 404);
    assert_eq!(stage.get(LOCK).await.status, 405);
    assert_eq!(stage.post("/v1/locks/k", "").await.status, 404, "only Dapr's API is here");
}

#[tokio::test]
async fn every_prefix_makes_its_key() {
    let stage = Stage::new().await;
    for (store, key) in [
        ("lockstore", "lock||app||r"),
        ("by_name", "lock||by_name||r"),
        ("shared", "lock||r"),
        ("team", "lock||team-a||r"),
    ] {
        stage.post(&format!("/v1.0-alpha1/lock/{store}"), &lock("r", "a", 5)).await;
        assert!(stage.holder(store, key).await.is_some(), "{store}: {key}");
    }
}

#[tokio::test]
async fn grpc_takes_refuses_and_gives_back() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    let lock = |owner: &str| TryLockRequest {
        store_name: "lockstore".into(),
        resource_id: "r".into(),
        lock_owner: owner.into(),
        expiry_in_seconds: 60,
    };
    let unlock = |owner: &str| UnlockRequest {
        store_name: "lockstore".into(),
        resource_id: "r".into(),
        lock_owner: owner.into(),
    };
    assert_eq!(client.unlock_alpha1(unlock("a")).await.unwrap().into_inner().status, 1);
    for (owner, success) in [("a", true), ("b", false), ("a", false)] {
        let answer = client.try_lock_alpha1(lock(owner)).await.unwrap().into_inner();
        assert_eq!(answer.success, success, "{owner}");
    }
    assert_eq!(client.unlock_alpha1(unlock("b")).await.unwrap().into_inner().status, 2);
    assert_eq!(client.unlock_alpha1(unlock("a")).await.unwrap().into_inner().status, 0);
    assert!(client.try_lock_alpha1(lock("b")).await.unwrap().into_inner().success);
}

#[tokio::test]
async fn grpc_tells_what_is_wrong_in_dapr_s_order_and_words() {
    let stage = Stage::new().await;
    let mut client = stage.grpc().await;
    for (store, resource, owner, expiry, code, text) in [
        (
            "none",
            "",
            "",
            0,
            Code::InvalidArgument,
            "ExpiryInSeconds is not positive in lock store none",
        ),
        ("none", "", "", 1, Code::InvalidArgument, "ResourceId is empty in lock store none"),
        ("none", "r", "", 1, Code::InvalidArgument, "LockOwner is empty in lock store none"),
        ("none", "r", "a", 1, Code::InvalidArgument, "lock store none not found"),
        ("", "r", "a", 1, Code::InvalidArgument, "lock store  not found"),
        (
            "lockstore",
            "||",
            "a",
            1,
            Code::Internal,
            "failed to try acquiring lock: input key/keyPrefix '||' can't contain '||'",
        ),
    ] {
        let (store_name, resource_id) = (store.to_owned(), resource.to_owned());
        let lock_owner = owner.to_owned();
        let request = TryLockRequest {
            store_name: store_name.clone(),
            resource_id: resource_id.clone(),
            lock_owner: lock_owner.clone(),
            expiry_in_seconds: expiry,
        };
        let status = client.try_lock_alpha1(request).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (code, text));
        assert!(status.details().is_empty(), "alpha1 has no details");
        if expiry > 0 {
            let request = UnlockRequest { store_name, resource_id, lock_owner };
            let status = client.unlock_alpha1(request).await.unwrap_err();
            let text = text.replace("try acquiring", "release");
            assert_eq!((status.code(), status.message()), (code, &*text));
        }
    }
}
