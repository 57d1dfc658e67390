//! Tenure and clients of the plain convention (`SET NX PX`, compare and delete) on the same keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tenure::claim::{Attempt, Grant, Released, Renewal, Renewed};
use tenure::{ErrorKind, Fence, KeyPolicy, Locks};
use tenure_testkit::wait::{bounded, sleep};

use crate::stage::{
    Raw, SOON, TTL, ask, claim, cycle, evicting, fast, grant, granted, key, open, owner, raw, url,
};

/// As redsync, redlock, Laravel and Dapr say it.
const COMPARE_AND_DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('DEL', KEYS[1]) else return 0 end";

async fn plain_lock(raw: &mut Raw, on: &str, value: &str) -> bool {
    let answer: Option<String> = ask(raw, &["SET", on, value, "NX", "PX", "30000"]).await;
    answer.is_some()
}

async fn plain_unlock(raw: &mut Raw, on: &str, value: &str) -> bool {
    ask::<i64>(raw, &["EVAL", COMPARE_AND_DELETE, "1", on, value]).await == 1
}

#[tokio::test]
async fn each_excludes_the_other_and_releases_only_its_own() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    // The plain one first.
    assert!(plain_lock(&mut raw, "job", "theirs").await);
    let Attempt::Held(status) = store.try_acquire(&claim("job", "ours")).await.unwrap() else {
        panic!("granted beside a plain lock");
    };
    assert_eq!(
        (status.holder.as_str(), status.fence),
        ("a client of the plain convention", Fence::new(0))
    );
    assert!(status.remaining <= TTL && status.remaining > TTL / 2, "{status:?}");
    let released = store.release(&grant("job", "ours")).await.unwrap();
    assert!(matches!(released, Released::NotHeld(Some(_))), "{released:?}");
    assert!(plain_unlock(&mut raw, "job", "theirs").await, "tenure took it away");
    // Then ours.
    let lease = granted(&*store, "job", "ours").await;
    assert!(!plain_lock(&mut raw, "job", "theirs").await, "granted beside tenure's lock");
    assert!(!plain_unlock(&mut raw, "job", "theirs").await);
    assert_eq!(store.inspect(&key("job")).await.unwrap().unwrap().fence, lease.fence);
    store.release(&grant("job", "ours")).await.unwrap();
    assert!(plain_lock(&mut raw, "job", "theirs").await, "tenure left something behind");
}

#[tokio::test]
async fn a_lock_without_end_is_held_and_looked_at_again() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let (): () = ask(&mut raw, &["SET", "job", "theirs"]).await;
    let Attempt::Held(status) = store.try_acquire(&claim("job", "ours")).await.unwrap() else {
        panic!("granted beside a lock without end");
    };
    assert_eq!(status.remaining, Duration::from_secs(3600));
    // What is held without end by this very owner is not shortened by a renewal.
    let renewal = Renewal { grant: grant("job", "theirs"), ttl: TTL };
    assert!(matches!(store.renew(&renewal).await.unwrap(), Renewed::Renewed(_)));
    assert_eq!(ask::<i64>(&mut raw, &["PTTL", "job"]).await, -1);
    let evicted = store.force_release(&evicting("job")).await.unwrap();
    assert!(evicted.is_some() && cycle(&*store, "job").await > 0);
}

