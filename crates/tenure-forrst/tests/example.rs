//! The example of the documentation: short, and it runs. `cargo test` builds it, unless it is told
//! to build only a test.

#![allow(clippy::unwrap_used, missing_docs)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::{Value, json};

/// A process that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_is_a_complete_service_in_thirty_lines() {
    let lines = include_str!("../examples/payments.rs").lines().count();
    assert!(lines <= 30, "{lines}");
}

#[test]
fn it_serves_calls_under_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut example = Command::new(example());
    example.arg(free.to_string()).current_dir(folder.path());
    let _running = Running(example.spawn().unwrap());
    for (amount, told) in
        [(100, json!({"charged": "u", "amount": 100, "fence": 1})), (0, json!(null))]
    {
        let document = json!({
            "protocol": {"name": "forrst", "version": "0.1.0"},
            "id": "req_001",
            "call": {
                "function": "payments.charge",
                "arguments": {"user_id": "u", "amount": amount},
            },
            "extensions": [{
                "urn": "urn:forrst:ext:atomicLock",
                "options": {"key": "user:123", "ttl": {"value": 30, "unit": "second"}},
            }],
        });
        let answer = post(&format!("http://{free}/forrst"), &document);
        assert_eq!(answer["result"], told, "{answer}");
        assert_eq!(answer["extensions"][0]["data"]["acquired"], true, "{answer}");
    }
}

fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().with_file_name("examples").join("payments")
}

fn post(url: &str, document: &Value) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--retry", "50", "--retry-connrefused", "--retry-delay", "1"]).args([
        "--header",
        "content-type: application/json",
        "--data",
        &document.to_string(),
        url,
    ]);
    let output = curl.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}
