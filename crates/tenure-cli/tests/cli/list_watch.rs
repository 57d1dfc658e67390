//! `tenure list --watch`: the table kept up to date.

use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Clock, SystemClock};
use tokio::process::Child;

use crate::sandbox::{Printed, Ran, Sandbox, send, until, until_said};
use crate::terminal::Terminal;

const USUAL: &str = "--default-signal=INT,TERM";

fn start(sandbox: &Sandbox, more: &[&str]) -> Child {
    let words = [&["list", "--watch", "--every", "100ms"], more].concat();
    sandbox.tenure_by(&["env", USUAL], &words).spawn().unwrap()
}

#[tokio::test]
async fn on_a_pipe_the_table_is_printed_again_when_it_changed() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let first = locks.lock("a").holder("one").acquire().await.unwrap();
    let mut child = start(&sandbox, &[]);
    let mut printed = Printed::by(&mut child);
    assert!(printed.line().await.starts_with("KEY "));
    assert!(printed.line().await.contains(" one "));
    let second = locks.lock("b").holder("two").acquire().await.unwrap();
    // Only the change has brought another table.
    assert_eq!(printed.line().await, "");
    assert!(printed.line().await.starts_with("KEY "));
    assert!(printed.line().await.starts_with("a "));
    assert!(printed.line().await.starts_with("b "));
    first.release().await.unwrap();
    assert_eq!(printed.line().await, "");
    assert!(printed.line().await.starts_with("KEY "));
    assert!(printed.line().await.contains(" two "));
    second.release().await.unwrap();
    until_said(&mut child, "no locks").await;
    send(&child, Signal::INT);
    Ran::of(child).await.expect(0, &[]);
}

#[tokio::test]
async fn in_json_each_change_is_a_line() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let mut child = start(&sandbox, &["--json"]);
    let mut printed = Printed::by(&mut child);
    let line = printed.json().await;
    assert_eq!(line["locks"], serde_json::json!([]));
    assert!(tenure_api::rfc3339::parse(line["at"].as_str().unwrap()).is_some());
    // Long enough for some more looks, which find no change.
    SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(500)).await;
    let guard = locks.lock("a").acquire().await.unwrap();
    assert_eq!(printed.json().await["locks"][0]["fence"], 1);
    guard.release().await.unwrap();
    assert_eq!(printed.json().await["locks"], serde_json::json!([]));
    send(&child, Signal::TERM);
    Ran::of(child).await.expect(143, &[]);
}

#[tokio::test]
async fn it_ends_when_nobody_reads() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("a", "x").await;
    let mut child = start(&sandbox, &[]);
    let mut printed = Printed::by(&mut child);
    printed.line().await;
    drop(printed);
    sandbox.leave_lock("b", "x").await;
    let ran = Ran::of(child).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn on_a_terminal_it_is_drawn_anew() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("a").holder(&"long ".repeat(60)).acquire().await.unwrap();
    let mut terminal = Terminal::new(80, 24);
    let words = ["list", "--watch", "--every", "100ms"];
    let mut command = sandbox.tenure_by(&["env", USUAL], &words);
    let child = command.stdout(terminal.stream()).spawn().unwrap();
    drop(command);
    let on = format!("1 lock on {}", sandbox.url());
    let shown = until("a table", || terminal.read().filter(|text| text.contains(&on))).await;
    assert!(shown.starts_with("\u{1b}[2J\u{1b}[H"), "{shown:?}");
    let row = shown.split("\r\n").find(|line| line.starts_with("a ")).unwrap();
    let row = row.trim_end_matches("\u{1b}[K");
    assert!(row.chars().count() <= 80 && row.contains('…'), "{row:?}");
    guard.release().await.unwrap();
    until("an empty table", || terminal.read().filter(|text| text.contains("no locks on"))).await;
    send(&child, Signal::INT);
    Ran::of(child).await.expect(0, &[]);
}

#[tokio::test]
async fn a_store_that_fails_is_said_once() {
    let sandbox = Sandbox::new();
    sandbox.leave_lock("a", "x").await;
    let mut child = start(&sandbox, &[]);
    let mut printed = Printed::by(&mut child);
    printed.line().await;
    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        std::fs::rename(sandbox.path(name), sandbox.path(&format!("away-{name}"))).unwrap();
    }
    let said = until_said(&mut child, "trying again").await;
    assert_eq!(said.matches("trying again").count(), 1, "{said:?}");
    // Long enough for some more looks, which fail too.
    SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(500)).await;
    send(&child, Signal::INT);
    let ran = Ran::of(child).await;
    ran.expect(0, &[]);
    assert!(!ran.stderr.contains("trying again"), "{ran:?}");
}
