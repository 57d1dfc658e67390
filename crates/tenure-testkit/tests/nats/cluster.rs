//! Three servers and a bucket with three replicas: races, and the death of a server.

use tenure::claim::{Attempt, Claim};
use tenure::{Locks, Owner, Retry};
use tenure_testkit::servers::free_port;
use tenure_testkit::servers::nats::{Nats, Recipe, Release};
use tenure_testkit::wait::{bounded, sleep, until};

use crate::raw::{claim, ms, open};

struct Cluster(Vec<Nats>);

impl Cluster {
    fn start() -> Self {
        let ports: Vec<_> = (0..3).map(|_| free_port().unwrap()).collect();
        let routes: Vec<_> = ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        // A server answers only when it has met the others, so they are started side by side.
        let starts = ports.iter().enumerate().map(|(n, port)| {
            let lines = format!(
                "server_name: n{n}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", \
                 routes: [{}] }}",
                routes.join(", ")
            );
            std::thread::spawn(move || {
                Nats::start(&Recipe::new(Release::Newest).with(&lines)).unwrap()
            })
        });
        let starts: Vec<_> = starts.collect();
        Self(starts.into_iter().map(|start| start.join().unwrap()).collect())
    }

    fn url(&self) -> String {
        let hosts: Vec<_> = self.0.iter().map(|s| s.process().address().to_string()).collect();
        format!("nats://{}?bucket=room_1&replicas=3&sync=always", hosts.join(","))
    }
}

async fn ready(url: &str) {
    until("the cluster to have a leader", ms(60_000), || async { Ok(open(url).await.is_ok()) })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_race_one_wins_and_no_race_is_an_error() {
    let cluster = Cluster::start();
    let url = cluster.url();
    ready(&url).await;
    let mut stores = Vec::new();
    for _ in 0..8 {
        stores.push(open(&url).await.unwrap());
    }
    for round in 0..40 {
        let claims: Vec<_> = (0..stores.len())
            .map(|n| Claim {
                owner: Owner::parse(&format!("owner {n}")).unwrap(),
                ..claim(&format!("race-{round}"), ms(60_000))
            })
            .collect();
        let tries = stores.iter().zip(&claims).map(|(store, claim)| store.try_acquire(claim));
        let answers = futures_util::future::try_join_all(tries).await.unwrap();
        let won = answers.iter().filter(|answer| matches!(answer, Attempt::Granted(_))).count();
        assert_eq!(won, 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_may_die() {
    let cluster = Cluster::start();
    let url = cluster.url();
    ready(&url).await;
    let (one, two) = (Locks::open(&url).await.unwrap(), Locks::open(&url).await.unwrap());
    let mut last = None;
    for server in &cluster.0 {
        let guard = one.lock("k").ttl(ms(20_000)).wait(ms(30_000)).acquire().await.unwrap();
        assert!(Some(guard.fence()) > last, "{} after {last:?}", guard.fence());
        last = Some(guard.fence());
        let waiter = tokio::spawn({
            let request = two.lock("k").wait(ms(40_000));
            async move { request.acquire().await }
        });
        sleep(ms(200)).await;
        server.process().kill().unwrap();
        sleep(ms(2000)).await;
        assert!(guard.is_held(), "one death of three cost the lock");
        // While the bucket has no leader it cannot be released, and is as soon as it has one.
        if let Err(error) = bounded("the release", ms(20_000), guard.release()).await.unwrap() {
            assert_ne!(error.retry(), Retry::Never, "{error}");
        }
        let next = bounded("the hand-off", ms(30_000), waiter).await.unwrap().unwrap().unwrap();
        assert!(Some(next.fence()) > last, "the fence went back");
        last = Some(next.fence());
        bounded("the release", ms(20_000), next.release()).await.unwrap().unwrap();
        server.process().start_again().unwrap();
        // The next may die only when this one has caught up.
        sleep(ms(5000)).await;
    }
}
