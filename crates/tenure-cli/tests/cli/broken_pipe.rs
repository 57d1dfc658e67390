//! Whoever reads what `tenure` prints may have gone: that ends what has no other end, and is never
//! a crash.

use std::process::Stdio;

use crate::sandbox::{Ran, Sandbox};

/// A stream that nobody reads any more.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_no_failure() {
    let sandbox = Sandbox::new();
    for words in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["bench", "--seconds", "1", "--only", "cycle"],
        &["config"],
        &["config", "--json"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let child = sandbox.tenure(words).stdout(unread()).spawn().unwrap();
        let ran = Ran::of(child).await;
        ran.expect(0, &[]);
        assert_eq!(ran.stderr, "", "{words:?}");
    }
}

#[tokio::test]
async fn a_command_runs_to_its_end_though_nobody_hears_what_is_said() {
    let sandbox = Sandbox::new();
    for more in [&["-v"][..], &["--json"], &["--json", "-v"]] {
        let words = [&["run", "k"], more, &["--", "sh", "-c", "echo out; exit 3"]].concat();
        let child = sandbox.tenure(&words).stderr(unread()).spawn().unwrap();
        let ran = Ran::of(child).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "out\n"), "{more:?}");
    }
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_failure_has_its_code_though_nobody_hears_of_it() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("k", "x").await;
    for (words, code) in [
        (&["run", "k", "--no-wait", "--", "true"][..], 75),
        (&["run", "k"], 64),
        (&["status", "k", "--store", "file:/nonexistent/x.db"], 69),
    ] {
        let child = sandbox.tenure(words).stderr(unread()).spawn().unwrap();
        assert_eq!(Ran::of(child).await.code, Some(code), "{words:?}");
    }
}

/// It waits where nobody hears that it does, and still gets the lock.
#[tokio::test]
async fn who_waits_unheard_is_granted_the_lock_too() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let words = ["run", "k", "--", "touch", "ran"];
    let child = sandbox.tenure(&words).stderr(unread()).spawn().unwrap();
    guard.release().await.unwrap();
    Ran::of(child).await.expect(0, &[]);
    assert!(sandbox.path("ran").exists());
}
