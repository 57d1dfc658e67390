//! How long a key stands free between two processes that both want it.

use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};

use crate::machine::folder;
use crate::raw_sqlite::{self, RawSqlite};
use crate::report::{Row, Table, short};
use crate::role::{Helper, argument, await_start, parse, say};
use crate::sample::{elapsed_since, median, on_all_cores, quantile};

const RUN: Duration = Duration::from_secs(4);
const MEDIAN_MAX: Duration = Duration::from_millis(5);

/// One grant, on the boot clock that all processes of the machine share.
#[derive(Clone, Copy)]
struct Held {
    process: usize,
    fence: u64,
    from: u64,
    until: u64,
}

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let path = folder.path().join("locks.db").display().to_string();
    let connection = raw_sqlite::open(&folder.path().join("raw.db"))?;
    let mut raw = RawSqlite::on(&connection)?;
    let before = raw.commit_time(200)?;
    let mut grants = contend(&path)?;
    let commit = (before + raw.commit_time(200)?) / 2;
    grants.sort_by_key(|held| held.fence);
    let mut gaps: Vec<Duration> = grants
        .windows(2)
        .filter(|pair| pair[0].process != pair[1].process)
        .map(|pair| Duration::from_nanos(pair[1].from.saturating_sub(pair[0].until)))
        .collect();
    let changes = gaps.len();
    let middle = median(&mut gaps).context("the key never went to the other process")?;
    let late = quantile(&mut gaps, 0.99).context("no hand-off")?;
    let row = Row::new("file: hand-off, 2 processes, median", short(middle))
        .beside(format!("raw commit {}", short(commit)))
        .ratio(middle.as_secs_f64() / commit.as_secs_f64())
        .target("≤ 5 ms", middle <= MEDIAN_MAX)
        .note(format!("{changes} of {} grants went to the other process", grants.len()));
    table.add(row);
    table.add(Row::new("file: hand-off, 2 processes, p99", short(late)));
    Ok(())
}

fn contend(path: &str) -> Result<Vec<Held>> {
    let mut helpers = [Helper::start("hand off", &[path])?, Helper::start("hand off", &[path])?];
    helpers.iter_mut().try_for_each(Helper::await_ready)?;
    helpers.iter_mut().try_for_each(Helper::go)?;
    let mut grants = Vec::new();
    for (process, helper) in helpers.iter_mut().enumerate() {
        while let Some(line) = helper.line()? {
            let [fence, from, until] = parse(&line)?;
            grants.push(Held { process, fence, from, until });
        }
    }
    Ok(grants)
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let path: String = argument(arguments, 0)?;
    on_all_cores(async move {
        let locks = Locks::open(&format!("file:{path}")).await?;
        await_start()?;
        let start = SystemClock.now();
        let mut grants = Vec::new();
        while elapsed_since(start) < RUN {
            let guard = locks.lock("hand-off").acquire().await?;
            let (fence, from) = (guard.fence(), SystemClock.now());
            let until = SystemClock.now();
            guard.release().await?;
            grants.push((fence, from, until));
        }
        for (fence, from, until) in grants {
            say(&format!("{fence} {} {}", from.as_nanos(), until.as_nanos()))?;
        }
        Ok(())
    })
}
