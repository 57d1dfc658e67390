//! Pages in somebody's browser, which can call whatever that can reach.

use super::stage::{ask, guarded, start};

const PATHS: [&str; 4] = [
    "/v1/locks/k",
    "/v1.0-alpha1/lock/lockstore",
    "/tenure.v1.LockService/Lock",
    "/dapr.proto.runtime.v1.Dapr/TryLockAlpha1",
];

fn kind(path: &str) -> &'static str {
    if path.starts_with("/v1") { "text/plain" } else { "application/grpc" }
}

fn is_refused(said: &str) -> bool {
    let status = ["HTTP/1.1 403", "HTTP/1.1 401"].iter().any(|status| said.starts_with(status));
    status || said.contains("grpc-status: 7") || said.contains("grpc-status: 16")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_host_is_refused_on_every_surface() {
    let running = start("hosts = ['locks.example']").await;
    for path in PATHS {
        let line = format!("POST {path}");
        for (headers, refused) in [
            ("host: 127.0.0.1:7117\r\norigin: https://evil.example\r\n", true),
            ("host: 127.0.0.1:7117\r\norigin: null\r\n", true),
            ("host: evil.example:7117\r\norigin: http://evil.example:7117\r\n", true),
            ("host: evil.example:7117\r\n", true),
            ("host: 127.0.0.1:7117\r\norigin: http://127.0.0.1:7117\r\n", false),
            ("host: locks.example\r\norigin: http://locks.example\r\n", false),
            ("host: localhost:7117\r\n", false),
        ] {
            let headers = format!("{headers}content-type: {}\r\n", kind(path));
            let said = ask(&running, &line, &headers, r#"{"immediate": true}"#).await;
            assert_eq!(is_refused(&said), refused, "{path} {headers}: {said}");
        }
    }
}

/// A page does not have the token.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_from_anywhere() {
    let running = start(&guarded("['acquire']")).await;
    let headers = "host: evil.example\r\norigin: https://evil.example\r\n\
                   authorization: Bearer s3cret\r\n";
    let said = ask(&running, "POST /v1/locks/k", headers, "").await;
    assert!(said.starts_with("HTTP/1.1 201"), "{said}");
}

/// HTTP/2 has the host in another place.
#[tokio::test(flavor = "multi_thread")]
async fn the_host_counts_in_http2_too() {
    let running = start("").await;
    let port = running.address().port();
    let asked = move |host: &str| {
        let output = std::process::Command::new("curl")
            .args(["--silent", "--http2-prior-knowledge", "--max-time", "20"])
            .args(["--resolve", &format!("{host}:{port}:127.0.0.1"), "--data", ""])
            .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
            .arg(format!("http://{host}:{port}/v1/locks/k"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    tokio::task::spawn_blocking(move || {
        assert_eq!(asked("evil.example"), "403");
        assert_eq!(asked("localhost"), "201");
    })
    .await
    .unwrap();
}
