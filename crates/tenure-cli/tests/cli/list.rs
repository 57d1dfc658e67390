//! `tenure list`: who holds what.

use std::time::Duration;

use tenure::Locks;

use crate::sandbox::{Ran, Sandbox, json};
use crate::snapshot::assert_kept;

/// The table with its lengths of time, and the width that they give to columns, of one form.
fn timeless(text: &str) -> String {
    let line = |(number, line): (usize, &str)| {
        // Two spaces stand between columns, and one within a length of time.
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let mut cells: Vec<_> = cells.collect();
        assert_eq!(cells.len(), 5, "{line:?}");
        if number > 0 {
            let is_time = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit());
            assert!(is_time(cells[2]) && is_time(cells[3]), "{line:?}");
            (cells[2], cells[3]) = ("<time>", "<time>");
        }
        cells.join("  ") + "\n"
    };
    text.lines().enumerate().map(line).collect()
}

async fn three_locks(sandbox: &Sandbox) {
    let locks = Locks::builder().holder("host/7").open(&sandbox.url()).await.unwrap();
    for (key, note) in [("order:42", "nightly import"), ("deploy", ""), ("order:7", "x")] {
        let mut request = locks.lock(key).ttl(Duration::from_secs(7200));
        if !note.is_empty() {
            request = request.holder(note);
        }
        let _ = request.try_acquire().await.unwrap().unwrap().detach();
    }
}

#[tokio::test]
async fn the_table_is_as_it_was() {
    let sandbox = Sandbox::new();
    three_locks(&sandbox).await;
    let ran = sandbox.run(&["list"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
    let at = ran.stdout.find("HOLDER").unwrap();
    assert!(ran.stdout.lines().skip(1).all(|line| line[at..].starts_with("host/7")), "{ran:?}");
    assert_kept("list.txt", &timeless(&ran.stdout));
}

#[tokio::test]
async fn json_has_a_line_for_each_and_a_prefix_chooses() {
    let sandbox = Sandbox::new();
    three_locks(&sandbox).await;
    let ran = sandbox.run(&["list", "order:", "--json"]).await;
    ran.expect(0, &[]);
    let lines: Vec<_> = ran.stdout.lines().map(json).collect();
    let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["order:42", "order:7"]);
    assert_eq!((&lines[0]["fence"], &lines[0]["ttl_ms"]), (&1.into(), &7_200_000.into()));
    assert_eq!(lines[0]["holder"], "host/7 nightly import");
    let members: Vec<_> = lines[0].as_object().unwrap().keys().cloned().collect();
    assert!(!members.contains(&"owner".to_owned()), "{members:?}");
}

#[tokio::test]
async fn none_is_said_beside_the_list() {
    let sandbox = Sandbox::new();
    for (words, said) in [(&["list"][..], "no locks\n"), (&["list", "-q"], "")] {
        let ran = sandbox.run(words).await;
        ran.expect(0, &[]);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", said));
    }
    let ran = sandbox.run(&["list", "--json"]).await;
    ran.expect(0, &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[tokio::test]
async fn a_pipe_that_nobody_reads_is_no_failure() {
    let sandbox = Sandbox::new();
    three_locks(&sandbox).await;
    for words in [&["list"][..], &["list", "--json"], &["completions", "bash"], &["man"]] {
        let mut child = sandbox.tenure(words).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::of(child).await;
        ran.expect(0, &[]);
        assert_eq!(ran.stderr, "", "{words:?}");
    }
}

#[tokio::test]
async fn wrong_usage_is_64() {
    let sandbox = Sandbox::new();
    for (words, said) in [
        (&["list", "--every", "1s"][..], "--watch"),
        (&["list", "--watch", "--every", "1ms"], "100ms"),
        (&["list", "a", "b"], "unexpected argument"),
    ] {
        sandbox.run(words).await.expect(64, &[said]);
    }
}
