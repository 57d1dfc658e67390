//! One stream for all keys: nothing is missed, and it ends with the server.

use std::sync::Arc;
use std::time::Duration;

use tenure::Store;
use tenure::claim::{Claim, Grant};
use tenure::clock::{SystemClock, within};

use crate::stage::{Stage, claim, key};

const SOON: Duration = Duration::from_secs(5);

async fn release(store: &dyn Store, claim: &Claim) {
    let Claim { key, owner, .. } = claim.clone();
    store.release(&Grant { key, owner, fence: None }).await.unwrap();
}

#[tokio::test]
async fn a_change_after_the_watch_stands_is_never_missed() {
    let stage = Stage::new().await;
    let (one, two) = (stage.store("").await.unwrap(), stage.store("").await.unwrap());
    for n in 0..200 {
        let claim = claim(&format!("t1/default/k{}", n % 7), "o");
        one.try_acquire(&claim).await.unwrap();
        let mut watch = two.watch(&claim.key).await.unwrap();
        release(&*one, &claim).await;
        within(&SystemClock, SOON, watch.changed()).await.unwrap_or_else(|_| panic!("{n} missed"));
    }
}

#[tokio::test]
async fn a_thousand_keys_share_one_stream() {
    // One more is for the calls.
    let stage = Stage::with("[limits]\nstreams_per_client = 2\n").await;
    let store = stage.store("?connections=1").await.unwrap();
    let mut watches = Vec::new();
    for n in 0..1000 {
        let claim = claim(&format!("t1/default/k{n}"), "o");
        store.try_acquire(&claim).await.unwrap();
        let watch = store.watch(&claim.key).await.unwrap();
        watches.push((claim, watch));
    }
    for (claim, _) in &watches {
        release(&*store, claim).await;
    }
    for (claim, watch) in &mut watches {
        let rung = within(&SystemClock, SOON, watch.changed()).await;
        assert!(rung.is_ok(), "{} missed", claim.key);
    }
}

#[tokio::test]
async fn the_end_of_the_server_wakes_all_and_the_next_one_is_found() {
    let stage = Stage::new().await;
    let store = stage.store("").await.unwrap();
    let k = key("t1/default/k");
    let mut watch = store.watch(&k).await.unwrap();
    let address = stage.running.address();
    stage.running.shutdown().await;
    within(&SystemClock, SOON, watch.changed()).await.expect("nobody was told");

    let text = format!("listen = '{address}'\n[stores.main]\nurl = 'memory:'\n");
    let config = tenure_server::config::Config::parse(&text).unwrap();
    let next = tenure_server::Running::start(config).await.unwrap();
    // It is watched again by itself, and rings because something may have been missed.
    within(&SystemClock, SOON, watch.changed()).await.expect("not watched again");
    let url = format!("tenure://{address}");
    let other = tenure::stores::open(&url, Arc::new(SystemClock)).await.unwrap();
    let claim = claim("t1/default/k", "o");
    other.try_acquire(&claim).await.unwrap();
    while within(&SystemClock, Duration::from_millis(50), watch.changed()).await.is_ok() {}
    release(&*other, &claim).await;
    within(&SystemClock, SOON, watch.changed()).await.expect("the release was missed");
    next.shutdown().await;
}
