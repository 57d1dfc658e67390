//! What the audit log has.

use serde_json::Value;
use tenure_server::Running;
use tenure_server::config::Config;

use super::stage::{anyone, ask, order, place};

async fn audited(folder: &tempfile::TempDir, more: &str) -> Running {
    let file = folder.path().join("audit.jsonl");
    let text = format!(
        "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n{more}\n[audit]\nfile = '{}'\n\
         reads = true\n",
        file.display()
    );
    Running::start(Config::parse(&text).unwrap()).await.unwrap()
}

fn lines(folder: &tempfile::TempDir) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_refused_and_one_that_looks_are_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let running = audited(&folder, "limits.streams_per_client = 1").await;
    let (api, caller) = (running.api(), anyone());
    let events = api.events(&caller, &place("job/")).await.unwrap();
    assert!(api.hold(&caller, &order("k")).await.is_err());
    assert!(api.events(&caller, &place("k")).await.is_err());
    drop(events);
    let told: Vec<_> = lines(&folder)
        .iter()
        .map(|line| {
            [&line["call"], &line["key"], &line["result"]].map(|v| v.as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(
        told,
        [
            ["events", "job/", "done"],
            ["hold", "k", "limit_reached"],
            ["events", "k", "limit_reached"],
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let running = audited(&folder, "").await;
    let long = "n".repeat(10_000);
    let path = format!("POST /v1/locks/{long}?namespace={long}&store={long}");
    let said = ask(&running, &path, "host: x\r\n", "").await;
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    let reason = format!(r#"{{"force": true, "reason": "{long}"}}"#);
    ask(&running, "DELETE /v1/locks/k", "host: x\r\n", &reason).await;
    let told = lines(&folder);
    assert!(told.len() >= 2, "{told:?}");
    for line in told {
        assert!(line.to_string().len() < 4000, "{line}");
    }
}
