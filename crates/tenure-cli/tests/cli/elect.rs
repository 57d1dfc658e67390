//! `tenure elect`: one leader at a time.

use rustix::process::Signal;

use crate::sandbox::{Ran, Sandbox, is_running, send, until, until_said};

const LEAD: &str = "echo $$ $TENURE_FENCE >> leaders; exec sleep 600";

fn leaders(sandbox: &Sandbox) -> Vec<(u32, u64)> {
    let text = std::fs::read_to_string(sandbox.path("leaders")).unwrap_or_default();
    let line = |line: &str| {
        let (pid, fence) = line.split_once(' ')?;
        Some((pid.parse().ok()?, fence.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

async fn nth_leader(sandbox: &Sandbox, count: usize) -> (u32, u64) {
    until(&format!("leader {count}"), || leaders(sandbox).get(count - 1).copied()).await
}

#[tokio::test]
async fn another_leads_when_the_leader_is_killed() {
    let sandbox = Sandbox::new();
    let words = ["elect", "office", "--ttl", "3s", "--", "sh", "-c", LEAD];
    let mut first = sandbox.tenure(&words).spawn().unwrap();
    let (leader, fence) = nth_leader(&sandbox, 1).await;
    let mut second = sandbox.tenure(&words).spawn().unwrap();
    until_said(&mut second, "waiting for \"office\"").await;
    assert_eq!(leaders(&sandbox).len(), 1);
    send(&first, Signal::KILL);
    first.wait().await.unwrap();
    let (next, higher) = nth_leader(&sandbox, 2).await;
    assert!(higher > fence && next != leader);
    assert!(!is_running(crate::sandbox::pid(leader)));
    send(&second, Signal::TERM);
    Ran::of(second).await.expect(143, &[]);
}

#[tokio::test]
async fn one_that_loses_stands_again() {
    let sandbox = Sandbox::new();
    let words = ["elect", "office", "--ttl", "3s", "--", "sh", "-c", LEAD];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let (leader, fence) = nth_leader(&sandbox, 1).await;
    sandbox.locks().await.force_release("office", "a test").await.unwrap();
    let (next, higher) = nth_leader(&sandbox, 2).await;
    assert!(higher > fence && next != leader);
    assert!(!is_running(crate::sandbox::pid(leader)));
    send(&child, Signal::TERM);
    Ran::of(child).await.expect(143, &["was lost"]);
}

#[tokio::test]
async fn a_command_that_ends_ends_the_office() {
    let sandbox = Sandbox::new();
    let words = ["elect", "office", "-q", "--", "sh", "-c", "exit 6"];
    sandbox.run(&words).await.expect(6, &[]);
    assert_eq!(sandbox.locks().await.status("office").await.unwrap(), None);
}

/// A store that was away for longer than an acquire bears it: whoever stood for election stands.
#[cfg(feature = "remote")]
#[tokio::test]
async fn candidates_outlast_a_store_that_is_away() {
    let sandbox = Sandbox::new();
    let listen = format!("127.0.0.1:{}", tenure_testkit::servers::free_port().unwrap());
    let (mut server, url) = sandbox.serve(&listen).await;
    let words = ["elect", "office", "--ttl", "3s", "--store", &url, "--", "sh", "-c", LEAD];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    let (leader, fence) = nth_leader(&sandbox, 1).await;
    server.kill().await.unwrap();
    until_said(&mut child, "trying again").await;
    assert!(!is_running(crate::sandbox::pid(leader)));
    let (mut server, _) = sandbox.serve(&listen).await;
    until_said(&mut child, "the store answers again").await;
    let (_, higher) = nth_leader(&sandbox, 2).await;
    assert!(higher > fence, "{higher} after {fence}");
    send(&child, Signal::TERM);
    Ran::of(child).await.expect(143, &[]);
    server.kill().await.unwrap();
}
