//! What happens to the lock, whatever happens to the call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::clock::{Clock, SystemClock};
use tenure::{Operation, Owner};
use tenure_testkit::faults::{Fault, Faults};

use crate::stage::{Stage, document, lock, until};

const KEY: &str = "lock:test.sleep:user:123";

#[tokio::test]
async fn calls_run_one_after_the_other_and_fences_grow() {
    let stage = Stage::new().await;
    let calls = (0..20).map(|_| {
        let extensions = lock(json!({"block": {"value": 60, "unit": "second"}}));
        let stage = stage.clone();
        tokio::spawn(async move { stage.call("test.sleep", json!({"ms": 5}), extensions).await })
    });
    let mut fences = Vec::new();
    for answer in futures_util::future::join_all(calls).await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        let fence = answer.told("atomicLock")["fence"].as_u64().unwrap();
        assert_eq!(answer.json["result"]["fence"], fence);
        fences.push(fence);
    }
    assert_eq!(stage.most.load(std::sync::atomic::Ordering::SeqCst), 1);
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 20);
}

#[tokio::test]
async fn scopes_keep_functions_apart_or_bind_them_together() {
    let stage = Stage::new().await;
    for (scope, status) in [("function", 200), ("global", 423)] {
        let extensions = lock(json!({"scope": scope, "auto_release": false}));
        let held = stage.call("test.sleep", json!({}), extensions.clone()).await;
        assert_eq!(held.status, 200);
        let other = stage.call("payments.charge", json!({}), extensions.clone()).await;
        assert_eq!(other.status, status, "{}", other.text);
        let same = stage.call("test.sleep", json!({}), extensions).await;
        assert_eq!((same.status, same.code()), (423, "LOCK_ACQUISITION_FAILED"));
    }
}

#[tokio::test]
async fn an_error_and_a_panic_leave_no_lock() {
    let stage = Stage::new().await;
    for (function, code) in [("test.fail", "CARD_DECLINED"), ("test.panic", "INTERNAL_ERROR")] {
        let answer = stage.call(function, json!({}), lock(json!({}))).await;
        assert_eq!(answer.code(), code);
        assert_eq!(answer.told("atomicLock")["acquired"], true);
        let key = format!("lock:{function}:user:123");
        assert!(!stage.locks.is_locked(&key).await.unwrap(), "{key}");
    }
}

#[tokio::test]
async fn without_auto_release_the_lock_stays_even_after_an_error() {
    let stage = Stage::new().await;
    let answer = stage.call("test.fail", json!({}), lock(json!({"auto_release": false}))).await;
    let told = answer.told("atomicLock");
    let owner = Owner::parse(told["owner"].as_str().unwrap()).unwrap();
    stage.locks.release("lock:test.fail:user:123", &owner).await.unwrap();
}

