//! A lock is the same, by whichever way it is taken.

use std::time::Duration;

use tenure::claim::{Attempt, Claim, Grant, Renewal};
use tenure::store::Class;
use tenure::{ErrorKind, Locks, Owner};
use tenure_server::api::{Order, Place};
use tenure_server::{Caller, Identity};
use tenure_testkit::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Stage, claim, key};

/// One HTTP/1.1 request; the status and the body.
async fn http(stage: &Stage, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(stage.running.address()).await.unwrap();
    let size = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
         application/json\r\ncontent-length: {size}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn rest_and_the_library_exclude_each_other() {
    let stage = Stage::new().await;
    let locks = Locks::open(&stage.url("")).await.unwrap();

    let guard = locks.lock("k").acquire().await.unwrap();
    let (status, body) = http(&stage, "POST", "/v1/locks/k", r#"{"immediate":true}"#).await;
    assert!(body.contains("held") && status / 100 == 4, "{status} {body}");
    let fence = guard.fence();
    guard.release().await.unwrap();

    let (status, body) = http(&stage, "POST", "/v1/locks/k", r#"{"immediate":true}"#).await;
    assert_eq!(status, 201, "{body}");
    let granted: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert!(granted["fence"].as_u64().unwrap() > fence.get(), "fences grow across both");
    let refused = locks.lock("k").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Held);

    // The lock id is the owner, by either way.
    let owner = Owner::parse(granted["lock_id"].as_str().unwrap()).unwrap();
    locks.release("k", &owner).await.unwrap();
    assert!(!locks.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn a_waiter_of_the_library_is_woken_by_an_unlock_of_the_server() {
    let stage = Stage::new().await;
    let caller = Caller { identity: Identity::unrestricted("me"), peer: None };
    let place = Place { key: "k".into(), ..Place::default() };
    let order = Order { place: place.clone(), ..Order::default() };
    let granted = stage.running.api().lock(&caller, &order).await.unwrap();

    let locks = stage.locks().await;
    let request = locks.lock("k").wait(Duration::from_secs(10));
    let waiting = tokio::spawn(async move { request.acquire().await });
    while locks.waiters("k") == 0 {
        tokio::task::yield_now().await;
    }
    stage.running.api().unlock(&caller, &place, &granted.lock_id).await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fence() > granted.fence);
}

#[tokio::test]
async fn no_owner_leaves_the_server() {
    let stage = Stage::new().await;
    let (one, two) = (stage.store("").await.unwrap(), stage.store("").await.unwrap());
    let mine = claim("t1/default/k", "mine");
    let Attempt::Granted(lease) = one.try_acquire(&mine).await.unwrap() else {
        panic!("a free key is held");
    };
    assert_eq!(one.inspect(&mine.key).await.unwrap().unwrap().owner, mine.owner);
    let seen = two.inspect(&mine.key).await.unwrap().unwrap();
    assert_eq!(seen.fence, lease.fence);
    assert_ne!(seen.owner, mine.owner, "the other store never named it");
    let again = two.inspect(&mine.key).await.unwrap().unwrap();
    assert_ne!(seen.owner, again.owner, "nobody can take a placeholder for an owner");
    // A claim that is refused leaves nothing to ask about.
    let other = claim("t1/default/k", "other");
    assert!(matches!(two.try_acquire(&other).await.unwrap(), Attempt::Held(_)));
    assert_ne!(two.inspect(&mine.key).await.unwrap().unwrap().owner, other.owner);
}

/// However many of one process may be on a key, its own is found among them.
#[tokio::test]
async fn an_owner_is_known_among_hundreds() {
    let stage = Stage::new().await;
    let store = stage.store("").await.unwrap();
    let mine = Claim { ttl: Duration::from_secs(5), ..claim("t1/default/k", "mine") };
    store.try_acquire(&mine).await.unwrap();
    for n in 0..300 {
        let other = Owner::parse(&format!("other {n}")).unwrap();
        let grant = Grant { key: mine.key.clone(), owner: other, fence: None };
        // What was once renewed may be there, whoever took it.
        store.renew(&Renewal { grant, ttl: Duration::from_secs(60) }).await.unwrap();
    }
    assert_eq!(store.inspect(&mine.key).await.unwrap().unwrap().owner, mine.owner);
}

#[tokio::test]
async fn many_locks_share_few_connections() {
    let stage = Stage::new().await;
    let proxy = Proxy::start(stage.running.address(), 0).await.unwrap();
    let locks = Locks::open(&format!("tenure://{}", proxy.address())).await.unwrap();
    let work = (0..300).map(|n| {
        let request = locks.lock(&format!("k{}", n % 100)).wait(Duration::from_secs(60));
        async move { request.acquire().await.unwrap().release().await.unwrap() }
    });
    futures_util::future::join_all(work).await;
    assert!(locks.lock("k").try_acquire().await.unwrap().is_some());
    let connections = proxy.connections();
    assert!((1..=2).contains(&connections), "{connections} connections");
}

#[tokio::test]
async fn what_the_store_is_worth_is_told() {
    let stage = Stage::with("default_store = 'main'\n[stores.heap]\nurl = 'memory:'\n").await;
    let file = stage.store("").await.unwrap();
    assert_eq!(file.info().name, "remote");
    assert!(file.info().findings[0].text.contains("file"), "{:?}", file.info().findings);
    let heap = stage.store("/heap").await.unwrap();
    assert_eq!(heap.info().class, Class::Efficiency);
    assert!(heap.info().findings.iter().any(|finding| finding.topic == "memory"));
    // Two stores of one server are two rooms.
    let claim = claim("t1/default/k", "o");
    file.try_acquire(&claim).await.unwrap();
    assert!(heap.inspect(&key("t1/default/k")).await.unwrap().is_none());
    let missing = stage.store("/missing").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(missing.to_string().contains("missing"), "{missing}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let stage = Stage::new().await;
    let url = stage.url("");
    stage.running.shutdown().await;
    let error = Locks::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
