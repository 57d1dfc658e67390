//! `tenure doctor`: what a store is worth.

use crate::sandbox::{Ran, Sandbox, json};
use crate::snapshot::assert_kept;
use crate::terminal::Terminal;

#[tokio::test]
async fn the_embedded_store_is_of_class_f() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["doctor"]).await;
    ran.expect(0, &[]);
    assert!(ran.stdout.starts_with(&format!("store  {}\nclass  F (", sandbox.url())), "{ran:?}");
    assert!(ran.stdout.contains("\nGood to know\n"), "{ran:?}");
    assert!(ran.stdout.contains("  exclusion: a key that is held was refused"), "{ran:?}");

    let ran = sandbox.run(&["doctor", "--json"]).await;
    ran.expect(0, &[]);
    let report = json(&ran.stdout);
    assert_eq!(report["store"], sandbox.url());
    assert_eq!((&report["class"], &report["timing"]), (&"F".into(), &"store".into()));
    assert_eq!(report["exit"], 0);
    let fence = report["findings"].as_array().unwrap();
    let fence = fence.iter().find(|finding| finding["topic"] == "wake-up").unwrap();
    assert_eq!(fence["severity"], "note");
    assert_eq!(fence["text"], "a release wakes those who wait");

    let ran = sandbox.run(&["doctor", "--quiet"]).await;
    ran.expect(0, &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[tokio::test]
async fn colours_are_for_terminals_and_for_who_wants_them() {
    let sandbox = Sandbox::new();
    for (variable, shown) in [("", "class  \u{1b}[32mF\u{1b}[0m ("), ("1", "class  F (")] {
        let mut terminal = Terminal::new(80, 24);
        let mut command = sandbox.tenure(&["doctor"]);
        let child = command.env("NO_COLOR", variable).stdout(terminal.stream()).spawn().unwrap();
        Ran::of(child).await.expect(0, &[]);
        let text = terminal.read().unwrap();
        assert!(text.contains(shown), "{text:?}");
    }
}

#[tokio::test]
async fn a_store_that_may_lose_a_grant_is_1() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["doctor", "--store", "memory:"]).await;
    ran.expect(1, &[]);
    assert!(ran.stdout.contains("class  E (efficiency only"), "{ran:?}");
    let lowered = ran.stdout.find("What lowers its class\n").unwrap();
    assert!(lowered < ran.stdout.find("Good to know\n").unwrap(), "the gravest is first: {ran:?}");
    let ran = sandbox.run(&["doctor", "--store", "memory:", "--json"]).await;
    ran.expect(1, &[]);
    let report = json(&ran.stdout);
    assert_eq!((&report["class"], &report["exit"]), (&"E".into(), &1.into()));
    assert_eq!(report["findings"][0]["severity"], "lowering");
}

#[cfg(feature = "object")]
#[tokio::test]
async fn in_a_folder_those_who_wait_time_the_leases() {
    let sandbox = Sandbox::new();
    let url = format!("folder:{}", sandbox.path("locks").display());
    let ran = sandbox.run(&["doctor", "--json", "--store", &url]).await;
    let report = json(&ran.stdout);
    assert_eq!((&report["store"], &report["timing"]), (&"folder".into(), &"observer".into()));
    // The temporary folder may be in memory, which a reboot clears.
    let class = if ran.code == Some(0) { "F" } else { "E" };
    assert_eq!(report["class"], class, "{ran:?}");
    assert_eq!(report["exit"].as_i64(), ran.code.map(Into::into));
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_69_with_a_remedy() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["doctor", "--store", "file:/nonexistent/x.db"]).await;
    ran.expect(69, &[]);
    assert!(ran.stdout.contains("It cannot be used like this\n"), "{ran:?}");
    assert!(ran.stdout.contains("how to mend it: correct the URL"), "{ran:?}");
    let ran = sandbox.run(&["doctor", "--json", "--store", "file:/nonexistent/x.db"]).await;
    ran.expect(69, &[]);
    let report = json(&ran.stdout);
    assert_eq!((&report["class"], &report["exit"]), (&serde_json::Value::Null, &69.into()));
    assert_eq!(report["findings"][0]["severity"], "refusal");
    sandbox.run(&["doctor", "--store", "oracle://a"]).await.expect(64, &["scheme", "--store"]);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn no_password_is_shown() {
    let sandbox = Sandbox::new();
    // Nothing listens there.
    let url = "redis://me:hunter2@127.0.0.1:1/?x=hunter2";
    for words in [&["doctor", "-v"][..], &["doctor", "--json", "-v"]] {
        let mut command = sandbox.tenure(words);
        command.env("TENURE_STORE", url).env("TENURE_LOG", "tenure=trace");
        let ran = Ran::of(command.spawn().unwrap()).await;
        ran.expect(69, &[]);
        assert!(ran.stdout.contains("redis"), "{ran:?}");
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran:?}");
    }
}

/// The store whose findings are the same everywhere.
#[tokio::test]
async fn the_report_is_as_it_was() {
    let ran = Sandbox::new().run(&["doctor", "--store", "memory:"]).await;
    ran.expect(1, &[]);
    let (text, time) = ran.stdout.trim_end().rsplit_once("a read takes about ").unwrap();
    assert!(time.ends_with('s'), "{ran:?}");
    assert_kept("doctor-memory.txt", &format!("{text}a read takes about <time>\n"));
}
