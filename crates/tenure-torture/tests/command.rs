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

/// A case and the lines of two workers, of which the second is granted the key too.
fn history(second: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let patience = r#"{"secs":1,"nanos":0}"#;
    let rest = r#""links":{},"lags":[],"left":[],"stuck":[]"#;
    let case = format!(r#""store":"redis","patience":{patience},"is_observed":false,"wakes":true"#);
    write("case.json", &format!("{{{case},{rest}}}"));
    write("faults.jsonl", "");
    let lines = |worker: u64, at: u64, fence: u64| {
        let line =
            |at: u64, what: &str| format!(r#"{{"w":{worker},"c":1,"k":"k","t":{at},{what}}}"#);
        let asked = line(at, r#""is":"asked","ttl":2000000000,"wait":0"#);
        let granted = line(at + 5, &format!(r#""is":"granted","fence":{fence}"#));
        let given = line(at + 10, r#""is":"release-asked""#);
        format!("{asked}\n{granted}\n{given}\n{}\n", line(at + 15, r#""is":"released""#))
    };
    write("history-1.jsonl", &lines(1, 100, 1));
    write("history-2.jsonl", &lines(2, second, 2));
    folder
}

#[test]
fn a_history_that_was_kept_is_judged_again() {
    let judged = |second: u64| {
        let folder = history(second);
        let output = torture(&["--judge", folder.path().to_str().unwrap()]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, told) = judged(200);
    assert!(code == Some(0) && told.contains("no violation"), "{told}");
    let (code, told) = judged(102);
    assert!(code == Some(1) && told.contains("linear k: "), "{told}");
}
