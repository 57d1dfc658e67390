//! Spans, as a collector gets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::process::Server;

/// Takes what is sent to it by OpenTelemetry's protocol over HTTP, and keeps it.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bodies = Arc::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || take(&stream.unwrap(), &kept));
            }
        });
        Self { url, bodies }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        self.bodies.lock().unwrap().windows(bytes.len()).any(|window| window == bytes)
    }
}

/// All requests of one connection.
fn take(stream: &TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut size = 0;
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        assert!(first.starts_with("POST /v1/traces "), "{first}");
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim_end().to_lowercase();
            if let Some(length) = line.strip_prefix("content-length: ") {
                size = length.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; size];
        reader.read_exact(&mut body).unwrap();
        kept.lock().unwrap().extend(body);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n\
                       content-length: 0\r\n\r\n";
        (&*stream).write_all(answer).unwrap();
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_are_sent_within_the_trace_of_the_caller() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";
    const UNWANTED: &str = "11111111111111111111111111111111";
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let config = format!("stores.main.url = 'memory:'\n[trace]\notlp = '{}'\n", collector.url);
    let mut server = Server::configured(folder.path(), &config, &[]);
    server.channel().await;
    for (trace, sampled) in [(TRACE, "01"), (UNWANTED, "00")] {
        let parent = format!("traceparent: 00-{trace}-{PARENT}-{sampled}");
        let granted = server.curl("/v1/locks/secret-key", &["-H", &parent, "--data", "{}"]);
        let id = granted.split('"').nth(7).unwrap_or_else(|| panic!("{granted}"));
        let header = format!("tenure-lock-id: {id}");
        server.curl("/v1/locks/secret-key", &["-X", "DELETE", "-H", &header]);
    }
    assert!(server.end().success(), "{}", server.log());
    assert!(collector.has(&bytes(TRACE)), "no span is in the caller's trace");
    assert!(collector.has(&bytes(PARENT)), "no span has the caller's as its parent");
    assert!(!collector.has(&bytes(UNWANTED)), "the caller wanted no spans");
    for part in ["tenure", "request", "store", "try_acquire", "/v1/locks/{*key}"] {
        assert!(collector.has(part.as_bytes()), "{part} is not told");
    }
    assert!(!collector.has(b"secret-key"), "a key came out");
}
