//! What the routes refuse, and with which words.

use super::curl::Server;

#[tokio::test(flavor = "multi_thread")]
async fn held_wait_over_and_immediate_differ() {
    let server = Server::start().await;
    server.post("/v1/locks/k", r#"{"note": "the-other"}"#).await.lock_id();
    for (body, status, code) in [
        (r#"{"wait": "0s"}"#, 409, "held"),
        (r#"{"immediate": true}"#, 423, "held"),
        (r#"{"wait": "50ms"}"#, 504, "timed_out"),
    ] {
        let reply = server.post("/v1/locks/k", body).await;
        assert_eq!((reply.status, &*reply.code()), (status, code), "{body}");
        assert_eq!(reply.json()["error"]["retry"], "safe");
        assert!(reply.body.contains("the-other"), "who holds it: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_lock_id_changes_nothing() {
    let server = Server::start().await;
    let id = server.post("/v1/locks/k", "").await.lock_id();
    let wrong = r#"{"lock_id": "guessed"}"#;
    for reply in
        [server.delete("/v1/locks/k", wrong).await, server.patch("/v1/locks/k", wrong).await]
    {
        assert_eq!((reply.status, &*reply.code()), (412, "wrong_owner"));
        assert!(!reply.body.contains(&id) && !reply.body.contains("guessed"));
    }
    for reply in
        [server.delete("/v1/locks/free", wrong).await, server.patch("/v1/locks/free", wrong).await]
    {
        assert_eq!((reply.status, &*reply.code()), (404, "not_found"));
    }
    let header = format!("tenure-lock-id: {id}");
    for method in ["PATCH", "DELETE"] {
        let both = ["-X", method, "-H", &header, "--data", wrong];
        let reply = server.curl("/v1/locks/k", &both).await;
        assert_eq!((reply.status, &*reply.code()), (400, "invalid"), "which of them is meant?");
    }
    let reply = server.curl("/v1/locks/k", &["-X", "DELETE", "-H", &header]).await;
    assert_eq!(reply.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_told_by_field_limit_and_size() {
    let server = Server::start().await;
    let long_key = format!("/v1/locks/{}", "k".repeat(513));
    for (path, body, says) in [
        ("/v1/locks/k", r#"{"ttl": "1ms"}"#, &["ttl", "100ms", "1ms"][..]),
        ("/v1/locks/k", r#"{"ttl": "30"}"#, &["unit"]),
        ("/v1/locks/k", r#"{"wait": "11m"}"#, &["wait", "600s", "660s"]),
        ("/v1/locks/k", r#"{"tll": "30s"}"#, &["unknown field `tll`", "line 1"]),
        ("/v1/locks/k", r#"{"renewal": "me"}"#, &["server", "client"]),
        ("/v1/locks/k", r#"{"renewal": "client", "max_hold": "1m"}"#, &["max_hold", "renewal"]),
        ("/v1/locks/k", "{", &["line 1"]),
        ("/v1/locks/k?nmespace=x", "", &["nmespace"]),
        ("/v1/locks/k?namespace=a%20b", "", &["namespace"]),
        ("/v1/locks/%FF", "", &["UTF-8"]),
        ("/v1/locks/a%0Ab", "", &["control characters"]),
        (&long_key, "", &["512", "513"]),
    ] {
        let reply = server.post(path, body).await;
        assert_eq!((reply.status, &*reply.code()), (400, "invalid"), "{path} {body}: {reply:?}");
        for word in says {
            assert!(reply.body.contains(word), "{path} {body}: {word} not in {}", reply.body);
        }
    }
    let long_id = format!(r#"{{"lock_id": "{}"}}"#, "x".repeat(257));
    let reply = server.post("/v1/locks/k", &long_id).await;
    assert!(reply.body.contains("lock_id must have 1 to 256 bytes, this one has 257"), "{reply:?}");
    let reply = server.delete("/v1/locks/k", "").await;
    assert!(reply.body.contains("lock_id"), "{reply:?}");
    let reply = server.delete("/v1/locks/k", r#"{"force": true}"#).await;
    assert!(reply.body.contains("reason"), "{reply:?}");
    let reply = server.get("/v1/locks?limit=1001").await;
    assert!(reply.body.contains("1000") && reply.body.contains("1001"), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_refused() {
    let server = Server::start().await;
    let body = format!(r#"{{"note": "{}"}}"#, "x".repeat(65 * 1024));
    let reply = server.post("/v1/locks/k", &body).await;
    assert_eq!((reply.status, &*reply.code()), (413, "too_large"));
}

/// A client of HTTP/2 whose stream is reset before it has sent everything may never see why.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_overtake_its_request() {
    let server = Server::start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "x".repeat(5_000_000)).unwrap();
    let body = format!("@{}", file.path().display());
    let (locks, dapr, known) = ("/v1/locks/k", "/v1.0-alpha1/lock/main", "x-test: known");
    let (bearer, token) = ("authorization: Bearer wrong", "dapr-api-token: wrong");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for (path, method, header, status) in [
            (locks, "POST", known, 413),
            (locks, "PUT", known, 405),
            (locks, "POST", bearer, 401),
            ("/nothing", "POST", known, 404),
            (dapr, "POST", token, 401),
            (dapr, "POST", known, 400),
        ] {
            let sent = [version, "-X", method, "-H", header, "-H", "expect:"];
            let arguments = [&sent[..], &["--data-binary", &body]].concat();
            let reply = server.curl(path, &arguments).await;
            assert_eq!(reply.status, status, "{version} {method} {path} {header}: {reply:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_in_json() {
    let server = Server::start().await;
    let reply = server.get("/v2/locks/k").await;
    assert_eq!((reply.status, &*reply.code()), (404, "no_such_place"));
    let reply = server.curl("/v1/locks/k", &["-X", "PUT"]).await;
    assert_eq!((reply.status, &*reply.code()), (405, "no_such_method"));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_kept() {
    let server = Server::with("[limits]\nlocks_per_client = 2\nstreams_per_client = 0").await;
    server.post("/v1/locks/1", r#"{"immediate": true}"#).await.lock_id();
    let stream = ["-H", "accept: application/x-ndjson", "--data", ""];
    let reply = server.curl("/v1/locks/1", &stream).await;
    assert_eq!((reply.status, &*reply.code()), (429, "limit_reached"), "{reply:?}");
    let second = server.post("/v1/locks/2", r#"{"immediate": true}"#).await.lock_id();
    let reply = server.post("/v1/locks/3", r#"{"immediate": true}"#).await;
    assert_eq!((reply.status, &*reply.code()), (429, "limit_reached"));
    server.delete("/v1/locks/2", &format!(r#"{{"lock_id": "{second}"}}"#)).await;
    let mut reply = server.post("/v1/locks/3", r#"{"immediate": true}"#).await;
    // The count goes back when the server has forgotten the lock, a moment after the answer.
    for _ in 0..100 {
        if reply.status == 201 {
            break;
        }
        reply = server.post("/v1/locks/3", r#"{"immediate": true}"#).await;
    }
    assert_eq!(reply.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_wait_for_one_key() {
    let server = Server::with("[limits]\nwaiters_per_key = 1").await;
    let id = server.post("/v1/locks/k", "").await.lock_id();
    let unlock = format!(r#"{{"lock_id": "{id}"}}"#);
    let turn_away = async {
        // Until the first stands in line.
        while server.get("/v1/locks/k").await.json()["waiters"] != 1 {}
        for body in ["", r#"{"wait": "1s"}"#] {
            let reply = server.post("/v1/locks/k", body).await;
            assert_eq!((reply.status, &*reply.code()), (429, "limit_reached"), "{body}: {reply:?}");
            let stream = ["-H", "accept: application/x-ndjson", "--data", body];
            assert_eq!(server.curl("/v1/locks/k", &stream).await.status, 429, "{body}");
        }
        // Whoever does not wait takes nobody's place.
        assert_eq!(server.post("/v1/locks/k", r#"{"immediate": true}"#).await.status, 423);
        server.delete("/v1/locks/k", &unlock).await.status
    };
    let (waited, unlocked) = tokio::join!(server.post("/v1/locks/k", ""), turn_away);
    assert_eq!((waited.status, unlocked), (201, 204));
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_verbs_on_namespaces() {
    // printf %s s3cret | sha256sum
    let digest = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";
    let more = format!(
        "[[tokens]]\nname = 'billing'\nsha256 = '{digest}'\ngrants = [{{ namespace = 'billing', \
         verbs = ['acquire', 'read'] }}]\n"
    );
    let server = Server::with(&more).await;
    let reply = server.post("/v1/locks/k", "").await;
    assert_eq!((reply.status, &*reply.code()), (401, "unauthenticated"));
    assert_eq!(server.get("/healthz").await.status, 204);
    let stranger = server.with_token("wrong");
    assert_eq!(stranger.post("/v1/locks/k", "").await.status, 401);
    let guest = stranger.with_token("s3cret");
    assert_eq!(guest.post("/v1/locks/k?namespace=billing", "").await.status, 201);
    assert_eq!(guest.get("/v1/locks/k?namespace=billing").await.status, 200);
    let force = r#"{"force": true, "reason": "x"}"#;
    for reply in [
        guest.post("/v1/locks/k", "").await,
        guest.get("/v1/locks/k").await,
        guest.get("/v1/locks?namespace=billing").await,
        guest.delete("/v1/locks/k?namespace=billing", force).await,
        guest.get("/v1/events?namespace=billing").await,
        guest.get("/v1/stores").await,
        guest.get("/metrics").await,
    ] {
        assert_eq!((reply.status, &*reply.code()), (403, "forbidden"), "{reply:?}");
    }
}
