//! The functions of the protocol itself, under both names of each.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::Operation;
use tenure::clock::SystemClock;
use tenure_testkit::faults::{Fault, Faults};

use crate::stage::Stage;

fn names(of: &str, extension: &str) -> [String; 2] {
    [format!("urn:cline:forrst:fn:{of}"), format!("urn:cline:forrst:ext:{extension}:fn:{of}")]
}

#[tokio::test]
async fn ping_and_health_tell_that_all_is_well() {
    let stage = Stage::new().await;
    for name in names("ping", "diagnostics") {
        let answer = stage.call(&name, json!({}), Value::Null).await;
        assert_eq!(answer.json["result"]["status"], "healthy");
        assert!(answer.json["result"]["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    for name in names("health", "diagnostics") {
        let answer = stage.call(&name, json!({}), Value::Null).await;
        assert_eq!(answer.json["result"]["components"]["locks"]["status"], "healthy");
        let answer = stage.call(&name, json!({"component": "self"}), Value::Null).await;
        assert_eq!(answer.json["result"]["components"], json!({}));
    }
}

#[tokio::test]
async fn health_tells_of_a_store_that_cannot_be_used_and_is_no_error() {
    let memory = tenure::stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
    let store = Arc::new(Faults::new(memory));
    let locks = tenure::Locks::builder().open_on(Arc::clone(&store) as _).await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst);
    store.always(Operation::Inspect, Fault::ErrorBefore);
    for name in names("health", "diagnostics") {
        for (arguments, status) in [
            (json!({}), "unhealthy"),
            (json!({"component": "locks"}), "unhealthy"),
            (json!({"component": "self"}), "healthy"),
        ] {
            let answer = stage.call(&name, arguments.clone(), Value::Null).await;
            let result = &answer.json["result"];
            assert_eq!((answer.status, &result["status"]), (200, &json!(status)), "{arguments}");
            let is_told = result["components"]["locks"]["status"] == "unhealthy";
            assert_eq!(is_told, status == "unhealthy", "{}", answer.text);
        }
        let brief = stage.call(&name, json!({"include_details": false}), Value::Null).await;
        assert_eq!(brief.json["result"]["status"], "unhealthy");
        assert_eq!(brief.json["result"]["components"], Value::Null);
    }
}

#[tokio::test]
async fn capabilities_are_told_in_both_spellings() {
    let stage = Stage::new().await;
    for name in names("capabilities", "discovery") {
        let result = stage.call(&name, json!({}), Value::Null).await.json["result"].clone();
        assert_eq!(result["protocol_versions"], json!(["0.1.0"]));
        assert_eq!(result["protocolVersions"], json!(["0.1.0"]));
        assert_eq!(result["limits"]["max_request_bytes"], 1024 * 1024);
        let functions = result["functions"].as_array().unwrap();
        assert!(functions.contains(&json!("payments.charge")), "{functions:?}");
        let lock = json!({"urn": "urn:forrst:ext:atomicLock", "version": "1.0.0"});
        assert!(result["extensions"].as_array().unwrap().contains(&lock));
    }
}

#[tokio::test]
async fn everything_is_described_without_an_envelope_and_one_function_with_it() {
    let stage = Stage::new().await;
    for name in names("describe", "discovery") {
        let all = stage.call(&name, json!({}), Value::Null).await.json;
        assert_eq!((&all["forrst"], &all["protocol"]), (&json!("0.1.0"), &Value::Null));
        let release = "urn:cline:forrst:ext:atomic-lock:fn:release";
        assert!(all["functions"].as_array().unwrap().iter().any(|f| f["name"] == release));
        let one = stage.call(&name, json!({"function": release}), Value::Null).await.json;
        assert_eq!(one["result"]["name"], release);
        assert_eq!(one["result"]["version"], "1.0.0");
        assert_eq!(one["result"]["arguments"][1]["name"], "owner");
        let none = stage.call(&name, json!({"function": "no.such"}), Value::Null).await;
        assert_eq!((none.status, none.code()), (404, "FUNCTION_NOT_FOUND"));
    }
}

async fn lock_function(stage: &Stage, name: &str, arguments: Value) -> (u16, Value) {
    let name = format!("urn:cline:forrst:ext:atomic-lock:fn:{name}");
    let answer = stage.call(&name, arguments, Value::Null).await;
    (answer.status, answer.json)
}

#[tokio::test]
async fn force_needs_its_right() {
    let stage = Stage::new().await;
    let _held = stage.locks.lock("lock:x").acquire().await.unwrap();
    let (status, json) = lock_function(&stage, "force-release", json!({"key": "lock:x"})).await;
    assert_eq!((status, &json["errors"][0]["code"]), (403, &json!("FORBIDDEN")));
    assert!(stage.locks.is_locked("lock:x").await.unwrap());
}

#[tokio::test]
async fn locks_of_others_in_the_same_store_are_left_alone() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst.force_release_for(|_| true));
    let held = stage.locks.lock("migration").acquire().await.unwrap();
    let owner = held.owner().expose();
    for (name, arguments) in [
        ("release", json!({"key": "migration", "owner": owner})),
        ("force-release", json!({"key": "migration"})),
    ] {
        let (status, json) = lock_function(&stage, name, arguments).await;
        assert_eq!((status, &json["errors"][0]["code"]), (404, &json!("LOCK_NOT_FOUND")));
    }
    let (_, json) = lock_function(&stage, "status", json!({"key": "migration"})).await;
    assert_eq!(json["result"]["locked"], false);
    assert!(held.is_held() && stage.locks.is_locked("migration").await.unwrap());
}

