//! One at a time, with nothing running, and after a crash too.

use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Clock, SystemClock};

use crate::sandbox::{Ran, Sandbox, is_running, send, since, until, until_said};

const AT_ONCE: usize = 50;

#[tokio::test]
async fn fifty_at_once_run_one_after_the_other() {
    let sandbox = Sandbox::new();
    let script = "echo start $TENURE_FENCE >> log; sleep 0.02; echo end $TENURE_FENCE >> log";
    let words = ["run", "k", "-q", "--ttl", "30s", "--", "sh", "-c", script];
    let children: Vec<_> = (0..AT_ONCE).map(|_| sandbox.tenure(&words).spawn().unwrap()).collect();
    for child in children {
        Ran::of(child).await.expect(0, &[]);
    }
    let log = std::fs::read_to_string(sandbox.path("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2 * AT_ONCE, "{log}");
    let mut last = 0;
    for pair in lines.chunks(2) {
        let number = |line: &str, word| line.strip_prefix(word).and_then(|n| n.parse::<u64>().ok());
        let fence = number(pair[0], "start ").unwrap_or_else(|| panic!("{log}"));
        assert_eq!(number(pair[1], "end "), Some(fence), "{log}");
        assert!(fence > last, "{log}");
        last = fence;
    }
}

#[tokio::test]
async fn one_that_is_killed_is_taken_over_within_its_ttl() {
    const TTL: Duration = Duration::from_secs(2);
    let sandbox = Sandbox::new();
    let hold = "echo $TENURE_FENCE > fence; echo $$ > pid; exec sleep 600";
    let words = ["run", "k", "--ttl", "2s", "--", "sh", "-c", hold];
    let mut killed = sandbox.tenure(&words).spawn().unwrap();
    let orphan = sandbox.pid("pid").await;
    let next = ["run", "k", "--wait", "30s", "--", "sh", "-c", "echo $TENURE_FENCE > next"];
    let mut waiter = sandbox.tenure(&next).spawn().unwrap();
    until_said(&mut waiter, "waiting for \"k\"").await;

    send(&killed, Signal::KILL);
    let at = SystemClock.now();
    killed.wait().await.unwrap();
    until("end of the orphan", || (!is_running(orphan)).then_some(())).await;

    let after: u64 = sandbox.line("next").await.trim().parse().unwrap();
    let took = since(at);
    Ran::of(waiter).await.expect(0, &[]);
    // A busy machine is late, but never by as much as a look that nobody called for.
    assert!(took <= TTL * 3, "{took:?}");
    let before: u64 = sandbox.line("fence").await.trim().parse().unwrap();
    assert!(after > before, "{after} after {before}");
}
