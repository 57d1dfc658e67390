//! Servers that are away, die and come back.

use std::net::TcpListener;
use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure::{ErrorKind, Retry};
use tenure_testkit::proxy::{Flow, Proxy};
use tenure_testkit::servers::nats::{Nats, Recipe, Release};
use tenure_testkit::servers::{Service, free_port};
use tenure_testkit::wait::{bounded, sleep, until};

use crate::raw::{
    SOON, claim, consumers, give_back, ms, never_looks, newest, old, open, refusal, take, url,
};

#[tokio::test]
async fn opening_fails_in_time_and_says_why() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = format!("nats://127.0.0.1:{}", free_port().unwrap());
    let silent = format!("nats://{}", silent.local_addr().unwrap());
    for (url, word) in [(away, "reached"), (silent, "answer")] {
        let before = SystemClock.now();
        let (kind, text) = refusal(&url).await;
        assert!(kind == ErrorKind::Unavailable && text.contains(word), "{text}");
        let took = SystemClock.now().since(before);
        assert!(took < Duration::from_secs(11), "{took:?}");
    }
}

#[tokio::test]
async fn without_jetstream_it_says_what_to_do() {
    for release in [Release::Newest, Release::Old] {
        let server = Nats::start(&Recipe::new(release).without_jetstream()).unwrap();
        let (kind, text) = refusal(&url(&server)).await;
        assert!(kind == ErrorKind::Unsupported && text.contains("-js"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_has_changed_nothing() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    take(&*store, "k", ms(5000)).await;
    server.process().kill().unwrap();
    until("the client to notice", ms(5000), || async {
        let error = store.try_acquire(&claim("other", ms(5000))).await.expect_err("granted");
        Ok(error.kind() == ErrorKind::Unavailable)
    })
    .await
    .unwrap();
    server.process().start_again().unwrap();
    until("the client to be back", ms(10_000), || async {
        Ok(store.try_acquire(&claim("other", ms(5000))).await.is_ok())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    take(&*store, "k", ms(60_000)).await;
    server.process().pause().unwrap();
    let (write, read) = (claim("new", ms(60_000)), claim("k", ms(60_000)).key);
    // The key was never seen, so that it is read first; `k` was, and is written at once.
    let renewal = tenure::claim::Renewal {
        grant: tenure::claim::Grant { key: read.clone(), owner: write.owner.clone(), fence: None },
        ttl: ms(60_000),
    };
    let (renewed, tried, seen) =
        tokio::join!(store.renew(&renewal), store.try_acquire(&write), store.inspect(&read));
    server.process().resume().unwrap();
    assert_eq!(renewed.expect_err("answered").retry(), Retry::Unknown);
    assert_eq!(tried.expect_err("answered").retry(), Retry::Safe);
    assert_eq!(seen.expect_err("answered").retry(), Retry::Safe);
}

#[tokio::test]
async fn a_connection_that_has_gone_silent_is_given_up_before_a_lease_can_end() {
    let server = newest();
    let link = Proxy::start(server.process().address(), 7).await.unwrap();
    let locks = never_looks().open(&server.url(1, Some(link.address()))).await.unwrap();
    let guard = locks.lock("k").ttl(ms(10_000)).acquire().await.unwrap();
    link.half_open();
    until("something to be lost", ms(8000), || async { Ok(link.lost() > 0) }).await.unwrap();
    // Only connections that are made from here on pass.
    link.pass_anew();
    until("a new connection", ms(8000), || async { Ok(locks.is_locked("k").await.is_ok()) })
        .await
        .unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_answered_is_given_up_although_messages_come() {
    let server = newest();
    let link = Proxy::start(server.process().address(), 7).await.unwrap();
    let store = open(&server.url(1, Some(link.address()))).await.unwrap();
    let other = open(&url(&server)).await.unwrap();
    let _watch = store.watch(&claim("busy", ms(5000)).key).await.unwrap();
    let busy = tokio::spawn(async move {
        loop {
            let lease = take(&*other, "busy", ms(5000)).await;
            give_back(&*other, &lease).await;
            sleep(ms(100)).await;
        }
    });
    link.requests(Flow::Lose);
    let made = link.connections();
    until("a new connection", ms(8000), || async {
        store.inspect(&claim("k", ms(5000)).key).await.expect_err("answered");
        Ok(link.connections() > made)
    })
    .await
    .unwrap();
    busy.abort();
}

#[tokio::test]
async fn a_killed_server_keeps_grants_and_fences_and_wakes_waiters_again() {
    for server in [newest(), old()] {
        let url = url(&server);
        let (holder, waiter) =
            (never_looks().open(&url).await.unwrap(), never_looks().open(&url).await.unwrap());
        let first = holder.lock("k").ttl(ms(60_000)).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let request = waiter.lock("k").wait(ms(50_000));
            async move { request.acquire().await }
        });
        let is_watching = || async { Ok(consumers(&server).await == 1) };
        until("the waiter to watch", SOON, is_watching).await.unwrap();
        sleep(ms(300)).await;
        server.process().kill().unwrap();
        server.process().start_again().unwrap();
        let seen = async || holder.status("k").await.ok().flatten().map(|status| status.fence);
        until("the store to be back", ms(10_000), || async { Ok(seen().await.is_some()) })
            .await
            .unwrap();
        assert_eq!(seen().await, Some(first.fence()), "the grant is gone");
        until("the waiter to watch again", SOON, is_watching).await.unwrap();
        let fence = first.fence();
        first.release().await.unwrap();
        let next = bounded("to be woken", SOON, waiting).await.unwrap().unwrap().unwrap();
        assert!(next.fence() > fence, "{} after {fence}", next.fence());
    }
}
