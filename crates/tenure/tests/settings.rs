//! Settings that contradict each other are refused when the store is opened, and say why.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tenure::{Backoff, ErrorKind, Limits, Locks, LocksBuilder};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn refusal(builder: LocksBuilder) -> String {
    let error = builder.open("memory:").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

#[tokio::test]
async fn contradictions_are_refused_with_the_inequality() {
    let limits = Limits::default;
    for (builder, inequality) in [
        (Locks::builder().keep_alive_factor(1), "at least 2"),
        (Locks::builder().keep_alive_factor(0), "at least 2"),
        (Locks::builder().operation_timeout(s(30)), "operation_timeout < default_ttl"),
        (Locks::builder().operation_timeout(s(0)), "0 < operation_timeout"),
        (Locks::builder().default_ttl(s(100_000)), "default_ttl <= ttl_max"),
        (Locks::builder().default_ttl(s(0)), "ttl_min <= default_ttl"),
        (Locks::builder().poll(Backoff { base: s(9), ..Backoff::default() }), "base <= poll cap"),
        (Locks::builder().poll(Backoff { base: s(0), ..Backoff::default() }), "1ms <= poll base"),
        (Locks::builder().keep_alive_factor(u32::MAX), "ttl_min / keep_alive_factor >= 5ms"),
        (Locks::builder().poll(Backoff { jitter: 1.5, ..Backoff::default() }), "0.0 to 1.0"),
        (Locks::builder().poll(Backoff { jitter: f64::NAN, ..Backoff::default() }), "0.0 to 1.0"),
        (Locks::builder().limits(Limits { ttl_max: s(0), ..limits() }), "ttl_min <= ttl_max"),
        (Locks::builder().limits(Limits { key_bytes: 1025, ..limits() }), "1 to 1024"),
        (Locks::builder().limits(Limits { waiters_per_key: 0, ..limits() }), "at least 1"),
        (Locks::builder().namespace("a/b"), "namespace"),
        (Locks::builder().holder("line\nbreak"), "holder"),
    ] {
        let text = refusal(builder).await;
        assert!(text.contains(inequality), "{text:?} does not say {inequality:?}");
    }
}

#[tokio::test]
async fn a_request_beyond_the_limits_is_refused_before_it_is_sent() {
    let limits = Limits { wait_max: Some(s(10)), waiters_per_key: 1, ..Limits::default() };
    let locks = Locks::builder().limits(limits).open("memory:").await.unwrap();
    for request in [
        locks.lock("k").wait(s(11)),
        locks.lock("k").ttl(s(0)),
        locks.lock("k").max_hold(s(0)),
        locks.lock("k").holder(&"x".repeat(2000)),
        locks.lock(""),
    ] {
        let error = request.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert!(!locks.is_locked("k").await.unwrap());
}

#[test]
fn outside_a_runtime_opening_is_an_error_and_no_panic() {
    let opening = Locks::open("memory:");
    let mut opening = std::pin::pin!(opening);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(opened) = opening.as_mut().poll(&mut context) else {
        panic!("it waits");
    };
    assert!(opened.unwrap_err().to_string().contains("tokio runtime"));
}
