//! Garbage in, an answer out: bodies of JSON and of protocol buffers, broken at random.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::net::SocketAddr;

use tenure_api::tenure_v1::{LockRequest, Target, TryAcquireRequest, UnlockRequest};
use tenure_server::Running;
use tenure_server::config::Config;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use prost::Message;

/// How many broken requests each kind is sent.
const ROUNDS: u64 = 1500;

/// The same numbers for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }

    /// The bytes with some of them changed, doubled, cut out or put in.
    fn break_up(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut broken = bytes.to_vec();
        for _ in 0..=self.roll(4) {
            if broken.is_empty() {
                broken.push(0);
            }
            let at = self.roll(broken.len());
            match self.roll(5) {
                0 => broken[at] = u8::try_from(self.roll(256)).unwrap(),
                1 => broken.insert(at, br#"{}[]",:\0"#[self.roll(9)]),
                2 => broken.truncate(at),
                3 => drop(broken.remove(at)),
                _ => {
                    let tail = broken[at..].to_vec();
                    broken.extend(tail);
                }
            }
        }
        broken
    }
}

async fn server() -> Running {
    let text = "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\nlimits.wait_max = '1ms'\n";
    Running::start(Config::parse(text).unwrap()).await.unwrap()
}

/// Sends one request of HTTP/1.1 and reads the status of the answer.
async fn ask(address: SocketAddr, head: &str, body: &[u8]) -> u16 {
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    let head = format!(
        "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer to {body:?}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_json_is_answered_and_never_a_fault() {
    let running = server().await;
    let requests: [(&str, &[u8]); 3] = [
        ("POST /v1/locks/k", br#"{"ttl": "30s", "wait": "0s", "note": "n", "renewal": "client"}"#),
        ("PATCH /v1/locks/k", br#"{"lock_id": "0a1b", "ttl": "1m"}"#),
        ("DELETE /v1/locks/k", br#"{"lock_id": "0a1b", "force": false, "reason": "r"}"#),
    ];
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed);
        let (head, body) = requests[dice.roll(requests.len())];
        let body = dice.break_up(body);
        let status = ask(running.address(), head, &body).await;
        let text = String::from_utf8_lossy(&body);
        // 504: a wait that was broken into a longer one was over.
        assert!(status < 500 || status == 504, "seed {seed}: {status} for {head} {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_messages_are_answered_and_never_a_fault() {
    let running = server().await;
    let url = format!("http://{}", running.address());
    let channel = tonic::transport::Channel::from_shared(url).unwrap().connect().await.unwrap();
    let target = Some(Target { key: "k".into(), ..Target::default() });
    let requests = [
        (
            "/tenure.v1.LockService/Lock",
            LockRequest { target: target.clone(), immediate: true, ..LockRequest::default() }
                .encode_to_vec(),
        ),
        (
            "/tenure.v1.LockService/Unlock",
            UnlockRequest { target, lock_id: "x".into() }.encode_to_vec(),
        ),
        (
            "/tenure.v1.StoreService/TryAcquire",
            TryAcquireRequest { key: "t1/default/k".into(), ..TryAcquireRequest::default() }
                .encode_to_vec(),
        ),
    ];
    for seed in 0..ROUNDS {
        let mut dice = Dice(seed);
        let (path, body) = &requests[dice.roll(requests.len())];
        let body = dice.break_up(body);
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let request = tonic::Request::new(body.clone());
        let answer = grpc.unary(request, path.parse().unwrap(), Bytes).await;
        if let Err(status) = answer {
            let fault = matches!(status.code(), tonic::Code::Unknown | tonic::Code::DataLoss)
                || (status.code() == tonic::Code::Internal
                    && !status.message().contains("decode Protobuf"));
            assert!(!fault, "seed {seed}: {status} for {path} {body:?}");
        }
    }
    ask(running.address(), "GET /healthz", b"").await;
}

/// Messages as bytes, whatever is in them.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl tonic::codec::Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl tonic::codec::Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = tonic::Status;

    fn encode(
        &mut self,
        item: Vec<u8>,
        buffer: &mut tonic::codec::EncodeBuf<'_>,
    ) -> Result<(), tonic::Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl tonic::codec::Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = tonic::Status;

    fn decode(
        &mut self,
        buffer: &mut tonic::codec::DecodeBuf<'_>,
    ) -> Result<Option<Vec<u8>>, tonic::Status> {
        use bytes::Buf;
        let size = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(size).to_vec()))
    }
}
