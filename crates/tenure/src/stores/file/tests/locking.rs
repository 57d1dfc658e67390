use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::Namespace;
use crate::claim::{ListQuery, Pledge, Released, Renewal, Renewed};
use crate::clock::within;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn two_stores_on_one_file_exclude_each_other_until_expiry() {
    let (_folder, path) = temporary();
    let (a, b) = (open(&path).await, open(&path).await);
    let first = granted(&a, &claim("k", "a", 1500)).await;
    assert!(is_held(&b, &claim("k", "b", 60)).await);
    assert!(granted(&a, &claim("k", "a", 1500)).await.fence == first.fence, "adopted");
    pause(1600).await;
    assert_eq!(b.inspect(&key("k")).await.unwrap(), None);
    let second = granted(&b, &claim("k", "b", 10_000)).await;
    assert!(second.fence > first.fence);
    let late = Renewal { grant: grant_of(&first), ttl: first.ttl };
    let Renewed::Lost(Some(status)) = a.renew(&late).await.unwrap() else { panic!("revived") };
    assert_eq!(status.fence, second.fence);
    assert!(matches!(a.release(&grant_of(&first)).await.unwrap(), Released::NotHeld(Some(_))));
    assert!(is_held(&a, &claim("k", "a", 60)).await);
}

#[tokio::test]
async fn fences_and_leases_outlive_the_store() {
    let (_folder, path) = temporary();
    let a = open(&path).await;
    let first = granted(&a, &claim("k", "a", 60_000)).await;
    let second = granted(&a, &claim("l", "a", 60_000)).await;
    assert!(matches!(a.release(&grant_of(&second)).await.unwrap(), Released::Released(_)));
    close(a).await;
    let b = open(&path).await;
    let kept = b.inspect(&key("k")).await.unwrap().unwrap();
    assert_eq!((&kept.owner, kept.fence), (&first.owner, first.fence));
    assert_eq!((kept.ttl, kept.granted_at), (first.ttl, first.granted_at));
    assert!(granted(&b, &claim("l", "b", 1000)).await.fence > second.fence);
    assert!(b.force_release(&evicting("k")).await.unwrap().is_some());
    assert_eq!(b.force_release(&evicting("k")).await.unwrap(), None);
    assert!(granted(&b, &claim("k", "b", 1000)).await.fence.get() == 4);
}

#[tokio::test]
async fn the_wrong_owner_or_fence_neither_renews_nor_releases() {
    let (_folder, path) = temporary();
    let store = open(&path).await;
    let lease = granted(&store, &claim("k", "a", 60_000)).await;
    let right = grant_of(&lease);
    let other_owner = Grant { owner: Owner::parse("b").unwrap(), ..right.clone() };
    let other_fence = Grant { fence: Some(crate::Fence::new(9)), ..right.clone() };
    for wrong in [other_owner, other_fence] {
        let renewal = Renewal { grant: wrong.clone(), ttl: lease.ttl };
        assert!(matches!(store.renew(&renewal).await.unwrap(), Renewed::Lost(Some(_))));
        assert!(matches!(store.release(&wrong).await.unwrap(), Released::NotHeld(Some(_))));
    }
    assert!(matches!(store.release(&right).await.unwrap(), Released::Released(_)));
    assert!(matches!(store.release(&right).await.unwrap(), Released::NotHeld(None)));
}

#[tokio::test]
async fn lists_come_in_pages_without_the_expired() {
    let (_folder, path) = temporary();
    let store = open(&path).await;
    for name in ["a/1", "b/1", "b/2", "b/3", "b/é", "c/1"] {
        granted(&store, &claim(name, "o", 60_000)).await;
    }
    granted(&store, &claim("b/0", "o", 1)).await;
    pause(3).await;
    let ask = |prefix: &str, after: Option<&str>, limit| {
        let query = ListQuery { prefix: prefix.into(), after: after.map(key), limit };
        let store = &store;
        async move {
            let page = store.list(&query).await.unwrap();
            let names: Vec<_> = page.items.iter().map(|s| s.key.to_string()).collect();
            (names.join(" "), page.next.is_some())
        }
    };
    assert_eq!(ask("b/", None, 2).await, ("b/1 b/2".to_owned(), true));
    assert_eq!(ask("b/", Some("b/2"), 2).await, ("b/3 b/é".to_owned(), false));
    assert_eq!(ask("b/", Some("a/1"), 9).await, ("b/1 b/2 b/3 b/é".to_owned(), false));
    assert_eq!(ask("", None, 1).await, ("a/1".to_owned(), true));
    assert_eq!(ask("", Some("b/é"), usize::MAX).await, ("c/1".to_owned(), false));
    assert_eq!(ask("d", None, 9).await, (String::new(), false));
}

#[tokio::test]
async fn the_first_pledge_stands() {
    let (_folder, path) = temporary();
    let (a, b) = (open(&path).await, open(&path).await);
    let pledge = |text: &str| Pledge { namespace: Namespace::default(), fingerprint: text.into() };
    assert_eq!(a.agree(&pledge("one")).await.unwrap(), "one");
    assert_eq!(b.agree(&pledge("two")).await.unwrap(), "one");
}

