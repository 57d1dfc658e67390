//! A command does not outlive its lock.

use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Clock, SystemClock};
use tokio::process::Child;

use crate::sandbox::{BEATS, LIMIT, Ran, Sandbox, is_running, send, since, until, until_said};

const TTL: Duration = Duration::from_secs(5);

fn start(sandbox: &Sandbox, script: &str) -> Child {
    sandbox.tenure(&["run", "k", "--ttl", "5s", "--", "sh", "-c", script]).spawn().unwrap()
}

#[tokio::test]
async fn a_lock_that_is_taken_away_stops_the_command() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo TERM > got; exit 0' TERM; echo $$ > pid; \
                  while :; do sleep 0.02; done";
    let child = start(&sandbox, script);
    let command = sandbox.pid("pid").await;
    let at = SystemClock.now();
    let evicted = sandbox.locks().await.force_release("k", "a test").await.unwrap();
    assert!(evicted.is_some());
    let ran = Ran::of(child).await;
    let took = since(at);
    ran.expect(76, &["tenure: the lock \"k\" (fence 1) was lost: ", "by force", "with SIGTERM"]);
    assert_eq!(sandbox.line("got").await, "TERM\n");
    assert!(took < TTL, "{took:?}");
    assert!(!is_running(command));
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed() {
    let sandbox = Sandbox::new();
    let child = start(&sandbox, "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done");
    let command = sandbox.pid("pid").await;
    let at = SystemClock.now();
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    Ran::of(child).await.expect(76, &["with SIGKILL"]);
    let took = since(at);
    assert!(took < TTL, "{took:?}");
    assert!(!is_running(command));
}

/// No renewal comes through any more: the store is gone, and nobody else says so.
#[tokio::test]
async fn a_store_that_goes_away_stops_the_command_before_the_lease_can_end() {
    for (trap, said) in [("", "with SIGTERM"), ("trap '' TERM;", "with SIGKILL")] {
        let sandbox = Sandbox::new();
        let child = start(&sandbox, &format!("{trap} echo $$ > pid; {BEATS}"));
        let command = sandbox.pid("pid").await;
        for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
            std::fs::rename(sandbox.path(name), sandbox.path(&format!("away-{name}"))).unwrap();
        }
        // The last renewal was asked for before this, so the lease does not end after this + ttl.
        let at = SystemClock.now();
        until("end of the command", || (!is_running(command)).then_some(())).await;
        let took = sandbox.last_beat().await.since(at);
        assert!(took < TTL, "{took:?}");
        Ran::of(child).await.expect(76, &["could not be renewed in time", said]);
    }
}

#[tokio::test]
async fn what_the_command_has_started_is_stopped_too() {
    let sandbox = Sandbox::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 0.02; done' & \
                  wait";
    let child = start(&sandbox, script);
    let grandchild = sandbox.pid("grandchild").await;
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    Ran::of(child).await.expect(76, &["with SIGKILL"]);
    assert!(!is_running(grandchild));
}

#[tokio::test]
async fn a_loss_that_is_found_at_the_end_is_76_as_well() {
    let sandbox = Sandbox::new();
    // With this ttl no renewal comes in between.
    let words = ["run", "k", "--ttl", "1h", "--", "sh", "-c", "echo $$ > pid; cat gate"];
    sandbox.gate();
    let child = sandbox.tenure(&words).spawn().unwrap();
    sandbox.line("pid").await;
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    sandbox.open_gate();
    Ran::of(child).await.expect(76, &["release \"k\"", "the command ran to its end"]);
}

/// One that has left its group and its session is found by whom it descends from.
#[tokio::test]
async fn no_grandchild_survives_wherever_it_has_gone() {
    let sandbox = Sandbox::new();
    let stubborn = "trap \"\" TERM HUP; echo $$ > %; while :; do sleep 0.02; done";
    let far = stubborn.replace('%', "far");
    let near = stubborn.replace('%', "near");
    let script = format!("setsid sh -c '{far}' & (sh -c '{near}' &) ; wait");
    let child = start(&sandbox, &script);
    let (far, near) = (sandbox.pid("far").await, sandbox.pid("near").await);
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    Ran::of(child).await.expect(76, &["with SIGKILL"]);
    assert!(!is_running(far) && !is_running(near));
}

#[tokio::test]
async fn on_lost_kill_gives_no_time() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo TERM > got' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let words = ["run", "k", "--ttl", "2s", "--on-lost", "kill", "--", "sh", "-c", script];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    Ran::of(child).await.expect(76, &["with SIGKILL"]);
    assert!(!is_running(command) && !sandbox.path("got").exists());
}

#[tokio::test]
async fn on_lost_warn_lets_it_go_on_and_says_so() {
    let sandbox = Sandbox::new();
    sandbox.gate();
    let script = "echo $$ > pid; cat gate; echo done > done; exit 3";
    let words = ["run", "k", "--ttl", "3s", "--on-lost", "warn", "--", "sh", "-c", script];
    let mut child = sandbox.tenure(&words).spawn().unwrap();
    sandbox.line("pid").await;
    sandbox.locks().await.force_release("k", "a test").await.unwrap();
    until_said(&mut child, "the command goes on").await;
    sandbox.open_gate();
    Ran::of(child).await.expect(76, &["went on without it to its end"]);
    assert_eq!(sandbox.line("done").await, "done\n");
}

/// As [`on_lost_warn_lets_it_go_on_and_says_so`], through a time in which nobody could renew.
#[tokio::test]
async fn on_lost_warn_goes_on_after_a_suspension_too() {
    let sandbox = Sandbox::new();
    let script = "echo $$ > pid; while ! [ -e go ]; do sleep 0.02; done; echo done > done";
    let words = ["run", "k", "--ttl", "2s", "--on-lost", "warn", "--", "sh", "-c", script];
    let child = sandbox.tenure_by(&["env", "--default-signal=TSTP"], &words).spawn().unwrap();
    sandbox.pid("pid").await;
    send(&child, Signal::TSTP);
    let locks = sandbox.locks().await;
    let next = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
    std::fs::write(sandbox.path("go"), "").unwrap();
    send(&child, Signal::CONT);
    Ran::of(child).await.expect(76, &["lost"]);
    assert_eq!(sandbox.line("done").await, "done\n");
    next.release().await.unwrap();
}

/// A command that takes its time to stop gets less of it when somebody asks twice.
#[tokio::test]
async fn a_second_signal_hurries_the_end() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo TERM > got' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let words = ["run", "k", "--max-hold", "16s", "--", "sh", "-c", script];
    let usual = ["env", "--default-signal=TERM,INT"];
    let child = sandbox.tenure_by(&usual, &words).spawn().unwrap();
    sandbox.line("got").await;
    // From here on it has three seconds.
    let at = SystemClock.now();
    send(&child, Signal::TERM);
    send(&child, Signal::INT);
    Ran::of(child).await.expect(76, &["--max-hold", "with SIGKILL"]);
    let took = since(at);
    assert!(took < Duration::from_secs(2), "{took:?}");
}
