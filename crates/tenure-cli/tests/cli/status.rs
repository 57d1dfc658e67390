//! `tenure status`: who holds one lock.

use tenure::Locks;

use crate::sandbox::{Ran, Sandbox, json};
use crate::snapshot::assert_kept;

#[tokio::test]
async fn a_held_lock_shows_its_holder_and_a_free_one_that_it_is_free() {
    let sandbox = Sandbox::new();
    let guard = sandbox.locks().await.lock("k").holder("nightly import").acquire().await.unwrap();
    let ran = sandbox.run(&["status", "k"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
    let rows: Vec<_> = ran.stdout.lines().map(|line| line.split_at(10)).collect();
    let names: Vec<_> = rows.iter().map(|(name, _)| name.trim()).collect();
    assert_eq!(names, ["key", "holder", "granted", "ttl left", "fence"], "{ran:?}");
    assert_eq!((rows[0].1, rows[1].1, rows[4].1), ("k", guard.holder().as_str(), "1"));
    assert!(rows[3].1.ends_with(" of 30 s"), "{ran:?}");

    let ran = sandbox.run(&["status", "k", "--json"]).await;
    ran.expect(0, &[]);
    let status = json(&ran.stdout);
    assert_eq!((&status["key"], &status["locked"]), (&"k".into(), &true.into()));
    assert_eq!((&status["fence"], &status["ttl_ms"]), (&1.into(), &30_000.into()));
    assert_eq!(status["holder"], guard.holder().as_str());
    assert!(tenure_api::rfc3339::parse(status["granted_at"].as_str().unwrap()).is_some());

    guard.release().await.unwrap();
    let ran = sandbox.run(&["status", "k"]).await;
    ran.expect(1, &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("free\n", ""));
    let ran = sandbox.run(&["status", "k", "--json"]).await;
    ran.expect(1, &[]);
    assert_eq!(json(&ran.stdout), serde_json::json!({ "key": "k", "locked": false }));
}

#[tokio::test]
async fn quiet_leaves_it_to_the_exit_code() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "x").await;
    for (key, code) in [("k", 0), ("free", 1)] {
        let ran = sandbox.run(&["status", "-q", key]).await;
        ran.expect(code, &[]);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    }
}

#[tokio::test]
async fn a_pipe_that_nobody_reads_does_not_change_the_answer() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "x").await;
    for (key, code) in [("k", 0), ("free", 1)] {
        let mut child = sandbox.tenure(&["status", key]).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::of(child).await;
        ran.expect(code, &[]);
        assert_eq!(ran.stderr, "");
    }
}

#[tokio::test]
async fn a_namespace_is_a_room_of_its_own() {
    let sandbox = Sandbox::new();
    let locks = Locks::builder().namespace("b").open(&sandbox.url()).await.unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    sandbox.run(&["status", "k"]).await.expect(1, &[]);
    sandbox.run(&["status", "k", "--namespace", "b"]).await.expect(0, &[]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_not_free() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["status", "k", "--store", "file:/nonexistent/x.db"]).await;
    ran.expect(69, &["/nonexistent does not exist: create it"]);
    assert_eq!(ran.stdout, "");
}

#[tokio::test]
async fn a_hostile_label_cannot_turn_the_text() {
    let sandbox = Sandbox::new();
    let label = "host/1 a\u{202e}b\u{2028}c";
    let locks = Locks::builder().holder(label).open(&sandbox.url()).await.unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    for command in [&["status", "k"][..], &["list"]] {
        let ran = sandbox.run(command).await;
        ran.expect(0, &[]);
        assert!(ran.stdout.contains("host/1 abc"), "{ran:?}");
    }
    guard.release().await.unwrap();
}

/// The sheet with its lengths of time of one form.
#[tokio::test]
async fn the_sheet_is_as_it_was() {
    let sandbox = Sandbox::new();
    let locks = Locks::builder().holder("host/7").open(&sandbox.url()).await.unwrap();
    let guard = locks.lock("order:42").holder("nightly import").acquire().await.unwrap();
    let ran = sandbox.run(&["status", "order:42"]).await;
    ran.expect(0, &[]);
    let timeless = |line: &str| match line.split_at(10) {
        (name @ "granted   ", _) => format!("{name}<time>\n"),
        (name @ "ttl left  ", time) => {
            format!("{name}<time> of {}\n", time.split_once(" of ").unwrap().1)
        }
        _ => format!("{line}\n"),
    };
    assert_kept("status.txt", &ran.stdout.lines().map(timeless).collect::<String>());
    guard.release().await.unwrap();
}
