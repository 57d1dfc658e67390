//! A thousand wait in one process for one key: only the first in line asks the store, so that a
//! hand-over costs at most three questions.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::{Backoff, Locks, LocksBuilder, Operation};
use tenure_testkit::faults::Faults;
use tenure_testkit::proxy::Proxy;
use tenure_testkit::servers::{Kind, Service, etcd, fresh_room};
use tenure_testkit::wait::until;
use tokio::task::JoinSet;

use crate::{Idea, Load, Outcome, shared};

pub(crate) const IDEA: Idea = Idea {
    name: "line",
    load: Load::Works,
    show: |kind| Box::pin(show(kind)),
    control: (|kind| Box::pin(apart(kind)), "questions a hand-over"),
};

const WAITERS: usize = 1000;
const QUESTIONS_MAX: f64 = 3.0;
const SOON: Duration = Duration::from_secs(30);

const OPERATIONS: &[Operation] = &[
    Operation::Acquire,
    Operation::Renew,
    Operation::Release,
    Operation::ForceRelease,
    Operation::Inspect,
    Operation::List,
    Operation::Watch,
];

async fn show(kind: Kind) -> Result<Outcome> {
    let (store, wire) = counted(kind).await?;
    let locks = Locks::builder().open_on(Arc::new(store.clone())).await?;
    hand_down(&store, wire.as_ref(), vec![locks; WAITERS]).await
}

/// The same line, but each on its own, as if each were a process.
async fn apart(kind: Kind) -> Result<Outcome> {
    let (store, wire) = counted(kind).await?;
    let poll =
        Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(20), jitter: 0.0 };
    let mut all = Vec::new();
    for _ in 0..WAITERS / 20 {
        let builder: LocksBuilder = Locks::builder().poll(poll);
        all.push(builder.open_on(Arc::new(store.clone())).await?);
    }
    hand_down(&store, wire.as_ref(), all).await
}

/// A store that counts what it is asked, and what counts it on the way to its server.
async fn counted(kind: Kind) -> Result<(Faults, Option<Wire>)> {
    let service = shared(kind).await?;
    let proxy = match service.server() {
        Some(server) => Some(Proxy::start(server.address(), 1).await?),
        None => None,
    };
    let url = service.url(fresh_room(), proxy.as_ref().map(Proxy::address));
    let store = Faults::new(tenure::stores::open(&url, Arc::new(SystemClock)).await?);
    Ok((store, proxy.map(|proxy| Wire { service, proxy, is_etcd: kind.name == "etcd" })))
}

/// Between a store and its server, of which nobody else asks anything meanwhile.
struct Wire {
    service: Arc<dyn Service>,
    proxy: Proxy,
    is_etcd: bool,
}

impl Wire {
    /// How many requests have come by. Each is a piece of its own, because each waits for the one
    /// before. Only etcd's protocol sends more pieces than requests, and etcd counts by itself.
    fn requests(&self) -> Result<u64> {
        match self.service.server() {
            Some(server) if self.is_etcd => {
                etcd::ANSWERED.iter().map(|method| etcd::calls(server, method)).sum()
            }
            _ => Ok(self.proxy.requested()),
        }
    }
}

/// How often each was asked so far.
fn questions(store: &Faults) -> Vec<u64> {
    OPERATIONS.iter().map(|operation| store.calls(*operation)).collect()
}

/// One waiter for each of `all`, handed down from the first to the last.
async fn hand_down(store: &Faults, wire: Option<&Wire>, all: Vec<Locks>) -> Result<Outcome> {
    let first = all[0].lock("k").acquire().await?;
    let mut tasks = JoinSet::new();
    for locks in &all {
        let request = locks.lock("k").wait(SOON * 10);
        tasks.spawn(async move { request.acquire().await?.release().await });
    }
    let in_line = || async { Ok(store.calls(Operation::Watch) > 0 && waiting(&all)) };
    until("all to stand in line", SOON, in_line).await?;
    let (before, start) = (questions(store), SystemClock.now());
    let sent_before = wire.map(Wire::requests).transpose()?;
    first.release().await?;
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let took = SystemClock.now().since(start) / u32::try_from(all.len())?;
    let asked: Vec<_> = before.iter().zip(questions(store)).map(|(old, new)| new - old).collect();
    let each = asked.iter().sum::<u64>() as f64 / (all.len() + 1) as f64;
    ensure!(
        each <= QUESTIONS_MAX,
        "{each:.2} questions a hand-over, over {QUESTIONS_MAX}: {:?}",
        OPERATIONS.iter().zip(asked).collect::<Vec<_>>()
    );
    let sent = wire.map(Wire::requests).transpose()?.zip(sent_before);
    let sent = sent.map(|(after, before)| (after - before) as f64 / (all.len() + 1) as f64);
    ensure!(
        sent.is_none_or(|sent| sent <= QUESTIONS_MAX),
        "{sent:?} requests on the wire a hand-over, over {QUESTIONS_MAX}"
    );
    let sent = sent.map_or_else(String::new, |sent| format!(", {sent:.2} requests on the wire"));
    Ok(Outcome::Passed(format!("{each:.2} questions{sent} and {took:?} a hand-over")))
}

fn waiting(all: &[Locks]) -> bool {
    let lines = if all.len() == WAITERS { &all[..1] } else { all };
    lines.iter().map(|locks| locks.waiters("k")).sum::<usize>() == all.len()
}
