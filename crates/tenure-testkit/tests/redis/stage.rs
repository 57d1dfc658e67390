//! What the tests share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure::claim::{Attempt, Claim, Eviction, Grant, Reentry, Released};
use tenure::clock::SystemClock;
use tenure::{Error, Holder, Key, Lease, Owner, Store};
use tenure_testkit::servers::Server;
use tenure_testkit::servers::redis::start_redis;
use tenure_testkit::wait::bounded;

pub(crate) const TTL: Duration = Duration::from_secs(30);
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) type Raw = redis::aio::MultiplexedConnection;

/// A Redis that keeps nothing on disk.
pub(crate) fn fast() -> Server {
    start_redis(&[]).unwrap()
}

/// A Redis that loses nothing.
pub(crate) fn sure() -> Server {
    start_redis(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap()
}

pub(crate) async fn open(url: impl AsRef<str>) -> Arc<dyn Store> {
    tenure::stores::open(url.as_ref(), Arc::new(SystemClock)).await.unwrap()
}

/// Opening that must fail: the error, and its whole text.
pub(crate) async fn refused(url: impl AsRef<str>) -> (Error, String) {
    let error = tenure::stores::open(url.as_ref(), Arc::new(SystemClock)).await.unwrap_err();
    let text = tenure::error::Chain(&error).to_string();
    assert!(!text.contains("secret"), "a password shows in: {text}");
    (error, text)
}

pub(crate) fn url(server: &Server) -> String {
    format!("redis://{}", server.address())
}

/// A client of Redis that knows nothing of tenure.
pub(crate) async fn raw(at: SocketAddr) -> Raw {
    let client = redis::Client::open(format!("redis://{at}")).unwrap();
    let config = redis::AsyncConnectionConfig::new()
        .set_response_timeout(Some(SOON))
        .set_connection_timeout(Some(SOON));
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Sends a command: its words, as one would type them.
pub(crate) async fn ask<T: redis::FromRedisValue>(raw: &mut Raw, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(raw).await.unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn evicting(text: &str) -> Eviction {
    Eviction::new(key(text), "a test").unwrap()
}

pub(crate) fn owner(text: &str) -> Owner {
    Owner::parse(text).unwrap()
}

pub(crate) fn claim(on: &str, by: &str) -> Claim {
    let holder = Holder::new("a test").unwrap();
    Claim { key: key(on), owner: owner(by), ttl: TTL, holder, reentry: Reentry::Adopt }
}

pub(crate) fn grant(on: &str, by: &str) -> Grant {
    Grant { key: key(on), owner: owner(by), fence: None }
}

/// A grant that must be given.
pub(crate) async fn granted(store: &dyn Store, on: &str, by: &str) -> Lease {
    match store.try_acquire(&claim(on, by)).await.unwrap() {
        Attempt::Granted(lease) => lease,
        Attempt::Held(status) => panic!("{on} is held: {status:?}"),
    }
}

/// Takes a key and gives it back; returns the fence.
pub(crate) async fn cycle(store: &dyn Store, on: &str) -> u64 {
    let lease = granted(store, on, "cycle").await;
    let released = store.release(&grant(on, "cycle")).await.unwrap();
    assert!(matches!(released, Released::Released(status) if status.fence == lease.fence));
    lease.fence.get()
}

/// A release on the one store wakes a watch on the other.
pub(crate) async fn woken(one: &dyn Store, two: &dyn Store, on: &str) {
    granted(one, on, "cycle").await;
    let mut watch = two.watch(&key(on)).await.unwrap();
    one.force_release(&evicting(on)).await.unwrap();
    bounded("the watch to be rung", SOON, watch.changed()).await.unwrap();
}
