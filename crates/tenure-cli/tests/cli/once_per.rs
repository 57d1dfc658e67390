//! `--once-per`: once in a period, by the clock of the store, whatever the machines' clocks say.

use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure_testkit::faketime;
use tenure_testkit::servers::{Kind, fresh_room, kinds};
use tokio::process::Command;

use crate::sandbox::{LIMIT, Printed, Ran, Sandbox, since};

fn words<'a>(period: &'a str, more: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let first = ["run", "job", "--no-wait", "--once-per", period];
    first.iter().chain(more).chain(&["--", "sh", "-c", script]).copied().collect()
}

fn runs(sandbox: &Sandbox) -> usize {
    std::fs::read_to_string(sandbox.path("log")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_job_that_is_done_is_not_done_again_in_its_period() {
    let sandbox = Sandbox::new();
    let again = words("1h", &[], "echo ran >> log");
    sandbox.run(&again).await.expect(0, &[]);
    sandbox.run(&again).await.expect(0, &["\"job\" was run ", "it ended with 0; the next run"]);
    assert_eq!(runs(&sandbox), 1);
    // The lock itself is free.
    sandbox.run(&["run", "job", "--no-wait", "--", "true"]).await.expect(0, &[]);
}

#[tokio::test]
async fn the_period_ends() {
    let sandbox = Sandbox::new();
    let again = words("2s", &[], "echo ran >> log");
    let start = SystemClock.now();
    sandbox.run(&again).await.expect(0, &[]);
    while runs(&sandbox) < 2 {
        assert!(since(start) < LIMIT, "it was not run again");
        sandbox.run(&again).await.expect(0, &[]);
    }
    assert!(since(start) >= Duration::from_secs(2), "{:?}", since(start));
}

#[tokio::test]
async fn a_failure_counts_unless_it_is_to_be_tried_again() {
    let sandbox = Sandbox::new();
    let failing = "echo ran >> log; exit 3";
    sandbox.run(&words("1h", &[], failing)).await.expect(3, &[]);
    let skipped = sandbox.run(&words("1h", &[], failing)).await;
    skipped.expect(75, &["it ended with 3", "--retry-failed would run it again"]);
    assert_eq!(runs(&sandbox), 1);
    let retry = ["--retry-failed"];
    sandbox.run(&words("1h", &retry, failing)).await.expect(3, &[]);
    sandbox.run(&words("1h", &retry, "echo ran >> log")).await.expect(0, &[]);
    assert_eq!(runs(&sandbox), 3);
    sandbox.run(&words("1h", &retry, failing)).await.expect(0, &["it ended with 0"]);
    assert_eq!(runs(&sandbox), 3);
}

#[tokio::test]
async fn a_run_that_was_killed_counts_as_failed() {
    let sandbox = Sandbox::new();
    let script = words("1h", &["--ttl", "3s"], "echo $$ > pid; exec sleep 600");
    let mut child = sandbox.tenure(&script).spawn().unwrap();
    sandbox.line("pid").await;
    child.kill().await.unwrap();
    let wait = ["run", "job", "--wait", "30s", "-q", "--once-per", "1h", "--", "true"];
    sandbox.run(&wait).await.expect(75, &["how it ended is not known"]);
    let retry = ["run", "job", "-q", "--once-per", "1h", "--retry-failed", "--", "true"];
    sandbox.run(&retry).await.expect(0, &[]);
}

/// Two machines whose clocks are a day apart; the store is a Redis with a clock of its own.
#[tokio::test]
async fn clocks_that_are_apart_make_no_second_run() {
    let redis: Kind = kinds().into_iter().find(|kind| kind.name == "redis").unwrap();
    let service = (redis.start)().unwrap();
    let sandbox = Sandbox::new();
    let urls = [service.url(fresh_room(), None), sandbox.url()];
    for url in &urls {
        let _ = std::fs::remove_file(sandbox.path("log"));
        for (index, apart) in ["+0d", "+1d", "-1d", "+400d"].into_iter().enumerate() {
            assert_eq!(days_apart(&sandbox, apart).await, apart);
            let again = words("2h", &[], "echo ran >> log");
            let mut command = days_off(&sandbox, apart, &again);
            let ran = Ran::of(command.env("TENURE_STORE", url).spawn().unwrap()).await;
            ran.expect(0, if index == 0 { &[] } else { &["it ended with 0"] });
        }
        assert_eq!(runs(&sandbox), 1, "{url}");
    }
}

/// A `tenure` whose wall clock is off.
fn days_off(sandbox: &Sandbox, apart: &str, words: &[&str]) -> Command {
    let library = format!("LD_PRELOAD={}", faketime::library().unwrap().display());
    sandbox.tenure_by(&["env", &library, &format!("FAKETIME={apart}")], words)
}

/// How far off a `tenure` with a false clock says to be: a log has the time of day in it.
async fn days_apart(sandbox: &Sandbox, apart: &str) -> String {
    let words = ["list", "--watch", "--json"];
    let mut child = days_off(sandbox, apart, &words).spawn().unwrap();
    let line = Printed::by(&mut child).json().await;
    let pid = child.id().unwrap();
    child.kill().await.unwrap();
    faketime::clean(pid);
    let said = tenure_api::rfc3339::parse(line["at"].as_str().unwrap()).unwrap();
    let hours = |time: Duration| (time.as_secs() + 1800) / 3600;
    let now = SystemClock.wall();
    match said.duration_since(now) {
        Ok(ahead) => format!("+{}d", hours(ahead) / 24),
        Err(behind) if hours(behind.duration()) == 0 => "+0d".into(),
        Err(behind) => format!("-{}d", hours(behind.duration()) / 24),
    }
}

#[cfg(feature = "remote")]
#[tokio::test]
async fn what_is_longer_than_the_store_keeps_is_refused_before_anything_is_run() {
    let sandbox = Sandbox::new();
    let (mut server, url) = sandbox.serve("127.0.0.1:0").await;
    for option in ["--once-per", "--at-least"] {
        let words = ["run", "k", option, "25h", "--store", &url, "--", "touch", "ran"];
        sandbox.run(&words).await.expect(64, &[option, " to 1 d on this store", "ttl_max"]);
    }
    let words = ["run", "k", "--once-per", "1ms", "--store", &url, "--", "touch", "ran"];
    sandbox.run(&words).await.expect(64, &["--once-per must be 100 ms to "]);
    assert!(!sandbox.path("ran").exists());
    assert_eq!(sandbox.locks().await.status("k").await.unwrap(), None);
    server.kill().await.unwrap();
}

#[tokio::test]
async fn a_store_that_ends_no_lease_is_refused() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("shelf")).unwrap();
    let url = format!("folder:{}", sandbox.path("shelf").display());
    let mut command = sandbox.tenure(&words("1h", &[], "true"));
    let ran = Ran::of(command.env("TENURE_STORE", url).spawn().unwrap()).await;
    ran.expect(69, &["--once-per needs a store that ends leases itself"]);
}

