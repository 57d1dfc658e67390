//! Signals: the clean end, and reading anew.

use rustix::process::Signal;
use tenure_api::tenure_v1::LockRequest;
use tenure_testkit::servers::free_port;

use super::process::{Server, target, token, until};

const ALL: &str = "[{ namespace = '*', verbs = ['acquire', 'read', 'list', 'admin'] }]";

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_cleanly_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().unwrap();
    let mut server = Server::start(folder.path(), port, &[]);
    let mut client = server.client().await;
    client.lock(LockRequest { target: target("k"), ..LockRequest::default() }).await.unwrap();
    drop(client);
    assert!(server.end().success(), "{}", server.log());
    let server = Server::start(folder.path(), port, &[]);
    let request = LockRequest { target: target("k"), immediate: true, ..LockRequest::default() };
    server.client().await.lock(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_read_anew_on_hangup() {
    let folder = tempfile::tempdir().unwrap();
    let config = |secret: &str| format!("stores.main.url = 'memory:'\n{}", token("a", secret, ALL));
    let server = Server::configured(folder.path(), &config("old"), &[]);
    server.channel().await;
    let ask = |secret: &str| {
        let bearer = format!("authorization: Bearer {secret}");
        let status = ["-o", "/dev/null", "-w", "%{http_code}", "-H", &bearer];
        server.curl("/v1/locks", &status)
    };
    assert_eq!((&*ask("old"), &*ask("new")), ("200", "401"));

    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, config("new")).unwrap();
    server.signal(Signal::HUP);
    until("the new token is known", async || ask("new") == "200").await;
    assert_eq!(ask("old"), "401", "the old token is still known");

    std::fs::write(&file, "this is no configuration").unwrap();
    server.signal(Signal::HUP);
    let refused = "everything stays as it was";
    until("the failure is told", async || server.log().contains(refused)).await;
    assert_eq!((&*ask("old"), &*ask("new")), ("401", "200"));
}

/// One that only knows JSON can read all of it.
#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_a_log_in_json_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::configured(
        folder.path(),
        "stores.main.url = 'memory:'\ndapr.http_port = 0\n",
        &["--log-json"],
    );
    server.channel().await;
    assert!(server.curl("/v1/locks/k", &["--data", "{}"]).contains("lock_id"));
    server.signal(Signal::HUP);
    let anew = "were read anew";
    until("the reload is told", async || server.log().contains(anew)).await;
    assert!(server.end().success());
    let log = server.log();
    for line in log.lines() {
        let told: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "target"] {
            assert!(told[field].is_string(), "{field} in {line}");
        }
    }
    for part in ["serving on http://", "Dapr's API over HTTP", anew, "going down"] {
        assert!(log.contains(part), "{part} is not told");
    }
}
