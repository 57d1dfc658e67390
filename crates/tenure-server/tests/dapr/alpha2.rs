//! alpha2 over HTTP: locks that the server renews.

use std::time::Duration;

use crate::stage::{Reply, Stage, pause};

const HELD: &str = "the resource is already locked";
const NOT_FOUND: &str =
    "the resource is locked with a different lock ID or the lock does not exist";

fn path(resource: &str) -> String {
    format!("/v1.0-alpha2/lock/lockstore/{resource}")
}

fn lock_id(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["lockID"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_lock_is_renewed_until_it_is_unlocked() {
    let stage = Stage::new().await;
    let path = path("r");
    let first = stage.post(&path, r#"{"ttl":"2s"}"#).await;
    let fence = first.json()["fence"].as_u64().unwrap();
    pause(Duration::from_secs(3)).await;
    let reply = stage.post(&path, r#"{"immediate":true}"#).await;
    reply.is_error(423, "ERR_LOCK_HELD", HELD);
    let wrong = stage.delete(&path, r#"{"lockID":"another"}"#).await;
    wrong.is_error(404, "ERR_LOCK_NOT_FOUND", NOT_FOUND);
    let body = format!(r#"{{"lockID":"{}"}}"#, lock_id(&first));
    let gone = stage.delete(&path, &body).await;
    assert_eq!((gone.status, &*gone.body), (204, ""));
    stage.delete(&path, &body).await.is_error(404, "ERR_LOCK_NOT_FOUND", NOT_FOUND);
    let second = stage.post(&path, "").await;
    assert!(second.json()["fence"].as_u64().unwrap() > fence);
    assert_ne!(lock_id(&second), lock_id(&first));
}

#[tokio::test]
async fn whoever_waits_gets_it_next() {
    let stage = Stage::new().await;
    let path = path("r");
    let first = lock_id(&stage.post(&path, "").await);
    let unlock = async {
        pause(Duration::from_millis(200)).await;
        stage.delete(&path, &format!(r#"{{"lockID":"{first}"}}"#)).await
    };
    let (second, unlocked) = tokio::join!(stage.post(&path, "{}"), unlock);
    assert_eq!((unlocked.status, second.status), (204, 200));
}

#[tokio::test]
async fn a_wait_has_an_end() {
    let config = "listen = '127.0.0.1:0'\n[stores]\nlockstore = { url = 'memory:' }\n\
                  [limits]\nwait_max = '200ms'\n[dapr]\nhttp_port = 0\n";
    let stage = Stage::of(tenure_server::config::Config::parse(config).unwrap()).await;
    lock_id(&stage.post(&path("r"), "").await);
    let reply = stage.post(&path("r"), "").await;
    let text = "the resource is already locked, and the longest wait is over";
    reply.is_error(504, "ERR_LOCK_TIMED_OUT", text);
    // Without an application's name, the key has none in it.
    assert!(stage.holder("lockstore", "lock||r").await.is_some());
}

#[tokio::test]
async fn force_takes_it_from_whoever_holds_it() {
    let stage = Stage::new().await;
    let path = path("r");
    assert_eq!(stage.delete(&path, r#"{"force":true}"#).await.status, 204);
    let held = lock_id(&stage.post(&path, "").await);
    let forced = stage.delete(&path, r#"{"force":true,"reason":"it hangs"}"#).await;
    assert_eq!(forced.status, 204);
    lock_id(&stage.post(&path, r#"{"immediate":true}"#).await);
    let late = stage.delete(&path, &format!(r#"{{"lockID":"{held}"}}"#)).await;
    late.is_error(404, "ERR_LOCK_NOT_FOUND", NOT_FOUND);
}

#[tokio::test]
async fn any_text_is_a_resource() {
    let stage = Stage::new().await;
    for (path, resource) in [
        ("a/b//c/", "a/b//c/"),
        ("a%2Fb%25%20%C3%BC", "a/b% ü"),
        ("100%", "100%"),
        ("%F0%9F%94%92", "🔒"),
    ] {
        let held = lock_id(&stage.post(&self::path(path), "").await);
        let key = format!("lock||app||{resource}");
        assert!(stage.holder("lockstore", &key).await.is_some(), "{key}");
        let body = format!(r#"{{"lockId":"{held}"}}"#);
        assert_eq!(stage.delete(&self::path(path), &body).await.status, 204, "{path}");
    }
}

#[tokio::test]
async fn slashes_before_the_resource_do_not_change_it() {
    let stage = Stage::new().await;
    let immediate = r#"{"immediate":true}"#;
    for (path, tidy, resource) in [
        ("//v1.0-alpha2//lock/lockstore/a//b", "/v1.0-alpha2/lock/lockstore/a//b", "a//b"),
        ("//v1.0-alpha2/lock//lockstore//etc/x", "/v1.0-alpha2/lock/lockstore//etc/x", "/etc/x"),
    ] {
        lock_id(&stage.post(path, immediate).await);
        let key = format!("lock||app||{resource}");
        assert!(stage.holder("lockstore", &key).await.is_some(), "{path}: {key}");
        let reply = stage.post(tidy, immediate).await;
        reply.is_error(423, "ERR_LOCK_HELD", HELD);
    }
}

#[tokio::test]
async fn every_prefix_makes_its_key() {
    let stage = Stage::new().await;
    for (store, key) in
        [("by_name", "lock||by_name||r"), ("shared", "lock||r"), ("team", "lock||team-a||r")]
    {
        assert_eq!(stage.post(&format!("/v1.0-alpha2/lock/{store}/r"), "").await.status, 200);
        assert!(stage.holder(store, key).await.is_some(), "{store}: {key}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let stage = Stage::new().await;
    let malformed = "ERR_MALFORMED_REQUEST";
    let text = "LockID is empty in lock store lockstore";
    stage.delete(&path("r"), "").await.is_error(400, malformed, text);
    let text = "input key/keyPrefix 'a||b' can't contain '||'";
    stage.post(&path("a%7C%7Cb"), "").await.is_error(400, malformed, text);
    let text = r#"failed deserializing HTTP body: time: invalid duration "5 s""#;
    stage.post(&path("r"), r#"{"ttl":"5 s"}"#).await.is_error(400, malformed, text);
    let (code, text) = ("ERR_LOCK_STORE_NOT_FOUND", "lock store none not found");
    stage.post("/v1.0-alpha2/lock/none/r", "").await.is_error(400, code, text);
    stage.delete("/v1.0-alpha2/lock/none/r", r#"{"force":true}"#).await.is_error(400, code, text);
    for (resource, body) in [("r", r#"{"ttl":"9000h"}"#), ("%00", ""), ("%FF", ""), ("r", "[]")] {
        let reply = stage.post(&path(resource), body).await;
        reply.is_error(400, malformed, &reply.message());
    }
    // Zero and less is the default.
    for (n, ttl) in ["0", "-5s", "", "0s"].into_iter().enumerate() {
        let reply = stage.post(&path(&format!("d{n}")), &format!(r#"{{"ttl":"{ttl}"}}"#)).await;
        assert_eq!(reply.status, 200, "{ttl}");
        let held = stage.holder("lockstore", &format!("lock||app||d{n}")).await.unwrap();
        assert_eq!(held.status.ttl, Duration::from_secs(30), "{ttl}");
    }
}
