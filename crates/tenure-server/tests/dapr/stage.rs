//! A server in this process, and clients that hide nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure::Store;
use tenure::clock::{Clock, SystemClock, within};
use tenure_api::dapr_v1::dapr_client::DaprClient;
use tenure_server::api::{LockState, Place};
use tenure_server::config::Config;
use tenure_server::{Caller, Identity, Running};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tonic::transport::Channel;

/// No wait in these tests is longer than this. It is far more than any should take.
const LIMIT: Duration = Duration::from_secs(30);

/// A store for every way to make a key.
const STORES: &str = "
    listen = '127.0.0.1:0'
    default_store = 'lockstore'
    [stores]
    lockstore = { url = 'memory:' }
    by_name = { url = 'memory:', key_prefix = 'Name' }
    shared = { url = 'memory:', key_prefix = 'none' }
    team = { url = 'memory:', key_prefix = 'Team-A' }
    'a/b ü' = { url = 'memory:' }
    [limits]
    ping = '100ms'
    [dapr]
    http_port = 0
    grpc_port = 0
    app_id = 'app'
";

pub(crate) struct Stage {
    pub(crate) running: Running,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// What an error says.
    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap().to_owned()
    }

    /// Fails unless it is an error in Dapr's form with exactly this in it.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, code: &str, message: &str) {
        let expected = serde_json::json!({ "errorCode": code, "message": message });
        assert_eq!((self.status, self.json()), (status, expected));
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::of(Config::parse(STORES).unwrap()).await
    }

    /// With more of a configuration, as tables.
    pub(crate) async fn with(more: &str) -> Self {
        Self::of(Config::parse(&format!("{STORES}\n{more}")).unwrap()).await
    }

    pub(crate) async fn of(config: Config) -> Self {
        Self { running: Running::start(config).await.unwrap() }
    }

    /// On stores of the test's own.
    pub(crate) async fn on(config: Config, stores: BTreeMap<String, Arc<dyn Store>>) -> Self {
        Self { running: Running::start_with(config, stores).await.unwrap() }
    }

    pub(crate) async fn grpc(&self) -> DaprClient<Channel> {
        DaprClient::new(channel(self.running.dapr_grpc().unwrap()).await)
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.ask("POST", path, "", body).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &str) -> Reply {
        self.ask("DELETE", path, "", body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "", "").await
    }

    /// On Dapr's own port. `headers` are whole lines.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        ask(self.running.dapr_http().unwrap(), method, path, headers, body).await
    }

    pub(crate) async fn stream(&self, path: &str, body: &str) -> Lines {
        let accept = "accept: application/x-ndjson\r\n";
        let at = self.running.dapr_http().unwrap();
        Lines(BufReader::new(send(at, "POST", path, accept, body).await))
    }

    /// Who holds a key of the store's own.
    pub(crate) async fn holder(&self, store: &str, key: &str) -> Option<LockState> {
        let caller = Caller { identity: Identity::unrestricted("test"), peer: None };
        let (store, key) = (store.to_owned(), key.to_owned());
        let place = Place { store, key, ..Place::default() };
        self.running.api().get(&caller, &place).await.ok()
    }
}

/// An answer that is read line by line. Dropping it is going away.
pub(crate) struct Lines(BufReader<TcpStream>);

impl Lines {
    /// The next line that is JSON: heads and sizes of chunks are none. `None` at the end.
    pub(crate) async fn any(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            let read = within(&SystemClock, LIMIT, self.0.read_line(&mut line)).await;
            if read.expect("a line in time").unwrap() == 0 {
                return None;
            }
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).unwrap());
            }
        }
    }

    /// The next line that is no ping.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.any().await {
                Some(line) if line["type"] == "ping" => {}
                line => return line,
            }
        }
    }
}

pub(crate) async fn channel(at: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{at}")).unwrap().connect().await.unwrap()
}

pub(crate) async fn ask(
    at: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Reply {
    let mut stream = send(at, method, path, headers, body).await;
    let mut text = Vec::new();
    within(&SystemClock, LIMIT, stream.read_to_end(&mut text)).await.expect("an answer").unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

async fn send(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let size = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {size}\r\n\
         {headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

pub(crate) async fn pause(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let end = SystemClock.now() + LIMIT;
    while !ask().await {
        assert!(SystemClock.now() < end, "not within {LIMIT:?}: {what}");
        pause(Duration::from_millis(20)).await;
    }
}
