//! Sentinel and Cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure::claim::{Attempt, ListQuery, Renewal, Renewed};
use tenure::clock::SystemClock;
use tenure::store::Class;
use tenure::stores::redis::RedisOptions;
use tenure::{ErrorKind, Store};
use tenure_testkit::servers::redis::{start_redis, start_sentinel};
use tenure_testkit::servers::{Server, free_port};
use tenure_testkit::wait::{bounded, until};

use crate::stage::{
    Raw, SOON, TTL, ask, claim, cycle, evicting, grant, granted, key, open, raw, refused, sure,
    url, woken,
};

#[tokio::test]
async fn sentinels_are_asked_where_the_primary_is() {
    let primary = sure();
    let sentinel = start_sentinel(primary.address(), "").unwrap();
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
async fn sentinels_have_a_password_of_their_own() {
    let primary = start_redis(&["--requirepass", "secret-1"]).unwrap();
    // The user is allowed what the documentation says, and nothing else.
    let lines = "sentinel auth-pass mymaster secret-1\nrequirepass secret-2\n\
                 user watcher on >secret-3 -@all +sentinel|get-master-addr-by-name";
    let sentinel = start_sentinel(primary.address(), lines).unwrap();
    let at = format!("redis+sentinel://:secret-1@{}?service=mymaster", sentinel.address());
    let (error, text) = refused(&at).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
    assert!(text.contains("wants a password"), "{text}");
    let (error, text) = refused(format!("{at}&sentinel_password=secret-1")).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{text}");
    assert!(text.contains("refuses this user and password"), "{text}");
    for own in
        ["sentinel_password=secret-2", "sentinel_username=watcher&sentinel_password=secret-3"]
    {
        cycle(&*open(format!("{at}&{own}")).await, "job").await;
    }
    let in_code = RedisOptions::new(&at).unwrap().sentinel_credentials(None, "secret-2");
    cycle(&in_code.open(Arc::new(SystemClock)).await.unwrap(), "job").await;
}

#[tokio::test]
async fn the_store_follows_a_fail_over() {
    let primary = sure();
    let port = primary.address().port().to_string();
    let replica = start_redis(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let sentinel = start_sentinel(primary.address(), "").unwrap();
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

/// Three nodes, each with a third of the slots; and replicas that are added.
pub(crate) struct Cluster {
    nodes: Vec<Server>,
    raws: Vec<Raw>,
    ids: Vec<String>,
}

/// After so long a node that does not answer is taken for dead by the others.
const NODE_TIMEOUT: Duration = Duration::from_secs(4);

const BOUNDS: [(u16, u16); 3] = [(0, 5460), (5461, 10_922), (10_923, 16_383)];

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut cluster = Self { nodes: Vec::new(), raws: Vec::new(), ids: Vec::new() };
        for (node, (first, last)) in BOUNDS.into_iter().enumerate() {
            cluster.add().await;
            let (first, last) = (first.to_string(), last.to_string());
            cluster.tell(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
        }
        cluster.stands().await;
        cluster
    }

    /// One more node, which the first one is told of.
    async fn add(&mut self) {
        let bus = free_port().unwrap().to_string();
        let timeout = NODE_TIMEOUT.as_millis().to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        let node =
            start_redis(&[&own[..], &["--cluster-node-timeout", &timeout]].concat()).unwrap();
        let mut raw = raw(node.address()).await;
        self.ids.push(ask(&mut raw, &["CLUSTER", "MYID"]).await);
        self.raws.push(raw);
        self.nodes.push(node);
        let port = self.nodes.last().unwrap().address().port().to_string();
        if self.nodes.len() > 1 {
            self.tell(0, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
    }

    /// Waits until all nodes know each other and serve every slot.
    async fn stands(&self) {
        let known = format!("cluster_known_nodes:{}", self.nodes.len());
        for node in 0..self.nodes.len() {
            self.says(node, &["CLUSTER", "INFO"], &["cluster_state:ok", &known]).await;
        }
    }

    /// Waits until the answer of a node has all of these words in it.
    async fn says(&self, node: usize, question: &[&str], words: &[&str]) {
        until(&format!("node {node} to say {words:?}"), SOON * 2, || {
            let mut raw = self.raws[node].clone();
            async move {
                let answer: String = ask(&mut raw, question).await;
                Ok(words.iter().all(|&word| answer.contains(word)))
            }
        })
        .await
        .unwrap();
    }

    /// One more node, as the replica of this one; which it is.
    async fn add_replica(&mut self, of: usize) -> usize {
        let (replica, id) = (self.nodes.len(), self.ids[of].clone());
        self.add().await;
        self.stands().await;
        self.tell(replica, &["CLUSTER", "REPLICATE", &id]).await;
        self.says(replica, &["INFO", "replication"], &["master_link_status:up"]).await;
        replica
    }

    pub(crate) fn at(&self, node: usize) -> SocketAddr {
        self.nodes[node].address()
    }

    async fn open(&self, node: usize) -> Arc<dyn Store> {
        open(format!("redis+cluster://{}", self.at(node))).await
    }

    pub(crate) async fn tell(&mut self, node: usize, words: &[&str]) {
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
    // The lock is there with its record, while the slot is still the old node's: it sends each
    // command on. Only a new grant needs the counter.
    let left: Vec<String> =
        ask(&mut cluster.raws[from], &["CLUSTER", "GETKEYSINSLOT", &slot, "9"]).await;
    let (counter, record): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|name| name.starts_with("tenure:fence:"));
    assert_eq!((counter.len(), record.len()), (1, 1));
    cluster.migrate(from, &port, &record).await;
    assert!(is_renewed(store.renew(&renewal).await), "not sent on");
    assert!(store.inspect(&key("job")).await.unwrap().is_some());
    let claimed = store.try_acquire(&claim("job", "other")).await.unwrap_err();
    assert_eq!(claimed.kind(), ErrorKind::Unavailable, "{claimed}");
    cluster.migrate(from, &port, &counter).await;
    let claimed = store.try_acquire(&claim("job", "other")).await;
    assert!(matches!(claimed, Ok(Attempt::Held(_))), "{claimed:?}");
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

/// The node that the key is on dies, and with it the connection that waiters are woken by.
#[tokio::test]
async fn the_store_follows_a_cluster_that_fails_over() {
    let mut cluster = Cluster::start().await;
    let dies = 0;
    let replica = cluster.add_replica(dies).await;
    let hosts = format!("{},{}", cluster.at(dies), cluster.at(1));
    let (store, other) = (open(format!("redis+cluster://{hosts}")).await, cluster.open(2).await);
    let mut on = String::new();
    for number in 0.. {
        on = format!("job-{number}");
        if cluster.slot_of(&on).await.1 == dies {
            break;
        }
    }
    let before = cycle(&*store, &on).await;
    let mut watch = store.watch(&key(&on)).await.unwrap();
    woken(&*other, &*store, "another").await;
    let listening: String =
        ask(&mut cluster.raws[dies], &["CLIENT", "LIST", "TYPE", "pubsub"]).await;
    assert!(listening.contains("sub="), "nobody listens there: {listening}");
    cluster.nodes[dies].kill().unwrap();
    bounded("the watch to be rung when its connection breaks", SOON, watch.changed())
        .await
        .unwrap();
    cluster.says(replica, &["INFO", "replication"], &["role:master"]).await;
    for store in [&store, &other] {
        until("the store to be there", SOON * 2, || async {
            Ok(store.force_release(&evicting(&on)).await.is_ok())
        })
        .await
        .unwrap();
    }
    assert!(cycle(&*store, &on).await > before);
    assert!(ask::<i64>(&mut cluster.raws[replica], &["DBSIZE"]).await > 0);
    until("someone to be listened to", SOON, || async {
        Ok(store.watch(&key(&on)).await.is_ok() && other.watch(&key(&on)).await.is_ok())
    })
    .await
    .unwrap();
    woken(&*store, &*other, &on).await;
    woken(&*other, &*store, &on).await;
}
