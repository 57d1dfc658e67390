//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use tenure::clock::SystemClock;
use tenure::stores::etcd::{EtcdOptions, EtcdStore};
use tenure::{Backoff, Error, Guard, Locks};
use tenure_testkit::servers::Server;
use tenure_testkit::servers::etcd::{calls, etcdctl};
use tenure_testkit::wait::until;
use tokio::task::JoinHandle;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Longer than anything takes here that is to happen at once.
pub(crate) const SOON: Duration = ms(10_000);

pub(crate) fn url(server: &Server) -> String {
    format!("etcd://{}", server.address())
}

pub(crate) async fn open(url: &str) -> Result<EtcdStore, Error> {
    EtcdOptions::new(url)?.open(Arc::new(SystemClock)).await
}

pub(crate) async fn locks(url: &str) -> Locks {
    Locks::builder().open_on(Arc::new(open(url).await.unwrap())).await.unwrap()
}

/// Locks that are woken or wait for an hour.
pub(crate) async fn never_looks(url: &str) -> Locks {
    let hour = ms(3_600_000);
    let builder = Locks::builder().poll(Backoff { base: hour, cap: hour, jitter: 0.0 });
    builder.open_on(Arc::new(open(url).await.unwrap())).await.unwrap()
}

/// One who waits, and has subscribed by now.
pub(crate) async fn waiter(server: &Server, locks: &Locks) -> JoinHandle<tenure::Result<Guard>> {
    let before = calls(server, "Txn").unwrap();
    let request = locks.lock("k").wait(ms(50_000));
    let task = tokio::spawn(async move { request.acquire().await });
    // It asks, subscribes, and asks again.
    until("the waiter to wait", SOON, || async { Ok(calls(server, "Txn")? >= before + 2) })
        .await
        .unwrap();
    task
}

pub(crate) fn lease_count(server: &Server) -> usize {
    etcdctl(server, &["lease", "list"]).unwrap().lines().skip(1).count()
}

pub(crate) fn the_lease(server: &Server) -> String {
    let list = etcdctl(server, &["lease", "list"]).unwrap();
    assert_eq!(list.lines().count(), 2, "{list}");
    list.lines().last().unwrap().to_owned()
}
