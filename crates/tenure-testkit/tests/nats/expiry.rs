//! Every lease ends, by the server's clock or by the observers'.

use std::time::Duration;

use tenure::Severity;
use tenure::claim::{Renewal, Renewed};
use tenure::store::{Class, Timing};
use tenure_testkit::wait::until;

use crate::raw::{
    SOON, give_back, grant, header, headers, messages, ms, newest, old, open, stream, take, url,
};

const TTL: Duration = ms(4200);
const DEAD: Duration = ms(2900);

#[tokio::test]
async fn every_write_of_a_lease_carries_its_ttl() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    assert_eq!(store.info().timing, Timing::Store);
    let lease = take(&*store, "k", TTL).await;
    let stream = stream(&server).await;
    let ttl = async || header(&headers(&stream, "k").await, "Nats-TTL");
    assert_eq!(ttl().await.as_deref(), Some("5"), "the grant");
    let renewal = Renewal { grant: grant(&lease), ttl: TTL };
    assert!(matches!(store.renew(&renewal).await.unwrap(), Renewed::Renewed(_)));
    assert_eq!(ttl().await.as_deref(), Some("5"), "the renewal");
    give_back(&*store, &lease).await;
    let mark = headers(&stream, "k").await;
    assert_eq!(header(&mark, "KV-Operation").as_deref(), Some("PURGE"));
    assert_eq!(header(&mark, "Nats-TTL").as_deref(), Some("10"), "the mark");
    let again = take(&*store, "k", TTL).await;
    assert!(again.fence > lease.fence);
    assert_eq!(ttl().await.as_deref(), Some("5"), "the grant over a mark");
}

/// The holder dies after a renewal, or after it took the key over a delete mark: in both cases
/// some clients of NATS make a lock that never ends.
#[tokio::test]
async fn the_server_ends_the_lease_of_a_dead_holder() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    let first = take(&*store, "renewed", DEAD).await;
    let renewal = Renewal { grant: grant(&first), ttl: DEAD };
    assert!(matches!(store.renew(&renewal).await.unwrap(), Renewed::Renewed(_)));
    let once = take(&*store, "again", DEAD).await;
    give_back(&*store, &once).await;
    take(&*store, "again", DEAD).await;
    drop(store);
    let stream = stream(&server).await;
    for key in ["renewed", "again"] {
        assert_eq!(header(&headers(&stream, key).await, "Nats-Marker-Reason"), None);
    }
    for key in ["renewed", "again"] {
        until("the server to end the lease", SOON, || async {
            let reason = header(&headers(&stream, key).await, "Nats-Marker-Reason");
            Ok(reason.as_deref() == Some("MaxAge"))
        })
        .await
        .unwrap();
    }
    let next = open(&url(&server)).await.unwrap();
    assert!(take(&*next, "renewed", DEAD).await.fence > first.fence);
}

#[tokio::test]
async fn keys_that_are_used_once_leave_nothing_behind() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    for n in 0..50 {
        let lease = take(&*store, &format!("once-{n}"), TTL).await;
        give_back(&*store, &lease).await;
    }
    assert_eq!(messages(&server).await, 50, "the marks");
    until("the marks to go", ms(15_000), || async { Ok(messages(&server).await == 0) })
        .await
        .unwrap();
}

#[tokio::test]
async fn on_an_old_server_observers_time_leases_and_it_says_so() {
    let server = old();
    let store = open(&url(&server)).await.unwrap();
    let info = store.info();
    assert_eq!((info.timing, info.class), (Timing::Observer, Class::Efficiency));
    let told = info
        .findings
        .iter()
        .find(|finding| finding.severity == Severity::Warning && finding.topic == "version");
    assert!(told.is_some_and(|told| told.remedy.is_some()), "{:?}", info.findings);
    let stream = stream(&server).await;
    for n in 0..20 {
        let lease = take(&*store, &format!("once-{n}"), TTL).await;
        assert_eq!(header(&headers(&stream, &format!("once-{n}")).await, "Nats-TTL"), None);
        give_back(&*store, &lease).await;
    }
    let only_the_last = || async { Ok(messages(&server).await == 1) };
    until("the marks to go", SOON, only_the_last).await.unwrap();
    let (first, second) = (take(&*store, "k", TTL).await, open(&url(&server)).await.unwrap());
    give_back(&*store, &first).await;
    assert!(take(&*second, "k", TTL).await.fence > first.fence, "the fence went back");
}

#[tokio::test]
async fn a_server_that_syncs_is_of_the_first_class() {
    let server = newest();
    let info = open(&url(&server)).await.unwrap().info().clone();
    assert_eq!(info.class, Class::Fenced, "{:?}", info.findings);
    let silent = url(&server).replace("&sync=always", "");
    let info = open(&silent).await.unwrap().info().clone();
    assert_eq!(info.class, Class::Efficiency);
    assert!(info.findings.iter().any(|f| f.topic == "sync_interval" && f.remedy.is_some()));
    let old = old();
    let info = open(&format!("{}&sync=always", url(&old))).await.unwrap().info().clone();
    assert_eq!(info.class, Class::Efficiency, "it knows no such setting: {:?}", info.findings);
}
