//! The extensions beside the lock, alone and together with it.

use serde_json::{Value, json};

use crate::stage::{Stage, document, lock};

const KEY: &str = "lock:test.sleep:user:123";

fn extension(name: &str, options: Value) -> Value {
    json!({"urn": format!("urn:forrst:ext:{name}"), "options": options})
}

/// The lock extension, and others behind it.
fn with_lock(more: Value, others: &[Value]) -> Value {
    let mut all = lock(more);
    all.as_array_mut().unwrap().extend(others.iter().cloned());
    all
}

#[tokio::test]
async fn an_extension_that_is_not_known_is_refused_or_ignored() {
    let stage = Stage::new().await;
    let unknown = json!([extension("retry", json!({})), extension("atomiclock", json!({}))]);
    let answer = stage.call("payments.charge", json!({}), unknown.clone()).await;
    assert_eq!((answer.status, answer.code()), (400, "EXTENSION_NOT_SUPPORTED"));
    assert_eq!(answer.pointer(), "/extensions/1");
    let details = &answer.json["errors"][0]["details"];
    assert_eq!(details["unsupported"], json!(["urn:forrst:ext:atomiclock"]));
    assert!(details["supported"].as_array().unwrap().len() >= 2);
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let lax = Stage::on(locks, |f| f.unknown_extensions(tenure_forrst::Unknown::Ignore));
    assert_eq!(lax.call("payments.charge", json!({}), unknown).await.status, 200);
}

#[tokio::test]
async fn a_lock_is_not_for_functions_of_the_protocol() {
    let stage = Stage::new().await;
    let answer = stage.call("urn:cline:forrst:fn:ping", json!({}), lock(json!({}))).await;
    assert_eq!((answer.status, answer.code()), (400, "EXTENSION_NOT_APPLICABLE"));
    assert_eq!(answer.pointer(), "/extensions/0");
}

#[tokio::test]
async fn the_same_extension_twice_is_refused() {
    let extensions = with_lock(json!({}), &[lock(json!({}))[0].clone()]);
    let answer = Stage::new().await.call("payments.charge", json!({}), extensions).await;
    assert_eq!((answer.code(), answer.pointer()), ("INVALID_REQUEST", "/extensions/1"));
}

#[tokio::test]
async fn several_extensions_work_together() {
    let stage = Stage::new().await;
    let others = [
        extension("deadline", json!({"value": 60, "unit": "second"})),
        extension("tracing", json!({"trace_id": "t1", "span_id": "s1"})),
        extension("idempotency", json!({"key": "once"})),
        extension("cancellation", json!({"token": "c1"})),
        extension("retry", json!({})),
    ];
    let answer = stage.call("payments.charge", json!({}), with_lock(json!({}), &others)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.told("atomicLock")["acquired"], true);
    assert_eq!(answer.told("tracing")["trace_id"], "t1");
    assert_eq!(answer.told("idempotency")["status"], "processed");
    assert_eq!(answer.told("deadline")["specified"], json!({"value": 60, "unit": "second"}));
}

#[tokio::test]
async fn a_deadline_ends_the_wait_and_the_work() {
    let stage = Stage::new().await;
    let deadline = extension("deadline", json!({"value": 150, "unit": "millisecond"}));
    let extensions = with_lock(json!({}), std::slice::from_ref(&deadline));
    let answer = stage.call("test.sleep", json!({"ms": 60_000}), extensions).await;
    assert_eq!((answer.status, answer.code()), (408, "DEADLINE_EXCEEDED"));
    assert_eq!(answer.json["errors"][0]["message"], "Request deadline exceeded");
    assert_eq!(answer.told("deadline")["utilization"], json!(1.0));
    assert!(!stage.locks.is_locked(KEY).await.unwrap());
    assert_eq!(stage.running.load(std::sync::atomic::Ordering::SeqCst), 0);

    let _held = stage.locks.lock(KEY).acquire().await.unwrap();
    let block = json!({"block": {"value": 60, "unit": "second"}});
    let answer = stage.call("test.sleep", json!({}), with_lock(block, &[deadline])).await;
    assert_eq!(answer.code(), "DEADLINE_EXCEEDED");
    assert_eq!(stage.locks.waiters(KEY), 0);
}

#[tokio::test]
async fn a_deadline_can_be_a_time_of_day() {
    let stage = Stage::new().await;
    for options in [
        json!({"value": "2020-01-01T00:00:00Z", "unit": "iso8601"}),
        json!({"deadline": "2020-01-01T00:00:00Z"}),
        json!({"timeout": {"value": 1, "unit": "millisecond"}}),
    ] {
        let extensions = json!([extension("deadline", options)]);
        let answer = stage.call("test.sleep", json!({"ms": 60_000}), extensions).await;
        assert_eq!(answer.code(), "DEADLINE_EXCEEDED");
    }
    let extensions = json!([extension("deadline", json!({"deadline": "soon"}))]);
    let answer = stage.call("test.sleep", json!({}), extensions).await;
    assert_eq!(answer.code(), "INVALID_ARGUMENTS");
    assert_eq!(answer.pointer(), "/extensions/0/options/deadline");
}

