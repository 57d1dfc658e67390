//! Connections that say nothing, or half of it, or nothing more.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use tokio::task::block_in_place;

use super::{COUNT, HOURS, curl, start, wait_for_end};

/// What a client may leave it at.
const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ",
    // HTTP/2 is told by its first bytes: half of them, and all of them.
    b"PRI * HTTP/2.0\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
];

fn begun(address: SocketAddr, beginning: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(beginning).unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_half_open_connections_do_not_stop_service_and_are_ended() {
    let running = start("[limits]\nheader_timeout = '5s'\nidle_timeout = '2h'").await;
    let address = running.address();
    block_in_place(|| {
        let beginnings = BEGINNINGS.iter().cycle().take(COUNT);
        let dawdling: Vec<_> = beginnings.map(|beginning| begun(address, beginning)).collect();
        let url = format!("http://{address}/v1/locks/k");
        let (done, text) = curl(&[url, "--data".into(), String::new()]);
        assert!(done && text.ends_with("201"), "{text}");
        dawdling.into_iter().for_each(wait_for_end);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_ends_the_connection() {
    let running = start("[limits]\nheader_timeout = '200ms'\nidle_timeout = '2h'").await;
    let address = running.address();
    block_in_place(|| {
        for beginning in BEGINNINGS {
            wait_for_end(begun(address, beginning));
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_has_nothing_more_to_say_is_ended() {
    let running = start("[limits]\nheader_timeout = '2h'\nidle_timeout = '300ms'").await;
    let address = running.address();
    block_in_place(|| {
        wait_for_end(begun(address, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_the_idle_timeout() {
    let running = start("[limits]\nidle_timeout = '100ms'\nping = '100ms'").await;
    let url = format!("http://{}/v1/locks/k", running.address());
    let output = block_in_place(|| {
        Command::new("curl")
            .args(["--silent", "--no-buffer", "--max-time", "2", "--data", ""])
            .args(["-H", "accept: application/x-ndjson", &url])
            .output()
            .unwrap()
    });
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.matches("ping").count() > 5, "{text}");
}

/// The settings that all of the other tests lean on.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_hours_is_left_alone() {
    let running = start(&format!("[limits]\n{HOURS}")).await;
    let address = running.address();
    block_in_place(|| {
        for beginning in BEGINNINGS {
            let stream = begun(address, beginning);
            stream.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
            assert!(!super::limits::is_ended(stream), "{beginning:?}");
        }
    });
}