#[tokio::test]
async fn the_owner_is_shown_to_itself_and_to_those_who_may_see_it() {
    let locks = tenure::Locks::open("memory:").await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst.owners_shown_to(|_| false));
    let held = stage.locks.lock("lock:x").acquire().await.unwrap();
    let (_, json) = lock_function(&stage, "status", json!({"key": "lock:x"})).await;
    assert_eq!((&json["result"]["locked"], &json["result"]["owner"]), (&json!(true), &Value::Null));
    let owner = held.owner().expose();
    let asked = json!({"key": "lock:x", "owner": owner});
    let (_, json) = lock_function(&stage, "status", asked).await;
    assert_eq!(json["result"]["owner"], owner);
    let (_, json) = lock_function(&stage, "status", json!({"key": "lock:x", "owner": "no"})).await;
    assert_eq!(json["result"]["owner"], Value::Null);
}

#[tokio::test]
async fn wrong_arguments_are_pointed_at() {
    let stage = Stage::new().await;
    for (name, arguments, pointer) in [
        ("release", json!({"key": "lock:x"}), "/call/arguments/owner"),
        ("release", json!({"key": "", "owner": "o"}), "/call/arguments/key"),
        ("release", json!({"key": "lock:x", "owner": ""}), "/call/arguments/owner"),
        ("release", json!({"key": 7, "owner": "o"}), "/call/arguments/key"),
        ("status", json!({}), "/call/arguments/key"),
        ("force-release", json!({}), "/call/arguments/key"),
        ("force-release", json!({"key": "a\nb"}), "/call/arguments/key"),
    ] {
        let (status, json) = lock_function(&stage, name, arguments.clone()).await;
        assert_eq!((status, &json["errors"][0]["code"]), (400, &json!("INVALID_ARGUMENTS")));
        assert_eq!(json["errors"][0]["source"]["pointer"], pointer, "{name} {arguments}");
    }
    let (_, json) = lock_function(&stage, "release", json!({"key": "lock:x"})).await;
    assert_eq!(json["errors"][0]["message"], "owner is required");
}

#[tokio::test]
async fn what_nobody_holds_cannot_be_released() {
    let stage = Stage::new().await;
    let asked = json!({"key": "lock:x", "owner": "o"});
    let (status, json) = lock_function(&stage, "release", asked).await;
    assert_eq!((status, &json["errors"][0]["code"]), (404, &json!("LOCK_NOT_FOUND")));
    assert_eq!(json["errors"][0]["details"], json!({"key": "lock:x"}));
}
