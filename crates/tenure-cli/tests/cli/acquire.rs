//! `tenure acquire`, `renew` and `release`: a lease that goes from process to process.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;

use crate::sandbox::{Ran, Sandbox, json, send, until_said};

#[tokio::test]
async fn a_lease_goes_from_process_to_process() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["acquire", "k", "--ttl", "10m", "--note", "step one", "--json"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
    let lease = json(&ran.stdout);
    assert_eq!(lease["key"], "k");
    assert_eq!(lease["fence"], 1);
    assert_eq!(lease["ttl_ms"], 600_000);
    assert!(lease["remaining_ms"].as_u64().unwrap() > 300_000, "{lease}");
    assert!(lease["holder"].as_str().unwrap().ends_with(" step one"), "{lease}");
    assert!(tenure_api::rfc3339::parse(lease["granted_at"].as_str().unwrap()).is_some());
    let owner = lease["owner"].as_str().unwrap();

    // It is held, by nobody who runs.
    sandbox.run(&["run", "k", "--no-wait", "--", "true"]).await.expect(75, &["step one"]);
    let ran = sandbox.run(&["renew", "k", "--owner", owner, "--ttl", "20m", "--json"]).await;
    ran.expect(0, &[]);
    let renewed = json(&ran.stdout);
    assert_eq!((&renewed["fence"], &renewed["ttl_ms"]), (&lease["fence"], &1_200_000.into()));
    assert!(renewed["remaining_ms"].as_u64().unwrap() > 700_000, "{renewed}");
    assert!(!ran.stdout.contains(owner), "{ran:?}");

    let ran = sandbox.run(&["release", "k", "--owner", owner, "--json"]).await;
    ran.expect(0, &[]);
    assert_eq!(json(&ran.stdout), serde_json::json!({ "key": "k", "released": true }));
    sandbox.run(&["run", "k", "--no-wait", "--", "true"]).await.expect(0, &[]);
}

#[tokio::test]
async fn for_people_it_is_text() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["acquire", "k", "--ttl", "20s", "--note", "by hand"]).await;
    ran.expect(0, &[]);
    let rows: Vec<_> = ran.stdout.lines().map(|line| line.split_at(8)).collect();
    let names: Vec<_> = rows.iter().map(|(name, _)| name.trim()).collect();
    assert_eq!(names, ["key", "fence", "owner", "ttl", "holder"], "{ran:?}");
    assert_eq!((rows[0].1, rows[1].1, rows[3].1), ("k", "1", "20 s"));
    let owner = rows[2].1;

    // Without a ttl of its own, the lease's is kept, and not the usual one taken.
    let ran = sandbox.run(&["renew", "k", "--owner", owner]).await;
    ran.expect(0, &[]);
    let kept = "ttl     20 s\n";
    assert!(ran.stdout.contains(kept) && !ran.stdout.contains(owner), "{ran:?}");
    let ran = sandbox.run(&["release", "k", "--owner", owner]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stdout, "released \"k\"\n");
}

#[tokio::test]
async fn the_owner_goes_into_a_file_of_this_user_alone() {
    let sandbox = Sandbox::new();
    for words in [&["--json"][..], &[]] {
        let line = [&["acquire", "k", "--owner-file", "k.owner"], words].concat();
        let ran = sandbox.run(&line).await;
        ran.expect(0, &[]);
        let owner = sandbox.line("k.owner").await;
        let mode = std::fs::metadata(sandbox.path("k.owner")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!ran.stdout.contains(owner.trim()) && !ran.stdout.contains("owner"), "{ran:?}");
        sandbox.run(&["renew", "k", "--owner-file", "k.owner"]).await.expect(0, &[]);
        sandbox.run(&["release", "k", "--owner-file", "k.owner"]).await.expect(0, &[]);
        std::fs::remove_file(sandbox.path("k.owner")).unwrap();
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_leaves_no_lock() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("old"), "another's owner\n").unwrap();
    let ran = sandbox.run(&["acquire", "k", "--owner-file", "old"]).await;
    ran.expect(64, &["old cannot be written", "name a file that is not there"]);
    assert_eq!(sandbox.line("old").await, "another's owner\n");
    assert!(!sandbox.path("locks.db").exists(), "it was found out before anything was asked");

    let ran = sandbox.run(&["acquire", "k", "--ttl", "1h", "--owner-file", "no/folder"]).await;
    ran.expect(70, &["no/folder cannot be written", "name a file that can be written"]);
    assert_eq!(ran.stdout, "");
    sandbox.run(&["status", "k"]).await.expect(1, &[]);
}

