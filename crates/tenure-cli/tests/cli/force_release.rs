//! `tenure force-release`: a lock is taken away.

use tokio::process::Child;

use crate::sandbox::{Ran, Sandbox, json, until, until_said};
use crate::terminal::Terminal;

#[tokio::test]
async fn without_a_terminal_it_must_be_meant() {
    let sandbox = Sandbox::new();
    let owner = sandbox.leave_lock("k", "nightly import").await;
    let words = ["force-release", "k", "--reason", "host is gone"];
    let ran = sandbox.run(&words).await;
    ran.expect(64, &["no terminal to ask on", "say --yes"]);
    assert!(sandbox.locks().await.is_locked("k").await.unwrap());

    let ran = sandbox.run(&[&words[..], &["--yes"]].concat()).await;
    ran.expect(0, &[]);
    assert!(ran.stdout.starts_with("\"k\" was taken from "), "{ran:?}");
    assert!(ran.stdout.contains("nightly import (fence 1, granted "), "{ran:?}");
    assert!(!ran.stdout.contains(&owner), "{ran:?}");
    sandbox.run(&["status", "k"]).await.expect(1, &[]);
}

#[tokio::test]
async fn json_says_who_lost_it() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "nightly import").await;
    let words = ["force-release", "k", "--reason", "host is gone", "--yes", "--json"];
    let ran = sandbox.run(&words).await;
    ran.expect(0, &[]);
    let lost = json(&ran.stdout);
    assert_eq!((&lost["forced"], &lost["reason"]), (&true.into(), &"host is gone".into()));
    assert_eq!((&lost["key"], &lost["fence"]), (&"k".into(), &1.into()));
    assert!(lost["holder"].as_str().unwrap().ends_with(" nightly import"), "{lost}");
}

#[tokio::test]
async fn what_is_free_cannot_be_taken() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["force-release", "k", "--reason", "x", "--yes"]).await;
    ran.expect(1, &["\"k\" is free: there is nothing to take away"]);
    assert_eq!(ran.stdout, "");
}

#[tokio::test]
async fn there_must_be_a_reason() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "x").await;
    sandbox.run(&["force-release", "k", "--yes"]).await.expect(64, &["--reason"]);
    let ran = sandbox.run(&["force-release", "k", "--yes", "--reason", ""]).await;
    ran.expect(64, &["reason"]);
    assert!(sandbox.locks().await.is_locked("k").await.unwrap());
}

#[cfg(feature = "object")]
#[tokio::test]
async fn an_entry_that_cannot_be_read_is_replaced() {
    let sandbox = Sandbox::new();
    let url = format!("folder:{}", sandbox.path("locks").display());
    let force = ["force-release", "k", "--reason", "x", "--yes", "--store", &url];
    for (more, said) in
        [(&[][..], "was damaged, and is replaced"), (&["--json"], "\"forced\":true")]
    {
        sandbox.run(&["acquire", "k", "--store", &url]).await.expect(0, &[]);
        let entries = std::fs::read_dir(sandbox.path("locks")).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let is_entry = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"lease\""))
        };
        std::fs::write(paths.find(is_entry).unwrap(), "{").unwrap();
        sandbox.run(&["status", "k", "--store", &url]).await.expect(69, &["force-release the key"]);
        let ran = sandbox.run(&[&force[..], more].concat()).await;
        ran.expect(0, &[]);
        assert!(ran.stdout.contains(said), "{ran:?}");
        sandbox.run(&["status", "k", "--store", &url]).await.expect(1, &[]);
    }
}

/// Started at a terminal, and asking.
async fn asked(sandbox: &Sandbox, terminal: &Terminal) -> (Child, String) {
    let mut command = sandbox.tenure(&["force-release", "k", "--reason", "a test"]);
    let mut child = command.stdin(terminal.stream()).spawn().unwrap();
    let said = until_said(&mut child, "Take it away? [y/N] ").await;
    (child, said)
}

#[tokio::test]
async fn on_a_terminal_it_shows_who_loses_it_and_asks() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "nightly import").await;
    let mut terminal = Terminal::new(80, 24);
    for answer in ["n\n", "\n", "maybe\n"] {
        let (child, said) = asked(&sandbox, &terminal).await;
        for part in ["nightly import\n", "granted ", "ttl left ", "fence     1\n"] {
            assert!(said.contains(part), "{part:?} is missing in {said:?}");
        }
        terminal.write(answer);
        Ran::of(child).await.expect(1, &["nothing was taken away"]);
    }
    let (child, _) = asked(&sandbox, &terminal).await;
    terminal.write("y\n");
    let ran = Ran::of(child).await;
    ran.expect(0, &[]);
    assert!(ran.stdout.contains("nightly import (fence 1"), "{ran:?}");
    assert!(!sandbox.locks().await.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn a_yes_to_one_holder_does_not_hit_the_next() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "first").await;
    let mut terminal = Terminal::new(80, 24);
    let (child, _) = asked(&sandbox, &terminal).await;
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    sandbox.leave_lock("k", "second").await;
    terminal.write("y\n");
    Ran::of(child).await.expect(1, &["gone to another holder", "look again"]);
    assert!(sandbox.locks().await.is_locked("k").await.unwrap());
    until("echo", || terminal.read().filter(|text| text.contains('y'))).await;
}
