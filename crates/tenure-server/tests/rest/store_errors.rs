//! What the routes answer when the store fails.

use std::sync::Arc;

use tenure::{ErrorKind, KeyPolicy, Locks};

use super::curl::Server;
use super::failing::Failing;
use super::streams::Stream;

const LOCK: &str = r#"{"immediate": true, "lock_id": "x"}"#;
const LOCK_ID: &str = r#"{"lock_id": "x"}"#;
const FORCE: &str = r#"{"force": true, "reason": "test"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_a_store_has_its_status_and_its_code() {
    let store = Failing::new().await;
    let server = Server::on(Arc::clone(&store) as _).await;
    // Opens the namespace, which asks the store too.
    server.post("/v1/locks/held", LOCK).await.lock_id();
    for (kind, status, code, retry) in [
        (ErrorKind::Unavailable, 503, "unavailable", "safe"),
        (ErrorKind::Unknown, 500, "unknown", "unknown"),
        (ErrorKind::Unsupported, 501, "unsupported", "never"),
        (ErrorKind::Denied, 502, "store_denied", "never"),
        (ErrorKind::Mismatch, 500, "mismatch", "never"),
        (ErrorKind::Damaged, 500, "damaged", "never"),
    ] {
        store.fail(Some(kind));
        for (method, path, body) in [
            ("POST", "/v1/locks/free", LOCK),
            ("PATCH", "/v1/locks/held", LOCK_ID),
            ("DELETE", "/v1/locks/other", LOCK_ID),
            ("DELETE", "/v1/locks/held", FORCE),
            ("GET", "/v1/locks/held", ""),
            ("GET", "/v1/locks", ""),
        ] {
            let arguments = ["-X", method, "--data", body, "--include"];
            let reply = server.curl(path, &arguments).await;
            let (head, body) = reply.body.split_once("\r\n\r\n").unwrap();
            let error = &serde_json::from_str::<serde_json::Value>(body).unwrap()["error"];
            let said = (reply.status, error["code"].as_str(), error["retry"].as_str());
            assert_eq!(said, (status, Some(code), Some(retry)), "{method} {path}: {body}");
            assert_eq!(head.to_lowercase().contains("retry-after"), status == 503, "{head}");
        }
        let ready = server.get("/readyz").await;
        assert_eq!((ready.status, &*ready.code()), (503, "unavailable"), "{kind:?}");
        assert_eq!(server.get("/healthz").await.status, 204);
    }
    store.fail(None);
    // How it is may be known from the last look, for a while.
    let mut ready = server.get("/readyz").await;
    for _ in 0..500 {
        if ready.status == 204 {
            break;
        }
        ready = server.get("/readyz").await;
    }
    assert_eq!(ready.status, 204, "{ready:?}");
    assert_eq!(server.post("/v1/locks/free", LOCK).await.status, 201, "nothing was granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_an_error_when_its_store_stays_away() {
    let store = Failing::new().await;
    let server = Server::on(Arc::clone(&store) as _).await;
    let mut stream = Stream::hold(&server, r#"{"ttl": "1s"}"#, &[]);
    assert_eq!(stream.next().await["type"], "acquired");
    store.fail(Some(ErrorKind::Unavailable));
    let last = stream.next().await;
    assert_eq!((&last["type"], &last["error"]["code"]), (&"error".into(), &"lost".into()));
    assert_eq!(stream.line().await, "", "nothing comes after the error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_in_use_with_another_secret_is_a_mismatch() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}/locks.db", folder.path().display());
    let hashed = KeyPolicy::hashed(b"a secret of more than sixteen bytes").unwrap();
    let others = Locks::builder().namespace("theirs").key_policy(hashed);
    others.open(&url).await.unwrap();
    let more = format!("default_store = 'disk'\n[stores.disk]\nurl = '{url}'");
    let server = Server::with(&more).await;
    let reply = server.post("/v1/locks/k?namespace=theirs", "").await;
    assert_eq!((reply.status, &*reply.code()), (500, "mismatch"), "{reply:?}");
    assert_eq!(server.post("/v1/locks/k?namespace=ours", "").await.status, 201);
}