#[tokio::test]
async fn a_lock_is_taken_only_for_a_call_that_can_be_made() {
    let stage = Stage::new().await;
    let extensions = lock(json!({"scope": "global", "auto_release": false}));
    for (function, arguments, code) in [
        ("nothing.here", json!({}), "FUNCTION_NOT_FOUND"),
        ("test.sleep", json!({"ms": "long"}), "INVALID_ARGUMENTS"),
    ] {
        let answer = stage.call(function, arguments, extensions.clone()).await;
        assert_eq!(answer.code(), code);
        assert!(!stage.locks.is_locked("lock:user:123").await.unwrap());
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_lock() {
    let stage = Stage::new().await;
    let other = stage.clone();
    let call = tokio::spawn(async move {
        other.call("test.sleep", json!({"ms": 60_000}), lock(json!({}))).await
    });
    stage.until_running(1).await;
    assert!(stage.locks.is_locked(KEY).await.unwrap());
    call.abort();
    stage.until_running(0).await;
    stage.until_free(KEY).await;
}

#[tokio::test]
async fn the_lock_is_kept_alive_for_longer_than_its_ttl() {
    let stage = Stage::new().await;
    let extensions = lock(json!({"ttl": {"value": 1, "unit": "second"}}));
    let answer = stage.call("test.sleep", json!({"ms": 2500}), extensions).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test]
async fn a_function_whose_lock_is_lost_is_stopped_and_its_caller_is_told() {
    let stage = Stage::new().await;
    let other = stage.clone();
    let extensions = lock(json!({"ttl": {"value": 300, "unit": "millisecond"}}));
    let call =
        tokio::spawn(
            async move { other.call("test.sleep", json!({"ms": 60_000}), extensions).await },
        );
    stage.until_running(1).await;
    stage.locks.force_release(KEY, "a test").await.unwrap();
    let answer = call.await.unwrap();
    assert_eq!((answer.status, answer.code()), (409, "LOCK_LOST"));
    let details = &answer.json["errors"][0]["details"];
    assert_eq!((&details["full_key"], &details["fence"]), (&json!(KEY), &json!(1)));
    stage.until_running(0).await;
}

#[tokio::test]
async fn a_loss_that_is_found_only_when_the_lock_is_given_back_is_told_too() {
    let stage = Stage::new().await;
    let other = stage.clone();
    // No renewal is due before the function ends.
    let call =
        tokio::spawn(
            async move { other.call("test.sleep", json!({"ms": 300}), lock(json!({}))).await },
        );
    stage.until_running(1).await;
    stage.locks.force_release(KEY, "a test").await.unwrap();
    let _another = stage.locks.lock(KEY).acquire().await.unwrap();
    let answer = call.await.unwrap();
    assert_eq!((answer.status, answer.code()), (409, "LOCK_LOST"), "{}", answer.text);
    assert!(stage.locks.is_locked(KEY).await.unwrap(), "that of another is left alone");
}

#[tokio::test]
async fn an_owner_that_came_back_is_not_told_that_it_has_released() {
    let stage = Stage::new().await;
    let owner = json!({"owner": "worker-1"});
    assert_eq!(stage.call("test.sleep", json!({}), lock(owner)).await.status, 200);
    let again = lock(json!({"owner": "worker-1", "auto_release": false}));
    assert_eq!(stage.call("test.sleep", json!({}), again).await.status, 200);
    stage.locks.force_release(KEY, "a test").await.unwrap();
    let _another = stage.locks.lock(KEY).acquire().await.unwrap();
    let release = "urn:cline:forrst:ext:atomic-lock:fn:release";
    let asked = json!({"key": KEY, "owner": "worker-1"});
    let answer = stage.call(release, asked, Value::Null).await;
    assert_eq!(answer.code(), "LOCK_OWNERSHIP_MISMATCH", "{}", answer.text);
}

#[tokio::test]
async fn a_limit_of_the_store_is_pointed_at() {
    let stage = Stage::new().await;
    let extensions = lock(json!({"ttl": {"value": 1, "unit": "millisecond"}}));
    let answer = stage.call("test.sleep", json!({}), extensions).await;
    assert_eq!((answer.status, answer.pointer()), (400, "/extensions/0/options/ttl"));
    let text = answer.json["errors"][0]["message"].as_str().unwrap();
    assert!(text.contains("50ms") && text.contains("1ms"), "{text}");
}

#[tokio::test]
async fn the_end_of_a_lock_is_never_told_later_than_it_comes_and_as_status_tells_it() {
    let stage = Stage::new().await;
    let extensions = |seconds: u64| {
        let ttl = json!({"value": seconds, "unit": "second"});
        lock(json!({"ttl": ttl, "auto_release": false, "key": format!("k{seconds}")}))
    };
    let time = |json: &Value| tenure_api::rfc3339::parse(json.as_str().unwrap()).unwrap();
    for seconds in [1, 30, 3600, 86_400] {
        let answer = stage.call("test.sleep", json!({}), extensions(seconds)).await;
        let status = "urn:cline:forrst:ext:atomic-lock:fn:status";
        let key = json!({"key": format!("lock:test.sleep:k{seconds}")});
        let seen = stage.call(status, key, Value::Null).await;
        let after = SystemClock.wall();
        let told = time(&answer.told("atomicLock")["expires_at"]);
        assert!(told <= after + Duration::from_secs(seconds), "{}", answer.text);
        let seen = time(&seen.json["result"]["expires_at"]);
        // A second may begin between the two, whatever is left out of it.
        let apart = seen.duration_since(told).unwrap();
        assert!(apart <= Duration::from_secs(1), "{seconds}: {apart:?}");
    }
}

/// Longer than anything here waits: nobody looks or comes to an end by itself before that.
const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test]
async fn a_waiter_is_woken_by_the_release() {
    let poll = tenure::Backoff { base: HOUR, cap: HOUR, ..Default::default() };
    let locks = tenure::Locks::builder().poll(poll).open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst);
    let guard = stage.locks.lock(KEY).ttl(HOUR).acquire().await.unwrap();
    let other = stage.clone();
    let extensions = lock(json!({"block": {"value": 50, "unit": "second"}}));
    let call = tokio::spawn(async move { other.call("test.sleep", json!({}), extensions).await });
    stage.until_awaited(KEY).await;
    guard.release().await.unwrap();
    assert_eq!(call.await.unwrap().status, 200);
}

