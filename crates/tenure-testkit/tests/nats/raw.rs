//! A server of one's own, and a look past the store at what it holds.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::{self, stream};
use tenure::claim::{Attempt, Claim, Grant, Reentry, Released};
use tenure::clock::SystemClock;
use tenure::{Backoff, ErrorKind, Key, Lease, Locks, LocksBuilder, Owner, Store};
use tenure_testkit::servers::Service;
use tenure_testkit::servers::nats::{Nats, Recipe, Release};

pub(crate) const BUCKET: &str = "room_1";

/// Longer than anything takes that works, on a busy machine.
pub(crate) const SOON: Duration = ms(20_000);

/// Shorter than any timeout of the store.
pub(crate) const AT_ONCE: Duration = ms(5000);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn newest() -> Nats {
    Nats::start(&Recipe::new(Release::Newest)).unwrap()
}

pub(crate) fn old() -> Nats {
    Nats::start(&Recipe::new(Release::Old)).unwrap()
}

pub(crate) fn url(server: &Nats) -> String {
    server.url(1, None)
}

pub(crate) async fn open(url: &str) -> tenure::Result<Arc<dyn Store>> {
    tenure::stores::open(url, Arc::new(SystemClock)).await
}

pub(crate) async fn refusal(url: &str) -> (ErrorKind, String) {
    let error = open(url).await.unwrap_err();
    (error.kind(), error.to_string())
}

/// Locks that never look by themselves: only a bell or a timer wakes them.
pub(crate) fn never_looks() -> LocksBuilder {
    let hour = ms(3_600_000);
    Locks::builder().poll(Backoff { base: hour, cap: hour, jitter: 0.0 })
}

pub(crate) async fn raw(server: &Nats) -> jetstream::Context {
    let address = format!("nats://{}", server.process().address());
    jetstream::new(async_nats::connect(address).await.unwrap())
}

pub(crate) async fn stream(server: &Nats) -> stream::Stream {
    raw(server).await.get_stream(format!("KV_{BUCKET}")).await.unwrap()
}

/// The headers of what stands under a key.
pub(crate) async fn headers(stream: &stream::Stream, key: &str) -> HeaderMap {
    let subject = format!("$KV.{BUCKET}.{key}");
    stream.get_last_raw_message_by_subject(&subject).await.unwrap().headers
}

pub(crate) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| value.as_str().to_owned())
}

pub(crate) async fn messages(server: &Nats) -> u64 {
    stream(server).await.cached_info().state.messages
}

pub(crate) async fn consumers(server: &Nats) -> usize {
    stream(server).await.cached_info().state.consumer_count
}

/// A claim on a key as it is.
pub(crate) fn claim(key: &str, ttl: Duration) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        owner: Owner::parse("worker-7").unwrap(),
        ttl,
        holder: tenure::Holder::new("test").unwrap(),
        reentry: Reentry::Adopt,
    }
}

pub(crate) async fn take(store: &dyn Store, key: &str, ttl: Duration) -> Lease {
    match store.try_acquire(&claim(key, ttl)).await.unwrap() {
        Attempt::Granted(lease) => lease,
        Attempt::Held(status) => panic!("held: {status:?}"),
    }
}

pub(crate) fn grant(lease: &Lease) -> Grant {
    Grant { key: lease.key.clone(), owner: lease.owner.clone(), fence: Some(lease.fence) }
}

pub(crate) async fn give_back(store: &dyn Store, lease: &Lease) {
    let released = store.release(&grant(lease)).await.unwrap();
    assert!(matches!(released, Released::Released(_)), "{released:?}");
}

const DOCS: &str = include_str!("../../../tenure/src/stores/nats/mod.rs");

/// The block of permissions in the documentation, for the test's bucket.
pub(crate) fn documented_permissions() -> String {
    let lines = DOCS.lines().map(|line| line.trim_start_matches("//!").trim());
    let lines =
        lines.skip_while(|line| *line != "permissions: {").take_while(|line| *line != "```");
    let block = lines.collect::<Vec<_>>().join("\n");
    assert!(block.contains("$KV.tenure.>"), "no permissions in the documentation");
    block.replace("KV_tenure", &format!("KV_{BUCKET}")).replace("$KV.tenure", "$KV.room_1")
}

pub(crate) fn with_user(release: Release, permissions: &str) -> Nats {
    let user = format!("{{ user: ann, password: \"p:@ss\"\n{permissions} }}");
    let recipe = Recipe::new(release).with(&format!("authorization {{ users: [ {user} ] }}"));
    Nats::start(&recipe).unwrap()
}

pub(crate) fn as_ann(server: &Nats) -> String {
    url(server).replace("nats://", "nats://ann:p%3A%40ss@")
}
