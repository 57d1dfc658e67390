//! How many connections there may be, from one address and in all.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::task::block_in_place;

use super::{HOURS, start, wait_for_end};

const LIMIT: usize = 3;

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// Asks on this connection and waits so long for an answer.
fn is_served(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    asked.is_ok() && is_answered(stream)
}

/// Whether all of an answer without a body comes.
fn is_answered(stream: &mut TcpStream) -> bool {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return false;
        }
        answer.extend(byte);
    }
    answer.starts_with(b"HTTP/1.1 204")
}

/// Whether the server ends this connection within its read timeout.
pub(crate) fn is_ended(mut stream: TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_only_so_many_connections() {
    let running = start(&format!("[limits]\nconnections_per_address = {LIMIT}\n{HOURS}")).await;
    let address = running.address();
    block_in_place(|| {
        let mut kept: Vec<_> = (0..LIMIT).map(|_| connect(address)).collect();
        for stream in &mut kept {
            assert!(is_served(stream, SOON));
        }
        wait_for_end(connect(address));
        for stream in &mut kept {
            assert!(is_served(stream, SOON), "one that was there before was ended");
        }
        kept.pop();
        // The place is free when the server has seen the other go.
        let served = (0..200).any(|_| is_served(&mut connect(address), Duration::from_secs(2)));
        assert!(served, "a place that was given back is not given again");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_has_only_so_many_connections() {
    let running = start(&format!("[limits]\nconnections = {LIMIT}\n{HOURS}")).await;
    let address = running.address();
    block_in_place(|| {
        let mut kept: Vec<_> = (0..LIMIT).map(|_| connect(address)).collect();
        for stream in &mut kept {
            assert!(is_served(stream, SOON));
        }
        let mut waiting = connect(address);
        assert!(!is_served(&mut waiting, Duration::from_millis(500)), "one too many is served");
        kept.pop();
        waiting.set_read_timeout(Some(SOON)).unwrap();
        assert!(is_answered(&mut waiting), "it has waited for its turn in vain");
    });
}
