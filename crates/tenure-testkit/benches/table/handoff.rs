//! How long a key stands free between two processes that both want it.

use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tokio::task::JoinSet;

use crate::machine::folder;
use crate::raw_sqlite::{self, RawSqlite};
use crate::report::{Better, Row, Table, short};
use crate::role::{Helper, argument, await_start, parse, say};
use crate::sample::{SPREAD_MAX, elapsed_since, median, on_all_cores, quantile};

pub(crate) const RUN: Duration = Duration::from_secs(4);
const MEDIAN_MAX: Duration = Duration::from_millis(5);
/// How long one holds.
const TURN: Duration = Duration::from_millis(4);
/// For this part of a turn it then leaves the key alone: the other gets it, and this one has been
/// waiting for a while when it is free again.
const APART: u32 = 4;
/// One task in each of two processes.
pub(crate) const TWO: [usize; 2] = [1, 1];

/// One grant, on the boot clock that all processes of the machine share.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) process: usize,
    fence: u64,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let connection = raw_sqlite::open(&folder.path().join("raw.db"))?;
    let mut raw = RawSqlite::on(&connection)?;
    let url = format!("file:{}", folder.path().join("locks.db").display());
    let before = raw.commit_time(200)?;
    let turns = contend(&url, TURN, &TWO)?;
    let after = raw.commit_time(200)?;
    let commit = (before + after) / 2;
    let unsteady = before.max(after) > before.min(after).mul_f64(SPREAD_MAX);
    let mut gaps = gaps(&turns);
    let middle = median(&mut gaps).context("the key never went to the other process")?;
    let row = Row::new("file: hand-off, 2 processes", short(middle))
        .beside(format!("raw commit {}", short(commit)))
        .ratio(middle.as_secs_f64() / commit.as_secs_f64(), Better::Lower)
        .target("≤ 5 ms", middle <= MEDIAN_MAX)
        .unsure_if(unsteady)
        .note(format!("median of {}; two commits at the least", gaps.len()));
    table.add(row);
    let late = quantile(&mut gaps, 0.99).context("no hand-off")?;
    table.add(Row::new("file: hand-off, 2 processes, p99", short(late)));
    let greedy = contend(&url, Duration::ZERO, &TWO)?;
    let mut gaps = self::gaps(&greedy);
    let middle = median(&mut gaps).map_or_else(|| "none".into(), short);
    let row = Row::new("file: hand-off, both ask at once", middle).note(format!(
        "{} of {} grants changed process, the longest wait was {}",
        gaps.len(),
        greedy.len(),
        short(longest_wait(&greedy))
    ));
    table.add(row);
    Ok(())
}

/// From the start of a release in one process to the next grant in the other.
pub(crate) fn gaps(grants: &[Held]) -> Vec<Duration> {
    let changes = grants.windows(2).filter(|pair| pair[0].process != pair[1].process);
    changes.map(|pair| Duration::from_nanos(pair[1].from.saturating_sub(pair[0].until))).collect()
}

/// The longest time that one process was without the key, between two grants to it.
fn longest_wait(grants: &[Held]) -> Duration {
    let waits = [0, 1].into_iter().flat_map(|process| {
        let mine: Vec<_> = grants.iter().filter(|held| held.process == process).collect();
        mine.windows(2).map(|pair| pair[1].from.saturating_sub(pair[0].until)).collect::<Vec<_>>()
    });
    Duration::from_nanos(waits.max().unwrap_or(0))
}

/// Lets processes with so many tasks each have the key again and again; their grants in the order
/// of the fences.
pub(crate) fn contend(url: &str, turn: Duration, tasks: &[usize]) -> Result<Vec<Held>> {
    let turn = turn.as_micros().to_string();
    let start = |tasks: &usize| Helper::start("hand off", &[url, &turn, &tasks.to_string()]);
    let mut helpers = tasks.iter().map(start).collect::<Result<Vec<_>>>()?;
    helpers.iter_mut().try_for_each(Helper::await_ready)?;
    helpers.iter_mut().try_for_each(Helper::go)?;
    let mut grants = Vec::new();
    for (process, helper) in helpers.iter_mut().enumerate() {
        while let Some(line) = helper.line()? {
            let [fence, from, until] = parse(&line)?;
            grants.push(Held { process, fence, from, until });
        }
    }
    grants.sort_by_key(|held| held.fence);
    Ok(grants)
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let url: String = argument(arguments, 0)?;
    let turn = Duration::from_micros(argument(arguments, 1)?);
    let tasks: usize = argument(arguments, 2)?;
    on_all_cores(async move {
        let locks = Locks::open(&url).await?;
        await_start()?;
        let mut running: JoinSet<Result<Vec<String>>> = JoinSet::new();
        for _ in 0..tasks {
            let locks = locks.clone();
            running.spawn(async move { take_turns(&locks, turn).await });
        }
        while let Some(lines) = running.join_next().await {
            lines??.iter().try_for_each(|line| say(line))?;
        }
        Ok(())
    })
}

/// Fence, start and end of each grant.
async fn take_turns(locks: &Locks, turn: Duration) -> Result<Vec<String>> {
    let start = SystemClock.now();
    let mut grants = Vec::new();
    while elapsed_since(start) < RUN {
        let guard = locks.lock("hand-off").acquire().await?;
        let (fence, from) = (guard.fence(), SystemClock.now());
        pause(turn).await;
        let until = SystemClock.now();
        guard.release().await?;
        pause(turn / APART).await;
        grants.push(format!("{fence} {} {}", from.as_nanos(), until.as_nanos()));
    }
    Ok(grants)
}

pub(crate) async fn pause(turn: Duration) {
    SystemClock.sleep_until(SystemClock.now() + turn).await;
}
