//! What is special about etcd: its leases, its leader, its compaction, its users and its alarms.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure::claim::{Attempt, Claim, Grant, ListQuery, Reentry, Renewal, Renewed};
use tenure::clock::SystemClock;
use tenure::store::Class;
use tenure::stores::etcd::{EtcdOptions, EtcdStore};
use tenure::{Backoff, Error, ErrorKind, Guard, Holder, Key, Locks, LostReason, Owner, Store};
use tenure_testkit::servers::etcd::{alone, calls, cluster, etcdctl};
use tenure_testkit::servers::{Server, free_port};
use tenure_testkit::wait::{bounded, sleep, until};
use tokio::task::JoinHandle;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Longer than anything takes here that is to happen at once.
const SOON: Duration = ms(10_000);

fn url(server: &Server) -> String {
    format!("etcd://{}", server.address())
}

async fn open(url: &str) -> Result<EtcdStore, Error> {
    EtcdOptions::new(url)?.open(Arc::new(SystemClock)).await
}

async fn locks(url: &str) -> Locks {
    Locks::builder().open_on(Arc::new(open(url).await.unwrap())).await.unwrap()
}

/// Locks that are woken or wait for an hour.
async fn never_looks(url: &str) -> Locks {
    let hour = ms(3_600_000);
    let builder = Locks::builder().poll(Backoff { base: hour, cap: hour, jitter: 0.0 });
    builder.open_on(Arc::new(open(url).await.unwrap())).await.unwrap()
}

/// One who waits, and has subscribed by now.
async fn waiter(server: &Server, locks: &Locks) -> JoinHandle<tenure::Result<Guard>> {
    let before = calls(server, "Txn").unwrap();
    let request = locks.lock("k").wait(ms(50_000));
    let task = tokio::spawn(async move { request.acquire().await });
    // It asks, subscribes, and asks again.
    until("the waiter to wait", SOON, || async { Ok(calls(server, "Txn")? >= before + 2) })
        .await
        .unwrap();
    task
}

fn lease_count(server: &Server) -> usize {
    etcdctl(server, &["lease", "list"]).unwrap().lines().skip(1).count()
}

fn the_lease(server: &Server) -> String {
    let list = etcdctl(server, &["lease", "list"]).unwrap();
    assert_eq!(list.lines().count(), 2, "{list}");
    list.lines().last().unwrap().to_owned()
}

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
    let cycle = async || {
        // One try, not several until it works.
        let guard = locks.lock("k").ttl(ms(2000)).try_acquire().await.unwrap().unwrap();
        let fence = guard.fence();
        guard.release().await.unwrap();
        fence
    };
    let granted = || calls(&server, "LeaseGrant").unwrap();
    let first = cycle().await;
    assert!(cycle().await > first);
    assert_eq!((granted(), lease_count(&server)), (1, 1));
    // It ends behind the store's back: the store believes in it, and finds out.
    etcdctl(&server, &["lease", "revoke", &the_lease(&server)]).unwrap();
    let second = cycle().await;
    assert_eq!((granted(), lease_count(&server)), (2, 1));
    // It ends because nobody used it.
    until("the spare to end", SOON, || async { Ok(lease_count(&server) == 0) }).await.unwrap();
    assert!(cycle().await > second);
    assert_eq!(granted(), 3);
    drop(locks);
    until("the spare to be given back", ms(1500), || async { Ok(lease_count(&server) == 0) })
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
    let version = etcdctl_version();
    let one = alone(&[]).unwrap();
    let store = open(&url(&one)).await.unwrap();
    assert_eq!(store.info().class, Class::Fenced, "{:?}", store.info().findings);
    let three = cluster(3).unwrap();
    let store = open(&url(&three[0])).await.unwrap();
    let is_lowered = version.starts_with("3.4.2");
    assert_eq!(store.info().class == Class::Efficiency, is_lowered, "{:?}", store.info().findings);
}

