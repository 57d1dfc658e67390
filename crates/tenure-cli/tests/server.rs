//! `tenure serve` as a process: killed and started again, signalled, and watched for secrets.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{
    Acquired, HoldRequest, HoldResponse, LockRequest, Renewal, Target, hold_response::Event,
};
use tenure_api::time::to_wire;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

/// A server process in a folder of its own.
struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    fn start(folder: &Path, port: u16, more: &[&str]) -> Self {
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(more)
            .env("XDG_DATA_HOME", folder)
            .env("TENURE_LOG", "trace")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, port, folder: folder.to_owned() }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    async fn client(&self) -> LockServiceClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port)).unwrap();
        for _ in 0..400 {
            if let Ok(channel) = endpoint.connect().await {
                return LockServiceClient::new(channel);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the server does not answer: {}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn target(key: &str) -> Option<Target> {
    Some(Target { key: key.into(), ..Target::default() })
}

async fn acquired(stream: &mut Streaming<HoldResponse>) -> Acquired {
    loop {
        match stream.message().await.unwrap().unwrap().event.unwrap() {
            Event::Acquired(acquired) => return acquired,
            Event::Waiting(_) | Event::Ping(_) => {}
        }
    }
}

/// Nothing that a dead server held is granted before its ttl is over, all of it is afterwards, and
/// fences grow.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_with_a_thousand_streams_keeps_its_promises() {
    const STREAMS: usize = 1000;
    let ttl = Duration::from_secs(8);
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut server = Server::start(folder.path(), port, &[]);
    let client = server.client().await;
    let mut held = Vec::new();
    for number in 0..STREAMS {
        let request = HoldRequest {
            target: target(&format!("job/{number}")),
            ttl: Some(to_wire(ttl)),
            ..HoldRequest::default()
        };
        let mut stream = client.clone().hold(request).await.unwrap().into_inner();
        let fence = acquired(&mut stream).await.fence;
        held.push((stream, fence));
    }
    server.kill();
    let killed = std::time::Instant::now();
    for (stream, _) in &mut held {
        // What was still on its way may come first.
        while stream.message().await.is_ok_and(|message| message.is_some()) {}
    }
    let server = Server::start(folder.path(), port, &[]);
    let client = server.client().await;
    let ask = |number: usize, wait: Duration| {
        let mut client = client.clone();
        let request = LockRequest {
            target: target(&format!("job/{number}")),
            wait: Some(to_wire(wait)),
            renewal: Renewal::Client.into(),
            ..LockRequest::default()
        };
        async move { client.lock(request).await }
    };
    let refused = ask(0, Duration::ZERO).await;
    // A third of the ttl may have passed since the last renewal, and the restart took its time.
    if killed.elapsed() < ttl / 2 {
        assert_eq!(refused.unwrap_err().code(), Code::Aborted);
    }
    let waits: Vec<_> =
        (0..STREAMS).map(|number| tokio::spawn(ask(number, Duration::from_secs(60)))).collect();
    for (wait, (_, fence)) in waits.into_iter().zip(&held) {
        let granted = wait.await.unwrap().unwrap().into_inner();
        assert!(granted.fence > *fence, "{} after {fence}", granted.fence);
    }
}

/// A client that is killed, and one whose connection is cut, free their locks at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_frees_its_lock_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), free_port(), &[]);
    let mut client = server.client().await;
    let url = format!("http://127.0.0.1:{}/v1/locks/k", server.port);
    let mut curl = Command::new("curl")
        .args(["--silent", "--no-buffer", "-H", "accept: application/x-ndjson"])
        .args(["--data", r#"{"ttl": "10m"}"#, &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(curl.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert!(line.contains("acquired"), "{line}");
    curl.kill().unwrap();
    curl.wait().unwrap();
    let wait = Some(to_wire(Duration::from_secs(30)));
    client.lock(LockRequest { target: target("k"), wait, ..LockRequest::default() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_cleanly_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut server = Server::start(folder.path(), port, &[]);
    let mut client = server.client().await;
    client.lock(LockRequest { target: target("k"), ..LockRequest::default() }).await.unwrap();
    drop(client);
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success(), "{}", server.log());
    let server = Server::start(folder.path(), port, &[]);
    let request = LockRequest { target: target("k"), immediate: true, ..LockRequest::default() };
    server.client().await.lock(request).await.unwrap();
}

/// No secret that a client or the configuration brings in comes out again: not in the log at its
/// most talkative, not in an error, not in the metrics, not in the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_comes_out() {
    const TOKEN: &str = "canary-token-5f1e";
    const LOCK_ID: &str = "canary-lock-id-9a2b";
    let folder = tempfile::tempdir().unwrap();
    let digest = Command::new("sh")
        .args(["-c", &format!("printf %s {TOKEN} | sha256sum | cut -d' ' -f1")])
        .output()
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let audit = folder.path().join("audit.jsonl");
    let config = format!(
        "stores.main.url = 'file:{}'\n[audit]\nfile = '{}'\nreads = true\n[[tokens]]\nname = 'a'\n\
         sha256 = '{}'\ngrants = [{{ namespace = '*', verbs = ['acquire', 'read', 'list', \
         'admin'] }}]\n",
        folder.path().join("locks.db").display(),
        audit.display(),
        digest.trim()
    );
    let path = folder.path().join("tenure.toml");
    fs::write(&path, config).unwrap();
    let server = Server::start(folder.path(), free_port(), &["--config", path.to_str().unwrap()]);
    server.client().await;
    let mut said = String::new();
    let url = format!("http://127.0.0.1:{}", server.port);
    let id = format!(r#"{{"lock_id": "{LOCK_ID}"}}"#);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let wrong = format!("authorization: Bearer {TOKEN}x");
    let dapr = format!("dapr-api-token: {TOKEN}");
    let header = format!("tenure-lock-id: {LOCK_ID}");
    let broken = format!(r#"{{"lock_id": "{LOCK_ID}", "nonsense": "{LOCK_ID}"}}"#);
    let cases: &[(&str, &str, &[&str])] = &[
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", &id]),
        ("POST", "/v1/locks/k", &["-H", &dapr, "--data", &id]),
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", r#"{"immediate": true}"#]),
        ("POST", "/v1/locks/k", &["-H", &bearer, "--data", &broken]),
        ("POST", "/v1/locks/k", &["-H", &wrong, "--data", &id]),
        ("GET", "/v1/locks/k", &["-H", &bearer]),
        ("GET", "/v1/locks", &["-H", &bearer]),
        ("PATCH", "/v1/locks/k", &["-H", &bearer, "-H", &header, "--data", "{}"]),
        ("PATCH", "/v1/locks/none", &["-H", &bearer, "--data", &id]),
        ("DELETE", "/v1/locks/other", &["-H", &bearer, "--data", &id]),
        ("DELETE", "/v1/locks/k", &["-H", &bearer, "-H", &header]),
        ("GET", "/metrics", &["-H", &bearer]),
        ("GET", "/v1/stores", &["-H", &bearer]),
    ];
    for (method, path, more) in cases {
        let output = Command::new("curl")
            .args(["--silent", "--max-time", "20", "-X", method])
            .args(*more)
            .arg(format!("{url}{path}"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Whoever chose the lock id is told it back with the grant.
        if !text.contains("\"ttl_ms\"") || !text.contains("\"lock_id\"") {
            said += &text;
        }
    }
    said += &server.log();
    said += &fs::read_to_string(&audit).unwrap();
    assert!(said.contains("wrong_owner") || said.contains("not_found"), "{said}");
    for secret in [TOKEN, LOCK_ID] {
        let found = said.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{secret} came out");
    }
}
