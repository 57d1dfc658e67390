//! Fences grow whatever happens to the counters, and the counters stay few.

use futures_util::{StreamExt, stream};
use tenure::ErrorKind;
use tenure::claim::ListQuery;
use tenure_testkit::servers::redis::start_redis;

use crate::stage::{ask, claim, cycle, fast, granted, key, open, raw, url};

/// How many hash slots there are, which is how many counters there can be.
const SLOTS: i64 = 16_384;

#[tokio::test]
async fn one_shot_keys_leave_no_more_counters_than_there_are_slots() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let keys = stream::iter(0..25_000).map(|n| format!("t1/default/order:{n}"));
    let cycles = keys.map(|key| {
        let store = &store;
        async move { cycle(&**store, &key).await }
    });
    let fences: Vec<u64> = cycles.buffer_unordered(64).collect().await;
    assert_eq!(fences.len(), 25_000);
    let size: i64 = ask(&mut raw, &["DBSIZE"]).await;
    assert!(size <= SLOTS, "{size} keys are left of 25000");
    let leases: Vec<String> = ask(&mut raw, &["KEYS", "tenure:lease:*"]).await;
    assert!(leases.is_empty(), "{} leases are left", leases.len());
    // And those that are left have no end.
    let counter: String = ask(&mut raw, &["RANDOMKEY"]).await;
    assert!(counter.starts_with("tenure:fence:{"), "{counter}");
    assert_eq!(ask::<i64>(&mut raw, &["PTTL", &counter]).await, -1);
}

#[tokio::test]
async fn fences_outlive_a_lost_counter_and_a_clock_that_is_behind() {
    let server = fast();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let first = cycle(&*store, "job").await;
    let (): () = ask(&mut raw, &["FLUSHALL"]).await;
    let second = cycle(&*store, "job").await;
    assert!(second > first, "{second} after {first} and a loss of everything");
    // A counter that is ahead of the clock, as after the clock was set back.
    let counters: Vec<String> = ask(&mut raw, &["KEYS", "tenure:fence:*"]).await;
    let [counter] = counters.as_slice() else { panic!("{counters:?}") };
    let ahead = 8_000_000_000_000_000_u64;
    let (): () = ask(&mut raw, &["SET", counter, &ahead.to_string()]).await;
    assert_eq!(cycle(&*store, "job").await, ahead + 1);
    assert_eq!(cycle(&*store, "job").await, ahead + 2);
    for broken in ["x", "nan", "-1", "inf", "9007199254740991"] {
        let (): () = ask(&mut raw, &["SET", counter, broken]).await;
        let error = store.try_acquire(&claim("job", "me")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{broken}");
        assert!(
            store.inspect(&key("job")).await.unwrap().is_none(),
            "{broken}: locked all the same"
        );
    }
}

#[tokio::test]
async fn a_refused_write_leaves_no_lock_behind() {
    let server = start_redis(&["--maxmemory-policy", "noeviction"]).unwrap();
    let (store, mut raw) = (open(url(&server)).await, raw(server.address()).await);
    let held = granted(&*store, "held", "me").await;
    let (): () = ask(&mut raw, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = store.try_acquire(&claim("job", "me")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("out of memory"), "{error}");
    assert_eq!(ask::<i64>(&mut raw, &["EXISTS", "job"]).await, 0);
    assert_eq!(store.inspect(&key("held")).await.unwrap().unwrap().fence, held.fence);
    let (): () = ask(&mut raw, &["CONFIG", "SET", "maxmemory", "0"]).await;
    cycle(&*store, "job").await;
}

#[tokio::test]
async fn a_prefix_with_pattern_characters_is_taken_as_it_is() {
    let server = fast();
    let store = open(url(&server)).await;
    for on in ["a*b", "axb", "a?", "[a]", "a", "a\\", "a*"] {
        granted(&*store, on, "me").await;
    }
    for (prefix, wanted) in
        [("a*", vec!["a*", "a*b"]), ("[a", vec!["[a]"]), ("a\\", vec!["a\\"]), ("b", vec![])]
    {
        let query = ListQuery { prefix: prefix.into(), after: None, limit: 10 };
        let page = store.list(&query).await.unwrap();
        let keys: Vec<_> = page.items.iter().map(|status| status.key.as_str()).collect();
        assert_eq!(keys, wanted, "{prefix}");
    }
}