#[tokio::test]
async fn a_file_that_comes_while_it_waits_is_not_overwritten() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let words = ["acquire", "k", "--ttl", "1h", "--owner-file", "k.owner"];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    until_said(&mut child, "waiting for").await;
    std::fs::write(sandbox.path("k.owner"), "another's owner\n").unwrap();
    guard.release().await.unwrap();
    Ran::of(child).await.expect(64, &["k.owner cannot be written"]);
    assert_eq!(sandbox.line("k.owner").await, "another's owner\n");
    assert!(!locks.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn a_lock_whose_owner_nobody_reads_is_given_back() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tenure(&["acquire", "k", "--ttl", "1h", "-v"]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    Ran::of(child).await.expect(70, &["nobody reads the answer", "--owner-file"]);
    sandbox.run(&["status", "k"]).await.expect(1, &[]);

    // With a file, somebody has it.
    let words = ["acquire", "k", "--ttl", "1h", "--owner-file", "k.owner"];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    drop(child.stdout.take());
    Ran::of(child).await.expect(0, &[]);
    sandbox.run(&["release", "k", "--owner-file", "k.owner"]).await.expect(0, &[]);
}

#[tokio::test]
async fn a_held_lock_is_75_at_once_or_after_the_wait() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "nightly import").await;
    let ran = sandbox.run(&["acquire", "k", "--no-wait"]).await;
    ran.expect(75, &["held by ", "nightly import", "use --wait to wait for it"]);
    assert_eq!(ran.stdout, "");
    sandbox.run(&["acquire", "k", "--wait", "100ms"]).await.expect(75, &["longer --wait"]);
}

#[tokio::test]
async fn it_waits_and_then_takes_over() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let fence = guard.fence().get();
    let mut child = sandbox.tenure(&["acquire", "k", "--json"]).spawn().unwrap();
    until_said(&mut child, "\"waiting\"").await;
    guard.release().await.unwrap();
    let ran = Ran::of(child).await;
    ran.expect(0, &[]);
    assert!(json(&ran.stdout)["fence"].as_u64().unwrap() > fence);
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_no_lock() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let words = ["acquire", "k", "--ttl", "1h", "--owner-file", "k.owner"];
        let mut command = sandbox.tenure_by(&["env", "--default-signal=INT,TERM"], &words);
        let mut child = command.spawn().unwrap();
        until_said(&mut child, "waiting for").await;
        send(&child, signal);
        let ran = Ran::of(child).await;
        ran.expect(code, &[]);
        assert_eq!(ran.stdout, "");
    }
    guard.release().await.unwrap();
    assert_eq!(locks.status("k").await.unwrap(), None);
    assert!(!sandbox.path("k.owner").exists());
}

#[tokio::test]
async fn stdin_and_the_environment_name_the_owner_too() {
    let sandbox = Sandbox::new();
    let owner = sandbox.leave_lock("k", "x").await;
    let mut command = sandbox.tenure(&["renew", "k", "--owner-file", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{owner}\n").as_bytes()).await.unwrap();
    drop(stdin);
    Ran::of(child).await.expect(0, &[]);

    // An option before the file's variable, and that before the owner's.
    std::fs::write(sandbox.path("right"), &owner).unwrap();
    std::fs::write(sandbox.path("wrong"), "wrong").unwrap();
    let renew = async |words: &[&str], file: Option<&str>, text: Option<&str>| {
        let mut command = sandbox.tenure(&[&["renew", "k"], words].concat());
        command.envs(file.map(|file| ("TENURE_OWNER_FILE", file)));
        command.envs(text.map(|text| ("TENURE_OWNER", text)));
        Ran::of(command.spawn().unwrap()).await
    };
    renew(&[], None, Some(&owner)).await.expect(0, &[]);
    renew(&[], Some("right"), Some("wrong")).await.expect(0, &[]);
    renew(&[], Some("wrong"), Some(&owner)).await.expect(1, &[]);
    renew(&["--owner-file", "right"], Some("wrong"), Some("wrong")).await.expect(0, &[]);
    renew(&["--owner", &owner], Some("wrong"), Some("wrong")).await.expect(0, &[]);
    renew(&[], None, None).await.expect(64, &["no owner", "--owner-file"]);
    renew(&["--owner", "a", "--owner-file", "b"], None, None).await.expect(64, &["cannot be used"]);
}

#[tokio::test]
async fn a_command_under_run_needs_to_say_no_owner() {
    let sandbox = Sandbox::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let script = format!("{tenure} renew k --json && {tenure} release k && {tenure} status k");
    let ran = sandbox.run(&["run", "k", "--on-lost", "warn", "--", "sh", "-c", &script]).await;
    assert!(ran.stdout.contains("\"fence\":1"), "{ran:?}");
    assert!(ran.stdout.ends_with("released \"k\"\nfree\n"), "{ran:?}");
}

#[tokio::test]
async fn who_is_not_the_owner_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "nightly import").await;
    for command in ["renew", "release"] {
        let ran = sandbox.run(&[command, "k", "--owner", "hunter2"]).await;
        ran.expect(1, &[command, "nightly import under another owner", "see 'tenure status'"]);
        assert!(!ran.stderr.contains("hunter2") && ran.stdout.is_empty(), "{ran:?}");
        let ran = sandbox.run(&[command, "free", "--owner", "hunter2"]).await;
        ran.expect(1, &["no lease stands on this key", "its ttl is over"]);
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
        let ran = sandbox.run(&[command, "k", "--owner", "hunter2\n"]).await;
        ran.expect(64, &["control characters"]);
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
        let ran = sandbox.run(&[command, "k", "--owner-file", "missing"]).await;
        ran.expect(64, &["missing cannot be read", "give --owner-file"]);
    }
    assert!(sandbox.locks().await.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn nobody_renews_it() {
    let sandbox = Sandbox::new();
    sandbox.run(&["acquire", "k", "--ttl", "300ms"]).await.expect(0, &[]);
    let locks = sandbox.locks().await;
    let next = locks.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    assert_eq!(next.fence().get(), 2);
}
