//! What becomes of a call that is handed on, and of its lock.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::clock::{Clock, SystemClock, within};
use tenure_forrst::Gateway;

use crate::stage::{LONG, Stage, lock, lock_and};

#[tokio::test]
async fn a_call_under_a_lock_brings_its_fence_and_tells_its_lock() {
    let stage = Stage::new(LONG).await;
    let mut extensions = lock(json!({}));
    let others = [
        json!({"urn": "urn:forrst:ext:deadline", "options": {"value": 20, "unit": "second"}}),
        json!({"urn": "urn:other:forrst:ext:quota", "options": {"x": 1}}),
    ];
    extensions.as_array_mut().unwrap().extend(others);
    let (status, answer) = stage.call("test.echo", json!({}), extensions).await;
    assert_eq!(status, 200, "{answer}");
    let seen: Value = serde_json::from_str(answer["result"]["request"].as_str().unwrap()).unwrap();
    let headers = &answer["result"]["headers"];
    assert_eq!(headers["x-forrst-lock-fence"], "1");
    assert_eq!(headers["x-forrst-trace-id"], "t1");
    assert_eq!(headers["authorization"], Value::Null);
    let about = json!({"key": "lock:test.echo:k", "fence": 1});
    assert_eq!(seen["context"], json!({"caller": "a test", "atomic_lock": about}));
    let urns: Vec<_> =
        seen["extensions"].as_array().unwrap().iter().map(|e| e["urn"].clone()).collect();
    assert_eq!(urns, ["urn:forrst:ext:deadline", "urn:other:forrst:ext:quota"]);
    let left = seen["extensions"][0]["options"]["value"].as_u64().unwrap();
    assert!((1..=20_000).contains(&left), "{left}");
    assert_eq!(answer["extensions"][0]["data"]["fence"], 1);
    assert!(!stage.is_locked("test.echo").await);
}

#[tokio::test]
async fn a_call_without_a_lock_is_handed_on_as_it_came() {
    let stage = Stage::new(LONG).await;
    let body = concat!(
        r#"{ "protocol":{"name":"forrst","version":"0.1.0"},"id":"x","extra":[1, 2],"#,
        r#""call":{"function":"test.echo","arguments":{"n":123456789012345678901234567890.10}} }"#,
    );
    let (status, answer) = stage.send(body.to_owned()).await;
    assert_eq!((status, answer["result"]["request"].as_str()), (200, Some(body)));
    let headers = answer["result"]["headers"].as_object().unwrap();
    assert!(headers.keys().all(|name| !name.contains("fence")), "{headers:?}");
}

#[tokio::test]
async fn nobody_brings_a_fence_of_its_own() {
    let stage = Stage::new(LONG).await;
    for extensions in [Value::Null, lock(json!({}))] {
        let mut document = json!({
            "protocol": {"name": "forrst", "version": "0.1.0"},
            "id": "req_1",
            "call": {"function": "test.echo", "arguments": {}},
            "context": {"atomic_lock": {"key": "lock:test.echo:k", "fence": 999}},
        });
        if !extensions.is_null() {
            document["extensions"] = extensions;
        }
        let (status, answer) = stage.send(document.to_string()).await;
        assert_eq!((status, &answer["errors"][0]["code"]), (400, &json!("INVALID_REQUEST")));
        assert_eq!(answer["errors"][0]["source"]["pointer"], "/context/atomic_lock");
    }
    assert_eq!(stage.count("test.echo").await, 0);
}

#[tokio::test]
async fn a_lock_that_is_misspelt_is_not_handed_on_without_one() {
    let stage = Stage::new(LONG).await;
    for urn in ["urn:forrst:ext:atomiclock", "urn:forrst:ext:Atomic_Lock", "atomicLock"] {
        let extensions = json!([{"urn": urn, "options": {"key": "k"}}]);
        let (_, answer) = stage.call("test.echo", json!({}), extensions).await;
        assert_eq!(answer["errors"][0]["code"], "EXTENSION_NOT_SUPPORTED", "{urn}: {answer}");
        assert_eq!(answer["errors"][0]["source"]["pointer"], "/extensions/0");
    }
    assert_eq!(stage.count("test.echo").await, 0);
}

