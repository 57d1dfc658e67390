//! A gateway on locks in memory, and a server behind it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tenure::Locks;
use tenure_forrst::{Forrst, ForrstService, Gateway};
use tower::ServiceExt;

/// A server in Python, which ends with this.
pub(crate) struct Upstream {
    child: Child,
    port: u16,
}

impl Upstream {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway/upstream.py");
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Stage {
    pub(crate) locks: Locks,
    pub(crate) service: ForrstService,
    pub(crate) upstream: Option<Upstream>,
}

impl Stage {
    pub(crate) async fn new(timeout: Duration) -> Self {
        let upstream = Upstream::start();
        let url = format!("http://127.0.0.1:{}/rpc", upstream.port);
        Self { upstream: Some(upstream), ..Self::at(&url, timeout).await }
    }

    /// In front of whatever is at this URL.
    pub(crate) async fn at(url: &str, timeout: Duration) -> Self {
        let locks = Locks::open("memory:").await.unwrap();
        let gateway = Gateway::new(url).unwrap().timeout(timeout);
        let service = Forrst::new(locks.clone()).upstream(gateway).unwrap().service();
        Self { locks, service, upstream: None }
    }

    pub(crate) async fn send(&self, body: String) -> (u16, Value) {
        let (status, text) = self.sent(body).await;
        (status, serde_json::from_slice(&text).unwrap())
    }

    async fn sent(&self, body: String) -> (u16, Bytes) {
        let request = http::Request::post("/forrst")
            .header("content-type", "application/json")
            .header("authorization", "Bearer s3cret")
            .header("x-forrst-trace-id", "t1")
            .header("x-forrst-lock-fence", "999")
            // The same, to a server that turns headers into variables.
            .header("x-forrst-lock_fence", "999")
            .body(Full::new(body.into()))
            .unwrap();
        let response = self.service.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }

    pub(crate) async fn call(
        &self,
        function: &str,
        arguments: Value,
        extensions: Value,
    ) -> (u16, Value) {
        self.send(document(function, arguments, extensions)).await
    }

    /// The answer to a call, byte for byte.
    pub(crate) async fn text(&self, function: &str, arguments: Value, extensions: Value) -> String {
        let (_, text) = self.sent(document(function, arguments, extensions)).await;
        String::from_utf8(text.to_vec()).unwrap()
    }

    pub(crate) async fn count(&self, function: &str) -> u64 {
        let (_, answer) = self.call("test.count", json!({}), Value::Null).await;
        answer["result"]["calls"][function].as_u64().unwrap_or(0)
    }

    pub(crate) async fn is_locked(&self, function: &str) -> bool {
        self.locks.is_locked(&format!("lock:{function}:k")).await.unwrap()
    }
}

fn document(function: &str, arguments: Value, extensions: Value) -> String {
    let mut document = json!({
        "protocol": {"name": "forrst", "version": "0.1.0"},
        "id": "req_1",
        "call": {"function": function, "arguments": arguments},
        "context": {"caller": "a test"},
    });
    if !extensions.is_null() {
        document["extensions"] = extensions;
    }
    document.to_string()
}

pub(crate) fn lock(more: Value) -> Value {
    let mut options = json!({"key": "k", "ttl": {"value": 30, "unit": "second"}});
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        options[name] = value;
    }
    json!([{"urn": "urn:forrst:ext:atomicLock", "options": options}])
}

/// The lock extension, and others behind it.
pub(crate) fn lock_and(others: &[Value]) -> Value {
    let mut all = lock(json!({}));
    all.as_array_mut().unwrap().extend(others.iter().cloned());
    all
}

pub(crate) const LONG: Duration = Duration::from_secs(30);
