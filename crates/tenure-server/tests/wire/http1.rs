//! HTTP/1.1 by hand, with nothing between the bytes and the test.

use std::net::SocketAddr;
use std::time::Duration;

use tenure::clock::{SystemClock, within};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// No answer in these tests takes longer than this. It is far more than any should take.
const LIMIT: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Of a refusal only: what goes well may go on without end.
    pub(crate) body: String,
}

/// Sends one request and reads the head of its answer, and the rest if it is a refusal. Then it
/// goes away. `headers` are whole lines.
pub(crate) async fn ask(at: SocketAddr, request: &str, headers: &str, body: &[u8]) -> Reply {
    let answer = within(&SystemClock, LIMIT, exchange(at, request, headers, body)).await;
    answer.unwrap_or_else(|_| panic!("no answer to {request} {:?}", String::from_utf8_lossy(body)))
}

async fn exchange(at: SocketAddr, request: &str, headers: &str, body: &[u8]) -> Reply {
    let mut stream = BufReader::new(TcpStream::connect(at).await.unwrap());
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\ncontent-length: {}\r\n\
         {headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer to {request}: {line:?}"));
    let mut body = String::new();
    if status >= 300 {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        let rest = String::from_utf8(rest).unwrap();
        body = rest.split_once("\r\n\r\n").unwrap_or_default().1.to_owned();
    }
    Reply { status, body }
}
