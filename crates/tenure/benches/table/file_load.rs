//! `file:` under load: many tasks, in one process and in several, beside raw SQLite.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tokio::task::JoinSet;

use crate::batching::commits;
use crate::machine::folder;
use crate::raw_sqlite::{self, RawSqlite};
use crate::report::{Row, Table, per_second};
use crate::role::{Helper, argument, await_start, say};
use crate::sample::{elapsed_since, key, median, on_all_cores, rate};

/// Of each kind of run: they take turns, so that a slow spell of the machine hits both.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(800);

const SHARE_MIN: f64 = 0.5;

pub(crate) fn measure_tasks(table: &mut Table) -> Result<()> {
    for tasks in [1, 16, 128] {
        measure_in_one_process(table, tasks)?;
    }
    Ok(())
}

fn measure_in_one_process(table: &mut Table, tasks: usize) -> Result<()> {
    let folder = folder()?;
    let path = folder.path().join("locks.db");
    let connection = raw_sqlite::open(&folder.path().join("raw.db"))?;
    let mut raw = RawSqlite::on(&connection)?;
    let (mut ours, mut theirs, mut full, mut batches) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let load = load(&path, 1, tasks)?;
        // Two jobs per grant, and no transaction can have more than one of each task.
        let batch = load.batch.clamp(1.0, tasks as f64);
        ours.push(load.grants_per_second);
        batches.push(batch);
        theirs.push(raw.grants_per_second(batch.round() as usize, ROUND)?);
        full.push(raw.grants_per_second(tasks, ROUND)?);
    }
    let (ours, theirs) = (middle(ours)?, middle(theirs)?);
    let (batch, full) = (middle(batches)?, middle(full)?);
    let plural = if tasks == 1 { "" } else { "s" };
    let mut row = Row::new(format!("file: tasks, {tasks} in one process"), per_second(ours))
        .beside(format!("raw {}", per_second(theirs)))
        .ratio(ours / theirs)
        .note(format!(
            "{batch:.1} jobs per transaction; raw with {tasks} row{plural} each {}",
            per_second(full)
        ));
    if tasks == 128 {
        row = row.target("≥ 0.50", ours / theirs >= SHARE_MIN);
    }
    table.add(row);
    Ok(())
}

pub(crate) fn measure_processes(table: &mut Table) -> Result<()> {
    const TASKS: usize = 128;
    const PROCESSES: usize = 4;
    let folder = folder()?;
    let (mut one, mut several, mut batches) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        one.push(load(&folder.path().join("one.db"), 1, TASKS)?.grants_per_second);
        let load = load(&folder.path().join("several.db"), PROCESSES, TASKS / PROCESSES)?;
        several.push(load.grants_per_second);
        batches.push(load.batch);
    }
    let (one, several, batch) = (middle(one)?, middle(several)?, middle(batches)?);
    let row = Row::new("file: processes, 4 of 32 tasks", per_second(several))
        .beside(format!("1 of 128 {}", per_second(one)))
        .ratio(several / one)
        .target("≥ 0.50", several / one >= SHARE_MIN)
        .note(format!("{batch:.1} jobs per transaction"));
    table.add(row);
    Ok(())
}

fn middle(mut values: Vec<f64>) -> Result<f64> {
    median(&mut values).context("no round")
}

struct Load {
    grants_per_second: f64,
    /// Jobs per transaction, two for each grant.
    batch: f64,
}

/// Lets so many processes with so many tasks each acquire and release keys of their own.
fn load(path: &Path, processes: usize, tasks: usize) -> Result<Load> {
    let mut helpers = Vec::new();
    for process in 0..processes {
        let (path, tasks) = (path.display().to_string(), tasks.to_string());
        helpers.push(Helper::start("load", &[&path, &tasks, &process.to_string()])?);
    }
    helpers.iter_mut().try_for_each(Helper::await_ready)?;
    let before = commits(path)?;
    helpers.iter_mut().try_for_each(Helper::go)?;
    let (mut grants, mut rates) = (0, 0.0);
    for helper in &mut helpers {
        let [count, nanos] = helper.numbers()?;
        grants += count;
        rates += rate(count, Duration::from_nanos(nanos));
    }
    let transactions = commits(path)?.wrapping_sub(before).max(1);
    helpers.iter_mut().try_for_each(Helper::go)?;
    Ok(Load { grants_per_second: rates, batch: 2.0 * grants as f64 / f64::from(transactions) })
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let path: String = argument(arguments, 0)?;
    let tasks: u64 = argument(arguments, 1)?;
    let process: u64 = argument(arguments, 2)?;
    on_all_cores(async move {
        let locks = Locks::open(&format!("file:{path}")).await?;
        await_start()?;
        let start = SystemClock.now();
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (locks, key) = (locks.clone(), key(process * tasks + task));
            running.spawn(async move { cycle(&locks, &key).await });
        }
        let mut grants = 0;
        while let Some(count) = running.join_next().await {
            grants += count??;
        }
        say(&format!("{grants} {}", elapsed_since(start).as_nanos()))?;
        // The file stays open until the commits are counted: its last user takes the log along.
        std::io::stdin().read_line(&mut String::new())?;
        Ok(())
    })
}

async fn cycle(locks: &Locks, key: &str) -> Result<u64> {
    let start = SystemClock.now();
    let mut grants = 0;
    while elapsed_since(start) < ROUND {
        locks.lock(key).ttl(Duration::from_secs(30)).acquire().await?.release().await?;
        grants += 1;
    }
    Ok(grants)
}
