//! `--at-least`: a short job's lock outlasts the job, and `tenure` too.

use std::time::Duration;

use tenure::clock::{Clock, SystemClock};

use crate::sandbox::{Sandbox, since};

#[tokio::test]
async fn the_lock_of_a_short_job_stays() {
    let sandbox = Sandbox::new();
    let start = SystemClock.now();
    let words = ["run", "k", "--ttl", "3s", "--at-least", "5s", "--", "sh", "-c", "exit 5"];
    sandbox.run(&words).await.expect(5, &[]);
    assert!(since(start) < Duration::from_secs(5), "tenure itself does not wait");
    let locks = sandbox.locks().await;
    assert!(locks.is_locked("k").await.unwrap());
    // Nobody holds it up: the store ends it, and not before its time.
    let next = locks.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    assert!(since(start) >= Duration::from_secs(5), "{:?}", since(start));
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_job_that_took_longer_gives_it_back_at_once() {
    let sandbox = Sandbox::new();
    let words = ["run", "k", "--ttl", "30s", "--at-least", "10ms", "--", "sleep", "0.05"];
    sandbox.run(&words).await.expect(0, &[]);
    assert!(!sandbox.locks().await.is_locked("k").await.unwrap());
}

#[tokio::test]
async fn the_next_one_waits_for_it() {
    let sandbox = Sandbox::new();
    let first = ["run", "k", "--ttl", "3s", "--at-least", "4s", "--", "true"];
    sandbox.run(&first).await.expect(0, &[]);
    sandbox.run(&["run", "k", "--no-wait", "--", "true"]).await.expect(75, &["held by"]);
    sandbox.run(&["run", "k", "--wait", "30s", "-q", "--", "true"]).await.expect(0, &[]);
}

/// What is left of the time may be less than any lease can have.
#[tokio::test]
async fn a_rest_that_is_shorter_than_any_ttl_is_no_trouble() {
    let sandbox = Sandbox::new();
    for _ in 0..5 {
        let words = ["run", "k", "--ttl", "3s", "--at-least", "250ms", "--", "sleep", "0.2"];
        let ran = sandbox.run(&words).await;
        ran.expect(0, &[]);
        assert!(!ran.stderr.contains("warning"), "{ran:?}");
    }
}
