//! Sentinel and Cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use tenure::claim::{ListQuery, Renewal, Renewed};
use tenure::store::Class;
use tenure::{ErrorKind, Store};
use tenure_testkit::servers::redis::{start_redis, start_sentinel};
use tenure_testkit::servers::{Server, free_port};
use tenure_testkit::wait::{bounded, until};

use crate::stage::{
    Raw, SOON, TTL, ask, cycle, evicting, grant, granted, key, open, raw, refused, sure, url,
};

#[tokio::test]
async fn sentinels_are_asked_where_the_primary_is() {
    let primary = sure();
    let sentinel = start_sentinel(primary.address()).unwrap();
    let nobody = free_port().unwrap();
    let hosts = format!("127.0.0.1:{nobody},{}", sentinel.address());
    let (error, text) = refused(format!("redis+sentinel://{hosts}?service=other")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    let (error, text) = refused(format!("redis://{}", sentinel.address())).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    assert!(text.contains("redis+sentinel"), "{text}");
    let store = open(format!("redis+sentinel://{hosts}/2?service=mymaster")).await;
    assert_eq!(store.info().class, Class::Efficiency);
    cycle(&*store, "job").await;
    woken(&*store, &*store, "job").await;
}

#[tokio::test]
async fn the_store_follows_a_fail_over() {
    let primary = sure();
    let port = primary.address().port().to_string();
    let replica = start_redis(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let sentinel = start_sentinel(primary.address()).unwrap();
    let store = open(format!("redis+sentinel://{}?service=mymaster", sentinel.address())).await;
    let before = cycle(&*store, "job").await;
    let mut watch = store.watch(&key("job")).await.unwrap();
    let asked = raw(sentinel.address()).await;
    until("the fail-over to begin", SOON, || {
        let mut asked = asked.clone();
        async move {
            let mut command = redis::cmd("SENTINEL");
            command.arg("FAILOVER").arg("mymaster");
            Ok(command.query_async::<()>(&mut asked).await.is_ok())
        }
    })
    .await
    .unwrap();
    bounded("the watch to be rung", SOON, watch.changed()).await.unwrap();
    let mut raw = raw(replica.address()).await;
    until("the replica to be the primary", SOON, || {
        let mut raw = raw.clone();
        async move {
            Ok(ask::<String>(&mut raw, &["INFO", "replication"]).await.contains("role:master"))
        }
    })
    .await
    .unwrap();
    until("the store to be there", SOON, || async {
        Ok(store.force_release(&evicting("job")).await.is_ok())
    })
    .await
    .unwrap();
    assert!(cycle(&*store, "job").await > before);
    assert!(ask::<i64>(&mut raw, &["DBSIZE"]).await > 0);
    woken(&*store, &*store, "job").await;
}

/// A release on the one store wakes a watch on the other.
async fn woken(one: &dyn Store, two: &dyn Store, on: &str) {
    granted(one, on, "cycle").await;
    let mut watch = two.watch(&key(on)).await.unwrap();
    one.force_release(&evicting(on)).await.unwrap();
    bounded("the watch to be rung", SOON, watch.changed()).await.unwrap();
}

struct Cluster {
    nodes: Vec<Server>,
    raws: Vec<Raw>,
    ids: Vec<String>,
}

const BOUNDS: [(u16, u16); 3] = [(0, 5460), (5461, 10_922), (10_923, 16_383)];

impl Cluster {
    async fn start() -> Self {
        let (mut nodes, mut raws, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut buses = Vec::new();
        for (first, last) in BOUNDS {
            let bus = free_port().unwrap().to_string();
            let server =
                start_redis(&["--cluster-enabled", "yes", "--cluster-port", &bus]).unwrap();
            let mut raw = raw(server.address()).await;
            let (first, last) = (first.to_string(), last.to_string());
            let (): () = ask(&mut raw, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
            ids.push(ask(&mut raw, &["CLUSTER", "MYID"]).await);
            buses.push((server.address(), bus));
            nodes.push(server);
            raws.push(raw);
        }
        for (at, bus) in &buses[1..] {
            let port = at.port().to_string();
            let (): () = ask(&mut raws[0], &["CLUSTER", "MEET", "127.0.0.1", &port, bus]).await;
        }
        for raw in &raws {
            until("the cluster to stand", SOON * 2, || {
                let mut raw = raw.clone();
                async move {
                    let info: String = ask(&mut raw, &["CLUSTER", "INFO"]).await;
                    Ok(info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3"))
                }
            })
            .await
            .unwrap();
        }
        Self { nodes, raws, ids }
    }

    fn at(&self, node: usize) -> SocketAddr {
        self.nodes[node].address()
    }

    async fn open(&self, node: usize) -> Arc<dyn Store> {
        open(format!("redis+cluster://{}", self.at(node))).await
    }

    async fn tell(&mut self, node: usize, words: &[&str]) {
        let (): () = ask(&mut self.raws[node], words).await;
    }

    async fn migrate(&mut self, from: usize, port: &str, keys: &[String]) {
        let mut words = vec!["MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        let answer: String = ask(&mut self.raws[from], &words).await;
        assert_eq!(answer, "OK");
    }

    async fn slot_of(&mut self, on: &str) -> (u16, usize) {
        let slot: u16 = ask(&mut self.raws[0], &["CLUSTER", "KEYSLOT", on]).await;
        let node = BOUNDS.iter().position(|(first, last)| (first..=last).contains(&&slot));
        (slot, node.unwrap())
    }
}

#[tokio::test]
async fn a_cluster_is_one_store() {
    let mut cluster = Cluster::start().await;
    let (error, text) = refused(url(&cluster.nodes[0])).await;
    assert!(error.kind() == ErrorKind::Invalid && text.contains("redis+cluster"), "{text}");
    let nobody = free_port().unwrap();
    let (one, two) = (
        cluster.open(0).await,
        open(format!("redis+cluster://127.0.0.1:{nobody},{}", cluster.at(2))).await,
    );
    assert_eq!(one.info().class, Class::Efficiency);
    let odd = ["{a}", "{a}b", "a{b}c", "{}", "{{x}}", "}{", "a{", "{user}:ü"];
    let plain: Vec<_> = (0..60).map(|n| format!("t1/default/order:{n:02}")).collect();
    let mut keys: Vec<&str> = odd.into_iter().chain(plain.iter().map(String::as_str)).collect();
    let mut used = [false; 3];
    for on in &keys {
        used[cluster.slot_of(on).await.1] = true;
        let first = cycle(&*one, on).await;
        assert!(cycle(&*two, on).await > first, "{on}");
        granted(&*two, on, "me").await;
    }
    assert_eq!(used, [true; 3], "some node was never asked");
    keys.sort_unstable();
    let query = ListQuery { prefix: String::new(), after: None, limit: 100 };
    let page = one.list(&query).await.unwrap();
    let listed: Vec<_> = page.items.iter().map(|status| status.key.as_str()).collect();
    assert_eq!(listed, keys);
    // Whichever node the key and the watch are on.
    for on in ["x1", "x2", "x3", "x4", "x5", "x6"] {
        woken(&*one, &*two, on).await;
        woken(&*two, &*one, on).await;
    }
}

#[tokio::test]
async fn slots_that_move_are_followed() {
    let mut cluster = Cluster::start().await;
    let store = cluster.open(0).await;
    let lease = granted(&*store, "job", "me").await;
    let (slot, from) = cluster.slot_of("job").await;
    let to = (from + 1) % 3;
    let slot = slot.to_string();
    let (source, target) = (cluster.ids[from].clone(), cluster.ids[to].clone());
    cluster.tell(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]).await;
    cluster.tell(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]).await;
    let renewal = Renewal { grant: grant("job", "me"), ttl: TTL };
    let is_renewed =
        |renewed| matches!(renewed, Ok(Renewed::Renewed(new)) if new.fence == lease.fence);
    assert!(is_renewed(store.renew(&renewal).await), "all is still in the old place");
    // Half here and half there: a refusal that changes nothing.
    let port = cluster.at(to).port().to_string();
    cluster.migrate(from, &port, &["job".to_owned()]).await;
    let halfway = store.renew(&renewal).await.unwrap_err();
    assert_eq!(halfway.kind(), ErrorKind::Unavailable, "{halfway}");
    // All there, while the slot is still the old node's: it sends each command on.
    let keys: Vec<String> =
        ask(&mut cluster.raws[from], &["CLUSTER", "GETKEYSINSLOT", &slot, "9"]).await;
    assert_eq!(keys.len(), 2, "{keys:?}");
    cluster.migrate(from, &port, &keys).await;
    assert!(is_renewed(store.renew(&renewal).await), "not sent on");
    // And then it is the new node's.
    for node in [to, from, 3 - from - to] {
        cluster.tell(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &target]).await;
    }
    assert!(is_renewed(store.renew(&renewal).await), "not followed");
    store.force_release(&evicting("job")).await.unwrap();
    assert!(cycle(&*store, "job").await > lease.fence.get());
    let size: i64 = ask(&mut cluster.raws[to], &["CLUSTER", "COUNTKEYSINSLOT", &slot]).await;
    assert_eq!(size, 1, "the counter did not move along");
}
