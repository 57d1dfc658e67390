//! `tenure watch`: what happens to locks.

use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Clock, SystemClock};
use tokio::process::Child;

use crate::sandbox::{Printed, Ran, Sandbox, send, since, until_said};

fn start(sandbox: &Sandbox, words: &[&str]) -> Child {
    let words = [&["watch"], words].concat();
    sandbox.tenure_by(&["env", "--default-signal=INT,TERM"], &words).spawn().unwrap()
}

#[tokio::test]
async fn a_grant_and_a_release_are_seen() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let mut child = start(&sandbox, &["k", "--json"]);
    let mut printed = Printed::by(&mut child);
    let line = printed.json().await;
    assert_eq!((&line["event"], &line["key"]), (&"free".into(), &"k".into()));
    assert!(tenure_api::rfc3339::parse(line["at"].as_str().unwrap()).is_some());
    for fence in [1, 2] {
        let guard = locks.lock("k").holder("import").acquire().await.unwrap();
        let line = printed.json().await;
        assert_eq!(line["event"], "granted");
        assert_eq!(line["lease"]["fence"], fence);
        assert_eq!(line["lease"]["holder"], guard.holder().as_str());
        let at = SystemClock.now();
        guard.release().await.unwrap();
        let line = printed.json().await;
        assert_eq!((&line["event"], &line["how"]), (&"free".into(), &"released".into()));
        // Sooner than any poll.
        assert!(since(at) < Duration::from_secs(4));
    }
    send(&child, Signal::INT);
    let ran = Ran::of(child).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn an_end_by_itself_is_seen() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let ttl = Duration::from_secs(3);
    let request = locks.lock("k").ttl(ttl).keep_alive(false);
    let _ = request.acquire().await.unwrap().detach();
    let mut child = start(&sandbox, &["k", "--json"]);
    let mut printed = Printed::by(&mut child);
    assert_eq!(printed.json().await["event"], "held");
    let line = printed.json().await;
    assert_eq!((&line["event"], &line["how"]), (&"free".into(), &"expired".into()));
    send(&child, Signal::TERM);
    Ran::of(child).await.expect(143, &[]);
}

#[tokio::test]
async fn people_get_a_line_with_the_time_of_day() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("b").holder("import").acquire().await.unwrap();
    let mut child = start(&sandbox, &["a", "b"]);
    let mut printed = Printed::by(&mut child);
    let mut first = [printed.line().await, printed.line().await];
    first.sort_by_key(|line| line.split_whitespace().nth(1).map(str::to_owned));
    let is_time = |text: &str| {
        text.len() == 8 && text.split(':').all(|part| part.len() == 2 && part.parse::<u8>().is_ok())
    };
    assert!(first.iter().all(|line| is_time(&line[..8])), "{first:?}");
    assert_eq!(&first[0][8..], "  a  free");
    let held = format!("  b  held by {} (fence 1, ttl left ", guard.holder());
    assert!(first[1][8..].starts_with(&held), "{first:?}");
    guard.release().await.unwrap();
    assert_eq!(&printed.line().await[8..], "  b  free (released)");
    let guard = locks.lock("a").acquire().await.unwrap();
    let granted = format!("  a  granted to {} (fence 2, ttl left ", guard.holder());
    assert!(printed.line().await[8..].starts_with(&granted));
    send(&child, Signal::INT);
    Ran::of(child).await.expect(0, &[]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn renewals_are_told_to_whoever_asks() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    let mut quiet = start(&sandbox, &["k", "--json"]);
    let mut quiet_printed = Printed::by(&mut quiet);
    assert_eq!(quiet_printed.json().await["event"], "held");
    let mut child = start(&sandbox, &["k", "--json", "--verbose"]);
    // Logs go to stderr, and must not stop it.
    let mut stderr = child.stderr.take().unwrap();
    let logs =
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
    let mut printed = Printed::by(&mut child);
    assert_eq!(printed.json().await["event"], "held");
    let line = printed.json().await;
    assert_eq!((&line["event"], &line["lease"]["fence"]), (&"renewed".into(), &1.into()));
    guard.release().await.unwrap();
    assert_eq!(quiet_printed.json().await["event"], "free");
    for child in [quiet, child] {
        send(&child, Signal::INT);
        Ran::of(child).await.expect(0, &[]);
    }
    logs.await.unwrap().unwrap();
}

#[tokio::test]
async fn it_ends_when_nobody_reads() {
    let sandbox = Sandbox::new();
    let mut child = start(&sandbox, &["k"]);
    let mut printed = Printed::by(&mut child);
    printed.line().await;
    drop(printed);
    sandbox.leave_lock("k", "x").await;
    let ran = Ran::of(child).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn a_store_that_fails_is_said_and_asked_again() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "x").await;
    let mut child = start(&sandbox, &["k"]);
    let mut printed = Printed::by(&mut child);
    assert!(printed.line().await.contains("held by"));
    let names = ["locks.db", "locks.db-wal", "locks.db-shm"];
    let away = |name: &str| sandbox.path(&format!("away-{name}"));
    for name in names {
        std::fs::rename(sandbox.path(name), away(name)).unwrap();
    }
    until_said(&mut child, "trying again").await;
    for name in names {
        std::fs::rename(away(name), sandbox.path(name)).unwrap();
    }
    until_said(&mut child, "the store answers again").await;
    send(&child, Signal::INT);
    Ran::of(child).await.expect(0, &[]);
}

#[tokio::test]
async fn wrong_usage_is_64() {
    let sandbox = Sandbox::new();
    sandbox.run(&["watch"]).await.expect(64, &["<KEY>"]);
    sandbox.run(&["watch", "a\nb"]).await.expect(64, &["control characters"]);
}
