//! Locks that are lost while the other server is at work.

use serde_json::json;

use crate::stage::{LONG, Stage, lock};

const KEY: &str = "lock:test.work:k";

#[tokio::test]
async fn a_lock_that_is_taken_away_is_told_and_that_of_another_is_left_alone() {
    let stage = Stage::new(LONG).await;
    // Found out with the next renewal.
    let ttl = json!({"ttl": {"value": 900, "unit": "millisecond"}});
    let call = stage.call("test.work", json!({"ms": 60_000}), lock(ttl));
    let taken_away = async {
        while stage.count("test.work").await == 0 {
            tokio::task::yield_now().await;
        }
        stage.locks.force_release(KEY, "a test").await.unwrap().unwrap();
        stage.locks.lock(KEY).acquire().await.unwrap()
    };
    let ((status, answer), another) = tokio::join!(call, taken_away);
    assert_eq!((status, &answer["errors"][0]["code"]), (409, &json!("LOCK_LOST")), "{answer}");
    let details = &answer["errors"][0]["details"];
    assert_eq!((&details["full_key"], &details["fence"]), (&json!(KEY), &json!(1)));
    // It is given back by whoever has it, and so was nobody else's to give.
    another.release().await.unwrap();
    assert_eq!(stage.count("test.work").await, 1);
}
