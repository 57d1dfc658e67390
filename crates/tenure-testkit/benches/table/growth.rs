//! A store with few and with many rows: the time of an acquire, and the memory of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::postgres::{Postgres, USER};
use tokio::task::JoinSet;

use crate::figure::{Figure, Source};
use crate::machine::{folder, resident};
use crate::report::{Amount, Row, Table, bytes, grouped, short};
use crate::role::{Helper, say};
use crate::sample::{elapsed_since, key, median, on_all_cores};
use crate::served;
use crate::shipped::Served;

/// How many leases stand in each of the stores that are compared, or in the first of them where
/// filling the last would take too long.
const SIZES: [u64; ALL] = [100, FEW, 10_000, 100_000, MANY];
/// How many of them that is.
pub(crate) const ALL: usize = 5;
pub(crate) const SOME: usize = 4;
/// The size that the others stand beside.
const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
const TASKS: u64 = 1_000;
const SAMPLES: u64 = 500;
const RATIO_MAX: f64 = 1.5;
const GROWTH_MAX: u64 = 16 << 20;

/// What came of it.
struct Grown {
    /// The median of an acquire for each of the sizes.
    times: Vec<(u64, Duration)>,
    /// The memory of the process before the largest was filled, and after.
    before: u64,
    after: u64,
    /// How long that took.
    filled: Duration,
}

pub(crate) fn measure_file(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let file = |size| format!("file:{}", folder.path().join(format!("{size}.db")).display());
    let grown = grow(&SIZES.map(file))?;
    grown.tell_times(table, "file", Some(RATIO_MAX));
    let mib = |bytes: u64| {
        let bytes = bytes as f64;
        Amount::new(format!("{:.1} MiB", bytes / f64::from(1 << 20)), bytes, "B")
    };
    let more = grown.after.saturating_sub(grown.before);
    let each = bytes(more as f64 / MANY as f64);
    let row = Row::new("file: rows, memory for 1,000,000", mib(more))
        .beside(format!("at 1,000: {}", mib(grown.before)))
        .target("≤ 16 MiB", more <= GROWTH_MAX)
        .note(format!("of the process: {each} for each; the rows are on the disk"));
    table.add(row);
    Ok(())
}

/// The stores of each size are schemas. They have connections enough to be filled in short time.
pub(crate) fn measure_postgres(table: &mut Table) -> Result<()> {
    let postgres = Postgres::start(&[])?;
    let base = postgres.url_for(USER, "postgres");
    let room = |room: &u64| format!("{base}?schema=room_{room}&connections=32");
    let urls: Vec<String> = SIZES[..SOME].iter().map(room).collect();
    grow(&urls)?.tell_times(table, "postgres", None);
    Ok(())
}

/// A server for each size, in which nothing else stands.
pub(crate) fn measure(table: &mut Table, name: &str, sizes: usize) -> Result<()> {
    let kind = served::kind(name)?;
    let servers = (0..sizes).map(|_| (kind.start)()).collect::<Result<Vec<_>>>()?;
    let urls: Vec<String> = servers.iter().map(|server| server.url(0, None)).collect();
    grow(&urls)?.tell_times(table, name, None);
    Ok(())
}

/// A server for each size, on a file of its own.
pub(crate) fn measure_server(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let (mut servers, mut urls) = (Vec::new(), Vec::new());
    for size in SIZES {
        let file = folder.path().join(format!("{size}.db")).display().to_string();
        let server = Served::start(&file)?;
        urls.push(format!("tenure://{}", server.address));
        servers.push(server);
    }
    grow(&urls)?.tell_times(table, "server", None);
    Ok(())
}

impl Grown {
    /// A row for each size; the largest may have a target.
    fn tell_times(&self, table: &mut Table, name: &str, ratio_max: Option<f64>) {
        let few =
            self.times.iter().find(|(size, _)| *size == FEW).map_or(Duration::ZERO, |at| at.1);
        let largest = self.times.last().map_or(0, |(size, _)| *size);
        for &(size, time) in &self.times {
            let rows = grouped(size as f64);
            let mut row = Row::new(format!("{name}: rows, acquire at {rows}"), short(time));
            if size != FEW {
                let ratio = time.as_secs_f64() / few.as_secs_f64();
                row = row.beside(format!("at 1,000: {}", short(few))).ratio_to_itself(ratio);
                if let Some(ratio_max) = ratio_max.filter(|_| size == largest) {
                    row = row.target(&format!("≤ {ratio_max:.2}"), ratio <= ratio_max);
                }
            }
            if size == largest {
                row = row.note(format!("medians, in turns; filled in {}", short(self.filled)));
            }
            table.add(row);
            table.plot(Figure::Keys, Source::Ours(name), size as f64, time.as_secs_f64());
        }
    }
}

/// Fills a store for each of the sizes, in a process of its own.
fn grow(urls: &[String]) -> Result<Grown> {
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let mut helper = Helper::start("grow", &urls)?;
    let mut times = Vec::new();
    for _ in &urls {
        let [size, nanos] = helper.numbers()?;
        times.push((size, Duration::from_nanos(nanos)));
    }
    let [before, after, filled] = helper.numbers()?;
    Ok(Grown { times, before, after, filled: Duration::from_nanos(filled) })
}

pub(crate) fn play(urls: &[String]) -> Result<()> {
    on_all_cores(async move {
        let mut stores = Vec::new();
        for (url, size) in urls.iter().zip(SIZES) {
            stores.push((Locks::open(url).await?, size));
        }
        let (largest, others) = stores.split_last().context("no store")?;
        let (smaller, larger): (Vec<_>, Vec<_>) = others.iter().partition(|(_, size)| *size <= FEW);
        // First a few in the largest as well, so that what the tasks themselves need is in the
        // first figure already.
        for (locks, size) in smaller {
            fill(locks, 0..*size).await?;
        }
        fill(&largest.0, 0..FEW).await?;
        let before = resident()?;
        let start = SystemClock.now();
        fill(&largest.0, FEW..largest.1).await?;
        let filled = elapsed_since(start);
        let after = resident()?;
        for (locks, size) in larger {
            fill(locks, 0..*size).await?;
        }
        for line in acquire_times(&stores).await? {
            say(&line)?;
        }
        say(&format!("{before} {after} {}", filled.as_nanos()))
    })
}

/// The size of each store and its median in nanoseconds, taken in turns.
async fn acquire_times(stores: &[(Locks, u64)]) -> Result<Vec<String>> {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); stores.len()];
    for number in MANY..MANY + SAMPLES {
        for ((locks, _), times) in stores.iter().zip(&mut times) {
            times.push(acquire_time(locks, number).await?);
        }
    }
    let medians = stores.iter().zip(&mut times).map(|((_, size), times)| {
        let time = median(times).context("no samples")?;
        Ok(format!("{size} {}", time.as_nanos()))
    });
    medians.collect()
}

async fn acquire_time(locks: &Locks, number: u64) -> Result<Duration> {
    let key = key(number);
    let start = SystemClock.now();
    let guard = locks.lock(&key).acquire().await?;
    let took = elapsed_since(start);
    guard.release().await?;
    Ok(took)
}

/// Leaves a lease behind for each of these numbers.
async fn fill(locks: &Locks, numbers: std::ops::Range<u64>) -> Result<()> {
    ensure!(numbers.end <= MANY, "the samples are above");
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut tasks: JoinSet<tenure::Result<()>> = JoinSet::new();
    for _ in 0..TASKS {
        let (locks, next) = (locks.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= numbers.end {
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
