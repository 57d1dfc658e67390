//! Two servers on one Redis, in front of one service in Python: calls under one lock never meet,
//! whichever server they come by.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod shared;

use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure::clock::{Clock, SystemClock, within};
use tenure_testkit::servers;
use tenure_testkit::servers::redis::start_redis;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// No wait in these tests is longer than this. It is far more than any should take.
const LIMIT: Duration = Duration::from_secs(60);

/// A process that tells where it listens, in the first line that contains `says`.
struct Server {
    url: String,
    child: Child,
    _folder: TempDir,
}

impl Server {
    async fn gateway(redis: &str, upstream: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--forrst-upstream", upstream])
            .env("TENURE_STORE", redis);
        Self::started(command).await
    }

    /// Once it serves.
    async fn started(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        command
            .env("XDG_DATA_HOME", folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = loop {
            let line =
                within(&SystemClock, LIMIT, lines.next_line()).await.expect("a line in time");
            let line = line.unwrap().expect("it goes on");
            if line.contains("serving on") {
                break line;
            }
        };
        // Nobody may find it closed.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let url = format!("{}/forrst", line.rsplit(' ').next().unwrap());
        Self { url, child, _folder: folder }
    }

    async fn python() -> Self {
        let script =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tenure-forrst/tests/gateway/upstream.py");
        let mut command = Command::new("python3");
        command.arg(script).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let url = format!("http://127.0.0.1:{}/rpc", line.trim());
        Self { url, child, _folder: tempfile::tempdir().unwrap() }
    }

    async fn call(&self, function: &str, arguments: Value, lock: Value) -> Value {
        call(&self.url, function, arguments, lock).await
    }
}

/// Calls with curl, as a client in any language would.
async fn call(url: &str, function: &str, arguments: Value, lock: Value) -> Value {
    let mut document = json!({
        "protocol": {"name": "forrst", "version": "0.1.0"},
        "id": "req_1",
        "call": {"function": function, "arguments": arguments},
    });
    if !lock.is_null() {
        document["extensions"] = json!([{"urn": "urn:forrst:ext:atomicLock", "options": lock}]);
    }
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "60", "--header", "content-type: application/json"])
        .args(["--data", &document.to_string(), url])
        .kill_on_drop(true);
    let output = curl.output().await.unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

async fn pause(ms: u64) {
    SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(ms)).await;
}

fn lock(scope: &str, ttl_ms: u64) -> Value {
    json!({
        "key": "account:7",
        "scope": scope,
        "ttl": {"value": ttl_ms, "unit": "millisecond"},
        "block": {"value": 50, "unit": "second"},
    })
}

struct Stage {
    servers: [Server; 2],
    upstream: Server,
    _redis: servers::Server,
}

impl Stage {
    async fn new() -> Self {
        let (redis, upstream) = (start_redis(&[]).unwrap(), Server::python().await);
        let url = format!("redis://{}", redis.address());
        let first = Server::gateway(&url, &upstream.url).await;
        let second = Server::gateway(&url, &upstream.url).await;
        Self { servers: [first, second], upstream, _redis: redis }
    }

    /// How many calls ran at once at the most.
    async fn most(&self) -> Value {
        let count = self.upstream.call("test.count", json!({}), Value::Null).await;
        count["result"]["most"].clone()
    }

    /// Many calls of these functions by both servers, each under its lock.
    async fn crowd(&self, functions: [&str; 2], scope: &str) -> Vec<u64> {
        let calls = (0..16).map(|at| {
            let (server, function) = (&self.servers[at % 2], functions[at / 2 % 2]);
            server.call(function, json!({"ms": 20}), lock(scope, 20_000))
        });
        let answers = join_all(calls).await;
        let fence = |answer: &Value| {
            assert_eq!(answer["result"]["done"], true, "{answer}");
            answer["extensions"][0]["data"]["fence"].as_u64().unwrap()
        };
        answers.iter().map(fence).collect()
    }
}

#[tokio::test]
async fn one_function_under_one_key_never_meets_itself() {
    let stage = Stage::new().await;
    let mut fences = stage.crowd(["test.work"; 2], "function").await;
    assert_eq!(stage.most().await, 1);
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 16);
}

#[tokio::test]
async fn functions_under_one_global_key_never_meet_each_other() {
    let stage = Stage::new().await;
    stage.crowd(["test.work", "test.work_too"], "global").await;
    assert_eq!(stage.most().await, 1);
}

#[tokio::test]
async fn a_gateway_that_is_killed_frees_its_lock_within_the_ttl() {
    let ttl = Duration::from_secs(5);
    let Stage { servers: [mut first, second], upstream, _redis } = Stage::new().await;
    let (url, long) = (first.url.clone(), lock("function", 5000));
    let under_way =
        tokio::spawn(async move { call(&url, "test.work", json!({"ms": 30_000}), long).await });
    let mut begun = Value::Null;
    for _ in 0..500 {
        let count = upstream.call("test.count", json!({}), Value::Null).await;
        begun = count["result"]["calls"]["test.work"].clone();
        if begun == 1 {
            break;
        }
        pause(20).await;
    }
    assert_eq!(begun, 1, "the function has begun");
    first.child.kill().await.unwrap();
    let killed = SystemClock.now();
    let mut at_once = lock("function", 5000);
    at_once.as_object_mut().unwrap().remove("block");
    let answer = second.call("test.work", json!({"ms": 1}), at_once).await;
    assert_eq!(answer["errors"][0]["code"], "LOCK_ACQUISITION_FAILED", "{answer}");
    let answer = second.call("test.work", json!({"ms": 1}), lock("function", 5000)).await;
    assert_eq!(answer["result"]["done"], true, "{answer}");
    let after = SystemClock.now().since(killed);
    assert!(after <= ttl + Duration::from_secs(1), "only after {after:?}");
    assert_eq!(under_way.await.unwrap(), Value::Null);
}
