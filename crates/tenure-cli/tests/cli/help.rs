//! The help, word for word. `UPDATE=1` writes the files anew.

use std::path::Path;

use crate::sandbox::{Ran, Sandbox};

async fn assert_snapshot(name: &str, words: &[&str], code: i32) {
    let Ran { code: ended, stdout, stderr } = Sandbox::new().run(words).await;
    let (text, other) = if code == 0 { (stdout, stderr) } else { (stderr, stdout) };
    assert_eq!(ended, Some(code), "{text}{other}");
    assert_eq!(other, "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{name} differs: look at it, then run with UPDATE=1");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "a line of {name} has {longest:?} characters");
}

#[tokio::test]
async fn help_is_as_it_was() {
    assert_snapshot("help.txt", &["--help"], 0).await;
    assert_snapshot("help-short.txt", &["-h"], 0).await;
    assert_snapshot("run-help.txt", &["run", "--help"], 0).await;
    assert_snapshot("run-help-short.txt", &["run", "-h"], 0).await;
    assert_snapshot("verify-help.txt", &["verify", "--help"], 0).await;
    assert_snapshot("bench-help.txt", &["bench", "--help"], 0).await;
}

#[tokio::test]
async fn nothing_at_all_is_answered_with_the_short_help() {
    assert_snapshot("help-short-on-stderr.txt", &[], 64).await;
}

#[tokio::test]
async fn the_version_is_told() {
    let ran = Sandbox::new().run(&["--version"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stdout, format!("tenure {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn help_does_not_show_the_store_s_password() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.tenure(&["run", "--help"]);
    let ran = Ran::of(command.env("TENURE_STORE", "redis://hunter2@h").spawn().unwrap()).await;
    ran.expect(0, &[]);
    assert!(!ran.stdout.contains("hunter2"));
}