#[tokio::test]
async fn a_release_wakes_the_watch_of_another_store_and_a_renewal_does_not() {
    let (_folder, path) = temporary();
    let (a, b) = (open(&path).await, open(&path).await);
    let lease = granted(&a, &claim("k", "a", 60_000)).await;
    let mut here = a.watch(&key("k")).await.unwrap();
    let mut there = b.watch(&key("k")).await.unwrap();
    let mut other = b.watch(&key("other")).await.unwrap();
    granted(&b, &claim("other", "b", 60_000)).await;
    a.renew(&Renewal { grant: grant_of(&lease), ttl: lease.ttl }).await.unwrap();
    let short = Duration::from_millis(50);
    assert!(within(&SystemClock, short, there.changed()).await.is_err(), "woken by a renewal");
    for _ in 0..20 {
        let lease = granted(&a, &claim("k", "a", 60_000)).await;
        a.release(&grant_of(&lease)).await.unwrap();
        within(&SystemClock, SOON, here.changed()).await.expect("not woken in its own store");
        within(&SystemClock, SOON, there.changed()).await.expect("not woken in the other store");
    }
    // The first look wakes every watch once, as it has nothing to compare with.
    let _ = within(&SystemClock, short, other.changed()).await;
    let lease = granted(&a, &claim("k", "a", 60_000)).await;
    a.release(&grant_of(&lease)).await.unwrap();
    within(&SystemClock, SOON, there.changed()).await.unwrap();
    assert!(within(&SystemClock, short, other.changed()).await.is_err(), "another key's release");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_at_once_and_fences_strictly_grow() {
    let (_folder, path) = temporary();
    let stores = [Arc::new(open(&path).await), Arc::new(open(&path).await)];
    let (inside, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let tasks = (0..16).map(|number| {
        let store = Arc::clone(&stores[number % 2]);
        let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
        tokio::spawn(async move {
            let claim = claim("k", &format!("owner-{number}"), 60_000);
            let mut grants = 0;
            while grants < 20 {
                let Attempt::Granted(lease) = store.try_acquire(&claim).await.unwrap() else {
                    tokio::task::yield_now().await;
                    continue;
                };
                assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                assert!(last.swap(lease.fence.get(), Ordering::SeqCst) < lease.fence.get());
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                let released = store.release(&grant_of(&lease)).await.unwrap();
                assert!(matches!(released, Released::Released(_)));
                grants += 1;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(last.load(Ordering::SeqCst), 16 * 20);
}

#[tokio::test]
async fn expired_rows_are_swept_by_later_writes() {
    let (_folder, path) = temporary();
    let store = open(&path).await;
    for number in 0..100 {
        granted(&store, &claim(&format!("short-{number}"), "a", 1)).await;
    }
    granted(&store, &claim("long", "a", 60_000)).await;
    pause(3).await;
    granted(&store, &claim("one", "a", 60_000)).await;
    granted(&store, &claim("two", "a", 60_000)).await;
    let look = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT group_concat(key, ' ' ORDER BY key) FROM leases";
    let left: String = look.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(left, "long one two");
}

#[tokio::test]
async fn both_threads_end_with_the_store_and_the_queue_is_worked_off() {
    let (_folder, path) = temporary();
    let store = Arc::new(open(&path).await);
    let _watch = store.watch(&key("k")).await.unwrap();
    let task = tokio::spawn({
        let store = Arc::clone(&store);
        async move { granted(&store, &claim("k", "a", 60_000)).await }
    });
    task.await.unwrap();
    close(Arc::into_inner(store).unwrap()).await;
    assert!(!path.with_extension("db-wal").exists(), "closed in good order");
}

#[tokio::test]
async fn an_acquire_whose_caller_has_gone_is_done_or_not_done() {
    let (_folder, path) = temporary();
    let (a, b) = (open(&path).await, open(&path).await);
    for number in 0..50 {
        let claim = claim(&format!("k{number}"), "a", 60_000);
        let short = Duration::from_micros(number * 10);
        let dropped = within(&SystemClock, short, a.try_acquire(&claim)).await;
        let grant = Grant { key: claim.key.clone(), owner: claim.owner.clone(), fence: None };
        let released = a.release(&grant).await.unwrap();
        assert!(dropped.is_err() || matches!(released, Released::Released(_)));
        assert!(b.inspect(&claim.key).await.unwrap().is_none());
    }
}

/// The policies of this process's writer threads: field 41 of what the kernel tells of a thread.
fn policies_of_writers() -> Vec<String> {
    let mut policies = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let told = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        if let Some((name, rest)) = told.rsplit_once(") ")
            && name.ends_with("(tenure-file")
        {
            policies.extend(rest.split(' ').nth(38).map(str::to_owned));
        }
    }
    policies
}

#[tokio::test]
async fn the_writer_does_not_interrupt_whoever_brings_it_jobs() {
    const SCHED_BATCH: &str = "3";
    let (_folder, path) = temporary();
    let _store = open(&path).await;
    // Other tests have writers too, some of which have only begun.
    let policies = policies_of_writers();
    assert!(policies.iter().any(|policy| policy == SCHED_BATCH), "{policies:?}");
}