#[tokio::test]
async fn whoever_asks_is_told_whether_to_try_again_where_the_other_server_tells_nothing() {
    let stage = Stage::new(LONG).await;
    let retry = json!({"urn": "urn:forrst:ext:retry"});
    for extensions in [json!([retry]), lock_and(std::slice::from_ref(&retry))] {
        let (_, answer) = stage.call("test.garbage", json!({}), extensions).await;
        let told = answer["extensions"].as_array().unwrap().last().unwrap();
        let after = json!({"value": 2, "unit": "second"});
        let expected = json!({"allowed": true, "strategy": "exponential", "after": after,
            "max_attempts": 3});
        assert_eq!((&told["urn"], &told["data"]), (&retry["urn"], &expected), "{answer}");
    }
}

#[tokio::test]
async fn what_was_waited_is_no_longer_left_of_the_deadline() {
    let stage = Stage::new(LONG).await;
    let held = stage.locks.lock("lock:test.echo:k").acquire().await.unwrap();
    let mut extensions = lock(json!({"block": {"value": 10, "unit": "second"}}));
    let deadline = json!({"value": 20, "unit": "second"});
    let deadline = json!({"urn": "urn:forrst:ext:deadline", "options": deadline});
    extensions.as_array_mut().unwrap().push(deadline);
    let release = async {
        SystemClock.sleep_until(SystemClock.now() + Duration::from_secs(1)).await;
        held.release().await.unwrap();
    };
    let ((_, answer), ()) = tokio::join!(stage.call("test.echo", json!({}), extensions), release);
    let seen: Value = serde_json::from_str(answer["result"]["request"].as_str().unwrap()).unwrap();
    let left = seen["extensions"][0]["options"]["value"].as_u64().unwrap();
    assert!((1..=19_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_lock_that_should_stay_does_so_only_if_the_function_ran() {
    let stage = Stage::new(LONG).await;
    let stays = lock(json!({"auto_release": false}));
    for function in ["test.nothing", "test.garbage", "test.die", "test.die"] {
        let (_, answer) = stage.call(function, json!({}), stays.clone()).await;
        assert!(answer["errors"][0]["code"].is_string(), "{function}: {answer}");
        assert!(!stage.is_locked(function).await, "{function}");
    }
    let stage = Stage::new(LONG).await;
    for function in ["test.echo", "test.fail"] {
        stage.call(function, json!({}), stays.clone()).await;
        assert!(stage.is_locked(function).await, "{function}");
    }
}

#[tokio::test]
async fn a_lock_stays_while_the_other_server_may_be_at_work() {
    let stage = Stage::new(LONG).await;
    // What stands in front of it gave up on it.
    for (status, stays) in [(504, true), (502, true), (404, false)] {
        let key = json!({"key": format!("k{status}")});
        stage.call("test.garbage", json!({"status": status}), lock(key)).await;
        let key = format!("lock:test.garbage:k{status}");
        assert_eq!(stage.locks.is_locked(&key).await.unwrap(), stays, "{status}");
    }
    // Its caller went away.
    let call = stage.call("test.work", json!({"ms": 60_000}), lock(json!({})));
    let gone = within(&SystemClock, Duration::from_millis(500), call).await;
    assert!(gone.is_err() && stage.is_locked("test.work").await);
}

#[tokio::test]
async fn an_answer_of_something_else_is_none() {
    let stage = Stage::new(LONG).await;
    let (status, answer) = stage.call("test.stranger", json!({}), Value::Null).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (502, &json!("DEPENDENCY_ERROR")));
    let (status, answer) = stage.call("test.odd", json!({}), lock(json!({}))).await;
    assert_eq!((status, &answer["result"]), (200, &json!(1)));
    assert_eq!(answer["extensions"][0]["data"]["acquired"], true);
}

#[tokio::test]
async fn numbers_pass_under_a_lock_as_they_came() {
    let stage = Stage::new(LONG).await;
    let arguments = r#"{"n":123456789012345678901234567890.10}"#;
    let body = format!(
        r#"{{"protocol":{},"id":"x","call":{{"function":"test.echo","arguments":{}}},{}}}"#,
        r#"{"name":"forrst","version":"0.1.0"}"#,
        arguments,
        format_args!(r#""extensions":{}"#, lock(json!({})))
    );
    let (_, answer) = stage.send(body).await;
    assert!(answer["result"]["request"].as_str().unwrap().contains(arguments), "{answer}");
}

#[tokio::test]
async fn calls_under_one_lock_never_meet() {
    let stage = Stage::new(LONG).await;
    let block = json!({"block": {"value": 30, "unit": "second"}});
    let calls = (0..10).map(|_| stage.call("test.work", json!({"ms": 10}), lock(block.clone())));
    for (status, answer) in futures_util::future::join_all(calls).await {
        assert_eq!(status, 200, "{answer}");
    }
    let (_, answer) = stage.call("test.count", json!({}), Value::Null).await;
    assert_eq!(answer["result"]["most"], 1);
    assert_eq!(answer["result"]["calls"]["test.work"], 10);
}

#[tokio::test]
async fn an_error_of_the_other_server_is_handed_on_with_the_lock() {
    let stage = Stage::new(LONG).await;
    let (status, answer) = stage.call("test.fail", json!({}), lock(json!({}))).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (400, &json!("CARD_DECLINED")));
    assert_eq!(answer["extensions"][0]["urn"], "urn:forrst:ext:quota");
    assert_eq!(answer["extensions"][1]["data"]["acquired"], true);
    assert!(!stage.is_locked("test.fail").await);
}

#[tokio::test]
async fn a_server_that_dies_leaves_no_lock() {
    let stage = Stage::new(LONG).await;
    for _ in 0..2 {
        // The second time nothing listens any more.
        let (status, answer) = stage.call("test.die", json!({}), lock(json!({}))).await;
        assert_eq!((status, &answer["errors"][0]["code"]), (502, &json!("DEPENDENCY_ERROR")));
        assert!(!stage.is_locked("test.die").await);
    }
    drop(stage.upstream);
}

#[tokio::test]
async fn a_server_that_takes_too_long_is_asked_once_and_its_lock_ends_with_the_ttl() {
    let stage = Stage::new(Duration::from_millis(300)).await;
    let ttl = json!({"ttl": {"value": 1500, "unit": "millisecond"}});
    let (status, answer) = stage.call("test.work", json!({"ms": 60_000}), lock(ttl.clone())).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (408, &json!("DEADLINE_EXCEEDED")));
    // It may still be at work.
    let (status, answer) = stage.call("test.work", json!({"ms": 1}), lock(ttl.clone())).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (423, &json!("LOCK_ACQUISITION_FAILED")));
    let block = json!({"ttl": ttl["ttl"], "block": {"value": 20, "unit": "second"}});
    let (status, answer) = stage.call("test.work", json!({"ms": 1}), lock(block)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(stage.count("test.work").await, 2);
}

#[tokio::test]
async fn an_answer_that_is_none_is_told() {
    let stage = Stage::new(LONG).await;
    for extensions in [Value::Null, lock(json!({}))] {
        let (status, answer) = stage.call("test.garbage", json!({}), extensions).await;
        assert_eq!((status, &answer["errors"][0]["code"]), (502, &json!("DEPENDENCY_ERROR")));
        assert!(!answer.to_string().contains("nothing of yours"));
    }
    assert!(!stage.is_locked("test.garbage").await);
}

#[tokio::test]
async fn the_functions_of_locks_are_answered_here_and_others_there() {
    let stage = Stage::new(LONG).await;
    let extensions = lock(json!({"auto_release": false}));
    let (_, answer) = stage.call("test.echo", json!({}), extensions).await;
    let owner = answer["extensions"][0]["data"]["owner"].clone();
    let key = "lock:test.echo:k";
    let release = "urn:cline:forrst:ext:atomic-lock:fn:release";
    let (status, answer) =
        stage.call(release, json!({"key": key, "owner": owner}), Value::Null).await;
    assert_eq!((status, &answer["result"]["released"]), (200, &json!(true)));
    let (status, answer) = stage.call("urn:cline:forrst:fn:describe", json!({}), Value::Null).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (404, &json!("FUNCTION_NOT_FOUND")));
}

#[tokio::test]
async fn what_is_no_url_is_refused_and_not_repeated() {
    for url in ["", "ftp://u:hunter2@h/", "hunter2", "http://"] {
        let error = Gateway::new(url).unwrap_err().to_string();
        assert!(error.contains("http://") && !error.contains("hunter2"), "{error}");
    }
    let gateway = Gateway::new("http://u:hunter2@127.0.0.1/").unwrap();
    assert!(!format!("{gateway:?}").contains("hunter2"));
}
