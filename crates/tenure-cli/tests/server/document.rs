//! The server against the document that it serves, with programs that know nothing else of it.

use std::fs;
use std::process::{Command, Stdio};

use tenure::clock::{SystemClock, within};
use tenure_testkit::servers::place;

use super::process::{LIMIT, Server};

/// Waits are short, because most requests that are made up find the key held.
const CONFIG: &str = "stores.main.url = 'memory:'\n[limits]\nwait_max = '50ms'\nping = '100ms'\n";

/// Every check but one: what the document allows may still be refused, because it cannot say all.
/// A duration has bounds, a key is limited in bytes and not in characters, and a lock id has to be
/// in the body or in the header.
const CHECKS: &str = "
[checks.positive_data_acceptance]
enabled = false

# A wait that is over is a 504.
[checks.not_a_server_error]
expected-statuses = [\"2xx\", \"3xx\", \"4xx\", 504]
";

/// Nothing of the user's own: only what is pinned.
fn python() -> Command {
    let mut python = Command::new("python3");
    python.arg("-S").env("PYTHONPATH", place::python().unwrap()).stdin(Stdio::null());
    python
}

async fn run(python: Command) -> String {
    let mut command = tokio::process::Command::from(python);
    let output = command.kill_on_drop(true).output();
    let output = within(&SystemClock, LIMIT * 2, output).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}\n{complained}");
    said
}

/// How many the document has.
fn operations() -> usize {
    let document: serde_json::Value = serde_json::from_str(tenure_api::OPENAPI).unwrap();
    let items = document["paths"].as_object().unwrap().values();
    items
        .flat_map(|item| item.as_object().unwrap().keys())
        .filter(|key| *key != "parameters")
        .count()
}

/// Another `SEED` makes up other requests.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_requests_are_answered_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::configured(folder.path(), CONFIG, &[]);
    server.channel().await;
    let checks = folder.path().join("schemathesis.toml");
    fs::write(&checks, CHECKS).unwrap();
    let mut schemathesis = python();
    schemathesis
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(checks)
        .args(["run", &server.url("/v1/openapi.json"), "--max-examples", "40"])
        .args(["--seed", &std::env::var("SEED").unwrap_or_else(|_| "1".to_owned())])
        // A stream of events does not end.
        .args(["--exclude-path", "/v1/events", "--request-timeout", "20"])
        .current_dir(folder.path());
    let said = run(schemathesis).await;
    // All but the events, and the document itself.
    let tested = format!("Tested: {}\n", operations() - 2);
    for part in [&*tested, "✅ Coverage", "✅ Fuzzing", "✅ Stateful"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::configured(folder.path(), CONFIG, &[]);
    server.channel().await;
    let mut python = python();
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/streams.py")).arg(server.url(""));
    assert_eq!(run(python).await, "all is well\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_generated_code_uses_what_the_server_tells_of_its_services() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::configured(folder.path(), CONFIG, &[]);
    server.channel().await;
    let mut python = python();
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/reflection.py"));
    python.arg(format!("127.0.0.1:{}", server.port));
    assert_eq!(run(python).await, "all is well\n");
}
