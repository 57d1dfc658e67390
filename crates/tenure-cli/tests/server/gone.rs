//! Clients that go, each in another way: what their streams held is free again, by when the
//! documents say.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tempfile::TempDir;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{HoldRequest, LockRequest};
use tenure_api::time::to_wire;
use tenure_testkit::proxy::Proxy;
use tonic::transport::{Channel, Endpoint};

use super::process::{Server, acquired, pid, target};

const PING: Duration = Duration::from_secs(1);

/// The lock is free within so many pings, on a machine that has nothing else to do.
const SILENT_HTTP1: u32 = 4;
const SILENT_HTTP2: u32 = 2;

/// What a busy machine may add.
const PATIENCE: Duration = Duration::from_secs(8);

struct Stage {
    server: Server,
    _folder: TempDir,
}

impl Stage {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config =
            format!("stores.main.url = 'memory:'\n[limits]\nping = '{}s'\n", PING.as_secs());
        let server = Server::configured(folder.path(), &config, &[]);
        Self { server, _folder: folder }
    }

    /// Takes the lock as soon as it is free, which must be within `limit` of `since`. Its ttl is
    /// far longer.
    async fn is_free_within(&self, since: Moment, limit: Duration) {
        let wait = Some(to_wire(limit + PATIENCE));
        let lock = LockRequest { target: target("k"), wait, ..LockRequest::default() };
        let granted = self.server.client().await.lock(lock).await;
        let took = SystemClock.now().since(since);
        assert!(granted.is_ok(), "not free after {took:?}: {granted:?}");
        assert!(took < limit + PATIENCE, "{took:?}");
    }

    fn curl(&self, version: &str) -> Child {
        let mut command = Command::new("curl");
        command.args(["--silent", "--no-buffer", version, "-H", "accept: application/x-ndjson"]);
        command.args(["--data", r#"{"ttl": "10m"}"#, &self.server.url("/v1/locks/k")]);
        holding(command)
    }
}

/// A program that holds the lock and says so in a line.
fn holding(mut command: Command) -> Child {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.contains("acquired"), "{line:?}");
    child.stdout = Some(out.into_inner());
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

async fn client(at: SocketAddr) -> LockServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
    LockServiceClient::new(endpoint.connect().await.unwrap())
}

/// Holds the lock through a proxy.
async fn through(proxy: &Proxy) -> tonic::Streaming<tenure_api::tenure_v1::HoldResponse> {
    let ttl = Some(to_wire(Duration::from_secs(600)));
    let hold = HoldRequest { target: target("k"), ttl, ..HoldRequest::default() };
    let mut stream = client(proxy.address()).await.hold(hold).await.unwrap().into_inner();
    acquired(&mut stream).await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_killed_frees_its_lock_at_once() {
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let stage = Stage::start();
        stage.server.channel().await;
        let curl = stage.curl(version);
        kill(curl);
        stage.is_free_within(SystemClock.now(), Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_frees_its_lock_at_once() {
    for reset in [false, true] {
        let stage = Stage::start();
        stage.server.channel().await;
        let proxy = Proxy::start(([127, 0, 0, 1], stage.server.port).into(), 0).await.unwrap();
        let _stream = through(&proxy).await;
        if reset {
            proxy.reset()
        } else {
            proxy.cut()
        }
        stage.is_free_within(SystemClock.now(), Duration::ZERO).await;
    }
}

/// Nobody answers any more, but the connection stands: a load balancer that has forgotten it.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_http2_that_falls_silent_frees_its_lock_after_two_pings() {
    let stage = Stage::start();
    stage.server.channel().await;
    let proxy = Proxy::start(([127, 0, 0, 1], stage.server.port).into(), 0).await.unwrap();
    let _stream = through(&proxy).await;
    proxy.half_open();
    stage.is_free_within(SystemClock.now(), PING * SILENT_HTTP2).await;
}

/// A client that does not run any more, and whose machine does.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_http2_that_is_stopped_frees_its_lock_after_two_pings() {
    let stage = Stage::start();
    stage.server.channel().await;
    let curl = stage.curl("--http2-prior-knowledge");
    kill_process(pid(&curl), Signal::STOP).unwrap();
    stage.is_free_within(SystemClock.now(), PING * SILENT_HTTP2).await;
    kill(curl);
}

/// The client's machine is gone: nothing that is sent to it is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_http1_whose_machine_is_gone_frees_its_lock_after_four_pings() {
    let stage = Stage::start();
    stage.server.channel().await;
    let mut python = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/vanish.py");
    python.args(["-S", script, &stage.server.port.to_string()]);
    let python = holding(python);
    stage.is_free_within(SystemClock.now(), PING * SILENT_HTTP1).await;
    kill(python);
}
