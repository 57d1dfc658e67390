//! What the audit log has of real requests.

use serde_json::Value;

use super::curl::Server;

/// Of `s3cret`.
const DIGEST: &str = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";

async fn audited(folder: &tempfile::TempDir, keys: &str) -> Server {
    let file = folder.path().join("audit.jsonl");
    let more = format!(
        "[audit]\nfile = '{}'\nkeys = '{keys}'\n[[tokens]]\nname = 'ops'\nsha256 = '{DIGEST}'\n\
         grants = [{{ namespace = 'jobs', verbs = ['acquire', 'force'] }}]\n",
        file.display()
    );
    Server::with(&more).await.with_token("s3cret")
}

fn lines(folder: &tempfile::TempDir) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of one call.
fn of(call: &str, lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["call"] == call).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn force_is_in_it_before_and_after_with_who_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let server = audited(&folder, "plain").await;
    let path = "/v1/locks/nightly?namespace=jobs";
    let fence = server.post(path, "").await.fence();
    let force = r#"{"force": true, "reason": "its host is gone"}"#;
    assert_eq!(server.delete(path, force).await.status, 200);
    let lines = lines(&folder);
    let asked = &of("force_unlock_asked", &lines)[0];
    let done = &of("force_unlock", &lines)[0];
    for line in [asked, done] {
        assert_eq!((&line["who"], &line["peer"]), (&"ops".into(), &"127.0.0.1".into()), "{line}");
        let place = (&line["store"], &line["namespace"], &line["key"]);
        assert_eq!(place, (&"main".into(), &"jobs".into(), &"nightly".into()));
        assert_eq!(line["reason"], "its host is gone");
        assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
    }
    assert_eq!((&done["result"], &done["fence"]), (&"done".into(), &fence.into()), "{done}");
    let at = |line: &Value| lines.iter().position(|other| other == line);
    assert!(at(asked) < at(done), "it is announced first");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_in_it_and_keys_only_as_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = audited(&folder, "digest").await;
    let force = r#"{"force": true, "reason": "because"}"#;
    assert_eq!(server.delete("/v1/locks/nightly", force).await.status, 403);
    let stranger = server.with_token("wrong");
    assert_eq!(stranger.post("/v1/locks/nightly", "").await.status, 401);
    let lines = lines(&folder);
    let forced = &of("force_unlock", &lines)[0];
    assert_eq!(forced["result"], "forbidden");
    // Where none was named, it tells which was meant.
    let place = (&forced["store"], &forced["namespace"]);
    assert_eq!(place, (&"main".into(), &"default".into()));
    assert!(of("force_unlock_asked", &lines).is_empty(), "what is forbidden is not announced");
    let turned_away = &of("enter", &lines)[0];
    assert_eq!(
        (&turned_away["who"], &turned_away["result"]),
        (&"nobody".into(), &"unauthenticated".into())
    );
    assert!(lines.iter().all(|line| line["key"] != "nightly"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_down_is_not_done_by_force() {
    let more = "[audit]\nfile = '/dev/full'\n";
    let server = Server::with(more).await;
    let fence = server.post("/v1/locks/k", "").await.fence();
    let force = r#"{"force": true, "reason": "because"}"#;
    let reply = server.delete("/v1/locks/k", force).await;
    assert_eq!((reply.status, &*reply.code()), (500, "internal"), "{reply:?}");
    assert_eq!(server.get("/v1/locks/k").await.fence(), fence, "it is still held");
}
