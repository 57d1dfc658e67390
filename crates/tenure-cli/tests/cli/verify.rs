//! `tenure verify`: a good verdict on a store that works, a bad one on a store that does not.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tenure::claim::{Eviction, Grant, ListQuery, Renewal};
use tenure::clock::{Clock, SystemClock};
use tenure::{Lease, stores};
use tokio::process::{Child, Command};

use crate::sandbox::{Ran, Sandbox, is_running, pid, send, until};

/// With its temporary folder in the sandbox, where it can be seen what is left.
fn verify(sandbox: &Sandbox, words: &[&str]) -> Command {
    let words = [&["verify"], words].concat();
    let mut command = sandbox.tenure_by(&["env", "--default-signal=INT,TERM"], &words);
    std::fs::create_dir_all(sandbox.path("tmp")).unwrap();
    command.env("TMPDIR", sandbox.path("tmp"));
    command
}

fn left_in_tmp(sandbox: &Sandbox) -> usize {
    std::fs::read_dir(sandbox.path("tmp")).unwrap().count()
}

#[tokio::test]
async fn the_embedded_store_passes() {
    let sandbox = Sandbox::new();
    let words = ["--for", "4s", "--ttl", "1s", "--keys", "3"];
    let ran = Ran::of(verify(&sandbox, &words).spawn().unwrap()).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
    for checker in ["fences", "beliefs", "sink", "linear", "waiters"] {
        assert!(ran.stdout.contains(&format!("\n{checker:<9}ok: ")), "{}", ran.stdout);
    }
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("verdict: this store excluded and fenced in "), "{last}");
    assert!(!ran.stdout.contains("still held"), "{}", ran.stdout);
    assert_eq!(left_in_tmp(&sandbox), 0);
}

#[tokio::test]
async fn the_verdict_can_be_json() {
    let sandbox = Sandbox::new();
    let words = ["--seconds", "3", "--ttl", "1s", "--workers", "3", "--json"];
    let ran = Ran::of(verify(&sandbox, &words).spawn().unwrap()).await;
    ran.expect(0, &[]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(found["verdict"], "good", "{found}");
    assert_eq!((found["store"].as_str(), found["class"].as_str()), (Some("file"), Some("F")));
    assert_eq!(found["left"], serde_json::json!([]));
    let number = |name: &str| found[name].as_u64().unwrap();
    assert!(number("granted") > 0 && number("claims") >= number("granted") + number("held"));
    assert!(number("kills") + number("pauses") > 0 && number("started") >= 3, "{found}");
}

/// What is broken for real: whatever is granted is taken away again, behind everybody's back.
async fn break_exclusion(url: String) {
    let store = stores::open(&url, Arc::new(SystemClock)).await.unwrap();
    loop {
        let query = ListQuery { prefix: "t1/tenure-verify-".into(), after: None, limit: 100 };
        for held in store.list(&query).await.unwrap().items {
            let eviction = Eviction::new(held.key, "a test breaks it").unwrap();
            store.force_release(&eviction).await.unwrap();
        }
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(3)).await;
    }
}

#[tokio::test]
async fn a_store_that_loses_grants_is_found_out() {
    let sandbox = Sandbox::new();
    let breaker = tokio::spawn(break_exclusion(sandbox.url()));
    let words = ["--for", "4s", "--ttl", "600ms", "--keys", "2"];
    let ran = Ran::of(verify(&sandbox, &words).spawn().unwrap()).await;
    breaker.abort();
    ran.expect(1, &[]);
    assert!(ran.stdout.contains("\nbeliefs  BROKEN "), "{}", ran.stdout);
    assert!(ran.stdout.contains(" both believed in it for "), "{}", ran.stdout);
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("verdict: BROKEN: ") && last.contains("beliefs"), "{last}");
    let kept = last.rsplit_once("the history is in ").unwrap().1;
    assert!(std::fs::read_dir(kept).unwrap().count() > 4, "{kept}");
}

/// Whatever is granted is prolonged far beyond its ttl: the dead keep their keys.
async fn keep_the_dead(url: String) {
    let store = stores::open(&url, Arc::new(SystemClock)).await.unwrap();
    loop {
        let query = ListQuery { prefix: "t1/tenure-verify-".into(), after: None, limit: 100 };
        for held in store.list(&query).await.unwrap().items {
            if let Some(lease) = store.inspect(&held.key).await.unwrap() {
                let Lease { key, owner, fence, .. } = lease;
                let grant = Grant { key, owner, fence: Some(fence) };
                let ttl = Duration::from_secs(600);
                store.renew(&Renewal { grant, ttl }).await.unwrap();
            }
        }
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(3)).await;
    }
}

#[tokio::test]
async fn a_store_that_keeps_the_dead_is_found_out() {
    let sandbox = Sandbox::new();
    let keeper = tokio::spawn(keep_the_dead(sandbox.url()));
    let words = ["--for", "6s", "--ttl", "400ms", "--keys", "4", "--json"];
    let ran = Ran::of(verify(&sandbox, &words).spawn().unwrap()).await;
    keeper.abort();
    ran.expect(1, &[]);
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let broken = found["broken"].as_array().unwrap();
    assert!(broken.contains(&"waiters".into()), "{found}");
    assert_ne!(found["left"], serde_json::json!([]), "{found}");
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_69_and_wrong_usage_64() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["verify", "--store", "file:/nonexistent/x.db"]).await;
    ran.expect(69, &["does not exist"]);
    sandbox.run(&["verify", "--store", "memory:"]).await.expect(69, &["local to this process"]);
    for words in [&["--workers", "0"][..], &["--seconds", "0"], &["--ttl", "1ms"], &["k"]] {
        sandbox.run(&[&["verify"], words].concat()).await.expect(64, &["error"]);
    }
}

/// The processes that this one has started.
fn children(parent: Pid) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |number: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let parent_of = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent_of.is_some_and(|found| found == parent.to_string())
    };
    numbers.filter(is_child).map(pid).collect()
}

async fn with_workers(sandbox: &Sandbox) -> (Child, Vec<Pid>) {
    let child = verify(sandbox, &["--for", "1h", "--ttl", "30s"]).spawn().unwrap();
    let parent = pid(child.id().unwrap());
    let workers = until("four workers", || Some(children(parent)).filter(|all| all.len() >= 4));
    let workers = workers.await;
    (child, workers)
}

#[tokio::test]
async fn a_signal_ends_it_and_all_its_workers() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = Sandbox::new();
        let (child, workers) = with_workers(&sandbox).await;
        send(&child, signal);
        Ran::of(child).await.expect(code, &[]);
        let gone = || workers.iter().all(|worker| !is_running(*worker)).then_some(());
        until("end of the workers", gone).await;
        assert_eq!(left_in_tmp(&sandbox), 0);
    }
}

#[tokio::test]
async fn workers_do_not_outlive_one_that_is_killed() {
    let sandbox = Sandbox::new();
    let (mut child, workers) = with_workers(&sandbox).await;
    send(&child, Signal::KILL);
    child.wait().await.unwrap();
    let gone = || workers.iter().all(|worker| !is_running(*worker)).then_some(());
    until("end of the workers", gone).await;
}
