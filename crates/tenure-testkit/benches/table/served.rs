//! The stores that a server stands behind, each beside the two raw commands on the same server.

use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::{Kind, Service, fresh_room, kinds};

use crate::contest::Contest;
use crate::figure::{Figure, Point, Source};
use crate::handoff;
use crate::raw::{self, Raw};
use crate::report::{Amount, Better, Row, Table, short};
use crate::sample::{Pairs, elapsed_since, is_unsteady, median, on_all_cores, pause};

const ROUNDS: usize = 15;
/// How long a round of one side takes, about.
const ROUND: Duration = Duration::from_millis(120);
const CYCLE_MAX: f64 = 1.25;
const HANDOFF_MAX: f64 = 4.0;
const TURN: Duration = Duration::from_millis(20);
const TURNS: usize = 50;

/// The kind of server with this name.
pub(crate) fn kind(name: &str) -> Result<Kind> {
    kinds().into_iter().find(|kind| kind.name == name).context("no such kind")
}

pub(crate) fn measure(table: &mut Table, name: &str) -> Result<()> {
    let kind = kind(name)?;
    let service = kind.shared()?;
    let wakes = on_all_cores(cycle(table, kind, &*service))?;
    if wakes { hand_off(table, kind, &*service) } else { Ok(()) }
}

/// Acquire and release of one key that nobody else wants; whether the store wakes waiters.
async fn cycle(table: &mut Table, kind: Kind, service: &dyn Service) -> Result<bool> {
    let locks = Locks::open(&service.url(fresh_room(), None)).await?;
    let mut raw = raw::connect(kind.name, service).await?;
    let mut pairs = Pairs::default();
    let count = cycles_per_round(&mut *raw).await?;
    for round in 0..=ROUNDS {
        let by_hand = raw_time(&mut *raw, count).await?;
        let start = SystemClock.now();
        for _ in 0..count {
            locks.lock("cycle").ttl(Duration::from_secs(30)).acquire().await?.release().await?;
        }
        let ours = elapsed_since(start);
        // The first round fills the caches of both.
        if round > 0 {
            pairs.push(ours.as_secs_f64() / count as f64, by_hand.as_secs_f64() / count as f64);
        }
    }
    let ratio = pairs.ratio()?;
    let row = Row::new(format!("{}: cycle", kind.name), seconds(pairs.measured()?))
        .beside(format!("by hand {}", seconds(pairs.reference()?)))
        .ratio(ratio, Better::Lower)
        .target("≤ 1.25", ratio <= CYCLE_MAX)
        .unsure_if(pairs.is_unsteady())
        .note(format!("acquire and release; class {:?}", locks.store().class));
    table.add(row);
    let bar = Point::bar(Figure::Cycle, Source::Ours(kind.name), ratio);
    table.draw(bar.unsure_if(pairs.is_unsteady()));
    Ok(locks.store().capabilities.wakes)
}

fn hand_off(table: &mut Table, kind: Kind, service: &dyn Service) -> Result<()> {
    let before = on_all_cores(trips(kind, service))?;
    let url = service.url(fresh_room(), None);
    let mut gaps = handoff::gaps(&Contest::on(&url, TURN).hold(&handoff::TWO)?);
    let after = on_all_cores(trips(kind, service))?;
    let middle = median(&mut gaps).context("the key never went to the other process")?;
    let beside = |name: &str, each: Duration| {
        let ratio = middle.as_secs_f64() / each.as_secs_f64();
        let row = Row::new(format!("{}: hand-off, {name}", kind.name), short(middle));
        (row.beside(format!("{name} {}", short(each))).ratio(ratio, Better::Lower), ratio)
    };
    let (row, ratio) = beside("raw command", (before.write + after.write) / 2);
    let count = gaps.len();
    let row = row
        .target("≤ 4.00", ratio <= HANDOFF_MAX)
        .unsure_if(is_unsteady([before.write, after.write].iter().map(Duration::as_secs_f64)))
        .note(format!(
            "2 processes, median of {count}; a release and a grant at the least, and so in raw"
        ));
    table.add(row);
    // What no lock can be measured by where a grant waits for the disk; shown all the same.
    let (row, _) = beside("bare round trip", (before.bare + after.bare) / 2);
    table.add(row.note("a question that waits for no disk"));
    Ok(())
}

/// How long a command and its answer take, in the rhythm of a hand-off: two of them after a turn in
/// which nothing was asked. A machine that is busy with nothing else answers sooner.
struct Trips {
    /// One that writes, and is answered when that is safe.
    write: Duration,
    /// One that changes nothing.
    bare: Duration,
}

async fn trips(kind: Kind, service: &dyn Service) -> Result<Trips> {
    let mut raw = raw::connect(kind.name, service).await?;
    raw.take().await?;
    let (mut writes, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        pause(TURN).await;
        let start = SystemClock.now();
        raw.give().await?;
        raw.take().await?;
        writes.push(elapsed_since(start) / 2);
        pause(TURN).await;
        let start = SystemClock.now();
        raw.ping().await?;
        raw.ping().await?;
        bare.push(elapsed_since(start) / 2);
    }
    raw.give().await?;
    let nothing = "nothing was measured";
    let write = median(&mut writes).context(nothing)?;
    Ok(Trips { write, bare: median(&mut bare).context(nothing)? })
}

async fn raw_time(raw: &mut dyn Raw, count: u32) -> Result<Duration> {
    let start = SystemClock.now();
    for _ in 0..count {
        raw.take().await?;
        raw.give().await?;
    }
    Ok(elapsed_since(start))
}

async fn cycles_per_round(raw: &mut dyn Raw) -> Result<u32> {
    let ten = raw_time(raw, 10).await?;
    Ok(((ROUND.as_secs_f64() / ten.as_secs_f64()) * 10.0).clamp(3.0, 2000.0) as u32)
}

fn seconds(seconds: f64) -> Amount {
    short(Duration::from_secs_f64(seconds))
}
