//! Forrst's calls through the server: the rights of its locks are those of their namespace, and
//! what is done to them is written down.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tenure_server::Running;
use tenure_server::config::Config;

const KEY: &str = "lock:report";

struct Stage {
    running: Running,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        Self::with("", "").await
    }

    /// A token for each verb, of the same name, and one for all of them. `forrst` is more for the
    /// section of that name, `more` are other sections.
    async fn with(forrst: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n[forrst]\nnamespace = 'calls'\n\
             {forrst}\n{more}\n[audit]\nfile = '{}'\n",
            folder.path().join("audit.jsonl").display()
        );
        for (name, verbs) in [
            ("acquire", "'acquire'"),
            ("read", "'read'"),
            ("force", "'force'"),
            ("admin", "'read', 'admin'"),
            ("elsewhere", "'acquire', 'read', 'force', 'admin'"),
        ] {
            let digest = Sha256::digest(format!("{name}-token"));
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let namespace = if name == "elsewhere" { "other" } else { "calls" };
            text += &format!(
                "[[tokens]]\nname = '{name}'\nsha256 = '{digest}'\n\
                 grants = [{{ namespace = '{namespace}', verbs = [{verbs}] }}]\n"
            );
        }
        let running = Running::start(Config::parse(&text).unwrap()).await.unwrap();
        let stage = Self { running, folder };
        let place = tenure_server::api::Place {
            key: KEY.into(),
            namespace: "calls".into(),
            ..Default::default()
        };
        let order = tenure_server::api::Order {
            place,
            lock_id: Some("s3cret-owner".into()),
            ..Default::default()
        };
        let caller = tenure_server::Caller {
            identity: tenure_server::Identity::unrestricted("test"),
            peer: None,
        };
        stage.running.api().lock(&caller, &order).await.unwrap();
        stage
    }

    async fn call(&self, token: Option<&str>, function: &str, arguments: Value) -> (String, Value) {
        let function = format!("urn:cline:forrst:ext:atomic-lock:fn:{function}");
        self.send(token, &json!({"function": function, "arguments": arguments}), json!([])).await
    }

    async fn send(&self, token: Option<&str>, call: &Value, extensions: Value) -> (String, Value) {
        let mut more = Vec::new();
        let authorization;
        if let Some(token) = token {
            authorization = format!("authorization: Bearer {token}-token");
            more.extend(["-H", authorization.as_str()]);
        }
        post(&self.running, &document(call, &extensions), &more).await
    }
}

fn document(call: &Value, extensions: &Value) -> String {
    let document = json!({
        "protocol": {"name": "forrst", "version": "0.1.0"},
        "id": "req_1",
        "call": call,
        "extensions": extensions,
    });
    document.to_string()
}

/// Posts a document, with more arguments for curl.
async fn post(running: &Running, document: &str, more: &[&str]) -> (String, Value) {
    let mut arguments = vec!["-H", "content-type: application/json", "--data-binary", document];
    arguments.extend(more);
    curl(running, "forrst", &arguments).await
}

/// The status and the JSON of what curl gets, which is null where it is none.
async fn curl(running: &Running, path: &str, arguments: &[&str]) -> (String, Value) {
    let (status, text) = fetched(running, path, arguments).await;
    (status, serde_json::from_str(&text).unwrap_or_default())
}

async fn fetched(running: &Running, path: &str, arguments: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "20", "--write-out", "\n%{http_code}"]);
    curl.args(arguments).arg(format!("http://{}/{path}", running.address()));
    let output = tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// A server that asks nobody who it is.
async fn open_to_all(forrst: &str) -> Running {
    let text = format!("listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n[forrst]\n{forrst}\n");
    Running::start(Config::parse(&text).unwrap()).await.unwrap()
}

