//! Compaction, crashes, a full database, silence, and what is not a lock.

use tenure::claim::ListQuery;
use tenure::{ErrorKind, LostReason, Store};
use tenure_testkit::servers::etcd::{alone, calls, etcdctl};
use tenure_testkit::servers::free_port;
use tenure_testkit::wait::{bounded, sleep, until};

use crate::stage::{SOON, locks, ms, never_looks, open, url, waiter};

#[tokio::test]
async fn a_waiter_wakes_after_compaction() {
    let server = alone(&[]).unwrap();
    let (holder, waiting) = (locks(&url(&server)).await, never_looks(&url(&server)).await);
    let guard = holder.lock("k").acquire().await.unwrap();
    let woken = waiter(&server, &waiting).await;
    for n in 0..20 {
        etcdctl(&server, &["put", "elsewhere", &n.to_string()]).unwrap();
    }
    let said = etcdctl(&server, &["get", "elsewhere", "-w", "fields"]).unwrap();
    let revision = said.lines().find(|line| line.starts_with("\"Revision\"")).unwrap();
    etcdctl(&server, &["compact", revision.rsplit(' ').next().unwrap()]).unwrap();
    guard.release().await.unwrap();
    let woken = bounded("the waiter to be woken", SOON, woken).await.unwrap().unwrap().unwrap();
    woken.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_keeps_its_word() {
    let server = alone(&[]).unwrap();
    let (holder, waiting) = (locks(&url(&server)).await, never_looks(&url(&server)).await);
    let guard = holder.lock("k").ttl(ms(8000)).acquire().await.unwrap();
    let woken = waiter(&server, &waiting).await;
    server.kill().unwrap();
    let error = holder.lock("other").try_acquire().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{error}");
    server.start_again().unwrap();
    until("the holder to be told nothing", SOON, || async {
        Ok(holder.status("k").await.is_ok_and(|status| status.is_some()))
    })
    .await
    .unwrap();
    assert!(guard.is_held());
    let fence = guard.fence();
    // The watch has to come back by itself: nobody looks for an hour.
    until("the watch to stand again", SOON, || async { Ok(calls(&server, "Watch")? > 0) })
        .await
        .unwrap();
    guard.release().await.unwrap();
    let next = bounded("the waiter to be woken", SOON, woken).await.unwrap().unwrap().unwrap();
    assert!(next.fence() > fence);
}

#[tokio::test]
async fn a_full_database_is_said_to_be_full() {
    let server = alone(&["--quota-backend-bytes=400000"]).unwrap(); // tidy-allow: etcd's word
    let locks = locks(&url(&server)).await;
    let guard = locks.lock("k").ttl(ms(5000)).acquire().await.unwrap();
    let filling = "x".repeat(50_000);
    let full =
        (0..50).find_map(|n| etcdctl(&server, &["put", &format!("fill{n}"), &filling]).err());
    assert!(full.unwrap().to_string().contains("space"));
    let error = locks.lock("other").ttl(ms(5000)).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("etcdctl defrag"), "{error}");
    let error = open(&url(&server)).await.unwrap_err();
    assert!(error.to_string().contains("etcdctl defrag"), "{error}");
    // What is held can be kept and given back.
    sleep(ms(6000)).await;
    assert!(guard.is_held(), "a full database cost the lock");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_said_soon_and_clearly() {
    let nobody = format!("etcd://127.0.0.1:{}", free_port().unwrap());
    let error = bounded("the refusal", SOON, open(&nobody)).await.unwrap().unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("connect"));
    // Someone listens and says nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("etcd://{}", mute.local_addr().unwrap());
    let error = bounded("the refusal", SOON, open(&url)).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_is_left_and_found_again() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    let guard = locks.lock("k").ttl(ms(2000)).acquire().await.unwrap();
    server.pause().unwrap();
    let reason = bounded("the loss to be told", ms(3000), guard.lost()).await.unwrap();
    assert_eq!(reason, LostReason::Expired);
    server.resume().unwrap();
    let next = locks.lock("k").wait(SOON).acquire().await.unwrap();
    assert!(next.fence() > guard.fence());
    next.release().await.unwrap();
}

#[tokio::test]
async fn what_is_not_a_lock_is_never_free() {
    let server = alone(&[]).unwrap();
    let store = open(&url(&server)).await.unwrap();
    let locks = locks(&url(&server)).await;
    let guard = locks.lock("k").acquire().await.unwrap();
    let query = ListQuery { prefix: String::new(), after: None, limit: 1 };
    let key = store.list(&query).await.unwrap().items[0].key.clone();
    let fence = guard.fence();
    guard.release().await.unwrap();
    etcdctl(&server, &["put", &format!("tenure/{key}"), "by hand"]).unwrap();
    let error = locks.lock("k").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(locks.status("k").await.unwrap_err().kind(), ErrorKind::Damaged);
    assert!(store.list(&query).await.unwrap().items.is_empty());
    etcdctl(&server, &["put", "tenure/t1/default/a", r#"{"v":2,"nonce":"of a later version"}"#])
        .unwrap();
    assert_eq!(
        locks.force_release("a", "it is new").await.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    assert!(
        store.list(&query).await.unwrap().items.is_empty(),
        "one that cannot be read hides all"
    );
    assert_eq!(locks.force_release("k", "it is no lock").await.unwrap(), None);
    let freed = locks.lock("k").try_acquire().await.unwrap().expect("not free");
    assert!(freed.fence() > fence);
    assert_eq!(store.list(&ListQuery { limit: 9, ..query }).await.unwrap().items.len(), 1);
    freed.release().await.unwrap();
    // The spare lease of the refused claim is still one lease.
    locks.lock("other").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(calls(&server, "LeaseGrant").unwrap(), 1);
}
