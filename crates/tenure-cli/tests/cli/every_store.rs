//! The commands on every store that there is, each on a real server.

use tenure_testkit::servers::{Kind, fresh_room, kinds};

use crate::sandbox::{Ran, Sandbox, until_said};

/// One kind of server for each store: what its variants differ in is not the command's business.
/// The server of our own is started as the command that it is.
fn stores() -> Vec<Kind> {
    let mut found: Vec<Kind> = Vec::new();
    for kind in kinds().into_iter().filter(|kind| kind.name != "remote") {
        let store = |kind: &Kind| kind.name.split('/').next().unwrap_or_default().to_owned();
        if !found.iter().any(|known| store(known) == store(&kind)) {
            found.push(kind);
        }
    }
    found
}

async fn run(sandbox: &Sandbox, url: &str, words: &[&str]) -> Ran {
    Ran::of(sandbox.tenure(words).env("TENURE_STORE", url).spawn().unwrap()).await
}

/// A lock is taken, seen, prolonged, given back, taken away and run under.
async fn all_commands(name: &str, url: &str) {
    let sandbox = Sandbox::new();
    let path = sandbox.path("owner").display().to_string();
    let acquire = ["acquire", "job", "--ttl", "20s", "--owner-file", &path, "--json"];
    let taken = run(&sandbox, url, &acquire).await;
    taken.expect(0, &[]);
    let taken: serde_json::Value = serde_json::from_str(&taken.stdout).unwrap();
    let status = run(&sandbox, url, &["status", "job", "--json"]).await;
    status.expect(0, &[]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["fence"], taken["fence"], "{name}");
    let held = run(&sandbox, url, &["run", "job", "--no-wait", "--", "touch", "ran"]).await;
    held.expect(75, &["held by"]);
    let list = run(&sandbox, url, &["list"]).await;
    assert!(list.stdout.contains("\njob "), "{name}: {list:?}");
    run(&sandbox, url, &["renew", "job", "--owner-file", &path]).await.expect(0, &[]);
    run(&sandbox, url, &["release", "job", "--owner-file", &path]).await.expect(0, &[]);
    run(&sandbox, url, &["status", "job"]).await.expect(1, &[]);

    let script = "echo $TENURE_FENCE > fence";
    run(&sandbox, url, &["run", "job", "--", "sh", "-c", script]).await.expect(0, &[]);
    let fence: u64 = sandbox.line("fence").await.trim().parse().unwrap();
    assert!(fence > taken["fence"].as_u64().unwrap(), "{name}: {fence} after {taken}");
    assert!(!sandbox.path("ran").exists(), "{name}");

    run(&sandbox, url, &["acquire", "job", "--ttl", "20s"]).await.expect(0, &[]);
    let force = ["force-release", "job", "--reason", "a test", "--yes"];
    run(&sandbox, url, &force).await.expect(0, &[]);
    run(&sandbox, url, &["run", "job", "--no-wait", "--", "true"]).await.expect(0, &[]);
    let doctor = run(&sandbox, url, &["doctor", "--json"]).await;
    let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    assert!(["F", "E"].iter().any(|class| doctor["class"] == *class), "{name}: {doctor}");
}

#[tokio::test]
async fn every_command_works_on_every_store() {
    let mut ran = Vec::new();
    for kind in stores() {
        let service = (kind.start)().unwrap();
        all_commands(kind.name, &service.url(fresh_room(), None)).await;
        ran.push(kind.name.split('/').next().unwrap());
    }
    ran.sort_unstable();
    assert_eq!(ran, ["etcd", "nats", "object", "postgres", "redis"]);
}

#[cfg(feature = "remote")]
#[tokio::test]
async fn every_command_works_on_a_server() {
    let sandbox = Sandbox::new();
    let mut server = sandbox.tenure(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let said = until_said(&mut server, "serving on http://").await;
    let address = said.split("http://").nth(1).unwrap().trim();
    all_commands("remote", &format!("tenure://{address}")).await;
    server.kill().await.unwrap();
}

#[tokio::test]
async fn every_command_works_on_a_file() {
    let sandbox = Sandbox::new();
    all_commands("file", &sandbox.url()).await;
}
