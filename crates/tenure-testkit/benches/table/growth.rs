//! `file:` with few and with many rows: the time of an acquire, and the memory of the process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tokio::task::JoinSet;

use crate::machine::{folder, resident};
use crate::report::{Row, Table, grouped, short};
use crate::role::{Helper, argument, say};
use crate::sample::{elapsed_since, key, median, on_all_cores};

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
const TASKS: u64 = 1_000;
const SAMPLES: u64 = 500;
const RATIO_MAX: f64 = 1.5;
const GROWTH_MAX: u64 = 16 << 20;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let mut helper = Helper::start("grow", &[&folder.path().display().to_string()])?;
    let [few, many, before, after, filled] = helper.numbers()?;
    let [few, many, filled] = [few, many, filled].map(Duration::from_nanos);
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    let row = Row::new("file: rows, acquire at 1,000,000", short(many))
        .beside(format!("at 1,000: {}", short(few)))
        .ratio(ratio)
        .target("≤ 1.50", ratio <= RATIO_MAX)
        .note(format!("medians, in turns; filled in {}", short(filled)));
    table.add(row);
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let grown = after.saturating_sub(before);
    let row = Row::new("file: rows, memory for 1,000,000", mib(grown))
        .beside(format!("at 1,000: {}", mib(before)))
        .target("≤ 16 MiB", grown <= GROWTH_MAX)
        .note(format!("{} B per row", grouped(grown as f64 / MANY as f64)));
    table.add(row);
    Ok(())
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let folder: String = argument(arguments, 0)?;
    on_all_cores(async move {
        let open = |name: &str| {
            let url = format!("file:{}", Path::new(&folder).join(name).display());
            async move { Locks::open(&url).await }
        };
        let (small, large) = (open("small.db").await?, open("large.db").await?);
        // Both, so that what the tasks themselves need is in the first figure already.
        fill(&small, FEW).await?;
        fill(&large, FEW).await?;
        let before = resident()?;
        let start = SystemClock.now();
        fill(&large, MANY).await?;
        let filled = elapsed_since(start);
        let after = resident()?;
        let (mut few, mut many) = (Vec::new(), Vec::new());
        for number in MANY..MANY + SAMPLES {
            few.push(acquire_time(&small, number).await?);
            many.push(acquire_time(&large, number).await?);
        }
        let few = median(&mut few).context("no samples")?;
        let many = median(&mut many).context("no samples")?;
        let [few, many, filled] = [few, many, filled].map(|time| time.as_nanos());
        say(&format!("{few} {many} {before} {after} {filled}"))
    })
}

async fn acquire_time(locks: &Locks, number: u64) -> Result<Duration> {
    let key = key(number);
    let start = SystemClock.now();
    let guard = locks.lock(&key).acquire().await?;
    let took = elapsed_since(start);
    guard.release().await?;
    Ok(took)
}

/// Leaves `rows` leases behind, with those that stand already.
async fn fill(locks: &Locks, rows: u64) -> Result<()> {
    let next = Arc::new(AtomicU64::new(if rows == FEW { 0 } else { FEW }));
    let mut tasks: JoinSet<tenure::Result<()>> = JoinSet::new();
    for _ in 0..TASKS {
        let (locks, next) = (locks.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= rows {
                    return Ok(());
                }
                let ttl = Duration::from_secs(3600);
                drop(locks.lock(&key(number)).ttl(ttl).acquire().await?.detach());
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
