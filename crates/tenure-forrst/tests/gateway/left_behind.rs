//! Locks that would be left behind for nothing.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tenure::clock::{Clock, SystemClock, within};

use crate::stage::{LONG, Stage, lock, lock_and};

/// Something that takes connections and never says a word: with TLS, nothing can be asked of it.
struct Silent {
    url: String,
    _listener: TcpListener,
}

impl Silent {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/rpc", listener.local_addr().unwrap());
        Self { url, _listener: listener }
    }
}

#[tokio::test]
async fn a_deadline_that_passes_before_anything_was_sent_leaves_no_lock() {
    let silent = Silent::new();
    let stage = Stage::at(&silent.url, LONG).await;
    let options = json!({"value": 200, "unit": "millisecond"});
    let deadline = json!({"urn": "urn:forrst:ext:deadline", "options": options});
    let (status, answer) = stage.call("test.echo", json!({}), lock_and(&[deadline])).await;
    assert_eq!((status, &answer["errors"][0]["code"]), (408, &json!("DEADLINE_EXCEEDED")));
    assert!(!stage.is_locked("test.echo").await);
}

#[tokio::test]
async fn a_caller_that_goes_away_before_anything_was_sent_leaves_no_lock() {
    let silent = Silent::new();
    let stage = Stage::at(&silent.url, LONG).await;
    let call = stage.call("test.echo", json!({}), lock(json!({})));
    let gone = within(&SystemClock, Duration::from_millis(200), call).await;
    assert!(gone.is_err());
    // It is given back in the background.
    for _ in 0..500 {
        if !stage.is_locked("test.echo").await {
            return;
        }
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(10)).await;
    }
    panic!("the lock is still there");
}
