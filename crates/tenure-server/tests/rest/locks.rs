//! What the routes do when all is well.

use super::curl::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_seen_renewed_and_given_back() {
    let server = Server::start().await;
    let path = "/v1/locks/order:42";
    let granted = server.post(path, r#"{"ttl": "20s", "note": "nightly"}"#).await;
    let id = granted.lock_id();
    assert_eq!(granted.json()["ttl_ms"], 20_000);
    let seen = server.get(path).await;
    assert_eq!((seen.status, seen.fence()), (200, granted.fence()));
    assert!(seen.json()["holder"].as_str().unwrap().ends_with("anonymous@127.0.0.1 nightly"));
    assert!(!seen.body.contains(&id), "a lock id is nobody's business");
    let renewed = server.patch(path, &format!(r#"{{"lock_id": "{id}", "ttl": "1m"}}"#)).await;
    assert_eq!((renewed.status, renewed.fence()), (200, granted.fence()));
    assert_eq!(renewed.json()["ttl_ms"], 60_000);
    let unlocked = server.delete(path, &format!(r#"{{"lock_id": "{id}"}}"#)).await;
    assert_eq!((unlocked.status, &*unlocked.body), (204, ""));
    assert_eq!(server.get(path).await.status, 404);
    let next = server.post(path, "").await;
    assert!(next.fence() > granted.fence());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_renews_what_it_was_not_told_otherwise() {
    let server = Server::start().await;
    let ours = server.post("/v1/locks/ours", r#"{"ttl": "2s"}"#).await;
    let theirs = server.post("/v1/locks/theirs", r#"{"ttl": "2s", "renewal": "client"}"#).await;
    assert_eq!((ours.status, theirs.status), (201, 201));
    let wait = r#"{"wait": "4s"}"#;
    assert_eq!(server.post("/v1/locks/theirs", wait).await.status, 201);
    assert_eq!(server.post("/v1/locks/ours", wait).await.code(), "timed_out");
}

#[tokio::test(flavor = "multi_thread")]
async fn max_hold_ends_what_nobody_unlocks() {
    let server = Server::start().await;
    server.post("/v1/locks/k", r#"{"ttl": "5s", "max_hold": "300ms"}"#).await.lock_id();
    let next = server.post("/v1/locks/k", r#"{"wait": "4s"}"#).await;
    assert_eq!(next.status, 201, "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_repeated_gets_the_same_grant() {
    let server = Server::start().await;
    let body = r#"{"lock_id": "chosen-by-the-client", "ttl": "2s"}"#;
    let first = server.post("/v1/locks/k", body).await;
    let second = server.post("/v1/locks/k", body).await;
    assert_eq!(first.fence(), second.fence());
    // Still renewed, and once given back it is free.
    let held = server.post("/v1/locks/k", r#"{"wait": "3s"}"#).await;
    assert_eq!(held.code(), "timed_out");
    let unlock = r#"{"lock_id": "chosen-by-the-client"}"#;
    assert_eq!(server.delete("/v1/locks/k", unlock).await.status, 204);
    assert_eq!(server.post("/v1/locks/k", r#"{"immediate": true}"#).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_key_can_be_locked() {
    let server = Server::start().await;
    for (path, key) in [
        ("a/b/c", "a/b/c"),
        ("a%2Fb", "a/b"),
        ("100%25", "100%"),
        ("%C3%BCber%20uns", "über uns"),
        ("%F0%9F%94%92", "🔒"),
        ("x%3Fy%23z", "x?y#z"),
    ] {
        let path = format!("/v1/locks/{path}");
        assert_eq!(server.post(&path, "").await.json()["key"], key);
        assert_eq!(server.get(&path).await.json()["key"], key);
        assert_eq!(server.post(&path, r#"{"immediate": true}"#).await.status, 423);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_and_stores_are_rooms_of_their_own() {
    let server = Server::start().await;
    for room in ["", "?namespace=billing", "?store=other", "?store=other&namespace=billing"] {
        let path = format!("/v1/locks/k{room}");
        assert_eq!(server.post(&path, "").await.status, 201, "{room}");
        assert_eq!(server.post(&path, r#"{"wait": "0s"}"#).await.status, 409, "{room}");
    }
    let listed = server.get("/v1/locks?namespace=billing&store=other").await.json();
    assert_eq!(listed["locks"].as_array().unwrap().len(), 1);
    assert_eq!(server.get("/v1/locks/k?store=none").await.code(), "no_such_place");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_listed_page_by_page() {
    let server = Server::start().await;
    for number in 0..5 {
        server.post(&format!("/v1/locks/job/{number}"), "").await.lock_id();
    }
    server.post("/v1/locks/other", "").await.lock_id();
    let (mut path, mut found) = ("/v1/locks?prefix=job/&limit=2".to_owned(), Vec::new());
    loop {
        let page = server.get(&path).await.json();
        let locks = page["locks"].as_array().unwrap();
        assert!(locks.len() <= 2);
        found.extend(locks.iter().map(|lock| lock["key"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/locks?prefix=job/&limit=2&after={next}");
    }
    assert_eq!(found, ["job/0", "job/1", "job/2", "job/3", "job/4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn force_takes_a_lock_away_and_says_from_whom() {
    let server = Server::start().await;
    let granted = server.post("/v1/locks/k", r#"{"note": "stuck"}"#).await;
    let body = r#"{"force": true, "reason": "its host is gone"}"#;
    let forced = server.delete("/v1/locks/k", body).await;
    assert_eq!(forced.status, 200);
    assert_eq!(forced.json()["evicted"]["fence"], granted.fence());
    assert_eq!(server.delete("/v1/locks/k", body).await.json()["evicted"], serde_json::Value::Null);
    let unlock = format!(r#"{{"lock_id": "{}"}}"#, granted.lock_id());
    assert_eq!(server.delete("/v1/locks/k", &unlock).await.code(), "not_found");
    assert!(server.post("/v1/locks/k", "").await.fence() > granted.fence());
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_health_and_metrics_are_told() {
    let server = Server::start().await;
    assert_eq!(server.get("/healthz").await.status, 204);
    assert_eq!(server.get("/readyz").await.status, 204);
    let stores = server.get("/v1/stores").await.json();
    assert_eq!(stores["stores"][0]["name"], "main");
    assert_eq!(stores["stores"][0]["class"], "E", "memory does not survive its process");
    server.post("/v1/locks/secret-key", "").await.lock_id();
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("tenure_calls_total{call=\"lock\",result=\"done\"} 1"), "{metrics}");
    assert!(metrics.contains("tenure_kept_locks 1"), "{metrics}");
    assert!(
        metrics.contains("tenure_store_seconds_count{store=\"main\",operation=\"try_acquire\"")
    );
    assert!(!metrics.contains("secret-key"), "no key is in a label");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_works_on_the_same_port() {
    let server = Server::start().await;
    let reply = server.curl("/v1/locks/k", &["--http2-prior-knowledge", "--data", "{}"]).await;
    assert_eq!(reply.status, 201);
}
