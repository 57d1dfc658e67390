//! A shared store that is not there: refused, or replaced by a local one as the policy says.

#![allow(clippy::unwrap_used)]
#![cfg(feature = "file")]

mod captured;

use std::time::Duration;

use captured::Captured;
use tenure::store::Class;
use tenure::{DegradedPolicy, ErrorKind, Locks, LocksBuilder};

fn shared(policy: DegradedPolicy) -> LocksBuilder {
    Locks::builder().shared(true).degraded(policy)
}

async fn warnings_of(policy: DegradedPolicy) -> usize {
    let (captured, _guard) = Captured::start();
    let locks = shared(policy).open("memory:").await.unwrap();
    assert_eq!(locks.store().class, Class::Efficiency);
    assert!(locks.store().findings[0].text.contains("degraded"), "{:?}", locks.store());
    for _ in 0..3 {
        locks.lock("k").acquire().await.unwrap().release().await.unwrap();
    }
    captured.lines().iter().filter(|line| line.starts_with("WARN")).count()
}

#[tokio::test]
async fn a_local_store_is_refused_when_sharing_was_asked_for() {
    let error = shared(DegradedPolicy::Refuse).open("memory:").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(Locks::builder().open("memory:").await.is_ok(), "local was all that was asked for");
}

#[tokio::test]
async fn the_policy_says_how_often_to_warn() {
    assert_eq!(warnings_of(DegradedPolicy::Warn).await, 3);
    assert_eq!(warnings_of(DegradedPolicy::WarnThrottled).await, 1);
    assert_eq!(warnings_of(DegradedPolicy::Local).await, 0);
}

#[tokio::test]
async fn the_local_fallback_honours_wait_and_ttl() {
    let locks = shared(DegradedPolicy::Local).open("memory:").await.unwrap();
    let request = locks.lock("k").ttl(Duration::from_millis(200)).keep_alive(false);
    let held = request.acquire().await.unwrap();
    let hurried = locks.lock("k").wait(Duration::from_millis(20)).acquire().await;
    assert_eq!(hurried.unwrap_err().kind(), ErrorKind::TimedOut);
    let patient = locks.lock("k").wait(Duration::from_secs(5)).acquire().await.unwrap();
    assert!(patient.fence() > held.fence() && !held.is_held());
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_at_start_is_refused_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    // Another program keeps the file to itself.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let url = format!("file:{}", path.display());
    let (refused, replaced) = tokio::join!(
        Locks::builder().open(&url),
        Locks::builder().degraded(DegradedPolicy::Local).open(&url),
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    let replaced = replaced.unwrap();
    assert_eq!(replaced.store().name, "memory");
    replaced.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_wrong_url_is_never_replaced() {
    for wrong in ["", "memory", "memory:x", "redis-like://h", "file:", "file:/no/such/folder/x.db"]
    {
        let error = shared(DegradedPolicy::Local).open(wrong).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported),
            "{wrong}: {error}"
        );
    }
}
