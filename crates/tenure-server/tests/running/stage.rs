//! A server in this process, and a client that hides nothing.

use std::time::Duration;

use tenure::clock::{SystemClock, within};
use tenure_server::api::{Order, Place};
use tenure_server::config::Config;
use tenure_server::{Caller, Identity, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No wait in these tests is longer than this. It is far more than any should take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The SHA-256 of `s3cret`.
pub(crate) const DIGEST: &str = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";

pub(crate) fn config(more: &str) -> Config {
    Config::parse(&format!("listen = '127.0.0.1:0'\nstores.lockstore.url = 'memory:'\n{more}"))
        .unwrap()
}

/// With whoever brings the token `s3cret`, and no one else.
pub(crate) fn guarded(verbs: &str) -> String {
    format!(
        "[[tokens]]\nname = 'a'\nsha256 = '{DIGEST}'\n\
         grants = [{{ namespace = '*', verbs = {verbs} }}]\n"
    )
}

pub(crate) async fn start(more: &str) -> Running {
    Running::start(config(more)).await.unwrap()
}

pub(crate) fn anyone() -> Caller {
    Caller { identity: Identity::unrestricted("test"), peer: None }
}

pub(crate) fn order(key: &str) -> Order {
    Order { place: place(key), ..Order::default() }
}

pub(crate) fn place(key: &str) -> Place {
    Place { key: key.into(), ..Place::default() }
}

/// Fails when it takes too long.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    within(&SystemClock, LIMIT, work).await.expect("it takes too long")
}

/// Returns when this is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Sends this and reads all that comes back until the connection is closed.
pub(crate) async fn say(running: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(running.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    // A reset is an end too.
    let _ = soon(stream.read_to_end(&mut said)).await;
    String::from_utf8_lossy(&said).into_owned()
}

/// Asks with these headers, and reads the answer.
pub(crate) async fn ask(running: &Running, line: &str, headers: &str, body: &str) -> String {
    let size = body.len();
    let head = format!("{line} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {size}");
    say(running, &format!("{head}\r\n\r\n{body}")).await
}
