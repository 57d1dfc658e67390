//! Connections: how many there may be, how long they may dawdle, and those that are encrypted.

#![allow(clippy::unwrap_used)]

mod dawdling;
mod encrypted;
mod limits;

use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tenure_server::Running;
use tenure_server::config::Config;

/// How many connections dawdle at once.
const COUNT: usize = 1000;

/// Settings under which nothing is closed for taking its time, apart from what a test adds: what
/// closes a connection all the same is what the test is about.
const HOURS: &str = "header_timeout = '2h'\nidle_timeout = '2h'\n";

async fn start(text: &str) -> Running {
    let text = format!("listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n{text}");
    Running::start(Config::parse(&text).unwrap()).await.unwrap()
}

fn curl(arguments: &[String]) -> (bool, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", "--write-out", "%{http_code}"])
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Returns when the server has closed this connection.
fn wait_for_end(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut rest = Vec::new();
    // A reset is an end too; only silence is not.
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}
