//! `tenure.v1.LockService` with a generated client.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "wire/failing.rs"]
mod failing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure::ErrorKind;
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{
    ForceUnlockRequest, GetRequest, HoldRequest, HoldResponse, ListRequest, ListStoresRequest,
    LockRequest, RenewRequest, Renewal, Target, UnlockRequest, WatchEventsRequest, hold_response,
    watch_events_response::Kind,
};
use tenure_api::time::{from_wire, to_wire};
use tenure_server::Running;
use tenure_server::config::Config;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use failing::Failing;

async fn server() -> (Running, LockServiceClient<Channel>) {
    let text = "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n";
    let running = Running::start(Config::parse(text).unwrap()).await.unwrap();
    let client = client(&running).await;
    (running, client)
}

async fn client(running: &Running) -> LockServiceClient<Channel> {
    let url = format!("http://{}", running.address());
    LockServiceClient::new(Channel::from_shared(url).unwrap().connect().await.unwrap())
}

fn target(key: &str) -> Option<Target> {
    Some(Target { key: key.into(), ..Target::default() })
}

fn lock(key: &str) -> LockRequest {
    LockRequest { target: target(key), ..LockRequest::default() }
}

fn ms(ms: u64) -> Option<prost_types::Duration> {
    Some(to_wire(Duration::from_millis(ms)))
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().unwrap().reason
}

