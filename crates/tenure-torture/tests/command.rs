//! The command as a person types it. That there is such a test is also why `cargo test` builds the
//! program, which `cargo xtask test` runs afterwards.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Command, Output};

fn torture(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torture")).args(arguments).output().unwrap()
}

#[test]
fn a_store_that_is_not_there_is_told_with_those_that_are() {
    let output = torture(&["--store", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no store \"nothing\"") && told.contains("redis"), "{told}");
}

#[test]
fn help_is_there() {
    let output = torture(&["--help"]);
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("--cards") && told.contains("200,000"), "{told}");
}

#[test]
fn a_folder_without_a_history_cannot_be_judged() {
    let folder = tempfile::tempdir().unwrap();
    let output = torture(&["--judge", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no run: ") && told.contains("case.json"), "{told}");
}
