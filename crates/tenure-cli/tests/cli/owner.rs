//! The owner is shown to whoever asked for the lock, and to nobody else.

use rustix::process::Signal;

use crate::sandbox::{Printed, Ran, Sandbox, json, send};

#[tokio::test]
async fn no_command_shows_the_owner_of_a_lease() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["acquire", "k", "--ttl", "1h", "--json"]).await;
    let owner = json(&ran.stdout)["owner"].as_str().unwrap().to_owned();
    assert_eq!(owner.len(), 36);
    let forms = [owner.clone(), owner.replace('-', "")];
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["status", "k"],
        &["status", "k", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["config"],
        &["config", "--json"],
        &["renew", "k"],
        &["renew", "k", "--json"],
        &["renew", "other"],
        &["acquire", "k", "--no-wait"],
        &["force-release", "other", "--reason", "x", "--yes"],
        &["release", "k", "--json"],
    ] {
        let mut command = sandbox.tenure(&[words, &["-v"]].concat());
        command.env("TENURE_OWNER", &owner).env("TENURE_LOG", "trace");
        let ran = Ran::of(command.spawn().unwrap()).await;
        for form in &forms {
            let is_shown = ran.stdout.contains(form) || ran.stderr.contains(form);
            assert!(!is_shown, "{words:?}: {ran:?}");
        }
    }
    assert!(!sandbox.locks().await.is_locked("k").await.unwrap(), "the last one had the owner");
}

#[tokio::test]
async fn a_watch_does_not_show_it_either() {
    let sandbox = Sandbox::new();
    let owner = sandbox.leave_lock("k", "x").await;
    let mut lines = Vec::new();
    for words in [&["watch", "k"][..], &["watch", "k", "--json"], &["list", "--watch"]] {
        let mut command = sandbox.tenure_by(&["env", "--default-signal=INT"], words);
        let mut child = command.spawn().unwrap();
        let mut printed = Printed::by(&mut child);
        lines.push(printed.line().await);
        send(&child, Signal::INT);
        let ran = Ran::of(child).await;
        ran.expect(0, &[]);
        lines.push(ran.stderr);
    }
    assert!(lines[0].contains("held by"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(&owner)), "{lines:?}");
}
