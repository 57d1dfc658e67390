//! Every example of the specification, byte for byte where it is fixed.

use serde_json::{Value, json};
use tenure::{Guard, Owner};

use crate::stage::{OWNER, Stage};

/// The specification's requests, byte for byte.
const AUTO_RELEASE: &str = include_str!("examples/requests/auto_release.json");
const MANUAL_RELEASE: &str = include_str!("examples/requests/manual_release.json");
const RELEASE: &str = include_str!("examples/requests/release.json");
const MONTHLY: &str = include_str!("examples/requests/monthly_options.json");

/// A request, with the id that its answer has in the specification.
fn request(id: &str, call: Value, extension: Value) -> Value {
    let mut document = json!({
        "protocol": {"name": "forrst", "version": "0.1.0"},
        "id": id,
        "call": call,
    });
    if !extension.is_null() {
        document["extensions"] =
            json!([{"urn": "urn:forrst:ext:atomicLock", "options": extension}]);
    }
    document
}

/// A request as the specification has it.
fn verbatim(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The first request, with another id or with more options.
fn charge(id: &str, more: Value) -> Value {
    let mut document = verbatim(AUTO_RELEASE);
    document["id"] = json!(id);
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        document["extensions"][0]["options"][name] = value;
    }
    document
}

fn report(id: &str) -> Value {
    let mut document = verbatim(MANUAL_RELEASE);
    document["id"] = json!(id);
    document
}

fn system(name: &str, arguments: Value) -> Value {
    let function = format!("urn:cline:forrst:ext:atomic-lock:fn:{name}");
    let call = json!({"function": function, "version": "1.0.0", "arguments": arguments});
    request("req_release", call, Value::Null)
}

async fn held(stage: &Stage, key: &str, owner: &str) -> Guard {
    let owner = Owner::parse(owner).unwrap();
    stage
        .locks
        .lock(key)
        .owner(owner)
        .ttl(std::time::Duration::from_secs(1800))
        .acquire()
        .await
        .unwrap()
}

/// The text with what stands between the two replaced.
fn without(text: &str, before: &str, after: &str) -> String {
    let start = text.find(before).unwrap() + before.len();
    let end = start + text[start..].find(after).unwrap();
    format!("{}…{}", &text[..start], &text[end..])
}

#[tokio::test]
async fn a_locked_call_and_its_answer() {
    let stage = Stage::new().await;
    let answer = stage.post(&charge("req_001", json!({"owner": OWNER}))).await;
    assert_eq!(answer.status, 200);
    let text = without(&answer.fixed(), r#""expires_at":""#, r#"","fence""#);
    assert_eq!(text, include_str!("examples/acquired.json").trim_end());
    let expires = answer.told("atomicLock")["expires_at"].as_str().unwrap().to_owned();
    assert!(expires.len() == 20 && expires.ends_with('Z'), "{expires}");
    assert!(!stage.locks.is_locked("lock:payments.charge:user:123").await.unwrap());
}

#[tokio::test]
async fn an_owner_is_made_where_none_is_given() {
    let stage = Stage::new().await;
    let answer = stage.send(AUTO_RELEASE, &[("content-type", "application/json")]).await;
    assert_eq!((answer.status, &answer.json["id"]), (200, &json!("req_001")));
    let owner = answer.told("atomicLock")["owner"].as_str().unwrap().to_owned();
    // A version 4 UUID.
    assert_eq!((owner.len(), &owner[14..15]), (36, "4"));
}

#[tokio::test]
async fn blocking_and_manual_release() {
    let stage = Stage::new().await;
    let answer = stage.send(MANUAL_RELEASE, &[("content-type", "application/json")]).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let told = answer.told("atomicLock");
    assert_eq!((&told["scope"], &told["acquired"]), (&json!("global"), &json!(true)));
    assert!(stage.locks.is_locked("lock:billing:report").await.unwrap());

    let arguments = json!({"key": "lock:billing:report", "owner": told["owner"]});
    let released = stage.post(&system("release", arguments.clone())).await;
    let expected = r#""result":{"released":true,"key":"lock:billing:report"},"meta""#;
    assert!(released.text.contains(expected), "{}", released.text);
    assert!(!stage.locks.is_locked("lock:billing:report").await.unwrap());

    let again = stage.post(&system("release", arguments)).await;
    assert_eq!((again.status, again.code()), (409, "LOCK_ALREADY_RELEASED"));
    assert_eq!(again.json["errors"][0]["message"], "Lock was already released");
}

#[tokio::test]
async fn a_lock_that_is_held_is_refused() {
    let stage = Stage::new().await;
    let _held = held(&stage, "lock:payments.charge:user:123", "other").await;
    let answer = stage.post(&charge("req_003", Value::Null)).await;
    assert_eq!(answer.status, 423);
    assert_eq!(answer.fixed(), include_str!("examples/refused.json").trim_end());
}

#[tokio::test]
async fn a_wait_that_is_over() {
    let stage = Stage::new().await;
    let _held = held(&stage, "lock:billing:report", "other").await;
    let answer = stage.post(&report("req_004")).await;
    assert_eq!(answer.status, 423);
    assert_eq!(answer.fixed(), include_str!("examples/timed_out.json").trim_end());
}

#[tokio::test]
async fn the_wrong_owner_is_refused() {
    let stage = Stage::new().await;
    let _held = held(&stage, "lock:billing:report", "other").await;
    let answer = stage.send(RELEASE, &[("content-type", "application/json")]).await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.fixed(), include_str!("examples/wrong_owner.json").trim_end());
}

