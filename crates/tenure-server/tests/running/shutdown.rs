//! The end of a server: nobody is granted what nobody will renew, and everything is given back.

use std::time::{Duration, Instant};

use tenure_server::Running;
use tenure_server::config::Config;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::stage::{anyone, ask, order, place, soon, until};

/// A server on a file, which others can open after it.
async fn on(folder: &tempfile::TempDir) -> Running {
    let url = format!("file:{}/locks.db", folder.path().display());
    let text =
        format!("listen = '127.0.0.1:0'\nstores.main.url = '{url}'\nlimits.shutdown = '4s'\n");
    Running::start(Config::parse(&text).unwrap()).await.unwrap()
}

async fn is_free(folder: &tempfile::TempDir, key: &str) -> bool {
    let next = on(folder).await;
    let held = next.api().get(&anyone(), &place(key)).await.is_ok();
    next.shutdown().await;
    !held
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_told_and_gets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = on(&folder).await;
    let api = std::sync::Arc::clone(running.api());
    api.lock(&anyone(), &order("k")).await.unwrap();
    let address = running.address();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn(async move {
                let request = "POST /v1/locks/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut said = String::new();
                tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut said).await.unwrap();
                said
            })
        })
        .collect();
    let locks = api.rooms().locks("", "default").await.unwrap();
    until(|| locks.waiters("k") == 3).await;
    let begun = Instant::now();
    soon(running.shutdown()).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "nobody has to be waited for");
    for said in waiting {
        let said = soon(said).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 503") && said.contains("shutting_down"), "{said}");
    }
    assert!(is_free(&folder, "k").await);
}

/// Half a request, which nobody will ever finish.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_stays_keeps_no_lock_from_being_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let running = on(&folder).await;
    let said = ask(&running, "POST /v1/locks/k", "host: x\r\n", "").await;
    assert!(said.starts_with("HTTP/1.1 201"), "{said}");
    let mut half = TcpStream::connect(running.address()).await.unwrap();
    half.write_all(b"POST /v1/locks/l HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        .await
        .unwrap();
    soon(running.shutdown()).await;
    assert!(is_free(&folder, "k").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_after_the_end_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let running = on(&folder).await;
    let api = std::sync::Arc::clone(running.api());
    api.release_kept().await;
    api.go_on_renewing();
    api.lock(&anyone(), &order("k")).await.unwrap();
    assert_eq!(api.kept(), 0);
    soon(async { while api.get(&anyone(), &place("k")).await.is_ok() {} }).await;
    running.shutdown().await;
    let failure = api.lock(&anyone(), &order("k")).await.unwrap_err();
    assert_eq!(failure.code, tenure_api::Code::ShuttingDown);
    assert_eq!(api.ready().await.unwrap_err().code, tenure_api::Code::ShuttingDown);
}
