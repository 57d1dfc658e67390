//! Locks that are held for as long as their answer is read, and events.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::curl::Server;

/// A curl that reads a stream, line by line. It is killed when it is dropped.
pub(crate) struct Stream {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

impl Stream {
    fn open(server: &Server, path: &str, arguments: &[&str]) -> Self {
        let mut command = server.command(path, arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    pub(crate) fn hold(server: &Server, body: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["-H", "accept: application/x-ndjson", "--data", body];
        arguments.extend(more);
        Self::open(server, "/v1/locks/k", &arguments)
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut lines = self.lines.take().unwrap();
        let (lines, line) = spawn_blocking(move || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            (lines, line)
        })
        .await
        .unwrap();
        self.lines = Some(lines);
        line
    }

    pub(crate) async fn next(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_holds_the_lock_until_its_reader_goes() {
    let server = Server::start().await;
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let mut first = Stream::hold(&server, r#"{"ttl": "30s"}"#, &[version]);
        let acquired = first.next().await;
        assert_eq!(acquired["type"], "acquired");
        let mut second = Stream::hold(&server, r#"{"ttl": "30s"}"#, &[version]);
        let waiting = second.next().await;
        assert_eq!((&waiting["type"], &waiting["ahead"]), (&"waiting".into(), &0.into()));
        drop(first);
        // At once, and not when the ttl of 30 seconds is over: curl gives up after that.
        let mut next = second.next().await;
        while next["type"] != "acquired" {
            next = second.next().await;
        }
        assert!(next["fence"].as_u64() > acquired["fence"].as_u64());
        drop(second);
        let free = server.post("/v1/locks/k", r#"{"wait": "20s"}"#).await;
        let unlock = format!(r#"{{"lock_id": "{}"}}"#, free.lock_id());
        server.delete("/v1/locks/k", &unlock).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lock_ends_the_stream_with_an_error() {
    let server = Server::start().await;
    let mut stream = Stream::hold(&server, r#"{"ttl": "2s"}"#, &[]);
    assert_eq!(stream.next().await["type"], "acquired");
    server.delete("/v1/locks/k", r#"{"force": true, "reason": "test"}"#).await;
    let last = stream.next().await;
    assert_eq!((&last["type"], &last["error"]["code"]), (&"error".into(), &"lost".into()));
    assert_eq!(stream.line().await, "", "nothing comes after the error");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_is_pinged() {
    let server = Server::with("[limits]\nping = '100ms'").await;
    let mut stream = Stream::hold(&server, "", &[]);
    assert_eq!(stream.next().await["type"], "acquired");
    assert_eq!(stream.next().await["type"], "ping");
    assert_eq!(stream.next().await["type"], "ping");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_before_the_stream_has_its_status() {
    let server = Server::start().await;
    let held = server.post("/v1/locks/k", "").await;
    assert_eq!(held.status, 201);
    let refused =
        [(r#"{"immediate": true}"#, 423), (r#"{"wait": "0s"}"#, 409), (r#"{"ttl": "1ms"}"#, 400)];
    for (body, status) in refused {
        let arguments = ["-H", "accept: application/x-ndjson", "--data", body];
        assert_eq!(server.curl("/v1/locks/k", &arguments).await.status, status, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_down_tells_its_streams_and_frees_their_locks() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}/locks.db", folder.path().display());
    let more = format!("default_store = 'disk'\n[stores.disk]\nurl = '{url}'");
    let server = Server::with(&more).await;
    let mut stream = Stream::hold(&server, "", &[]);
    assert_eq!(stream.next().await["type"], "acquired");
    let kept = server.post("/v1/locks/kept", "").await;
    assert_eq!(kept.status, 201);
    let Server { running, .. } = server;
    running.shutdown().await;
    let last = stream.next().await;
    assert_eq!(last["error"]["code"], "shutting_down");
    let server = Server::with(&more).await;
    for path in ["/v1/locks/k", "/v1/locks/kept"] {
        let reply = server.post(path, r#"{"immediate": true}"#).await;
        assert_eq!(reply.status, 201, "{path} was not given back: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_to_leave_its_locks_leaves_them_to_end_with_their_ttl() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}/locks.db", folder.path().display());
    let more =
        format!("default_store = 'disk'\non_shutdown = 'leave'\n[stores.disk]\nurl = '{url}'");
    let server = Server::with(&more).await;
    let mut stream = Stream::hold(&server, r#"{"ttl": "10m"}"#, &[]);
    assert_eq!(stream.next().await["type"], "acquired");
    let brief = server.post("/v1/locks/brief", r#"{"ttl": "1s"}"#).await;
    let kept = server.post("/v1/locks/kept", r#"{"ttl": "10m"}"#).await;
    let Server { running, .. } = server;
    running.shutdown().await;
    let server = Server::with(&more).await;
    let seen = server.get("/v1/locks/kept").await;
    assert_eq!((seen.status, seen.fence()), (200, kept.fence()));
    assert_eq!(server.post("/v1/locks/kept", r#"{"immediate": true}"#).await.status, 423);
    // Nobody renews it any more.
    let next = server.post("/v1/locks/brief", r#"{"wait": "20s"}"#).await;
    assert!(next.status == 201 && next.fence() > brief.fence(), "{next:?}");
    // What a stream held is given back all the same: whoever held it was told that it is over.
    assert_eq!(server.post("/v1/locks/k", r#"{"immediate": true}"#).await.status, 201);
    // The lock id is still good, at any server.
    let unlock = format!(r#"{{"lock_id": "{}"}}"#, kept.lock_id());
    assert_eq!(server.delete("/v1/locks/kept", &unlock).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_told_as_they_happen() {
    let server = Server::start().await;
    let mut events = Stream::open(&server, "/v1/events?prefix=job/", &[]);
    assert_eq!(events.line().await, ": watching\n");
    assert_eq!(events.line().await, "\n");
    server.post("/v1/locks/other/1", "").await.lock_id();
    server.post("/v1/locks/job/1", "").await.lock_id();
    assert_eq!(events.line().await, "event: granted\n");
    let data = events.line().await;
    let told: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(told["key"], "job/1");
    assert!(told["fence"].as_u64().is_some() && told["at"].as_str().is_some(), "{told}");
}