/// The status and the error, or "cancelled".
async fn cancel(stage: &Stage, token: &str) -> (u16, String) {
    let function = "urn:cline:forrst:ext:cancellation:fn:cancel";
    let answer = stage.call(function, json!({"token": token}), Value::Null).await;
    if answer.status == 200 {
        return (200, "cancelled".into());
    }
    let error = &answer.json["errors"][0];
    assert_eq!(error["details"], json!({"token": token}));
    (answer.status, format!("{}: {}", answer.code(), error["message"].as_str().unwrap()))
}

#[tokio::test]
async fn a_call_that_was_stopped_leaves_no_lock_even_one_that_should_stay() {
    let stage = Stage::new().await;
    let stays = json!({"auto_release": false});
    let deadline = extension("deadline", json!({"value": 150, "unit": "millisecond"}));
    let extensions = with_lock(stays.clone(), &[deadline]);
    let answer = stage.call("test.sleep", json!({"ms": 60_000}), extensions).await;
    assert_eq!(answer.code(), "DEADLINE_EXCEEDED");
    assert!(!stage.locks.is_locked(KEY).await.unwrap());

    let token = extension("cancellation", json!({"token": "abc"}));
    let (other, extensions) = (stage.clone(), with_lock(stays, &[token]));
    let call =
        tokio::spawn(
            async move { other.call("test.sleep", json!({"ms": 60_000}), extensions).await },
        );
    stage.until_running(1).await;
    assert_eq!(cancel(&stage, "abc").await.0, 200);
    assert_eq!(call.await.unwrap().code(), "CANCELLED");
    assert!(!stage.locks.is_locked(KEY).await.unwrap());
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_token_while_it_waits_and_while_it_runs() {
    let stage = Stage::new().await;
    let token = extension("cancellation", json!({"token": "abc"}));
    let unknown = "CANCELLATION_TOKEN_UNKNOWN: Cancellation token not found or expired";
    assert_eq!(cancel(&stage, "abc").await, (404, unknown.into()));
    for waits in [false, true] {
        let held = if waits { Some(stage.locks.lock(KEY).acquire().await.unwrap()) } else { None };
        let other = stage.clone();
        let block = json!({"block": {"value": 60, "unit": "second"}});
        let extensions = with_lock(block, std::slice::from_ref(&token));
        let call = tokio::spawn(async move {
            other.call("test.sleep", json!({"ms": 60_000}), extensions).await
        });
        match waits {
            true => stage.until_awaited(KEY).await,
            false => stage.until_running(1).await,
        }
        assert_eq!(cancel(&stage, "abc").await, (200, "cancelled".into()));
        let answer = call.await.unwrap();
        assert_eq!((answer.status, answer.code()), (499, "CANCELLED"));
        let error = &answer.json["errors"][0];
        assert_eq!(error["message"], "Request was cancelled by client");
        assert_eq!(error["details"], json!({"token": "abc"}));
        assert_eq!(stage.locks.waiters(KEY), 0);
        drop(held);
        stage.until_free(KEY).await;
        let late = "CANCELLATION_TOO_LATE: Request has already completed";
        assert_eq!(cancel(&stage, "abc").await, (409, late.into()));
    }
}

/// A call of someone, told apart by what stands beside the request.
async fn as_caller(stage: &Stage, name: &str, document: Value) -> (u16, Value) {
    let request = http::Request::post("/forrst")
        .header("content-type", "application/json")
        .extension(name.to_owned())
        .body(http_body_util::Full::new(bytes::Bytes::from(document.to_string())))
        .unwrap();
    let response = tower::ServiceExt::oneshot(stage.service.clone(), request).await.unwrap();
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn what_one_caller_does_means_nothing_to_another() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| {
        forrst.callers_named(|beside| beside.get::<String>().cloned().unwrap_or_default())
    });
    let once = json!([extension("idempotency", json!({"key": "once"}))]);
    for (name, status) in [("a", "processed"), ("a", "cached"), ("b", "processed")] {
        let document = document("test.sleep", json!({}), once.clone());
        let (_, answer) = as_caller(&stage, name, document).await;
        assert_eq!(answer["extensions"][0]["data"]["status"], status, "{name}: {answer}");
    }
    let token = json!([extension("cancellation", json!({"token": "t"}))]);
    let long = document("test.sleep", json!({"ms": 60_000}), token);
    let call = {
        let stage = stage.clone();
        tokio::spawn(async move { as_caller(&stage, "a", long).await })
    };
    stage.until_running(1).await;
    let cancel = "urn:cline:forrst:ext:cancellation:fn:cancel";
    let cancel = document(cancel, json!({"token": "t"}), Value::Null);
    assert_eq!(as_caller(&stage, "b", cancel.clone()).await.0, 404);
    assert_eq!(as_caller(&stage, "a", cancel).await.0, 200);
    assert_eq!(call.await.unwrap().0, 499);
}

