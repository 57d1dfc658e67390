//! Scripts that are forgotten, connections that break, servers that die and come back.

use std::time::Duration;

use tenure::claim::Attempt;
use tenure::{ErrorKind, Locks};
use tenure_testkit::wait::{bounded, until};

use crate::stage::{SOON, ask, claim, cycle, evicting, fast, granted, key, open, raw, sure, url};

#[tokio::test]
async fn forgotten_scripts_are_taught_again() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let mut last = 0;
    for _ in 0..5 {
        let (): () = ask(&mut raw, &["SCRIPT", "FLUSH"]).await;
        let fence = cycle(&*store, "job").await;
        assert!(fence > last);
        last = fence;
        let (): () = ask(&mut raw, &["SCRIPT", "FLUSH"]).await;
        assert!(store.inspect(&key("job")).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_killed_server_comes_back_with_its_locks_and_wakes_again() {
    let server = sure();
    let store = open(url(&server)).await;
    let before = granted(&*store, "job", "me").await;
    let mut watch = store.watch(&key("job")).await.unwrap();
    server.kill().unwrap();
    bounded("the watch to be rung, since it no longer hears", SOON, watch.changed()).await.unwrap();
    let error = store.try_acquire(&claim("other", "me")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "known to be gone, and yet: {error}");
    server.start_again().unwrap();
    let seen = store.inspect(&key("job")).await.unwrap().unwrap();
    assert_eq!((seen.fence, seen.owner), (before.fence, before.owner));
    let refused = store.try_acquire(&claim("job", "another")).await.unwrap();
    assert!(matches!(refused, Attempt::Held(_)), "{refused:?}");
    // Once for what may have been missed; from then on, it hears again.
    bounded("the watch to be rung, since it hears again", SOON, watch.changed()).await.unwrap();
    store.force_release(&evicting("job")).await.unwrap();
    bounded("the watch to be rung by the release", SOON, watch.changed()).await.unwrap();
    assert!(cycle(&*store, "job").await > before.fence.get());
}

#[tokio::test]
async fn a_waiter_lives_through_a_restart_without_looking() {
    let server = sure();
    let hour = Duration::from_secs(3600);
    let never_looks = tenure::Backoff { base: hour, cap: hour, jitter: 0.0 };
    let holder = Locks::open(&url(&server)).await.unwrap();
    let locks = Locks::builder().poll(never_looks).open(&url(&server)).await.unwrap();
    let lease = holder.lock("job").ttl(hour).acquire().await.unwrap().detach();
    let request = locks.lock("job").wait(hour);
    let waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
    let mut raw_before = raw(server.address()).await;
    until("the waiter to listen", SOON, || {
        let mut raw = raw_before.clone();
        async move { Ok(ask::<Vec<String>>(&mut raw, &["PUBSUB", "CHANNELS"]).await.len() == 1) }
    })
    .await
    .unwrap();
    let _: String = ask(&mut raw_before, &["PING"]).await;
    server.kill().unwrap();
    server.start_again().unwrap();
    let raw_after = raw(server.address()).await;
    until("the waiter to listen again", SOON, || {
        let mut raw = raw_after.clone();
        async move { Ok(ask::<Vec<String>>(&mut raw, &["PUBSUB", "CHANNELS"]).await.len() == 1) }
    })
    .await
    .unwrap();
    holder.release("job", &lease.owner).await.unwrap();
    let next = bounded("the waiter to be woken", SOON, waiter).await.unwrap().unwrap();
    assert!(next.fence() > lease.fence);
}

#[tokio::test]
async fn a_cut_connection_costs_no_answer_and_is_made_anew() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let mut watch = store.watch(&key("job")).await.unwrap();
    for _ in 0..3 {
        let _: i64 = ask(&mut raw, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        bounded("the watch to be rung", SOON, watch.changed()).await.unwrap();
        let _: i64 = ask(&mut raw, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        // Idle when it was cut, so nothing is in doubt: at most the answer to a read is missing.
        until("a new connection", SOON, || async { Ok(store.inspect(&key("job")).await.is_ok()) })
            .await
            .unwrap();
        cycle(&*store, "job").await;
    }
}

#[tokio::test]
async fn a_server_that_only_stands_still_is_in_doubt_and_then_asked_anew() {
    let server = fast();
    let store = open(url(&server)).await;
    cycle(&*store, "job").await;
    server.pause().unwrap();
    let (job, ours, others) = (key("job"), claim("job", "me"), claim("x", "me"));
    let (read, write) = tokio::join!(
        bounded("a read to be given up", SOON, store.inspect(&job)),
        bounded("a write to be given up", SOON, store.try_acquire(&ours)),
    );
    assert_eq!(read.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(write.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
    let unsent = bounded("a connection to be given up", SOON, store.try_acquire(&others)).await;
    assert_eq!(unsent.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    server.resume().unwrap();
    // What was sent may still land, as its kind of error says.
    let attempt = bounded("an answer", SOON, store.try_acquire(&ours)).await.unwrap();
    assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn nothing_is_listened_to_or_connected_any_longer_than_needed() {
    let server = fast();
    let mut raw = raw(server.address()).await;
    async fn count(raw: &mut crate::stage::Raw, words: &[&str]) -> usize {
        match words[0] {
            "CLIENT" => ask::<String>(raw, words).await.lines().count(),
            _ => ask::<Vec<String>>(raw, words).await.len(),
        }
    }
    let store = open(url(&server)).await;
    let watches = [
        store.watch(&key("a")).await.unwrap(),
        store.watch(&key("a")).await.unwrap(),
        store.watch(&key("b")).await.unwrap(),
    ];
    assert!(count(&mut raw, &["PUBSUB", "CHANNELS", "tenure:free:0:?"]).await == 2);
    drop(watches);
    let own = raw.clone();
    let gone = |words: &'static [&'static str], left: usize| {
        let own = own.clone();
        move || {
            let mut own = own.clone();
            async move { Ok(count(&mut own, words).await == left) }
        }
    };
    until("no channels", SOON, gone(&["PUBSUB", "CHANNELS"], 0)).await.unwrap();
    until("no second connection", SOON, gone(&["CLIENT", "LIST"], 2)).await.unwrap();
    let watch = store.watch(&key("a")).await.unwrap();
    assert_eq!(count(&mut raw, &["CLIENT", "LIST"]).await, 3);
    drop(store);
    until("no connection of the store's", SOON, gone(&["CLIENT", "LIST"], 1)).await.unwrap();
    drop(watch);
}
