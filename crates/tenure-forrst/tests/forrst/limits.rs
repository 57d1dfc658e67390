//! Options that are missing, too much or no options: each is pointed at.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Limits, Locks};

use crate::stage::{Stage, document, lock};

/// The code and the pointer of an answer.
async fn refused(stage: &Stage, extensions: Value) -> (String, String) {
    let answer = stage.call("test.sleep", json!({}), extensions).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    (answer.code().to_owned(), answer.pointer().to_owned())
}

fn argument(pointer: &str) -> (String, String) {
    ("INVALID_ARGUMENTS".to_owned(), format!("/extensions/0/options/{pointer}"))
}

#[tokio::test]
async fn what_a_lock_needs_is_pointed_at_where_it_is_missing() {
    let stage = Stage::new().await;
    for (missing, message) in [("key", "Lock key is required"), ("ttl", "Lock TTL is required")] {
        let mut extensions = lock(json!({}));
        extensions[0]["options"].as_object_mut().unwrap().remove(missing);
        let answer = stage.call("test.sleep", json!({}), extensions).await;
        assert_eq!((answer.code().to_owned(), answer.pointer().to_owned()), argument(missing));
        assert_eq!(answer.json["errors"][0]["message"], message);
    }
}

#[tokio::test]
async fn a_wait_has_two_limits_and_both_are_pointed_at() {
    let stage = Stage::new().await;
    let day = lock(json!({"block": {"value": 25, "unit": "hour"}}));
    assert_eq!(refused(&stage, day).await, argument("block/value"));

    let limits = Limits { wait_max: Some(Duration::from_secs(600)), ..Limits::default() };
    let locks = Locks::builder().limits(limits).open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst);
    let hour = lock(json!({"block": {"value": 1, "unit": "hour"}}));
    let answer = stage.call("test.sleep", json!({}), hour).await;
    assert_eq!((answer.code().to_owned(), answer.pointer().to_owned()), argument("block"));
    let text = answer.json["errors"][0]["message"].as_str().unwrap();
    assert!(text.contains("block must be at most 600s"), "{text}");
}

#[tokio::test]
async fn every_unit_of_a_wait_is_understood_and_told_again() {
    let stage = Stage::new().await;
    for unit in ["millisecond", "second", "minute", "hour", "day"] {
        let extensions = lock(json!({"block": {"value": 1, "unit": unit}}));
        let answer = stage.call("payments.charge", json!({}), extensions).await;
        assert_eq!(answer.status, 200, "{unit}: {}", answer.text);
    }
    let _held = stage.locks.lock("lock:test.sleep:user:123").acquire().await.unwrap();
    let block = json!({"value": "1", "unit": "second"});
    let answer = stage.call("test.sleep", json!({}), lock(json!({"block": block}))).await;
    let error = &answer.json["errors"][0];
    assert_eq!(error["message"], "Lock acquisition timed out after 1 seconds");
    assert_eq!(error["details"]["waited"], json!({"value": 1, "unit": "second"}));
}

#[tokio::test]
async fn options_of_other_extensions_are_pointed_at_too() {
    let stage = Stage::new().await;
    let long = "x".repeat(256);
    for (name, options, pointer) in [
        ("cancellation", json!({}), "token"),
        ("cancellation", json!({"token": 7}), "token"),
        ("cancellation", json!({"token": ""}), "token"),
        ("cancellation", json!({"token": "a b"}), "token"),
        ("cancellation", json!({"token": "x".repeat(101)}), "token"),
        ("idempotency", json!({}), "key"),
        ("idempotency", json!({"key": ""}), "key"),
        ("idempotency", json!({"key": long}), "key"),
        ("idempotency", json!({"key": "a/b"}), "key"),
        ("idempotency", json!({"key": "k", "ttl": 30}), "ttl"),
        ("idempotency", json!({"key": "k", "ttl": {"value": 0}}), "ttl/value"),
        ("idempotency", json!({"key": "k", "ttl": {"value": 31, "unit": "day"}}), "ttl/value"),
        ("idempotency", json!({"key": "k", "ttl": {"value": 1, "unit": "week"}}), "ttl/unit"),
        ("deadline", json!({"value": 0}), "value"),
        ("deadline", json!({"timeout": {"value": 1, "unit": "week"}}), "timeout/unit"),
    ] {
        let extensions = json!([{"urn": format!("urn:forrst:ext:{name}"), "options": options}]);
        assert_eq!(refused(&stage, extensions).await, argument(pointer), "{name} {options}");
    }
    let cancel = "urn:cline:forrst:ext:cancellation:fn:cancel";
    let answer = stage.call(cancel, json!({"token": "a b"}), Value::Null).await;
    assert_eq!((answer.status, answer.pointer()), (400, "/call/arguments/token"));
}

