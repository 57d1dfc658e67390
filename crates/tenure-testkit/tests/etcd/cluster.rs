//! Several members: their leader, their quorum, their version.

use tenure::claim::{Attempt, Claim, Grant, Reentry, Renewal, Renewed};
use tenure::store::Class;
use tenure::{ErrorKind, Holder, Key, LostReason, Owner, Store};
use tenure_testkit::servers::Server;
use tenure_testkit::servers::etcd::{alone, cluster, etcdctl};
use tenure_testkit::wait::{bounded, sleep, until};

use crate::stage::{SOON, locks, ms, never_looks, open, url, waiter};

/// A cluster with its leader first, so that everyone speaks to that.
fn led_cluster() -> (Vec<Server>, String) {
    let mut servers = cluster(3).unwrap();
    let leader = servers.iter().position(|server| {
        let said = etcdctl(server, &["endpoint", "status", "-w", "fields"]).unwrap();
        let field = |name: &str| {
            let line = said.lines().find(|line| line.starts_with(&format!("\"{name}\""))).unwrap();
            line.rsplit(' ').next().unwrap().to_owned()
        };
        field("MemberID") == field("Leader")
    });
    servers.swap(0, leader.unwrap());
    let hosts: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let url = format!("etcd://{}", hosts.join(","));
    (servers, url)
}

#[tokio::test]
async fn a_keep_alive_without_a_quorum_is_not_believed() {
    let (servers, _) = led_cluster();
    let store = open(&url(&servers[0])).await.unwrap();
    let (key, owner) = (Key::new("k").unwrap(), Owner::parse("o").unwrap());
    let (ttl, holder) = (ms(30_000), Holder::new("h").unwrap());
    let reentry = Reentry::Adopt;
    let claim = Claim { key: key.clone(), owner: owner.clone(), ttl, holder, reentry };
    let granted = store.try_acquire(&claim).await.unwrap();
    assert!(matches!(granted, Attempt::Granted(_)), "{granted:?}");
    let renewal = Renewal { grant: Grant { key, owner, fence: None }, ttl };
    for server in &servers[1..] {
        server.pause().unwrap();
    }
    // The leader is alone and does not know it yet: it would answer any keep-alive.
    sleep(ms(100)).await;
    let alone = store.renew(&renewal).await;
    assert!(alone.is_err(), "{alone:?}");
    for server in &servers[1..] {
        server.resume().unwrap();
    }
    until("the cluster to work again", SOON, || async {
        Ok(matches!(store.renew(&renewal).await, Ok(Renewed::Renewed(_))))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_guard_waiter_and_fences_survive_a_change_of_leader() {
    let (servers, url) = led_cluster();
    let (holder, waiting) = (locks(&url).await, never_looks(&url).await);
    let guard = holder.lock("k").ttl(ms(6000)).acquire().await.unwrap();
    let woken = waiter(&servers[0], &waiting).await;
    servers[0].kill().unwrap();
    sleep(ms(8000)).await;
    assert!(guard.is_held(), "a change of leader cost the lock");
    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = bounded("the waiter to be woken", SOON, woken).await.unwrap().unwrap().unwrap();
    assert!(next.fence() > fence);
    servers[1].kill().unwrap();
    let error = holder.lock("other").try_acquire().await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Held, "{error}");
    let reason = bounded("the loss to be told", ms(40_000), next.lost()).await.unwrap();
    assert_eq!(reason, LostReason::Expired);
}

#[tokio::test]
async fn the_class_depends_on_version_and_members() {
    let version = etcd_version();
    let lacks =
        |last: [u32; 3], and: [u32; 3]| version < last || ([3, 5, 0]..and).contains(&version);
    let one = alone(&[]).unwrap();
    let three = cluster(3).unwrap();
    for (server, is_lowered) in
        [(&one, lacks([3, 4, 21], [3, 5, 5])), (&three[0], lacks([3, 4, 31], [3, 5, 13]))]
    {
        let store = open(&url(server)).await.unwrap();
        let info = store.info();
        assert_eq!(info.class == Class::Efficiency, is_lowered, "{version:?} {:?}", info.findings);
    }
}

/// Major, minor, patch.
fn etcd_version() -> [u32; 3] {
    let output = std::process::Command::new("etcd").arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let version = said.lines().next().unwrap().rsplit(' ').next().unwrap();
    let numbers: Vec<_> = version.splitn(3, '.').map(|part| part.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