#[tokio::test]
async fn status_of_a_lock_that_is_held_and_of_one_that_is_not() {
    let stage = Stage::new().await;
    let key = "lock:payments.charge:user:123";
    let answer = stage.post(&system("status", json!({"key": key}))).await;
    let expected = format!(r#""result":{{"key":"{key}","locked":false}},"meta""#);
    assert!(answer.text.contains(&expected), "{}", answer.text);

    let _held = held(&stage, key, "uuid-abc-123").await;
    let answer = stage.post(&system("status", json!({"key": key}))).await;
    let mut text = answer.fixed();
    for (name, after) in [("acquired_at", "\""), ("expires_at", "\"")] {
        let time = answer.json["result"][name].as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
        text = without(&text, &format!("\"{name}\":\""), after);
    }
    let remaining = answer.json["result"]["ttl_remaining"].as_u64().unwrap();
    assert!((1795..=1800).contains(&remaining), "{remaining}");
    text = without(&text, "\"ttl_remaining\":", ",");
    assert_eq!(text, include_str!("examples/status.json").trim_end());
}

#[tokio::test]
async fn every_pattern_of_keys_is_a_key() {
    let stage = Stage::new().await;
    for key in
        ["user:123", "order:456:fulfillment", "billing:report", "inventory:warehouse:A:sku:XYZ"]
    {
        for (scope, full_key) in
            [("function", format!("lock:payments.charge:{key}")), ("global", format!("lock:{key}"))]
        {
            let more = json!({"key": key, "scope": scope, "auto_release": false});
            let answer = stage.post(&charge("req_001", more)).await;
            assert_eq!(answer.told("atomicLock")["key"], key, "{}", answer.text);
            assert!(stage.locks.is_locked(&full_key).await.unwrap(), "{full_key}");
        }
    }
}

#[tokio::test]
async fn functions_are_coordinated_by_one_global_key() {
    let stage = Stage::new().await;
    let options = verbatim(MONTHLY)["options"].clone();
    let more = json!({"auto_release": false, "owner": OWNER});
    let mut first = charge("req_001", options.clone());
    for (name, value) in more.as_object().unwrap() {
        first["extensions"][0]["options"][name] = value.clone();
    }
    let answer = stage.post(&first).await;
    assert_eq!(answer.told("atomicLock")["key"], "billing:monthly", "{}", answer.text);
    assert!(stage.locks.is_locked("lock:billing:monthly").await.unwrap());
    let mut other = report("req_002");
    other["extensions"][0]["options"] = options;
    let refused = stage.post(&other).await;
    assert_eq!((refused.status, refused.code()), (423, "LOCK_ACQUISITION_FAILED"));
    assert_eq!(refused.json["errors"][0]["details"]["full_key"], "lock:billing:monthly");
}

#[tokio::test]
async fn a_lock_is_taken_away_by_force() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst.force_release_for(|_| true));
    let _held = held(&stage, "lock:billing:report", "other").await;
    let arguments = json!({"key": "lock:billing:report"});
    let answer = stage.post(&system("force-release", arguments.clone())).await;
    let expected = r#""result":{"released":true,"key":"lock:billing:report","forced":true},"meta""#;
    assert!(answer.text.contains(expected), "{}", answer.text);
    let answer = stage.post(&system("force-release", arguments)).await;
    assert_eq!((answer.status, answer.code()), (404, "LOCK_NOT_FOUND"));
    assert_eq!(answer.json["errors"][0]["message"], "Lock does not exist");
}
