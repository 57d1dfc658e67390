//! Cancelling what is handed on.

use serde_json::{Value, json};

use crate::stage::{LONG, Stage, lock_and};

const CANCEL: &str = "urn:cline:forrst:ext:cancellation:fn:cancel";

#[tokio::test]
async fn a_call_under_a_lock_is_cancelled_here_and_its_lock_is_left_to_the_ttl() {
    let stage = Stage::new(LONG).await;
    let token = json!({"urn": "urn:forrst:ext:cancellation", "options": {"token": "abc"}});
    let call = stage.call("test.work", json!({"ms": 60_000}), lock_and(&[token]));
    let cancel = async {
        while stage.count("test.work").await == 0 {
            tokio::task::yield_now().await;
        }
        stage.call(CANCEL, json!({"token": "abc"}), Value::Null).await
    };
    let ((status, answer), (cancelled, told)) = tokio::join!(call, cancel);
    assert_eq!((cancelled, &told["result"]["cancelled"]), (200, &json!(true)), "{told}");
    assert_eq!((status, &answer["errors"][0]["code"]), (499, &json!("CANCELLED")));
    // The other server may still be at work.
    assert!(stage.is_locked("test.work").await);
    let (status, answer) = stage.call(CANCEL, json!({"token": "abc"}), Value::Null).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (409, &json!("CANCELLATION_TOO_LATE")));
    // What is not known here may be known there.
    let (_, answer) = stage.call(CANCEL, json!({"token": "other"}), Value::Null).await;
    assert_eq!(answer["errors"][0]["code"], "FUNCTION_NOT_FOUND");
    assert_eq!(stage.count(CANCEL).await, 1);
}
