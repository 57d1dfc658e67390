//! The memory of a million held leases.

use std::time::Duration;

use anyhow::Result;
use tenure::Locks;

use crate::figure::{Figure, Source};
use crate::machine::resident;
use crate::redis_footprint;
use crate::report::{Better, Row, Table, bytes};
use crate::role::{Helper, argument, say};
use crate::sample::{key, on_one_thread};

const LEASES: u64 = 1_000_000;
const BYTES_MAX: f64 = 300.0;
/// Enough for everything that is made once.
const WARM_UP: u64 = 1_000;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    // In a process of its own: what earlier rows gave back to the allocator would be used again.
    let [all] = Helper::start("hold leases", &[&LEASES.to_string()])?.numbers()?;
    let each = all as f64 / LEASES as f64;
    let theirs = redis_footprint::bytes_per_key()?;
    let row = Row::new("memory: bytes per lease, 1,000,000", bytes(each))
        .beside(format!("Redis {}", bytes(theirs)))
        .ratio(each / theirs, Better::Lower)
        .target("≤ 300 B", each <= BYTES_MAX)
        .note("resident, with no guard that keeps it alive; 34-byte key, UUID owner");
    table.add(row);
    table.bar(Figure::Memory, Source::Ours("a lease on memory:"), each);
    table.bar(Figure::Memory, Source::Theirs("a key of Redis"), theirs);
    Ok(())
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let leases: u64 = argument(arguments, 0)?;
    on_one_thread(async move {
        let locks = Locks::open("memory:").await?;
        hold(&locks, 0..WARM_UP).await?;
        let before = resident()?;
        hold(&locks, WARM_UP..WARM_UP + leases).await?;
        say(&resident()?.saturating_sub(before).to_string())
    })
}

async fn hold(locks: &Locks, numbers: std::ops::Range<u64>) -> Result<()> {
    for number in numbers {
        let guard = locks.lock(&key(number)).ttl(Duration::from_secs(3600)).acquire().await?;
        drop(guard.detach());
    }
    Ok(())
}
