//! `tenure bench`: figures that fit each other.

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox};
use crate::terminal::Terminal;

#[tokio::test]
async fn everything_is_measured_and_drawn_in_plain_text() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["bench", "--seconds", "1"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
    for name in ["round trip:", "cycle:", "hand-off:", "contention:", "spread:"] {
        assert!(ran.stdout.contains(&format!("\n{name} ")), "{name} in {}", ran.stdout);
    }
    assert!(ran.stdout.is_ascii() && ran.stdout.contains("##"), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("round trips\n").count(), 4, "{}", ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.len() <= 80), "{}", ran.stdout);
}

fn assert_sane(figures: &Value) {
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert!(number("count") > 0.0 && number("per_second") > 0.0, "{figures}");
    let order = ["p50_us", "p90_us", "p99_us", "max_us"].map(number);
    assert!(order[0] > 0.0 && order.is_sorted(), "{figures}");
    let buckets = figures["buckets"].as_array().unwrap();
    let counted: u64 = buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(Some(counted), figures["count"].as_u64());
    let last = buckets.last().unwrap();
    let ends = ["from_us", "to_us"].map(|name| last[name].as_f64().unwrap());
    assert!(ends[0] <= order[3] && order[3] < ends[1], "{figures}");
}

#[tokio::test]
async fn the_figures_can_be_json_and_of_one_kind_only() {
    let sandbox = Sandbox::new();
    for (only, names) in [
        ("cycle", &["cycle"][..]),
        ("handoff", &["hand-off"]),
        ("contention", &["contention", "spread"]),
    ] {
        let ran = sandbox.run(&["bench", "--seconds", "1", "--json", "--only", only]).await;
        ran.expect(0, &[]);
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((found["store"].as_str(), found["seconds"].as_u64()), (Some("file"), Some(1)));
        assert_sane(&found["round_trip"]);
        let results = found["results"].as_array().unwrap();
        let named: Vec<_> = results.iter().map(|result| result["name"].as_str().unwrap()).collect();
        assert_eq!(named, names);
        for result in results {
            assert_sane(result);
            assert!(result["round_trips"].as_f64().unwrap() > 0.0);
        }
    }
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let sandbox = Sandbox::new();
    sandbox.run(&["bench", "--seconds", "1", "--only", "handoff"]).await.expect(0, &[]);
    let url = sandbox.url();
    let clock = std::sync::Arc::new(tenure::clock::SystemClock);
    let store = tenure::stores::open(&url, clock).await.unwrap();
    let query = tenure::claim::ListQuery { prefix: String::new(), after: None, limit: 100 };
    assert_eq!(store.list(&query).await.unwrap().items, []);
}

#[tokio::test]
async fn what_cannot_be_measured_is_told() {
    let sandbox = Sandbox::new();
    let run = async |words: &[&str]| -> Ran { sandbox.run(&[&["bench"], words].concat()).await };
    run(&["--store", "file:/nonexistent/x.db"]).await.expect(69, &["does not exist"]);
    run(&["--store", "memory:"]).await.expect(69, &["local to this process"]);
    run(&["--only", "nothing"]).await.expect(64, &["possible values"]);
    run(&["--seconds", "0"]).await.expect(64, &["error"]);
}

#[tokio::test]
async fn on_a_terminal_a_bar_grows_and_is_gone() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::new(80, 24);
    let mut command = sandbox.tenure(&["bench", "--seconds", "1", "--only", "cycle"]);
    let child = command.env("LC_ALL", "C").stderr(terminal.stream()).spawn().unwrap();
    let ran = Ran::of(child).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = terminal.read().unwrap();
    let shown: Vec<&str> = text.split("\r\u{1b}[K").collect();
    let is_bar =
        |line: &&&str| line.contains(" %  ") && line.trim_start_matches(['#', '.']) != **line;
    assert!(shown.iter().filter(is_bar).count() > 2, "{text:?}");
    let full = |line: &&str| line.matches('#').count();
    assert!(shown.iter().map(full).is_sorted_by(|a, b| a <= b || *b == 0), "{text:?}");
    assert_eq!(shown.last(), Some(&""), "{text:?}");
}
