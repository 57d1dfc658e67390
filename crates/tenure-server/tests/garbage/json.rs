//! Bodies of JSON.

use crate::dice::{Dice, replay, seeds};
use crate::http1::{Reply, ask};
use crate::{is_well, server};

const STREAM: &str = "accept: application/x-ndjson\r\n";

/// Requests as they should be.
const REQUESTS: [(&str, &str, &str); 11] = [
    (
        "POST /v1/locks/k",
        "",
        r#"{"ttl": "30s", "wait": "0s", "note": "n", "renewal": "client", "max_hold": "1m"}"#,
    ),
    ("POST /v1/locks/k", STREAM, r#"{"ttl": "30s", "immediate": true, "lock_id": "x"}"#),
    ("PATCH /v1/locks/k", "", r#"{"lock_id": "0a1b", "ttl": "1m"}"#),
    ("DELETE /v1/locks/k", "", r#"{"lock_id": "0a1b", "force": false, "reason": "r"}"#),
    ("DELETE /v1/locks/k", "", r#"{"force": true, "reason": "r"}"#),
    (
        "POST /v1.0-alpha1/lock/main",
        "",
        r#"{"resourceId": "k", "lockOwner": "o", "expiryInSeconds": 5}"#,
    ),
    ("POST /v1.0-alpha1/unlock/main", "", r#"{"resource_id": "k", "lock_owner": "o"}"#),
    ("POST /v1.0-alpha2/lock/main/k", "", r#"{"immediate": true, "ttl": "1m30s"}"#),
    ("POST /v1.0-alpha2/lock/main/k", STREAM, r#"{"immediate": true, "ttl": "500ms"}"#),
    ("DELETE /v1.0-alpha2/lock/main/k", "", r#"{"lockID": "x", "force": false}"#),
    ("PUT /v1.0/metadata/k", "", r#"{"any": ["thing"]}"#),
];

/// Whether it was a fault of the server's and not of the request.
fn is_fault(Reply { status, body }: &Reply) -> bool {
    // A wait that was broken into a longer one was over.
    if *status < 500 || *status == 504 {
        return false;
    }
    // alpha1 tells of an owner or an expiry that no store takes as of a failure of the store.
    let is_refusal = |code: &str| body.contains(code) && body.contains("must");
    !is_refusal("ERR_TRY_LOCK") && !is_refusal("ERR_UNLOCK")
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_json_is_answered_and_never_a_fault() {
    let running = server().await;
    for seed in seeds() {
        let mut dice = Dice(seed);
        let (request, headers, body) = REQUESTS[dice.roll(REQUESTS.len())];
        let body = dice.break_up(body.as_bytes());
        let reply = ask(running.address(), request, headers, &body).await;
        let text = String::from_utf8_lossy(&body);
        assert!(!is_fault(&reply), "{}\n{reply:?} for {request} {text}", replay(seed));
    }
    is_well(&running).await;
}
