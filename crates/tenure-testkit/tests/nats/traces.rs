//! What a store leaves at the server, and what others leave for it.

use futures_util::TryStreamExt;
use tenure::claim::Attempt;
use tenure::{ErrorKind, KeyPolicy, Locks};
use tenure_testkit::wait::{bounded, until};

use crate::raw::{
    BUCKET, SOON, claim, consumers, give_back, headers, ms, newest, old, open, raw, stream, take,
    url,
};

#[tokio::test]
async fn any_key_is_its_own() {
    let server = newest();
    let raw_keys = Locks::builder().key_policy(KeyPolicy::raw());
    let locks = raw_keys.open(&url(&server)).await.unwrap();
    let mut keys =
        ["order:123", "ключ", "a b", "..", "*", ">", ".", "a.b", "a.", "=2E", "a=", "🔒"];
    let mut guards = Vec::new();
    for key in keys {
        guards.push(locks.lock(key).try_acquire().await.unwrap().expect(key));
    }
    let listed: Vec<_> =
        locks.list("").map_ok(|status| status.key.to_string()).try_collect().await.unwrap();
    keys.sort_unstable();
    assert_eq!(listed, keys);
    headers(&stream(&server).await, "order=3A123").await;
    let by_others = raw(&server).await.get_key_value(BUCKET).await.unwrap();
    assert!(by_others.get("order=3A123").await.unwrap().is_some(), "no key of the bucket");
}

#[tokio::test]
async fn a_wait_leaves_no_consumer_behind() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    let key = |n: usize| claim(&format!("k{n}"), ms(5000)).key;
    let mut watches = Vec::new();
    for n in 0..5 {
        watches.push(store.watch(&key(n)).await.unwrap());
    }
    watches.push(store.watch(&key(0)).await.unwrap());
    assert_eq!(consumers(&server).await, 5, "one for each key");
    drop(watches.split_off(1));
    until("the others to be deleted", ms(25_000), || async { Ok(consumers(&server).await == 1) })
        .await
        .unwrap();
    let lease = take(&*store, "k0", ms(5000)).await;
    give_back(&*store, &lease).await;
    bounded("the bell", SOON, watches[0].changed()).await.unwrap();
    drop(store);
    until("the last to be forgotten", ms(45_000), || async { Ok(consumers(&server).await == 0) })
        .await
        .unwrap();
}

/// A plain subscription would ring before the stream has stored the release.
#[tokio::test]
async fn a_bell_rings_only_for_what_is_stored() {
    let server = newest();
    let (store, other) = (open(&url(&server)).await.unwrap(), open(&url(&server)).await.unwrap());
    for n in 0..200 {
        let lease = take(&*store, "k", ms(60_000)).await;
        let mut watch = other.watch(&lease.key).await.unwrap();
        let (_, seen) = tokio::join!(give_back(&*store, &lease), async {
            bounded("the bell", SOON, watch.changed()).await.unwrap();
            other.inspect(&lease.key).await.unwrap()
        });
        assert!(seen.is_none(), "round {n}: the bell rang, and the lease is still there");
    }
}

/// A mark that were taken away at once would be gone before the consumer comes to it.
#[tokio::test]
async fn no_release_is_missed_on_an_old_server() {
    let server = old();
    let (store, other) = (open(&url(&server)).await.unwrap(), open(&url(&server)).await.unwrap());
    for _ in 0..200 {
        let lease = take(&*store, "k", ms(60_000)).await;
        let mut watch = other.watch(&lease.key).await.unwrap();
        let freed = async {
            // Grants and renewals ring here, too.
            while other.inspect(&lease.key).await.unwrap().is_some() {
                watch.changed().await;
            }
        };
        tokio::join!(give_back(&*store, &lease), async {
            bounded("the bell", SOON, freed).await.unwrap();
        });
    }
}

#[tokio::test]
async fn what_another_wrote_is_never_free_until_it_is_gone() {
    let server = newest();
    let store = open(&url(&server)).await.unwrap();
    let bucket = raw(&server).await.get_key_value(BUCKET).await.unwrap();
    bucket.put("k", "9d3f-an-owner-of-nlock".into()).await.unwrap();
    for _ in 0..2 {
        let error = store.try_acquire(&claim("k", ms(5000))).await.expect_err("granted");
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
    bucket.delete("k").await.unwrap();
    let granted = store.try_acquire(&claim("k", ms(5000))).await.unwrap();
    assert!(matches!(granted, Attempt::Granted(_)));
    bucket.put("other", "not a lock either".into()).await.unwrap();
    let other = claim("other", ms(5000));
    assert!(store.try_acquire(&other).await.is_err());
    let eviction = tenure::claim::Eviction::new(other.key.clone(), "a test").unwrap();
    assert_eq!(store.force_release(&eviction).await.unwrap(), None);
    assert!(matches!(store.try_acquire(&other).await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn of_many_that_race_one_wins() {
    let server = newest();
    let mut stores = Vec::new();
    for _ in 0..10 {
        stores.push(open(&url(&server)).await.unwrap());
    }
    for round in 0..50 {
        let claims: Vec<_> = (0..stores.len())
            .map(|n| tenure::claim::Claim {
                owner: tenure::Owner::parse(&format!("owner {n}")).unwrap(),
                ..claim(&format!("race-{round}"), ms(60_000))
            })
            .collect();
        let tries = stores.iter().zip(&claims).map(|(store, claim)| store.try_acquire(claim));
        let answers = futures_util::future::try_join_all(tries).await.unwrap();
        let won = answers.iter().filter(|answer| matches!(answer, Attempt::Granted(_))).count();
        assert_eq!(won, 1, "round {round}");
    }
}
