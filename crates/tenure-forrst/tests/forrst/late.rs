//! What happens between the end of a function and the answer: its lock is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tenure::clock::SystemClock;
use tenure::{Locks, Operation, stores};
use tenure_forrst::Call;
use tenure_testkit::faults::{Fault, Faults};

use crate::stage::{Stage, lock, until};

const KEY: &str = "lock:test.sleep:user:123";

fn lock_and(name: &str, options: Value) -> Value {
    let mut all = lock(json!({}));
    let other = json!({"urn": format!("urn:forrst:ext:{name}"), "options": options});
    all.as_array_mut().unwrap().push(other);
    all
}

#[tokio::test]
async fn it_is_too_late_to_cancel_a_call_whose_function_is_done() {
    let memory = stores::open("memory:", Arc::new(SystemClock)).await.unwrap();
    let store = Arc::new(Faults::new(memory));
    let locks = Locks::builder().open_on(Arc::clone(&store) as _).await.unwrap();
    let stage = Stage::on(locks, |forrst| forrst);
    store.next(Operation::Release, Fault::Delay(Duration::from_secs(1)));
    let other = stage.clone();
    let extensions = lock_and("cancellation", json!({"token": "abc"}));
    let call = tokio::spawn(async move { other.call("test.sleep", json!({}), extensions).await });
    until("the lock is being given back", || store.calls(Operation::Release) == 1).await;
    let cancel = "urn:cline:forrst:ext:cancellation:fn:cancel";
    let answer = stage.call(cancel, json!({"token": "abc"}), Value::Null).await;
    assert_eq!((answer.status, answer.code()), (409, "CANCELLATION_TOO_LATE"), "{}", answer.text);
    assert!(!call.is_finished());
    assert_eq!(call.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_function_that_came_to_its_end_is_not_run_again_though_its_lock_was_lost() {
    let stage = Stage::new().await;
    let extensions = lock_and("idempotency", json!({"key": "once"}));
    let (other, same) = (stage.clone(), extensions.clone());
    let call =
        tokio::spawn(async move { other.call("test.sleep", json!({"ms": 300}), same).await });
    stage.until_running(1).await;
    stage.locks.force_release(KEY, "a test").await.unwrap();
    let another = stage.locks.lock(KEY).acquire().await.unwrap();
    let first = call.await.unwrap();
    assert_eq!((first.status, first.code()), (409, "LOCK_LOST"), "{}", first.text);
    assert_eq!(first.told("idempotency")["status"], "processed");
    another.release().await.unwrap();
    let again = stage.call("test.sleep", json!({"ms": 300}), extensions).await;
    assert_eq!((again.status, again.code()), (409, "LOCK_LOST"), "{}", again.text);
    assert_eq!(again.told("idempotency")["status"], "cached");
    assert_eq!(again.json["errors"], first.json["errors"]);
}

/// Nothing else runs meanwhile: no renewal.
#[allow(clippy::disallowed_methods, reason = "it is what a function should not do")]
fn block() {
    std::thread::sleep(Duration::from_millis(500));
}

#[tokio::test]
async fn a_function_that_came_to_its_end_after_its_lease_is_not_run_again() {
    let runs = Arc::<AtomicUsize>::default();
    let (locks, count) = (Locks::open("memory:").await.unwrap(), Arc::clone(&runs));
    let stage = Stage::on(locks, move |forrst| {
        forrst.function("test.block", "1.0.0", move |_: Call, _: Value| {
            count.fetch_add(1, Ordering::SeqCst);
            async {
                block();
                Ok::<_, tenure_forrst::Fault>(())
            }
        })
    });
    let mut extensions = lock_and("idempotency", json!({"key": "once"}));
    extensions[0]["options"]["ttl"] = json!({"value": 150, "unit": "millisecond"});
    for status in ["processed", "cached"] {
        let answer = stage.call("test.block", json!({}), extensions.clone()).await;
        assert_eq!((answer.status, answer.code()), (409, "LOCK_LOST"), "{}", answer.text);
        assert_eq!(answer.told("idempotency")["status"], status);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
