//! What is said when something is wrong, word for word. `UPDATE=1` writes the file anew.

use crate::sandbox::{Ran, Sandbox};
use crate::snapshot::assert_kept;

/// What people get wrong, with what they are told and the code that it ends with.
async fn told(sandbox: &Sandbox, words: &[&str]) -> String {
    let Ran { code, stdout, stderr } = sandbox.run(words).await;
    assert_eq!(stdout, "", "{words:?}");
    let line: Vec<_> = words.iter().map(|word| word.replace('\n', "\\n")).collect();
    let folder = sandbox.path("").display().to_string();
    let stderr = stderr.replace(folder.trim_end_matches('/'), "<folder>");
    format!("$ tenure {}\n{stderr}exit {}\n\n", line.join(" "), code.unwrap())
}

async fn all_told(sandbox: &Sandbox, lines: &[&[&str]]) -> String {
    let mut text = String::new();
    for words in lines {
        text += &told(sandbox, words).await;
    }
    text
}

#[tokio::test]
async fn wrong_usage_is_answered_as_it_was() {
    let sandbox = Sandbox::new();
    let lines: &[&[&str]] = &[
        &["walk"],
        &["run"],
        &["run", "k"],
        &["run", "k", "true"],
        &["run", "", "--", "true"],
        &["run", "a\nb", "--", "true"],
        &["run", "k", "--wait", "10", "--", "true"],
        &["run", "k", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "k", "--ttl", "25h", "--", "true"],
        &["run", "k", "--on-lost", "pray", "--", "true"],
        &["run", "k", "--retry-failed", "--", "true"],
        &["run", "k", "--namespace", "a/b", "--", "true"],
        &["run", "k", "--store", "locks.db", "--", "true"],
        &["run", "k", "--store", "oracle://a", "--", "true"],
        &["elect", "k"],
        &["acquire"],
        &["release", "k"],
        &["force-release", "k"],
        &["force-release", "k", "--reason", "x"],
        &["list", "--every", "1s"],
        &["watch"],
        &["verify", "--for", "0s"],
        &["bench", "--seconds", "0"],
        &["completions", "cmd"],
        &["man", "walk"],
    ];
    assert_kept("errors-usage.txt", &all_told(&sandbox, lines).await);
    assert!(!sandbox.path("locks.db").exists());
}

#[tokio::test]
async fn what_goes_wrong_is_told_as_it_was() {
    let sandbox = Sandbox::new();
    let locks = tenure::Locks::builder().holder("host/7").open(&sandbox.url()).await.unwrap();
    let _ = locks.lock("held").acquire().await.unwrap().detach();
    std::fs::write(sandbox.path("other.db"), "this is no database\n".repeat(1000)).unwrap();
    let other = format!("file:{}", sandbox.path("other.db").display());
    let lines: &[&[&str]] = &[
        &["run", "held", "--no-wait", "--", "true"],
        &["acquire", "held", "--no-wait"],
        &["run", "k", "--", "./no-such-program"],
        &["run", "k", "--", "/"],
        &["run", "k", "--store", "file:/nonexistent/x.db", "--", "true"],
        &["run", "k", "--store", "file:/dev/null", "--", "true"],
        &["run", "k", "--store", &other, "--", "true"],
        &["run", "k", "--store", "memory:", "--", "true"],
        &["run", "k", "--at-least", "9000h", "--", "true"],
        &["release", "k", "--owner", "x"],
        &["release", "held", "--owner", "x"],
        &["renew", "k", "--owner", "x"],
        &["force-release", "k", "--reason", "x", "--yes"],
        &["bench", "--store", "file:/nonexistent/x.db"],
    ];
    let text = all_told(&sandbox, lines).await.replace(&other, "file:<folder>/other.db");
    assert_kept("errors.txt", &text);
}
