//! A long line for one key: what each hand-off costs, and how often the store is asked.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tenure::stores::memory::MemoryStore;
use tokio::task::JoinSet;

use self::counting::Counting;
use crate::figure::{Figure, Source};
use crate::report::{Amount, Row, Table, grouped, short};
use crate::sample::{key, median, on_one_thread};

mod counting;

/// How many wait, and how often that is measured.
const LINES: [(usize, usize); 5] = [(1, 5000), (10, 2000), (100, 300), (1_000, 30), (LONGEST, 7)];
const LONGEST: usize = 10_000;
/// The line that longer ones stand beside.
const SHORT: usize = 10;
const RATIO_MAX: f64 = 2.0;

/// For how long the line is left alone, to see who asks the store meanwhile.
const IDLE: Duration = Duration::from_secs(1);
/// The head looks by itself after 250 ms, then 500 ms and so on.
const IDLE_CALLS_MAX: u64 = 6;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let mut first = Duration::ZERO;
    for (waiters, rounds) in LINES {
        let (each, calls) = on_one_thread(hand_down(waiters, rounds))?;
        let name = format!("memory: waiters, {} in line", grouped(waiters as f64));
        let mut row =
            Row::new(name, short(each)).note(format!("per hand-off; {calls:.2} store calls each"));
        if waiters == SHORT {
            first = each;
        }
        if waiters > SHORT {
            let ratio = each.as_secs_f64() / first.as_secs_f64();
            row = row.beside(format!("with {SHORT}: {}", short(first))).ratio_to_itself(ratio);
            if waiters == LONGEST {
                row = row.target("≤ 2.00", ratio <= RATIO_MAX);
            }
        }
        table.add(row);
        let source = Source::Ours("memory:");
        table.plot(Figure::Waiters, source, waiters as f64, each.as_secs_f64());
    }
    let idle = on_one_thread(idle_calls(LONGEST))?;
    let calls = Amount::new(idle.to_string(), idle as f64, "calls");
    let row = Row::new("memory: waiters, calls in 1 s idle", calls);
    table
        .add(row.target("≤ 6", idle <= IDLE_CALLS_MAX).note("10,000 in line: only the head looks"));
    Ok(())
}

struct Line {
    locks: Locks,
    store: Arc<Counting>,
    tasks: JoinSet<tenure::Result<()>>,
    head: tenure::Guard,
}

/// So many tasks in line behind a guard that holds the key.
async fn line_up(waiters: usize) -> Result<Line> {
    let store = Arc::new(Counting::new(MemoryStore::new(Arc::new(SystemClock))));
    let locks = Locks::builder().open_on(Arc::clone(&store) as _).await?;
    let key = key(1);
    let head = locks.lock(&key).acquire().await?;
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        let request = locks.lock(&key);
        tasks.spawn(async move { request.acquire().await?.release().await });
    }
    while locks.waiters(&key) < waiters {
        tokio::task::yield_now().await;
    }
    // The first in line asks, subscribes and asks again before it rests.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    Ok(Line { locks, store, tasks, head })
}

/// The time and the store calls of one hand-off down the line.
async fn hand_down(waiters: usize, rounds: usize) -> Result<(Duration, f64)> {
    let (mut times, mut calls) = (Vec::new(), 0);
    for _ in 0..rounds {
        let Line { locks, store, mut tasks, head } = line_up(waiters).await?;
        let before = store.calls();
        let start = SystemClock.now();
        head.release().await?;
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        times.push(SystemClock.now().since(start) / u32::try_from(waiters)?);
        calls += store.calls() - before;
        drop(locks);
    }
    let each = median(&mut times).context("no round")?;
    Ok((each, calls as f64 / (rounds * (waiters + 1)) as f64))
}

async fn idle_calls(waiters: usize) -> Result<u64> {
    let Line { locks, store, mut tasks, head } = line_up(waiters).await?;
    let before = store.calls();
    SystemClock.sleep_until(SystemClock.now() + IDLE).await;
    let calls = store.calls() - before;
    tasks.shutdown().await;
    head.release().await?;
    locks.flush().await;
    Ok(calls)
}
