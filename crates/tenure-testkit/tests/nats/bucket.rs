//! A bucket is found, made or refused, and never changed.

use async_nats::jetstream::response::Response;
use async_nats::jetstream::{kv, stream};
use serde_json::Value;
use tenure::ErrorKind;
use tenure::store::Timing;
use tenure_testkit::servers::nats::{Nats, Recipe, Release};

use crate::raw::{BUCKET, SOON, give_back, ms, newest, open, raw, refusal, take, url};

async fn config(server: &Nats) -> String {
    let verb = format!("STREAM.INFO.KV_{BUCKET}");
    let response: Response<Value> = raw(server).await.request(verb, &()).await.unwrap();
    match response {
        Response::Ok(info) => info["config"].to_string(),
        Response::Err { error } => panic!("{error}"),
    }
}

async fn made_by_hand(server: &Nats, config: kv::Config) {
    raw(server).await.create_key_value(config).await.unwrap();
}

fn plain() -> kv::Config {
    kv::Config { bucket: BUCKET.into(), ..Default::default() }
}

#[tokio::test]
async fn a_bucket_with_a_ttl_is_refused_with_both_values() {
    let server = newest();
    made_by_hand(&server, kv::Config { max_age: ms(30_000), ..plain() }).await;
    let before = config(&server).await;
    let (kind, text) = refusal(&url(&server)).await;
    assert_eq!(kind, ErrorKind::Mismatch);
    assert!(text.contains("30s") && text.contains("none"), "{text}");
    assert_eq!(config(&server).await, before);
}

#[tokio::test]
async fn a_bucket_that_is_not_as_asked_is_refused_with_both_values() {
    let server = newest();
    made_by_hand(&server, plain()).await;
    for (query, words) in [
        ("&replicas=3", ["1 replicas", "replicas=3"]),
        ("&storage=memory", ["storage file", "storage=memory"]),
        ("&timing=store", ["timing=observer", "timing=store"]),
    ] {
        let (kind, text) = refusal(&format!("{}{query}", url(&server))).await;
        assert_eq!(kind, ErrorKind::Mismatch);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    open(&format!("{}&replicas=1&storage=file", url(&server))).await.unwrap();
}

#[tokio::test]
async fn a_bucket_with_history_is_refused() {
    let server = newest();
    made_by_hand(&server, kv::Config { history: 5, ..plain() }).await;
    let (kind, text) = refusal(&url(&server)).await;
    assert!(kind == ErrorKind::Mismatch && text.contains("history 5"), "{text}");
}

/// Also a bucket that another client made without `allow_msg_ttl`: observers time it, on a server
/// that could.
#[tokio::test]
async fn use_changes_no_bucket() {
    for by_hand in [true, false] {
        let server = newest();
        if by_hand {
            made_by_hand(&server, plain()).await;
        } else {
            open(&url(&server)).await.unwrap();
        }
        let before = config(&server).await;
        let store = open(&format!("{}&description=other", url(&server))).await.unwrap();
        let timing = if by_hand { Timing::Observer } else { Timing::Store };
        assert_eq!(store.info().timing, timing);
        let warned = store.info().findings.iter().any(|f| {
            f.topic == "allow_msg_ttl" && f.remedy.as_ref().is_some_and(|r| r.contains("KV_room_1"))
        });
        assert_eq!(warned, by_hand, "{:?}", store.info().findings);
        let lease = take(&*store, "k", ms(5000)).await;
        let _watch = store.watch(&lease.key).await.unwrap();
        give_back(&*store, &lease).await;
        drop(store);
        assert_eq!(config(&server).await, before);
    }
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_made_only_if_wanted() {
    let server = newest();
    let (kind, text) = refusal(&format!("{}&create=false", url(&server))).await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("room_1") && text.contains("create"), "{text}");
    let streams = raw(&server).await.get_stream(format!("KV_{BUCKET}")).await;
    assert!(streams.is_err(), "made all the same");
    open(&url(&server)).await.unwrap();
    open(&format!("{}&create=false", url(&server))).await.unwrap();
}

#[tokio::test]
async fn two_that_make_the_bucket_at_once_share_it() {
    let server = newest();
    let urls: Vec<_> = (0..8).map(|n| format!("{}&description=number-{n}", url(&server))).collect();
    let opened = urls.iter().map(|url| open(url));
    let opened = futures_util::future::join_all(opened).await;
    let stores: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    take(&*stores[0], "k", ms(5000)).await;
    for store in &stores {
        let key = tenure::Key::new("k").unwrap();
        assert!(store.inspect(&key).await.unwrap().is_some(), "another bucket");
    }
}

#[tokio::test]
async fn a_mirror_is_refused() {
    let server = newest();
    open(&url(&server)).await.unwrap();
    let mirror = stream::Config {
        name: "KV_copy".into(),
        max_messages_per_subject: 1,
        mirror: Some(stream::Source { name: format!("KV_{BUCKET}"), ..Default::default() }),
        ..Default::default()
    };
    raw(&server).await.create_stream(mirror).await.unwrap();
    let (kind, text) = refusal(&url(&server).replace(BUCKET, "copy")).await;
    assert!(kind == ErrorKind::Mismatch && text.contains("mirror"), "{text}");
}

#[tokio::test]
async fn a_bucket_in_a_domain_is_reached_by_its_name() {
    let recipe = Recipe::new(Release::Newest).with("jetstream { domain: hub }");
    let server = Nats::start(&recipe).unwrap();
    let store = open(&format!("{}&domain=hub", url(&server))).await.unwrap();
    let lease = take(&*store, "k", ms(5000)).await;
    let mut watch = store.watch(&lease.key).await.unwrap();
    give_back(&*store, &lease).await;
    tenure_testkit::wait::bounded("the bell", SOON, watch.changed()).await.unwrap();
    let (kind, text) = refusal(&format!("{}&domain=other", url(&server))).await;
    assert!(kind == ErrorKind::Unsupported && text.contains("domain"), "{text}");
}