fn code(answer: &Value) -> &str {
    answer["errors"][0]["code"].as_str().unwrap_or("none")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_function_needs_its_right_and_only_an_administrator_sees_the_owner() {
    let stage = Stage::new().await;
    let key = json!({"key": KEY});
    let wrong = json!({"key": KEY, "owner": "another"});
    for (token, function, arguments, status, told) in [
        ("read", "status", &key, "200", "none"),
        ("acquire", "status", &key, "403", "FORBIDDEN"),
        ("elsewhere", "status", &key, "403", "FORBIDDEN"),
        ("acquire", "release", &wrong, "403", "LOCK_OWNERSHIP_MISMATCH"),
        ("read", "release", &wrong, "403", "FORBIDDEN"),
        ("acquire", "force-release", &key, "403", "FORBIDDEN"),
        ("elsewhere", "force-release", &key, "403", "FORBIDDEN"),
    ] {
        let (got, answer) = stage.call(Some(token), function, arguments.clone()).await;
        assert_eq!((got.as_str(), code(&answer)), (status, told), "{token} {function}: {answer}");
    }
    assert_eq!(stage.call(None, "status", key.clone()).await.0, "401");

    let (_, answer) = stage.call(Some("read"), "status", key.clone()).await;
    assert_eq!(answer["result"]["locked"], true);
    assert_eq!(answer["result"]["owner"], Value::Null);
    let (_, answer) = stage.call(Some("admin"), "status", key.clone()).await;
    assert_eq!(answer["result"]["owner"], "s3cret-owner");
    let own = json!({"key": KEY, "owner": "s3cret-owner"});
    let (_, answer) = stage.call(Some("read"), "status", own.clone()).await;
    assert_eq!(answer["result"]["owner"], "s3cret-owner");

    let (status, answer) = stage.call(Some("force"), "force-release", key.clone()).await;
    assert_eq!((status.as_str(), &answer["result"]["forced"]), ("200", &json!(true)));
    let (_, answer) = stage.call(Some("read"), "status", key).await;
    assert_eq!(answer["result"]["locked"], false);
    let audit = std::fs::read_to_string(stage.folder.path().join("audit.jsonl")).unwrap();
    let forced = audit.lines().filter(|line| line.contains(r#""call":"force_unlock""#)).count();
    assert!(forced >= 3, "the refused ones too: {audit}");
    assert!(audit.contains("Forrst force-release") && !audit.contains("s3cret-owner"), "{audit}");
}

/// A server in Python that serves the calls, and ends with this.
struct Upstream(Child, u16);

impl Upstream {
    fn start() -> Self {
        let script =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tenure-forrst/tests/gateway/upstream.py");
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().parse().unwrap())
    }

    fn line(&self) -> String {
        format!("upstream = 'http://127.0.0.1:{}/'", self.1)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lock(more: Value) -> Value {
    let mut options = json!({"key": "k", "ttl": {"value": 30, "unit": "second"}});
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        options[name] = value;
    }
    json!([{"urn": "urn:forrst:ext:atomicLock", "options": options}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_handed_on_only_for_those_who_may_lock_there() {
    let upstream = Upstream::start();
    let stage = Stage::with(&upstream.line(), "").await;
    let call = json!({"function": "test.echo", "arguments": {}});
    for extensions in [json!([]), lock(json!({}))] {
        for (token, status, told) in [
            ("acquire", "200", "none"),
            ("read", "403", "FORBIDDEN"),
            ("force", "403", "FORBIDDEN"),
            ("admin", "403", "FORBIDDEN"),
            ("elsewhere", "403", "FORBIDDEN"),
        ] {
            let (got, answer) = stage.send(Some(token), &call, extensions.clone()).await;
            assert_eq!((got.as_str(), code(&answer)), (status, told), "{token}: {answer}");
        }
        assert_eq!(stage.send(None, &call, extensions).await.0, "401");
    }
    let count = json!({"function": "test.count", "arguments": {}});
    let (_, answer) = stage.send(Some("acquire"), &count, json!([])).await;
    assert_eq!(answer["result"]["calls"]["test.echo"], 2, "those who may not reach nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_that_stay_count_for_their_client() {
    let upstream = Upstream::start();
    let stage = Stage::with(&upstream.line(), "[limits]\nlocks_per_client = 2").await;
    let call = json!({"function": "test.echo", "arguments": {}});
    // What is given back does not count.
    for _ in 0..5 {
        assert_eq!(stage.send(Some("acquire"), &call, lock(json!({}))).await.0, "200");
    }
    let mut owners = Vec::new();
    for at in 0..3 {
        let extensions = lock(json!({"key": format!("k{at}"), "auto_release": false}));
        let (status, answer) = stage.send(Some("acquire"), &call, extensions).await;
        let expected = if at < 2 { ("200", "none") } else { ("429", "RATE_LIMITED") };
        assert_eq!((status.as_str(), code(&answer)), expected, "{answer}");
        owners.push(answer["extensions"][0]["data"]["owner"].clone());
    }
    let released = json!({"key": "lock:test.echo:k0", "owner": owners[0]});
    assert_eq!(stage.call(Some("acquire"), "release", released).await.0, "200");
    assert_eq!(stage.send(Some("acquire"), &call, lock(json!({}))).await.0, "200");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_no_lock_can_be_in_is_refused_at_the_start() {
    for (line, named) in [
        ("store = 'nowhere'", "forrst.store"),
        ("namespace = 'not a name'", "forrst.namespace"),
        ("prefix = '\\u0007'", "forrst.prefix"),
        ("upstream = 'http://127.0.0.1:1/'\ntimeout = '0s'", "forrst.timeout"),
        ("upstream = 'nowhere'", "forrst.upstream"),
    ] {
        let line = line.replace('\'', "\"");
        let text = format!("stores.main.url = 'memory:'\nlisten = '127.0.0.1:0'\n[forrst]\n{line}");
        let failure = match Config::parse(&text) {
            Ok(config) => Running::start(config).await.err().unwrap(),
            Err(failure) => failure,
        };
        assert!(failure.message.contains(named), "{line}: {}", failure.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_a_name_are_told_apart_by_their_address() {
    let upstream = Upstream::start();
    let running = open_to_all(&upstream.line()).await;
    let call = json!({"function": "test.work", "arguments": {"ms": 15_000}});
    let mut extensions = lock(json!({}));
    let token = json!({"urn": "urn:forrst:ext:cancellation", "options": {"token": "t"}});
    extensions.as_array_mut().unwrap().push(token);
    let cancel = "urn:cline:forrst:ext:cancellation:fn:cancel";
    let cancel = document(&json!({"function": cancel, "arguments": {"token": "t"}}), &json!([]));
    let (long, one, two) = (document(&call, &extensions), "127.0.0.1", "127.0.0.2");
    let cancelling = async {
        let count = document(&json!({"function": "test.count", "arguments": {}}), &json!([]));
        let mut counted = Value::Null;
        for _ in 0..500 {
            (_, counted) = post(&running, &count, &[]).await;
            if counted["result"]["calls"]["test.work"] == 1 {
                break;
            }
        }
        assert_eq!(counted["result"]["calls"]["test.work"], 1, "{counted}");
        // Not known here, and so asked of the server behind, which knows no such function.
        let (_, answer) = post(&running, &cancel, &["--interface", two]).await;
        assert_eq!(code(&answer), "FUNCTION_NOT_FOUND", "{answer}");
        let (status, answer) = post(&running, &cancel, &["--interface", one]).await;
        assert_eq!(status, "200", "{answer}");
    };
    let from_one = ["--interface", one];
    let ((status, answer), ()) = tokio::join!(post(&running, &long, &from_one), cancelling);
    assert_eq!((status.as_str(), code(&answer)), ("499", "CANCELLED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_overtake_its_request() {
    let running = open_to_all("").await;
    let large = format!("{:?}", "x".repeat(1_200_000));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), large).unwrap();
    let body = format!("@{}", file.path().display());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for (kind, method, status) in [
            ("text/plain", "POST", "415"),
            ("application/json", "PUT", "405"),
            ("application/json", "POST", "413"),
        ] {
            let kind = format!("content-type: {kind}");
            let arguments =
                [version, "-X", method, "-H", &kind, "-H", "expect:", "--data-binary", &body];
            let (got, answer) = curl(&running, "forrst", &arguments).await;
            let told = (got.as_str(), code(&answer));
            assert_eq!(told, (status, "INVALID_REQUEST"), "{version} {method}");
        }
    }
}

/// How many operations the store was asked for, as the server counts them.
async fn operations(running: &Running) -> u64 {
    let (_, text) = fetched(running, "metrics", &[]).await;
    let counts = text.lines().filter(|line| line.starts_with("tenure_store_seconds_count"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_call_through_the_gateway_costs_two_round_trips_more_than_another() {
    let upstream = Upstream::start();
    let running = open_to_all(&upstream.line()).await;
    let call = json!({"function": "test.echo", "arguments": {}});
    let before = operations(&running).await;
    assert_eq!(post(&running, &document(&call, &json!([])), &[]).await.0, "200");
    assert_eq!(operations(&running).await, before);
    for _ in 0..10 {
        assert_eq!(post(&running, &document(&call, &lock(json!({}))), &[]).await.0, "200");
    }
    let cost = operations(&running).await - before;
    assert!((1..=20).contains(&cost), "{cost} for 10 calls");
}
