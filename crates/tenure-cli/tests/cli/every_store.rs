//! The commands on every store that there is, each on a real server.

use tenure_testkit::servers::{Kind, fresh_room, kinds};

use crate::sandbox::{Printed, Ran, Sandbox, json};

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
    looks_and_trials(name, &sandbox, url).await;
}

/// What goes on for a while, and what tries the store out.
async fn looks_and_trials(name: &str, sandbox: &Sandbox, url: &str) {
    let watch = ["watch", "office", "--json"];
    let mut watch = sandbox.tenure(&watch).env("TENURE_STORE", url).spawn().unwrap();
    let mut seen = Printed::by(&mut watch);
    assert_eq!(seen.json().await["event"], "free", "{name}");
    // It holds until the watch has seen it: some stores are looked at only now and then.
    sandbox.gate();
    let elect = ["elect", "office", "--ttl", "5s", "--", "cat", "gate"];
    let leader = sandbox.tenure(&elect).env("TENURE_STORE", url).spawn().unwrap();
    assert_eq!(seen.json().await["event"], "granted", "{name}");
    sandbox.open_gate();
    Ran::of(leader).await.expect(0, &[]);
    assert_eq!(seen.json().await["event"], "free", "{name}");
    watch.kill().await.unwrap();

    let doctor = run(sandbox, url, &["doctor", "--json"]).await;
    let report = json(&doctor.stdout);
    let code = if report["class"] == "F" { 0 } else { 1 };
    assert_eq!(doctor.code, Some(code), "{name}: {doctor:?}");
    assert!(code == 0 || report["class"] == "E", "{name}: {report}");

    let verify = ["verify", "--for", "2s", "--ttl", "2s", "--workers", "2", "--keys", "2"];
    run(sandbox, url, &verify).await.expect(0, &[]);
    let bench = run(sandbox, url, &["bench", "--seconds", "1", "--only", "cycle", "--json"]).await;
    bench.expect(0, &[]);
    assert!(json(&bench.stdout)["results"][0]["count"].as_u64() > Some(0), "{name}: {bench:?}");
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
    let (mut server, url) = sandbox.serve("127.0.0.1:0").await;
    all_commands("remote", &url).await;
    server.kill().await.unwrap();
}

#[tokio::test]
async fn every_command_works_on_a_file() {
    let sandbox = Sandbox::new();
    all_commands("file", &sandbox.url()).await;
}