/// A server of its own on the locks at this URL, with the store to count what is asked of it.
async fn server(url: &str) -> (Stage, Arc<Faults>) {
    let store = tenure::stores::open(url, Arc::new(SystemClock)).await.unwrap();
    let store = Arc::new(Faults::new(store));
    let poll = tenure::Backoff { base: HOUR, cap: HOUR, ..Default::default() };
    let locks = tenure::Locks::builder().poll(poll).open_on(Arc::clone(&store) as _).await.unwrap();
    (Stage::on(locks, |forrst| forrst), store)
}

#[tokio::test]
async fn a_waiter_at_another_server_is_woken_by_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let ((one, _), (two, store)) = (server(&url).await, server(&url).await);
    let stays = json!({"ttl": {"value": 1, "unit": "hour"}, "scope": "global", "owner": "one",
        "auto_release": false});
    assert_eq!(one.call("test.sleep", json!({}), lock(stays)).await.status, 200);
    let (other, before) = (two.clone(), store.answers(Operation::Acquire));
    let block = json!({"block": {"value": 50, "unit": "second"}, "scope": "global"});
    let call =
        tokio::spawn(async move { other.call("payments.charge", json!({}), lock(block)).await });
    // It asks, asks to be called, asks once more, and waits.
    until("it waits", || store.answers(Operation::Acquire) == before + 2).await;
    let release = "urn:cline:forrst:ext:atomic-lock:fn:release";
    let arguments = json!({"key": "lock:user:123", "owner": "one"});
    assert_eq!(one.call(release, arguments, Value::Null).await.status, 200);
    let answer = call.await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test]
async fn an_owner_that_holds_the_lock_does_not_get_it_twice() {
    let stage = Stage::new().await;
    let extensions = lock(json!({"owner": "me", "auto_release": false}));
    let first = stage.call("test.sleep", json!({}), extensions.clone()).await;
    assert_eq!(first.status, 200);
    let second = stage.call("test.sleep", json!({}), extensions).await;
    assert_eq!((second.status, second.code()), (423, "LOCK_ACQUISITION_FAILED"));
    assert!(stage.locks.is_locked(KEY).await.unwrap());
}

#[tokio::test]
async fn both_names_of_the_extension_are_known_and_the_one_that_was_sent_is_told() {
    let stage = Stage::new().await;
    for urn in ["urn:forrst:ext:atomicLock", "urn:cline:forrst:ext:atomic-lock"] {
        let mut extensions = lock(json!({}));
        extensions[0]["urn"] = json!(urn);
        let answer = stage.call("payments.charge", json!({}), extensions).await;
        assert_eq!(answer.json["extensions"][0]["urn"], urn);
    }
}

