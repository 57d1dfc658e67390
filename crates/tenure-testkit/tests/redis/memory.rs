//! A server whose memory is full.

use tenure::ErrorKind;
use tenure::claim::{Renewal, Renewed};

use crate::stage::{TTL, ask, claim, fast, grant, granted, key, open, raw, url};

/// A script may write on after its first write, which needs no memory here.
#[tokio::test]
async fn a_lock_is_kept_for_longer_where_memory_is_full() {
    let server = fast();
    let store = open(url(&server)).await;
    granted(&*store, "k", "a").await;
    let mut raw = raw(server.address()).await;
    let _: String = ask(&mut raw, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = store.try_acquire(&claim("other", "b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let renewal = Renewal { grant: grant("k", "a"), ttl: TTL * 10 };
    let renewed = store.renew(&renewal).await.unwrap();
    let Renewed::Renewed(lease) = renewed else { panic!("{renewed:?}") };
    let seen = store.inspect(&key("k")).await.unwrap().unwrap();
    assert!(lease.ttl == TTL * 10 && seen.ttl == lease.ttl && seen.remaining > TTL, "{seen:?}");
}