#[tokio::test]
async fn an_answer_that_is_known_takes_no_lock() {
    let stage = Stage::new().await;
    let once = extension("idempotency", json!({"key": "charge-1"}));
    let extensions = with_lock(json!({}), &[once]);
    let first = stage.call("test.sleep", json!({"ms": 1}), extensions.clone()).await;
    assert_eq!(first.told("idempotency")["status"], "processed");
    // Held by another, so that taking it would fail.
    let _held = stage.locks.lock(KEY).acquire().await.unwrap();
    let mut again = document("test.sleep", json!({"ms": 1}), extensions.clone());
    again["id"] = json!("req_2");
    let again = stage.post(&again).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(again.json["result"], first.json["result"]);
    assert_eq!(again.json["id"], "req_2");
    assert_eq!(again.told("idempotency")["status"], "cached");
    assert_eq!(again.told("idempotency")["original_request_id"], "req_1");
    assert_eq!(again.told("atomicLock"), Value::Null);

    let other = stage.call("test.sleep", json!({"ms": 2}), extensions).await;
    assert_eq!((other.status, other.code()), (409, "IDEMPOTENCY_CONFLICT"));
    let error = &other.json["errors"][0];
    assert_eq!(error["message"], "Idempotency key already used with different arguments");
    let hash = error["details"]["original_arguments_hash"].as_str().unwrap();
    assert!(hash.starts_with("sha256:") && hash.len() == 71, "{hash}");
    assert_eq!(
        other.told("idempotency"),
        json!({"key": "charge-1", "status": "conflict", "original_request_id": "req_1"})
    );
}

#[tokio::test]
async fn a_call_that_is_under_way_or_failed_is_not_answered_from_memory() {
    let stage = Stage::new().await;
    let once = json!([extension("idempotency", json!({"key": "k"}))]);
    let other = stage.clone();
    let extensions = once.clone();
    let call =
        tokio::spawn(async move { other.call("test.sleep", json!({"ms": 400}), extensions).await });
    stage.until_running(1).await;
    let again = stage.call("test.sleep", json!({"ms": 400}), once.clone()).await;
    assert_eq!((again.status, again.code()), (409, "IDEMPOTENCY_PROCESSING"));
    let error = &again.json["errors"][0];
    assert_eq!(error["message"], "Previous request with this key is still processing");
    let after = json!({"value": 1, "unit": "second"});
    assert_eq!(error["details"], json!({"key": "k", "retry_after": after}));
    assert_eq!(call.await.unwrap().status, 200);
    for _ in 0..2 {
        let failed = stage.call("test.fail", json!({}), once.clone()).await;
        assert_eq!(failed.code(), "CARD_DECLINED");
    }
}

#[tokio::test]
async fn whoever_asks_is_told_whether_to_try_again() {
    let stage = Stage::new().await;
    let _held = stage.locks.lock(KEY).acquire().await.unwrap();
    let retry = extension("retry", json!({}));
    let answer = stage
        .call("test.sleep", json!({}), with_lock(json!({}), std::slice::from_ref(&retry)))
        .await;
    assert_eq!(answer.code(), "LOCK_ACQUISITION_FAILED");
    let told = answer.told("retry");
    assert_eq!((&told["allowed"], &told["strategy"]), (&json!(true), &json!("exponential")));
    let block = json!({"block": {"value": 20, "unit": "millisecond"}});
    let answer =
        stage.call("test.sleep", json!({}), with_lock(block, std::slice::from_ref(&retry))).await;
    assert_eq!(answer.code(), "LOCK_TIMEOUT");
    assert_eq!(
        answer.json["errors"][0]["message"],
        "Lock acquisition timed out after 20 milliseconds"
    );
    assert_eq!(answer.told("retry")["allowed"], true);
    let deadline = extension("deadline", json!({"value": 1, "unit": "millisecond"}));
    let extensions = json!([retry, deadline]);
    let answer = stage.call("test.sleep", json!({"ms": 60_000}), extensions).await;
    let told = json!({"allowed": true, "strategy": "immediate", "max_attempts": 1});
    assert_eq!(answer.told("retry"), told);
}

#[tokio::test]
async fn whoever_asks_is_told_too_where_nothing_was_called() {
    let stage = Stage::new().await;
    let retry = extension("retry", json!({}));
    let wrong = with_lock(json!({"ttl": 30}), std::slice::from_ref(&retry));
    let unknown = json!([retry, extension("nothing", json!({}))]);
    for (function, arguments, extensions, code) in [
        ("test.fail", json!({}), json!([retry]), "CARD_DECLINED"),
        ("nothing.here", json!({}), json!([retry]), "FUNCTION_NOT_FOUND"),
        ("test.sleep", json!({"ms": "long"}), json!([retry]), "INVALID_ARGUMENTS"),
        ("test.sleep", json!({}), wrong, "INVALID_ARGUMENTS"),
        ("test.sleep", json!({}), unknown, "EXTENSION_NOT_SUPPORTED"),
    ] {
        let answer = stage.call(function, arguments, extensions).await;
        assert_eq!(answer.code(), code, "{}", answer.text);
        assert_eq!(answer.told("retry"), json!({"allowed": false}), "{}", answer.text);
    }
    let silent = stage.call("nothing.here", json!({}), Value::Null).await;
    assert_eq!(silent.json["extensions"], Value::Null);
}
