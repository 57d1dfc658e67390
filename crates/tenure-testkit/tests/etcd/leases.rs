//! What etcd's leases cost, and how long they last.

use tenure::LostReason;
use tenure_testkit::servers::etcd::{alone, calls, etcdctl};
use tenure_testkit::wait::{bounded, sleep, until};

use crate::stage::{SOON, lease_count, locks, ms, the_lease, url};

#[tokio::test]
async fn a_warm_cycle_is_two_transactions_and_at_most_one_keep_alive() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    locks.lock("k").acquire().await.unwrap().release().await.unwrap();
    let methods = ["Txn", "LeaseKeepAlive", "LeaseGrant", "Range", "LeaseRevoke", "Put"];
    let count = || methods.map(|method| calls(&server, method).unwrap());
    let before = count();
    for _ in 0..50 {
        locks.lock("k").acquire().await.unwrap().release().await.unwrap();
    }
    let after = count();
    let cost: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert!(cost[0] == 100 && cost[1] <= 50 && cost[2..] == [0, 0, 0, 0], "{methods:?}: {cost:?}");
}

#[tokio::test]
async fn a_renewal_writes_nothing() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    let guard = locks.lock("k").ttl(ms(1000)).acquire().await.unwrap();
    let revision = || etcdctl(&server, &["get", "tenure/none", "-w", "json"]).unwrap();
    let (before, txns) = (revision(), calls(&server, "Txn").unwrap());
    let alive = calls(&server, "LeaseKeepAlive").unwrap();
    until("some renewals", SOON, || async { Ok(calls(&server, "LeaseKeepAlive")? >= alive + 6) })
        .await
        .unwrap();
    assert_eq!((revision(), calls(&server, "Txn").unwrap()), (before, txns));
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_spare_lease_is_used_again_and_a_dead_one_replaced() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    let cycle = async |ttl| {
        // One try, not several until it works.
        let guard = locks.lock("k").ttl(ttl).try_acquire().await.unwrap().unwrap();
        let fence = guard.fence();
        guard.release().await.unwrap();
        fence
    };
    let granted = || calls(&server, "LeaseGrant").unwrap();
    let short = ms(2000);
    let first = cycle(short).await;
    assert!(cycle(short).await > first);
    assert_eq!((granted(), lease_count(&server)), (1, 1));
    // It ends behind the store's back: the store believes in it, and finds out.
    etcdctl(&server, &["lease", "revoke", &the_lease(&server)]).unwrap();
    let second = cycle(short).await;
    assert_eq!((granted(), lease_count(&server)), (2, 1));
    // It ends because nobody used it.
    until("the spare to end", SOON, || async { Ok(lease_count(&server) == 0) }).await.unwrap();
    // This one does not end by itself while the test runs.
    assert!(cycle(ms(600_000)).await > second);
    assert_eq!(granted(), 3);
    drop(locks);
    until("the spare to be given back", SOON, || async { Ok(lease_count(&server) == 0) })
        .await
        .unwrap();
}

#[tokio::test]
async fn those_who_are_refused_cost_no_leases() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    for _ in 0..5 {
        let guard = locks.lock("k").acquire().await.unwrap();
        for _ in 0..5 {
            assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
        }
        guard.release().await.unwrap();
    }
    assert_eq!(calls(&server, "LeaseGrant").unwrap(), 2, "one that holds, one that is refused");
}

#[tokio::test]
async fn a_spare_lease_never_has_two_keys() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    let mut tasks = Vec::new();
    for n in 0..20 {
        let locks = locks.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                let key = format!("{}", (n * 7 + round) % 6);
                let guard = locks.lock(&key).ttl(ms(5000)).wait(SOON).acquire().await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let guards: Vec<_> = {
        let mut guards = Vec::new();
        for n in 0..30 {
            guards.push(locks.lock(&format!("held{n}")).ttl(ms(5000)).acquire().await.unwrap());
        }
        guards
    };
    let list = etcdctl(&server, &["lease", "list"]).unwrap();
    for lease in list.lines().skip(1) {
        let said = etcdctl(&server, &["lease", "timetolive", "--keys", lease]).unwrap();
        assert!(said.matches("tenure/").count() <= 1, "{said}");
    }
    drop(guards);
}

#[tokio::test]
async fn a_lease_that_ends_under_a_guard_is_told() {
    let server = alone(&[]).unwrap();
    let locks = locks(&url(&server)).await;
    let guard = locks.lock("k").ttl(ms(3000)).acquire().await.unwrap();
    etcdctl(&server, &["lease", "revoke", &the_lease(&server)]).unwrap();
    let reason = bounded("the loss to be told", ms(3000), guard.lost()).await.unwrap();
    assert_eq!(reason, LostReason::Refused);
    let next = locks.lock("k").acquire().await.unwrap();
    assert!(next.fence() > guard.fence());
}

#[tokio::test]
async fn a_longer_ttl_moves_the_key_to_a_longer_lease() {
    let server = alone(&[]).unwrap();
    let (one, two) = (locks(&url(&server)).await, locks(&url(&server)).await);
    let lease = one.lock("k").ttl(ms(2000)).acquire().await.unwrap().detach();
    let renewed = two.renew("k", &lease.owner, ms(60_000)).await.unwrap();
    assert_eq!((renewed.fence, renewed.ttl), (lease.fence, ms(60_000)));
    sleep(ms(3000)).await;
    let status = one.status("k").await.unwrap().unwrap();
    assert!(status.remaining > ms(50_000) && status.fence == lease.fence, "{status:?}");
    one.release("k", &lease.owner).await.unwrap();
    assert!(!two.is_locked("k").await.unwrap());
}