#[tokio::test]
async fn an_owner_may_change_from_one_kind_of_client_to_the_other() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    assert!(plain_lock(&mut raw, "job", "me").await);
    let renewal = |fence| Renewal { grant: Grant { fence, ..grant("job", "me") }, ttl: TTL * 2 };
    assert!(matches!(store.renew(&renewal(None)).await.unwrap(), Renewed::Renewed(_)));
    assert!(ask::<i64>(&mut raw, &["PTTL", "job"]).await > 50_000, "not prolonged");
    let with_fence = store.renew(&renewal(Some(Fence::new(7)))).await.unwrap();
    assert!(matches!(with_fence, Renewed::Lost(Some(_))), "it has no fence: {with_fence:?}");
    // Asked for by the same owner, it becomes a lease with a fence, and no shorter.
    let adopted = granted(&*store, "job", "me").await;
    assert!(adopted.fence > Fence::new(0) && adopted.remaining > TTL, "{adopted:?}");
    let renewed = store.renew(&renewal(Some(adopted.fence))).await.unwrap();
    assert!(matches!(renewed, Renewed::Renewed(_)), "{renewed:?}");
    assert!(plain_unlock(&mut raw, "job", "me").await);
    // What is left of the lease says nothing about the next lock.
    assert!(plain_lock(&mut raw, "job", "another").await);
    let seen = store.inspect(&key("job")).await.unwrap().unwrap();
    assert_eq!((seen.fence, seen.owner), (Fence::new(0), owner("another")));
    assert!(plain_unlock(&mut raw, "job", "another").await);
    assert!(plain_lock(&mut raw, "job", "me").await);
    let released = store.release(&grant("job", "me")).await.unwrap();
    assert!(matches!(released, Released::Released(_)), "{released:?}");
    assert_eq!(ask::<i64>(&mut raw, &["EXISTS", "job"]).await, 0);
}

#[tokio::test]
async fn both_contend_for_many_rounds_and_one_is_inside() {
    const ROUNDS: u32 = 40;
    const EACH: u32 = 4;
    let server = fast();
    let inside = Arc::new(AtomicUsize::new(0));
    // Read, paused and written back: two at once would lose an increment.
    let counter = Arc::new(AtomicU32::new(0));
    async fn work(inside: &AtomicUsize, counter: &AtomicU32) {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
        let before = counter.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        counter.store(before + 1, Ordering::SeqCst);
        inside.fetch_sub(1, Ordering::SeqCst);
    }
    let mut tasks = Vec::new();
    for n in 0..EACH {
        let (inside_of_plain, counter_of_plain) = (Arc::clone(&inside), Arc::clone(&counter));
        let mut raw = raw(server.address()).await;
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let value = format!("plain-{n}-{round}");
                while !plain_lock(&mut raw, "job", &value).await {
                    sleep(Duration::from_millis(1)).await;
                }
                work(&inside_of_plain, &counter_of_plain).await;
                assert!(plain_unlock(&mut raw, "job", &value).await, "its lock was taken away");
            }
        }));
        let builder = Locks::builder().key_policy(KeyPolicy::raw());
        let locks = builder.open(&url(&server)).await.unwrap();
        let (inside, counter) = (Arc::clone(&inside), Arc::clone(&counter));
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = locks.lock("job").wait(SOON * 3).acquire().await.unwrap();
                work(&inside, &counter).await;
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        bounded("all rounds", SOON * 4, task).await.unwrap().unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 2 * EACH * ROUNDS);
}

#[tokio::test]
async fn what_is_no_lock_is_neither_granted_nor_removed() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let _: i64 = ask(&mut raw, &["RPUSH", "job", "data"]).await;
    let kinds = [
        store.try_acquire(&claim("job", "ours")).await.unwrap_err().kind(),
        store.renew(&Renewal { grant: grant("job", "ours"), ttl: TTL }).await.unwrap_err().kind(),
        store.release(&grant("job", "ours")).await.unwrap_err().kind(),
        store.force_release(&evicting("job")).await.unwrap_err().kind(),
        store.inspect(&key("job")).await.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Damaged; 5]);
    assert_eq!(ask::<i64>(&mut raw, &["LLEN", "job"]).await, 1);
    // The store's own keys cannot be locked, nor removed by force.
    for own in ["tenure:fence:{0}", "tenure:lease:{0}:x", "tenure:"] {
        assert_eq!(
            store.try_acquire(&claim(own, "ours")).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
        assert_eq!(
            store.force_release(&evicting(own)).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
}
