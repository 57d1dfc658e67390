//! What is left of a released key, and what a crash of the server makes of it.

use std::fs;

use tenure_testkit::servers::nats::Release;
use tenure_testkit::wait::{sleep, until};

use crate::raw::{
    SOON, as_ann, claim, documented_permissions, give_back, messages, ms, newest, old, open, take,
    url, with_user,
};

/// A server of 2.9 that has no message left forgets how far it had counted.
#[tokio::test]
async fn an_old_server_that_is_killed_has_not_forgotten_its_count() {
    let server = old();
    let store = open(&url(&server)).await.unwrap();
    let mut last = None;
    for n in 0..20 {
        let lease = take(&*store, &format!("once-{n}"), ms(5000)).await;
        give_back(&*store, &lease).await;
        last = Some(lease.fence);
    }
    until("the marks to go", SOON, || async { Ok(messages(&server).await == 1) }).await.unwrap();
    server.process().kill().unwrap();
    server.process().start_again().unwrap();
    let next = take(&*open(&url(&server)).await.unwrap(), "k", ms(5000)).await;
    assert!(Some(next.fence) > last, "{} after {last:?}", next.fence);
}

/// When a mark has ended, the crash of a server may bring back the lease before it.
#[tokio::test]
async fn a_released_key_is_free_after_a_crash_of_the_server() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    let lease = take(&*store, "k", ms(60_000)).await;
    // Without another message, the server would begin a new file.
    take(&*store, "other", ms(60_000)).await;
    give_back(&*store, &lease).await;
    sleep(ms(12_000)).await;
    server.process().kill().unwrap();
    server.process().start_again().unwrap();
    let store = open(&url(&server)).await.unwrap();
    assert!(store.inspect(&lease.key).await.unwrap().is_none(), "the released lease is back");
    assert!(take(&*store, "k", ms(5000)).await.fence > lease.fence);
}

#[tokio::test]
async fn what_one_process_has_left_the_next_takes_away() {
    let server = old();
    let store = open(&url(&server)).await.unwrap();
    for n in 0..20 {
        let lease = take(&*store, &format!("once-{n}"), ms(5000)).await;
        give_back(&*store, &lease).await;
    }
    drop(store);
    sleep(ms(11_000)).await;
    let store = open(&url(&server)).await.unwrap();
    let lease = take(&*store, "late", ms(60_000)).await;
    drop(store);
    assert_eq!(messages(&server).await, 21, "the marks and a lease");
    let store = open(&url(&server)).await.unwrap();
    // Sooner than it would take away a mark of its own.
    until("the marks to go", ms(8000), || async { Ok(messages(&server).await == 1) })
        .await
        .unwrap();
    let held = store.inspect(&claim("late", ms(1)).key).await.unwrap().map(|held| held.fence);
    assert_eq!(held, Some(lease.fence), "a lease went with the marks");
}

#[tokio::test]
async fn what_may_not_be_taken_away_is_not_tried_again() {
    let all = documented_permissions();
    let lines = all.lines().filter(|line| !line.contains("STREAM.PURGE")).collect::<Vec<_>>();
    let server = with_user(Release::Old, &lines.join("\n"));
    let store = open(&as_ann(&server)).await.unwrap();
    for n in 0..20 {
        let lease = take(&*store, &format!("once-{n}"), ms(5000)).await;
        give_back(&*store, &lease).await;
    }
    let log = server.process().folder().join("tenure-test.log");
    let refusals = || fs::read_to_string(&log).unwrap().matches("STREAM.PURGE").count();
    until("the first try", SOON, || async { Ok(refusals() > 0) }).await.unwrap();
    sleep(ms(3000)).await;
    assert_eq!(refusals(), 1);
}