#[tokio::test]
async fn an_option_that_is_read_in_two_ways_is_refused() {
    let stage = Stage::new().await;
    let good = r#""key":"k","ttl":{"value":30,"unit":"second"}"#;
    let twice = [
        ("atomicLock", format!(r#"{good},"key":"other""#), "key"),
        ("atomicLock", format!(r#"{good},"ttl":{{"value":9}}"#), "ttl"),
        ("atomicLock", format!(r#"{good},"\u006fwner":"a","owner":"b""#), "owner"),
        ("atomicLock", r#""key":"k","ttl":{"value":30,"value":1}"#.to_owned(), "ttl/value"),
        ("cancellation", r#""token":"a","token":"b""#.to_owned(), "token"),
        ("deadline", r#""value":1,"value":2"#.to_owned(), "value"),
        ("deadline", r#""timeout":{"unit":"hour","unit":"day"}"#.to_owned(), "timeout/unit"),
        ("idempotency", r#""key":"a","key":"b""#.to_owned(), "key"),
        ("tracing", r#""trace_id":"a","trace_id":"b""#.to_owned(), "trace_id"),
        ("retry", r#""x":1,"x":2"#.to_owned(), "x"),
    ];
    let misspelt = [
        ("atomicLock", format!(r#"{good},"Scope":"global""#), "Scope"),
        ("atomicLock", format!(r#"{good},"Block":{{"value":5}}"#), "Block"),
        ("atomicLock", format!(r#"{good},"AUTO_RELEASE":false"#), "AUTO_RELEASE"),
        ("atomicLock", r#""key":"k","ttl":{"value":1,"Unit":"hour"}"#.to_owned(), "ttl/Unit"),
        ("atomicLock", format!(r#"{good},"block":{{"Value":5}}"#), "block/Value"),
        ("cancellation", r#""token":"a","Token":"b""#.to_owned(), "Token"),
        ("deadline", r#""value":1,"Timeout":{"value":2}"#.to_owned(), "Timeout"),
        ("idempotency", r#""key":"a","TTL":{"value":1}"#.to_owned(), "TTL"),
        ("tracing", r#""Trace_ID":"a""#.to_owned(), "Trace_ID"),
    ];
    for (name, options, pointer) in twice.into_iter().chain(misspelt) {
        let extension = format!(r#"[{{"urn":"urn:forrst:ext:{name}","options":{{{options}}}}}]"#);
        let request = document("test.sleep", json!({}), json!("theirs")).to_string();
        let request = request.replace(r#""theirs""#, &extension);
        let answer = stage.send(request, &[("content-type", "application/json")]).await;
        let told = (answer.code(), answer.pointer().to_owned());
        let expected = ("INVALID_REQUEST", format!("/extensions/0/options/{pointer}"));
        assert_eq!(told, expected, "{}", answer.text);
    }
    assert_eq!(stage.most.load(std::sync::atomic::Ordering::SeqCst), 0);
    // What is not known at all is for others.
    let answer = stage.call("test.sleep", json!({}), lock(json!({"x": {"x": 1}}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