#[tokio::test]
async fn wrong_options_are_pointed_at_and_nothing_is_called() {
    let stage = Stage::new().await;
    let too_long = "x".repeat(201);
    for (member, value, pointer) in [
        ("key", Value::Null, "/key"),
        ("key", json!(""), "/key"),
        ("key", json!(too_long), "/key"),
        ("key", json!("a b"), "/key"),
        ("key", json!("a:meta:owner"), "/key"),
        ("ttl", json!(30), "/ttl"),
        ("ttl", json!({"value": 0, "unit": "second"}), "/ttl/value"),
        ("ttl", json!({"value": 2, "unit": "day"}), "/ttl/value"),
        ("ttl", json!({"value": 1, "unit": "week"}), "/ttl/unit"),
        ("block", json!("soon"), "/block"),
        ("block", json!({"value": -1, "unit": "second"}), "/block/value"),
        ("scope", json!("world"), "/scope"),
        ("owner", json!(7), "/owner"),
        ("owner", json!(""), "/owner"),
        ("owner", json!("x".repeat(257)), "/owner"),
        ("auto_release", json!("no"), "/auto_release"),
    ] {
        let mut more = json!({});
        more[member] = value.clone();
        let answer = stage.call("test.sleep", json!({}), lock(more)).await;
        assert_eq!((answer.status, answer.code()), (400, "INVALID_ARGUMENTS"), "{value}");
        assert_eq!(answer.pointer(), format!("/extensions/0/options{pointer}"), "{value}");
    }
    let bare = json!([{"urn": "urn:forrst:ext:atomicLock"}]);
    let answer = stage.call("test.sleep", json!({}), bare).await;
    assert_eq!(answer.code(), "INVALID_ARGUMENTS");
    assert_eq!(stage.most.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn every_unit_of_time_is_understood() {
    let stage = Stage::new().await;
    for unit in ["millisecond", "second", "minute", "hour", "day"] {
        let value = if unit == "millisecond" { 500 } else { 1 };
        let extensions = lock(json!({"ttl": {"value": value, "unit": unit}}));
        let answer = stage.call("payments.charge", json!({}), extensions).await;
        assert_eq!(answer.status, 200, "{unit}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_prefix_of_another_implementation_can_be_used() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst.prefix("forrst_lock:"));
    let extensions = lock(json!({"auto_release": false}));
    stage.call("test.sleep", json!({}), extensions).await;
    assert!(stage.locks.is_locked("forrst_lock:test.sleep:user:123").await.unwrap());
}

#[tokio::test]
async fn a_store_that_is_down_or_damaged_is_no_lock_that_is_held() {
    let memory = tenure::stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
    let store = Arc::new(Faults::new(memory));
    let locks = tenure::Locks::builder().open_on(Arc::clone(&store) as _).await.unwrap();
    store.always(Operation::Acquire, Fault::ErrorBefore);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let gone = tenure::Locks::open(&url).await.unwrap();
    // A file that is no longer there needs someone to look.
    folder.close().unwrap();
    for (locks, told) in [(locks, (503, "UNAVAILABLE")), (gone, (502, "DEPENDENCY_ERROR"))] {
        let stage = Stage::on(locks, |forrst| forrst);
        let answer = stage.call("test.sleep", json!({}), lock(json!({}))).await;
        assert_eq!((answer.status, answer.code()), told, "{}", answer.text);
        assert_eq!(stage.most.load(std::sync::atomic::Ordering::SeqCst), 0);
        let request = document("test.sleep", json!({}), Value::Null);
        assert_eq!(stage.post(&request).await.status, 200);
    }
}

#[tokio::test]
async fn a_line_that_is_full_is_no_wait_that_is_over() {
    let limits = tenure::Limits { waiters_per_key: 1, ..Default::default() };
    let locks = tenure::Locks::builder().limits(limits).open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst);
    let _held = stage.locks.lock(KEY).acquire().await.unwrap();
    let extensions = lock(json!({"block": {"value": 50, "unit": "second"}}));
    let (other, same) = (stage.clone(), extensions.clone());
    let waits = tokio::spawn(async move { other.call("test.sleep", json!({}), same).await });
    stage.until_awaited(KEY).await;
    let answer = stage.call("test.sleep", json!({}), extensions).await;
    assert_eq!((answer.status, answer.code()), (429, "RATE_LIMITED"), "{}", answer.text);
    assert!(answer.text.contains("waiters_per_key is 1"), "{}", answer.text);
    waits.abort();
}
