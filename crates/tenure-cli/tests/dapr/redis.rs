//! A component of Dapr's as the store: on one Redis, Dapr's sidecars and tenure exclude each other.

use std::time::Duration;

use tempfile::TempDir;
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::Server;
use tenure_testkit::servers::redis::start_redis;
use tokio::process::Command;

use super::sidecar::{Sidecar, client, run};

struct Redis(Server);

impl Redis {
    fn start() -> Self {
        Self(start_redis(&[]).unwrap())
    }

    /// What it answers to a command, as `redis-cli` shows it.
    async fn say(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.0.address().port().to_string()]).args(words);
        let output = command.output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// A sidecar with a component for this Redis.
async fn beside(redis: &Redis, folder: &TempDir) -> Sidecar {
    let component = format!(
        "apiVersion: dapr.io/v1alpha1\nkind: Component\nmetadata:\n  name: lockstore\nspec:\n  \
         type: lock.redis\n  version: v1\n  metadata:\n  - name: redisHost\n    \
         value: {}\n  - name: redisPassword\n    value: \"\"\n",
        redis.0.address()
    );
    std::fs::write(folder.path().join("lockstore.yaml"), component).unwrap();
    Sidecar::start(&["--dapr-components", folder.path().to_str().unwrap()]).await
}

#[tokio::test]
async fn a_component_excludes_dapr_s_own_sidecars() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let sidecar = beside(&redis, &folder).await;

    run(client::python("locks.py"), &sidecar).await;
    // As Dapr's own component takes it.
    let theirs = ["SET", "lock||app||shared", "theirs", "EX", "60", "NX"];
    assert_eq!(redis.say(&theirs).await, "OK");
    run(client::python("shared.py"), &sidecar).await;
    let ours = redis.say(&["GET", "lock||app||ours"]).await;
    assert_eq!(ours, "ours", "the lock of the other is not in Dapr's form");
    assert_eq!(redis.say(&["SET", "lock||app||ours", "theirs", "EX", "60", "NX"]).await, "");
}

/// What a path of the sidecar answers: status and body.
async fn ask(sidecar: &Sidecar, path: &str, body: Option<&str>) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "30", "--write-out", "\n%{http_code}"]);
    curl.args(body.into_iter().flat_map(|body| ["--data", body]));
    curl.arg(format!("http://127.0.0.1:{}{path}", sidecar.http));
    let answer = String::from_utf8(curl.output().await.unwrap().stdout).unwrap();
    let (body, status) = answer.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// Asks until the status is this, for a while. The last answer.
async fn asked_until(
    sidecar: &Sidecar,
    path: &str,
    body: Option<&str>,
    status: &str,
) -> (String, String) {
    for _ in 0..100 {
        let answer = ask(sidecar, path, body).await;
        if answer.0 == status {
            return answer;
        }
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(100)).await;
    }
    ask(sidecar, path, body).await
}

#[tokio::test]
async fn an_outage_is_told_as_dapr_tells_it_and_ends_with_the_outage() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let sidecar = beside(&redis, &folder).await;
    let (lock, unlock) = ("/v1.0-alpha1/lock/lockstore", "/v1.0-alpha1/unlock/lockstore");
    let body = r#"{"resourceId": "r", "lockOwner": "a", "expiryInSeconds": 60}"#;
    assert_eq!(ask(&sidecar, lock, Some(body)).await.1, r#"{"success":true}"#);

    redis.0.kill().unwrap();
    for (path, body, code) in [
        (lock, Some(body), "ERR_TRY_LOCK"),
        (unlock, Some(body), "ERR_UNLOCK"),
        ("/v1.0/healthz", None, "ERR_HEALTH_NOT_READY"),
        ("/v1.0/healthz/outbound", None, "ERR_OUTBOUND_HEALTH_NOT_READY"),
    ] {
        let (status, answer) = asked_until(&sidecar, path, body, "500").await;
        assert!(answer.contains(&format!(r#""errorCode":"{code}""#)), "{path}: {answer}");
        assert_eq!(status, "500", "{path}: {answer}");
    }

    redis.0.start_again().unwrap();
    asked_until(&sidecar, "/v1.0/healthz", None, "204").await;
    // It kept nothing on disk, so that the lock is gone with it.
    assert_eq!(ask(&sidecar, lock, Some(body)).await.1, r#"{"success":true}"#);
}
