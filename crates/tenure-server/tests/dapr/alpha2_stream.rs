//! alpha2 over HTTP: locks that last as long as their answer is read.

use serde_json::json;

use crate::stage::{Stage, until};

const PATH: &str = "/v1.0-alpha2/lock/lockstore/r";
const KEY: &str = "lock||app||r";

#[tokio::test]
async fn a_lock_goes_with_its_reader() {
    let stage = Stage::new().await;
    let mut first = stage.stream(PATH, r#"{"ttl":"1s"}"#).await;
    let line = first.next().await.unwrap();
    assert_eq!(line["type"], "lock-acquired");
    let fence = line["fence"].as_u64().unwrap();
    assert_eq!(first.any().await.unwrap(), json!({ "type": "ping" }));
    let mut second = stage.stream(PATH, "").await;
    assert_eq!(second.any().await.unwrap(), json!({ "type": "ping" }), "it waits");
    drop(first);
    let line = second.next().await.unwrap();
    assert_eq!(line["type"], "lock-acquired");
    assert!(line["fence"].as_u64().unwrap() > fence);
    drop(second);
    until("it is free", async || stage.holder("lockstore", KEY).await.is_none()).await;
}

#[tokio::test]
async fn what_is_held_is_refused_before_the_stream_begins() {
    let stage = Stage::new().await;
    let mut first = stage.stream(PATH, "").await;
    first.next().await.unwrap();
    let accept = "accept: application/x-ndjson\r\n";
    let reply = stage.ask("POST", PATH, accept, r#"{"immediate":true}"#).await;
    reply.is_error(423, "ERR_LOCK_HELD", "the resource is already locked");
}

#[tokio::test]
async fn a_lost_lock_ends_its_stream_with_an_error() {
    let stage = Stage::new().await;
    let mut stream = stage.stream(PATH, r#"{"ttl":"2s"}"#).await;
    assert_eq!(stream.next().await.unwrap()["type"], "lock-acquired");
    assert_eq!(stage.delete(PATH, r#"{"force":true}"#).await.status, 204);
    let line = stream.next().await.unwrap();
    assert_eq!(line["type"], "error");
    assert!(line["error"].as_str().unwrap().starts_with("the lock is lost"), "{line}");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn the_end_of_the_server_is_told() {
    let stage = Stage::new().await;
    let mut stream = stage.stream(PATH, "").await;
    assert_eq!(stream.next().await.unwrap()["type"], "lock-acquired");
    let ended = tokio::spawn(stage.running.shutdown());
    assert_eq!(stream.next().await.unwrap()["type"], "error");
    assert_eq!(stream.next().await, None);
    ended.await.unwrap();
}