fn etcdctl_version() -> String {
    let output = std::process::Command::new("etcd").arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn users_and_roles() {
    // Tokens live for a second, so that they go stale within the test.
    let server = alone(&["--auth-token-ttl=1"]).unwrap();
    for arguments in [
        ["user", "add", "root:top"].as_slice(),
        &["user", "grant-role", "root", "root"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix=true", "readwrite", "tenure/"],
        &["user", "add", "app:secret"],
        &["user", "grant-role", "app", "locks"],
        &["user", "add", "guest:secret"],
        &["auth", "enable"],
    ] {
        // The role of root is made by some versions only when authentication is enabled.
        let outcome = etcdctl(&server, arguments);
        assert!(outcome.is_ok() || arguments[1] == "grant-role", "{outcome:?}");
    }
    let as_user = |login: &str| format!("etcd://{login}@{}", server.address());
    for (login, kind, word) in [
        ("app:wrong", ErrorKind::Denied, "password"),
        ("nobody:secret", ErrorKind::Denied, "password"),
        ("guest:secret", ErrorKind::Denied, "readwrite"),
    ] {
        let error = open(&as_user(login)).await.unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(word), "{login}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let error = open(&url(&server)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("login"), "{error}");
    let elsewhere = format!("{}/elsewhere", as_user("app:secret"));
    assert_eq!(open(&elsewhere).await.unwrap_err().kind(), ErrorKind::Denied);

    let (holder, waiting) =
        (locks(&as_user("app:secret")).await, never_looks(&as_user("app:secret")).await);
    let guard = holder.lock("k").ttl(ms(2000)).acquire().await.unwrap();
    let logins = calls(&server, "Authenticate").unwrap();
    let first = waiter(&server, &waiting).await;
    sleep(ms(3000)).await;
    assert!(guard.is_held(), "a stale token cost the lock");
    guard.release().await.unwrap();
    let guard = bounded("the waiter to be woken", SOON, first).await.unwrap().unwrap().unwrap();
    // The stream of watches still has its first token; another key needs a new watch.
    sleep(ms(2500)).await;
    let other = holder.lock("other").acquire().await.unwrap();
    let request = waiting.lock("other").wait(SOON);
    let second = tokio::spawn(async move { request.acquire().await });
    sleep(ms(1000)).await;
    other.release().await.unwrap();
    let woken = bounded("the other waiter to be woken", SOON, second).await.unwrap();
    woken.unwrap().unwrap().release().await.unwrap();
    assert!(calls(&server, "Authenticate").unwrap() > logins, "no token went stale");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn tls_with_the_right_and_the_wrong_authority() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(Path::new(&file(name)), text).unwrap();
    for (authority, name) in [("ca.pem", "localhost"), ("other.pem", "other")] {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        write(authority, &cert.pem());
        write(&format!("{authority}.key"), &signing_key.serialize_pem());
    }
    let metrics = free_port().unwrap();
    let server = alone(&[
        &format!("--cert-file={}", file("ca.pem")),
        &format!("--key-file={}", file("ca.pem.key")),
        &format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"),
    ])
    .unwrap();
    let port = server.address().port();
    let good = format!("etcds://127.0.0.1:{port}?ca={}&server_name=localhost", file("ca.pem"));
    locks(&good).await.lock("k").acquire().await.unwrap().release().await.unwrap();
    for (bad, word) in [
        (format!("etcds://localhost:{port}?ca={}", file("other.pem")), "certificate"),
        (format!("etcds://127.0.0.1:{port}?ca={}", file("ca.pem")), "certificate"),
        (format!("etcds://localhost:{port}"), "certificate"),
        (format!("etcd://localhost:{port}"), "etcds:"),
    ] {
        let error = bounded("the refusal", SOON, open(&bad)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains(word), "{bad}: {error:?}");
    }
    for (wrong, word) in [
        (format!("etcds://localhost:{port}?ca=/none.pem"), "option ca"),
        (format!("etcds://localhost:{port}?cert={}", file("ca.pem")), "together"),
        (format!("etcd://localhost:{port}?ca={}", file("ca.pem")), "etcds:"),
    ] {
        let error = open(&wrong).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(word), "{error}");
    }
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
    guard.release().await.unwrap();
    etcdctl(&server, &["put", &format!("tenure/{key}"), "by hand"]).unwrap();
    let error = locks.lock("k").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(locks.status("k").await.unwrap_err().kind(), ErrorKind::Damaged);
    assert!(store.list(&query).await.unwrap().items.is_empty());
    // The spare lease of the refused claim is still one lease.
    locks.lock("other").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(calls(&server, "LeaseGrant").unwrap(), 1);
}
