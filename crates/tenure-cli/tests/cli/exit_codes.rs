//! Every way to end has its code, and a text that says what to do.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::{Ran, Sandbox};

#[tokio::test]
async fn the_command_s_code_is_ours() {
    let sandbox = Sandbox::new();
    for code in [0, 3, 255] {
        let ran = sandbox.run(&["run", "k", "--", "sh", "-c", &format!("exit {code}")]).await;
        ran.expect(code, &[]);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    }
}

#[tokio::test]
async fn death_by_a_signal_is_128_and_its_number() {
    let sandbox = Sandbox::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let ran = sandbox.run(&["run", "k", "--", "sh", "-c", &format!("kill -{signal} $$")]).await;
        ran.expect(code, &[]);
    }
    // And the lock is free each time.
    sandbox.run(&["run", "k", "--no-wait", "--", "true"]).await.expect(0, &[]);
}

#[tokio::test]
async fn a_held_lock_is_75_and_names_the_holder() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").holder("nightly import").acquire().await.unwrap();
    let holder = guard.holder().to_string();
    for words in [["--no-wait", "--quiet"], ["--wait", "0s"]] {
        let line = [&["run", "k"], &words[..], &["--", "touch", "ran"]].concat();
        let ran = sandbox.run(&line).await;
        ran.expect(75, &["tenure: acquire \"k\": held by ", &holder, "use --wait to wait for it"]);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    let ran = sandbox.run(&["run", "k", "--wait", "200ms", "--", "touch", "ran"]).await;
    ran.expect(75, &["is over", &holder, "longer --wait"]);
    assert!(!sandbox.path("ran").exists());
    // Another namespace is another lock.
    sandbox.run(&["run", "k", "--no-wait", "--namespace", "b", "--", "true"]).await.expect(0, &[]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn wrong_usage_is_64() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(600);
    for (words, said) in [
        (&["run"][..], "<KEY>"),
        (&["run", "--", "true"], "<KEY>"),
        (&["run", "k"], "<CMD>"),
        (&["run", "k", "--"], "<CMD>"),
        (&["run", "k", "true"], "unexpected argument"),
        (&["run", "", "--", "true"], "key must have"),
        (&["run", &long, "--", "true"], "512"),
        (&["run", "a\nb", "--", "true"], "control characters"),
        (&["run", "k", "--wait", "10", "--", "true"], "ms, s, m or h"),
        (&["run", "k", "--ttl", "0s", "--", "true"], "100ms to 24h"),
        (&["run", "k", "--ttl", "1d", "--", "true"], "the units are"),
        (&["run", "k", "--wait", "1s", "--no-wait", "--", "true"], "cannot be used with"),
        (&["run", "k", "-q", "-v", "--", "true"], "cannot be used with"),
        (&["run", "k", "--namespace", "a/b", "--", "true"], "namespace may contain"),
        (&["run", "k", "--store", "", "--", "true"], "the store is empty"),
        (&["run", "k", "--store", "locks.db", "--", "true"], "must be a URL"),
        (&["run", "k", "--store", "oracle://a", "--", "true"], "memory, file"),
        (&["walk"], "unrecognized subcommand"),
    ] {
        sandbox.run(words).await.expect(64, &[said]);
    }
    assert!(!sandbox.path("locks.db").exists());
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_69() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("other.db"), "this is no database\n".repeat(1000)).unwrap();
    let other = format!("file:{}", sandbox.path("other.db").display());
    for (url, said) in [
        ("file:/nonexistent/dir/x.db", "/nonexistent/dir does not exist: create it"),
        (&other, "no tenure database or is damaged"),
        ("file:/dev/null", "not a regular file"),
        ("memory:", "local to this process"),
    ] {
        let ran = sandbox.run(&["run", "k", "--store", url, "--", "touch", "ran"]).await;
        ran.expect(69, &["tenure: open: ", said]);
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    assert!(!sandbox.path("ran").exists());
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_126_or_127() {
    let sandbox = Sandbox::new();
    let plain = sandbox.path("plain.txt");
    std::fs::write(&plain, "echo hello\n").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (program, code) in [
        ("no-such-program-here", 127),
        ("./no/such/program", 127),
        (plain.to_str().unwrap(), 126),
        ("/", 126),
    ] {
        let ran = sandbox.run(&["run", "k", "--ttl", "1h", "--", program]).await;
        ran.expect(code, &["tenure: the command ", program, "cannot be started"]);
    }
    // And the lock was given back, long before its ttl.
    sandbox.run(&["run", "k", "--no-wait", "--", "true"]).await.expect(0, &[]);
}

#[tokio::test]
async fn a_parent_that_ignores_its_children_s_ends_changes_nothing() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--", "sh", "-c", "exit 5"];
    let mut command = sandbox.tenure_by(&["env", "--ignore-signal=CHLD"], &words);
    Ran::of(command.spawn().unwrap()).await.expect(5, &[]);
}

#[tokio::test]
async fn the_code_for_a_held_lock_can_be_chosen() {
    let sandbox = Sandbox::new();
    let guard = sandbox.locks().await.lock("k").acquire().await.unwrap();
    let words = ["run", "k", "--no-wait", "-E", "3", "--", "true"];
    sandbox.run(&words).await.expect(3, &["held by"]);
    let words = ["run", "k", "--wait", "1s", "-q", "-E", "0", "--", "true"];
    sandbox.run(&words).await.expect(0, &["longer --wait"]);
    guard.release().await.unwrap();
    let words = ["run", "k", "-E", "3", "--", "sh", "-c", "exit 75"];
    sandbox.run(&words).await.expect(75, &[]);
}

#[tokio::test]
async fn everything_is_said_in_json_when_asked() {
    let sandbox = Sandbox::new();
    let guard = sandbox.locks().await.lock("k").holder("first").acquire().await.unwrap();
    let words = ["run", "k", "--wait", "300ms", "--json", "--", "true"];
    let ran = sandbox.run(&words).await;
    ran.expect(75, &[]);
    let lines: Vec<serde_json::Value> =
        ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"], "waiting", "{ran:?}");
    assert_eq!(lines[0]["held_by"]["fence"], guard.fence().get());
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["exit"]), (&"failed".into(), &75.into()), "{ran:?}");
    guard.release().await.unwrap();
    let ran = sandbox.run(&["run", "k", "--json", "--", "echo", "out"]).await;
    ran.expect(0, &[]);
    let held: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!((&held["event"], &held["key"]), (&"holding".into(), &"k".into()));
    assert_eq!(ran.stdout, "out\n");
}

#[tokio::test]
async fn logs_are_json_where_everything_is() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tenure(&["run", "k", "--json", "-v", "--", "true"]);
    let ran = Ran::of(command.env("TENURE_LOG", "tenure=trace").spawn().unwrap()).await;
    ran.expect(0, &["\"granted\""]);
    for line in ran.stderr.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}
