//! Dapr's own SDKs, unmodified, as clients of `tenure serve`.
//!
//! They come from `PyPI` and npm and are pinned in `xtask/servers`; `cargo xtask install` puts them
//! into the target folder. Without them these tests fail.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod redis;
mod sidecar;

use sidecar::{Sidecar, client, ended, run};

#[tokio::test]
async fn the_python_sdk_works_unmodified() {
    let sidecar = Sidecar::start(&[]).await;
    run(client::python("locks.py"), &sidecar).await;
}

#[tokio::test]
async fn the_asynchronous_python_sdk_works_unmodified() {
    let sidecar = Sidecar::start(&[]).await;
    run(client::python("locks_aio.py"), &sidecar).await;
}

#[tokio::test]
async fn the_javascript_sdk_works_unmodified_over_http() {
    let sidecar = Sidecar::start(&[]).await;
    run(client::node("locks.js", "http"), &sidecar).await;
}

#[tokio::test]
async fn the_javascript_sdk_works_unmodified_over_grpc() {
    let sidecar = Sidecar::start(&[]).await;
    run(client::node("locks.js", "grpc"), &sidecar).await;
}

#[tokio::test]
async fn with_a_token_they_work_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tenure.toml");
    // Of "s3cret".
    let digest = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";
    let grants = "[{ namespace = 'default', verbs = ['acquire'] }]";
    let token = format!("[[tokens]]\nname = 'app'\nsha256 = '{digest}'\ngrants = {grants}\n");
    std::fs::write(&config, token).unwrap();
    let sidecar = Sidecar::start(&["--config", config.to_str().unwrap()]).await;
    for mut client in [
        client::python("locks.py"),
        client::python("locks_aio.py"),
        client::node("locks.js", "http"),
        client::node("locks.js", "grpc"),
    ] {
        client.env("DAPR_API_TOKEN", "s3cret");
        run(client, &sidecar).await;
    }
}

#[tokio::test]
async fn with_dapr_s_own_variable_the_server_asks_for_the_token() {
    let sidecar = Sidecar::start_with_token(&[], "s3cret").await;
    let with = |token: &str| {
        let mut client = client::python("locks.py");
        client.env("DAPR_API_TOKEN", token);
        client
    };
    run(with("s3cret"), &sidecar).await;
    for token in ["", "wrong"] {
        let (success, said) = ended(with(token), &sidecar).await;
        assert!(!success && said.contains("UNAUTHENTICATED"), "{token:?}: {said}");
    }
}