async fn event(stream: &mut Streaming<HoldResponse>) -> hold_response::Event {
    stream.message().await.unwrap().unwrap().event.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_seen_renewed_and_given_back() {
    let (_running, mut client) = server().await;
    let granted = client.lock(LockRequest { ttl: ms(20_000), ..lock("k") }).await.unwrap();
    let granted = granted.into_inner();
    let seen = client.get(GetRequest { target: target("k") }).await.unwrap().into_inner();
    assert_eq!(seen.lock.unwrap().fence, granted.fence);
    let lock_id = granted.lock_id.clone();
    let renew = RenewRequest { target: target("k"), lock_id, ttl: ms(60_000) };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    assert_eq!(from_wire(&renewed.ttl.unwrap()).unwrap(), Duration::from_secs(60));
    let page = client.list(ListRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.locks.len(), 1);
    client.unlock(UnlockRequest { target: target("k"), lock_id: granted.lock_id }).await.unwrap();
    let gone = client.get(GetRequest { target: target("k") }).await.unwrap_err();
    assert_eq!((gone.code(), &*reason(&gone)), (Code::NotFound, "not_found"));
    let stores = client.list_stores(ListStoresRequest {}).await.unwrap().into_inner().stores;
    assert_eq!((&*stores[0].name, &*stores[0].kind), ("main", "memory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_a_canonical_and_an_exact_code() {
    let (_running, mut client) = server().await;
    client.lock(lock("k")).await.unwrap();
    let wrong = UnlockRequest { target: target("k"), lock_id: "guessed".into() };
    for (status, code, name) in [
        (
            client.lock(LockRequest { immediate: true, ..lock("k") }).await.err(),
            Code::Aborted,
            "held",
        ),
        (
            client.lock(LockRequest { wait: ms(30), ..lock("k") }).await.err(),
            Code::DeadlineExceeded,
            "timed_out",
        ),
        (client.unlock(wrong).await.err(), Code::FailedPrecondition, "wrong_owner"),
        (
            client.lock(LockRequest { ttl: ms(1), ..lock("x") }).await.err(),
            Code::InvalidArgument,
            "invalid",
        ),
        (client.lock(LockRequest::default()).await.err(), Code::InvalidArgument, "invalid"),
        (client.lock(lock("")).await.err(), Code::InvalidArgument, "invalid"),
    ] {
        let status = status.unwrap();
        assert_eq!((status.code(), &*reason(&status)), (code, name), "{status}");
    }
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let status = client.lock(LockRequest { wait: Some(negative), ..lock("x") }).await.unwrap_err();
    assert!(status.message().contains("wait"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_of_a_store_has_its_codes() {
    let store = Failing::new().await;
    let config = Config::parse("listen = '127.0.0.1:0'\n").unwrap();
    let stores = BTreeMap::from([("main".to_owned(), Arc::clone(&store) as _)]);
    let running = Running::start_with(config, stores).await.unwrap();
    let mut client = client(&running).await;
    // Opens the namespace, which asks the store too.
    client.lock(lock("held")).await.unwrap();
    for (kind, code, name) in [
        (ErrorKind::Unavailable, Code::Unavailable, "unavailable"),
        (ErrorKind::Unknown, Code::Unknown, "unknown"),
        (ErrorKind::Unsupported, Code::Unimplemented, "unsupported"),
        (ErrorKind::Denied, Code::Internal, "store_denied"),
        (ErrorKind::Mismatch, Code::FailedPrecondition, "mismatch"),
        (ErrorKind::Damaged, Code::DataLoss, "damaged"),
    ] {
        store.fail(Some(kind));
        let unlock = UnlockRequest { target: target("other"), lock_id: "x".into() };
        for status in [
            client.lock(LockRequest { immediate: true, ..lock("free") }).await.err(),
            client.unlock(unlock).await.err(),
            client.get(GetRequest { target: target("held") }).await.err(),
            client.list(ListRequest::default()).await.err(),
        ] {
            let status = status.unwrap();
            assert_eq!((status.code(), &*reason(&status)), (code, name), "{status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_holds_the_lock_until_its_client_goes() {
    let (running, mut client) = server().await;
    let hold = HoldRequest { target: target("k"), ..HoldRequest::default() };
    let mut other = self::client(&running).await;
    let mut first = client.hold(hold.clone()).await.unwrap().into_inner();
    let hold_response::Event::Acquired(acquired) = event(&mut first).await else { panic!() };
    let mut second = other.hold(hold).await.unwrap().into_inner();
    let hold_response::Event::Waiting(waiting) = event(&mut second).await else { panic!() };
    assert_eq!(waiting.ahead, 0);
    // The whole connection goes, not only the stream.
    drop((first, client));
    loop {
        match event(&mut second).await {
            hold_response::Event::Acquired(next) => break assert!(next.fence > acquired.fence),
            hold_response::Event::Waiting(_) | hold_response::Event::Ping(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_ends_the_stream_with_an_error() {
    let (_running, mut client) = server().await;
    let hold = HoldRequest { target: target("k"), ttl: ms(500), ..HoldRequest::default() };
    let mut stream = client.hold(hold).await.unwrap().into_inner();
    assert!(matches!(event(&mut stream).await, hold_response::Event::Acquired(_)));
    let force = ForceUnlockRequest { target: target("k"), reason: "test".into() };
    let evicted = client.force_unlock(force).await.unwrap().into_inner().evicted;
    assert_eq!(evicted.unwrap().key, "k");
    let status = stream.message().await.unwrap_err();
    assert_eq!(reason(&status), "lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_renews_by_itself_loses_what_it_forgets() {
    let (_running, mut client) = server().await;
    let own = LockRequest { ttl: ms(300), renewal: Renewal::Client.into(), ..lock("k") };
    client.lock(own).await.unwrap();
    client.lock(LockRequest { wait: ms(5000), ..lock("k") }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_told_as_they_happen() {
    let (_running, mut client) = server().await;
    let watch = WatchEventsRequest { prefix: "job/".into(), ..WatchEventsRequest::default() };
    let mut events = client.watch_events(watch).await.unwrap().into_inner();
    client.lock(lock("other")).await.unwrap();
    client.lock(lock("job/1")).await.unwrap();
    let told = events.message().await.unwrap().unwrap();
    assert_eq!((told.kind(), &*told.key), (Kind::Granted, "job/1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_leaves_the_line() {
    let (running, mut client) = server().await;
    let granted = client.lock(lock("k")).await.unwrap().into_inner();
    let mut waiting = self::client(&running).await;
    let wait = tokio::spawn(async move { waiting.lock(lock("k")).await });
    let seen = GetRequest { target: target("k") };
    while client.get(seen.clone()).await.unwrap().into_inner().lock.unwrap().waiters == 0 {}
    wait.abort();
    while client.get(seen.clone()).await.unwrap().into_inner().lock.unwrap().waiters > 0 {}
    let unlock = UnlockRequest { target: target("k"), lock_id: granted.lock_id };
    client.unlock(unlock).await.unwrap();
    client.lock(LockRequest { immediate: true, ..lock("k") }).await.unwrap();
}
