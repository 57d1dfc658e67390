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
use crate::report::{Better, Row, Table, per_second};
use crate::role::{Helper, argument, await_start, say};
use crate::sample::{Pairs, elapsed_since, key, median, on_all_cores, rate};

const ROUNDS: usize = 12;
const ROUND: Duration = Duration::from_millis(400);
const SHARE_MIN: f64 = 0.5;

/// So many tasks in one process, beside raw SQLite with as many rows per transaction.
pub(crate) fn measure_tasks(table: &mut Table, tasks: usize) -> Result<()> {
    let folder = folder()?;
    let path = folder.path().join("locks.db");
    let connection = raw_sqlite::open(&folder.path().join("raw.db"))?;
    let mut raw = RawSqlite::on(&connection)?;
    let (mut rates, mut batches) = (Pairs::default(), Vec::new());
    let mut batch = tasks as f64;
    for round in 0..=ROUNDS {
        // Who goes first finds the disk rested, so they take turns in that as well.
        let rows = batch.round() as usize;
        let raw_first = (round % 2 == 1).then(|| raw.grants_per_second(rows, ROUND)).transpose()?;
        let load = load(&path, 1, tasks)?;
        // A task asks again only when it was answered, so no transaction has two jobs of one.
        batch = load.batch.clamp(1.0, tasks as f64);
        let theirs = match raw_first {
            Some(theirs) => theirs,
            None => raw.grants_per_second(batch.round() as usize, ROUND)?,
        };
        // The first round only finds out how large the batches are.
        if round > 0 {
            rates.push(load.grants_per_second, theirs);
            batches.push(batch);
        }
    }
    let ratio = rates.ratio()?;
    let plural = if tasks == 1 { "" } else { "s" };
    let batch = median(&mut batches).context("no round")?;
    let mut row = Row::new(format!("file: {tasks} task{plural}"), per_second(rates.measured()?))
        .beside(format!("raw {}", per_second(rates.reference()?)))
        .ratio(ratio, Better::Higher)
        .note(format!("{batch:.1} jobs per transaction, and so in raw"));
    if tasks == 128 {
        // Ours does all that raw does and more: to be faster is an error of measurement.
        let unsure = rates.is_unsteady() || ratio > 1.0;
        row = row.target("≥ 0.50", ratio >= SHARE_MIN).unsure_if(unsure);
    }
    table.add(row);
    Ok(())
}

/// The same tasks spread over several processes, beside all of them in one.
pub(crate) fn measure_processes(table: &mut Table, tasks: usize) -> Result<()> {
    const PROCESSES: usize = 4;
    let each = tasks / PROCESSES;
    let folder = folder()?;
    let (mut rates, mut batches) = (Pairs::default(), Pairs::default());
    let one = || load(&folder.path().join("one.db"), 1, tasks);
    let several = || load(&folder.path().join("several.db"), PROCESSES, each);
    for round in 0..ROUNDS {
        let (one, several) = if round % 2 == 0 {
            let one = one()?;
            (one, several()?)
        } else {
            let several = several()?;
            (one()?, several)
        };
        rates.push(several.grants_per_second, one.grants_per_second);
        batches.push(several.batch, one.batch);
    }
    let ratio = rates.ratio()?;
    let plural = if each == 1 { "" } else { "s" };
    let name = format!("file: {PROCESSES} processes of {each} task{plural}");
    let mut row = Row::new(name, per_second(rates.measured()?))
        .beside(format!("1 of {tasks} {}", per_second(rates.reference()?)))
        .ratio_to_itself(ratio)
        .note(format!(
            "{:.1} jobs per transaction, {:.1} in one process",
            batches.measured()?,
            batches.reference()?
        ));
    if tasks == 128 {
        row = row.target("≥ 0.50", ratio >= SHARE_MIN).unsure_if(rates.is_unsteady());
    }
    table.add(row);
    Ok(())
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
