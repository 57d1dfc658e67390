//! Bodies: who may send one, how long it may take, and how large it may be.

use super::stage::{ask, guarded, say, start};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_read_before_it_is_known_who_that_is() {
    let running = start(&guarded("['acquire']")).await;
    let large = "x".repeat(100 * 1024);
    for token in ["", "authorization: Bearer wrong\r\n"] {
        let headers = format!("host: x\r\n{token}");
        let said = ask(&running, "POST /v1/locks/k", &headers, &large).await;
        assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    }
    let headers = "host: x\r\nauthorization: Bearer s3cret\r\n";
    let said = ask(&running, "POST /v1/locks/k", headers, &large).await;
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
}

/// On every surface, whatever the path and the headers say.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let running = start("").await;
    let slow = [
        ("/v1/locks/k", ""),
        ("/v1/locks/v1.0/k", ""),
        ("/v1/locks/k?namespace=default#/v1.0", ""),
        ("/v1/locks/k", "content-type: application/grpc\r\n"),
        ("/v1.0-alpha1/lock/lockstore", ""),
        ("/v1.0-alpha2/lock/lockstore/k", ""),
        ("//v1.0-alpha1/lock/lockstore", ""),
        ("/tenure.v1.LockService/Lock", "content-type: application/grpc\r\n"),
        ("/tenure.v1.LockService/Hold", "content-type: application/grpc\r\n"),
        ("/dapr.proto.runtime.v1.Dapr/TryLockAlpha1", "content-type: application/grpc\r\n"),
        ("/nothing", ""),
    ];
    let answers = slow.map(|(path, headers)| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\
             content-length: 100\r\n\r\n{{"
        );
        let running = &running;
        async move { (path, headers, say(running, &request).await) }
    });
    for (path, headers, said) in futures_util::future::join_all(answers).await {
        assert!(said.starts_with("HTTP/1.1 "), "{path} {headers}: {said:?}");
        let is_known = said.contains("longer than 10s") || path == "/nothing";
        assert!(is_known || said.contains("longer%20than%2010s"), "{path} {headers}: {said}");
    }
}