#[tokio::test]
async fn retrying_without_a_period_is_refused() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["run", "k", "--retry-failed", "--", "true"]).await;
    ran.expect(64, &["--once-per"]);
}

/// Whoever waits for the lock finds the outcome when it gets it.
#[tokio::test]
async fn those_who_wait_find_it_done() {
    let sandbox = Sandbox::new();
    let script = "echo ran >> log; sleep 0.1";
    let words =
        ["run", "job", "-q", "--once-per", "1h", "--retry-failed", "--", "sh", "-c", script];
    let children: Vec<_> = (0..12).map(|_| sandbox.tenure(&words).spawn().unwrap()).collect();
    for child in children {
        Ran::of(child).await.expect(0, &[]);
    }
    assert_eq!(runs(&sandbox), 1);
}

#[tokio::test]
async fn a_key_that_leaves_no_room_for_the_record_is_refused() {
    let sandbox = Sandbox::new();
    let key = "k".repeat(505);
    let words = ["run", &key, "--once-per", "1h", "--", "sh", "-c", "echo ran >> log"];
    sandbox.run(&words).await.expect(64, &["512", "513"]);
    assert_eq!(runs(&sandbox), 0);
    sandbox.run(&["run", &key, "--no-wait", "--", "true"]).await.expect(0, &[]);
}
