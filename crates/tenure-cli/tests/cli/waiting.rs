//! What is said while the lock is waited for.

use tenure::{Guard, Holder, Locks};

use crate::sandbox::{Ran, Sandbox, until_said};

#[tokio::test]
async fn each_holder_is_named_once() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    for _ in 0..50 {
        let first = locks.lock("k").holder("first").acquire().await.unwrap();
        let mut child = sandbox.tenure(&["run", "k", "--", "true"]).spawn().unwrap();
        let said = until_said(&mut child, "\n").await;
        assert_eq!(said, line(&first));
        let fence = first.fence().get();
        first.release().await.unwrap();
        let second = locks.lock("k").holder("second").try_acquire().await.unwrap();
        // A grant in between means that it was quicker than we were, and saw no second holder.
        if let Some(second) = second.filter(|second| second.fence().get() == fence + 1) {
            let said = until_said(&mut child, "\n").await;
            assert_eq!(said, line(&second));
            second.release().await.unwrap();
            let ran = Ran::of(child).await;
            ran.expect(0, &[]);
            assert_eq!(ran.stderr, "");
            return;
        }
        Ran::of(child).await.expect(0, &[]);
    }
    panic!("there was no second holder in 50 tries");
}

fn line(guard: &Guard) -> String {
    format!("waiting for \"k\": held by {} (fence {})\n", guard.holder(), guard.fence())
}

#[tokio::test]
async fn quiet_says_nothing_and_at_once_says_nothing() {
    let sandbox = Sandbox::new();
    let locks = sandbox.locks().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let words = ["run", "k", "-q", "--wait", "300ms", "--", "true"];
    let ran = sandbox.run(&words).await;
    ran.expect(75, &[]);
    assert!(!ran.stderr.contains("waiting"), "{ran:?}");
    guard.release().await.unwrap();
    let ran = sandbox.run(&["run", "k", "--", "true"]).await;
    ran.expect(0, &[]);
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn what_a_holder_calls_itself_cannot_turn_the_text() {
    let sandbox = Sandbox::new();
    let label = "host/1 a\u{202e}b\u{2028}c";
    assert!(Holder::new(label).is_ok(), "the library itself lets it pass");
    let locks = Locks::builder().holder(label).open(&sandbox.url()).await.unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    let ran = sandbox.run(&["run", "k", "--no-wait", "--", "true"]).await;
    ran.expect(75, &["held by host/1 abc;"]);
    guard.release().await.unwrap();
}
