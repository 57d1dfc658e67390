//! No secret in a log, an error or a Debug print: everything is logged, and planted secrets are
//! looked for.

#![allow(clippy::unwrap_used)]

mod captured;

use std::fmt::Write;
use std::time::Duration;

use captured::Captured;
use futures_util::StreamExt;
use tenure::{KeyPolicy, Locks, Owner};

const OWNER: &str = "canary-owner-1f2e3d";
const SECRET: &str = "canary-secret-0a9b8c7d";
const KEY: &str = "canary-key-77aa66";

#[tokio::test]
async fn nothing_tells_an_owner_a_secret_or_a_hashed_key() {
    let (captured, _guard) = Captured::start();
    let policy = KeyPolicy::hashed(SECRET).unwrap();
    let builder = Locks::builder().key_policy(policy);
    let mut shown = format!("{builder:?}");
    let locks = builder.open("memory:").await.unwrap();
    let events = locks.events();
    let owner = Owner::parse(OWNER).unwrap();
    let request = locks.lock(KEY).owner(owner.clone()).ttl(Duration::from_millis(150));
    let guard = request.acquire().await.unwrap();
    write!(shown, "{locks:?} {request:?} {guard:?} {owner:?}").unwrap();
    let held = locks.lock(KEY).wait(Duration::ZERO).acquire().await;
    let waited = locks.lock(KEY).wait(Duration::from_millis(10)).acquire().await;
    let wrong = locks.release(KEY, &Owner::parse("another").unwrap()).await;
    write!(shown, "{held:?} {waited:?} {wrong:?}").unwrap();
    locks.force_release(KEY, "a reason").await.unwrap();
    guard.lost().await;
    write!(shown, "{:?} {:?}", guard.release().await, locks.release(KEY, &owner).await).unwrap();
    drop((locks, request));
    let events: Vec<_> = events.collect().await;
    assert!(events.len() >= 4, "{events:?}");
    let lines = captured.lines();
    assert!(lines.iter().any(|line| line.contains("lost")), "nothing was logged: {lines:?}");
    write!(shown, "{events:?} {lines:?}").unwrap();
    for canary in [OWNER, SECRET, KEY] {
        assert!(!shown.contains(canary), "{canary} shows in: {shown}");
    }
}
