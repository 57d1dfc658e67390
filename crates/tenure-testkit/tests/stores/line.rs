//! A thousand wait in one process for one key: only the first in line asks the store, so that a
//! hand-over costs at most three questions.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure::{Backoff, Locks, LocksBuilder, Operation};
use tenure_testkit::faults::Faults;
use tenure_testkit::servers::{Kind, fresh_room};
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
    let store = counted(kind).await?;
    let locks = Locks::builder().open_on(Arc::new(store.clone())).await?;
    hand_down(&store, vec![locks; WAITERS]).await
}

/// The same line, but each on its own, as if each were a process.
async fn apart(kind: Kind) -> Result<Outcome> {
    let store = counted(kind).await?;
    let poll =
        Backoff { base: Duration::from_millis(10), cap: Duration::from_millis(20), jitter: 0.0 };
    let mut all = Vec::new();
    for _ in 0..WAITERS / 20 {
        let builder: LocksBuilder = Locks::builder().poll(poll);
        all.push(builder.open_on(Arc::new(store.clone())).await?);
    }
    hand_down(&store, all).await
}

async fn counted(kind: Kind) -> Result<Faults> {
    let service = shared(kind).await?;
    let url = service.url(fresh_room(), None);
    Ok(Faults::new(tenure::stores::open(&url, Arc::new(SystemClock)).await?))
}

/// How often each was asked so far.
fn questions(store: &Faults) -> Vec<u64> {
    OPERATIONS.iter().map(|operation| store.calls(*operation)).collect()
}

/// One waiter for each of `all`, handed down from the first to the last.
async fn hand_down(store: &Faults, all: Vec<Locks>) -> Result<Outcome> {
    let first = all[0].lock("k").acquire().await?;
    let mut tasks = JoinSet::new();
    for locks in &all {
        let request = locks.lock("k").wait(SOON * 10);
        tasks.spawn(async move { request.acquire().await?.release().await });
    }
    let in_line = || async { Ok(store.calls(Operation::Watch) > 0 && waiting(&all)) };
    until("all to stand in line", SOON, in_line).await?;
    let (before, start) = (questions(store), SystemClock.now());
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
    Ok(Outcome::Passed(format!("{each:.2} questions and {took:?} a hand-over")))
}

fn waiting(all: &[Locks]) -> bool {
    let lines = if all.len() == WAITERS { &all[..1] } else { all };
    lines.iter().map(|locks| locks.waiters("k")).sum::<usize>() == all.len()
}
