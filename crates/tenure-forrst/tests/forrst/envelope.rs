//! What surrounds a call: HTTP, versions, errors.

use serde_json::{Value, json};

use crate::stage::{Stage, document};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn only_json_by_post_is_served() {
    let stage = Stage::new().await;
    let body = document("payments.charge", json!({}), Value::Null).to_string();
    let answer = stage.send(body.clone(), &[("content-type", "text/plain")]).await;
    assert_eq!((answer.status, answer.code()), (415, "INVALID_REQUEST"));
    assert_eq!(answer.json["id"], Value::Null);
    assert_eq!(answer.json["errors"][0]["message"], "Content-Type must be application/json");
    let answer = stage.send(body, &[("content-type", "application/json; charset=utf-8")]).await;
    assert_eq!(answer.status, 200);
    let request = http::Request::get("/forrst").body(http_body_util::Empty::new()).unwrap();
    let response = tower::ServiceExt::oneshot(stage.service.clone(), request).await.unwrap();
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["allow"], "POST");
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_with_the_limit() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst.limits(256, 1024));
    let arguments = json!({"x": "y".repeat(256)});
    let answer = stage.call("payments.charge", arguments, Value::Null).await;
    assert_eq!((answer.status, answer.code()), (413, "INVALID_REQUEST"));
    assert!(answer.json["errors"][0]["message"].as_str().unwrap().contains("256"));
}

#[tokio::test]
async fn what_is_no_json_has_no_id_and_a_position() {
    let answer = Stage::new().await.send(r#"{"id": "x", nope"#, &[JSON]).await;
    assert_eq!((answer.status, answer.code()), (400, "PARSE_ERROR"));
    assert_eq!(answer.json["id"], Value::Null);
    assert_eq!(answer.json["errors"][0]["source"], json!({"position": 12}));
}

#[tokio::test]
async fn functions_and_versions_that_are_not_there_are_told() {
    let stage = Stage::new().await;
    let answer = stage.call("nothing.here", json!({}), Value::Null).await;
    assert_eq!((answer.status, answer.code()), (404, "FUNCTION_NOT_FOUND"));
    let mut request = document("payments.charge", json!({}), Value::Null);
    request["call"]["version"] = json!("5.0.0");
    let answer = stage.post(&request).await;
    assert_eq!((answer.status, answer.code()), (404, "VERSION_NOT_FOUND"));
    assert_eq!(answer.json["id"], "req_1");
    assert_eq!(answer.json["result"], Value::Null);
}

#[tokio::test]
async fn several_errors_at_once_are_one_bad_request() {
    let answer = Stage::new().await.post(&json!({"id": "x"})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json["errors"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_error_of_the_function_s_own_is_handed_on() {
    let answer = Stage::new().await.call("test.fail", json!({}), Value::Null).await;
    assert_eq!(answer.status, 400);
    let expected = json!([{"code": "CARD_DECLINED", "message": "no funds", "details": {"a": 1}}]);
    assert_eq!(answer.json["errors"], expected);
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_tells_nothing() {
    let answer = Stage::new().await.call("test.panic", json!({}), Value::Null).await;
    assert_eq!((answer.status, answer.code()), (500, "INTERNAL_ERROR"));
    assert!(!answer.text.contains("on purpose"));
}

#[tokio::test]
async fn headers_tell_what_belongs_together() {
    let body = document("payments.charge", json!({}), Value::Null).to_string();
    let answer = Stage::new().await.send(body, &[JSON, ("x-forrst-trace-id", "t1")]).await;
    assert_eq!(answer.headers["x-forrst-request-id"], "req_1");
    assert_eq!(answer.headers["x-forrst-trace-id"], "t1");
    assert!(answer.headers["x-forrst-duration-ms"].to_str().unwrap().parse::<u64>().is_ok());
    assert_eq!(answer.json["meta"]["duration"]["unit"], "millisecond");
}

#[tokio::test]
async fn a_server_among_several_says_which_it_is() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst.node("node-7"));
    let body = document("payments.charge", json!({}), Value::Null).to_string();
    let headers = [JSON, ("x-forrst-span-id", "s1"), ("x-forrst-parent-span-id", "p1")];
    for body in [body, "nothing".to_owned()] {
        let answer = stage.send(body, &headers).await;
        assert_eq!(answer.headers["x-forrst-node"], "node-7");
        assert_eq!(answer.json["meta"]["node"], "node-7");
        assert_eq!(answer.headers["x-forrst-span-id"], "s1");
        assert!(!answer.headers.contains_key("x-forrst-parent-span-id"));
    }
    let alone = Stage::new().await.call("payments.charge", json!({}), Value::Null).await;
    assert!(!alone.headers.contains_key("x-forrst-node"));
    assert_eq!(alone.json["meta"]["node"], Value::Null);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_an_error_and_still_tells_of_its_lock() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| {
        forrst.limits(1024 * 1024, 512).function(
            "test.long",
            "1.0.0",
            async |_: tenure_forrst::Call, _: Value| {
                Ok::<_, tenure_forrst::Fault>("x".repeat(1000))
            },
        )
    });
    let extensions = crate::stage::lock(json!({"auto_release": false}));
    let answer = stage.call("test.long", json!({}), extensions).await;
    assert_eq!((answer.status, answer.code()), (500, "INTERNAL_ERROR"));
    assert!(answer.told("atomicLock")["owner"].is_string());
}
