//! Ten thousand streams: each with a lock of its own, and all of them in line for one.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tenure::clock::{Clock, SystemClock};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{Acquired, HoldRequest, HoldResponse, Target, hold_response::Event};
use tenure_api::time::to_wire;
use tonic::Streaming;
use tonic::transport::Channel;

use super::rest::Rest;
use super::{Served, all};
use crate::machine::{allow_files, files_max, folder};
use crate::report::{Row, Table, grouped, short};
use crate::sample::{elapsed_since, on_all_cores};

const STREAMS: usize = 10_000;
const CHANNELS: usize = 10;
const BYTES_MAX: f64 = 12.0 * 1024.0;
const CALLS_MAX: f64 = 2.1;

pub(crate) fn measure_held(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let mut served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let (before, after) = on_all_cores(async {
        let clients = clients(&served).await?;
        // Enough for everything that is made once.
        let _warm = hold(&clients, "warm", 200).await?;
        let before = served.resident()?;
        let _held = hold(&clients, "held", STREAMS).await?;
        Ok((before, served.resident()?))
    })?;
    let each = after.saturating_sub(before) as f64 / STREAMS as f64;
    let row = Row::new("server: memory per held stream", format!("{} B", grouped(each)))
        .target("≤ 12 KiB", each <= BYTES_MAX)
        .note(format!("{STREAMS} streams on {CHANNELS} connections, resident"));
    table.add(row);
    Ok(())
}

/// The same with a connection for each, as clients of HTTP/1.1 have it.
pub(crate) fn measure_connections(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let mut served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    allow_files()?;
    let count = STREAMS.min(files_max() / 10 * 9);
    let (before, after) = on_all_cores(async {
        let _warm = connect(&served, "warm", 200).await?;
        let before = served.resident()?;
        let _held = connect(&served, "held", count).await?;
        Ok((before, served.resident()?))
    })?;
    let each = after.saturating_sub(before) as f64 / count as f64;
    let row = Row::new("server: memory per held connection", format!("{} B", grouped(each)))
        .note(format!("{count} streams by HTTP/1.1, a connection each, resident"));
    table.add(row);
    Ok(())
}

pub(crate) fn measure_waiters(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let Line { took, fences, calls } = on_all_cores(hand_down(&served))?;
    let each = took / u32::try_from(STREAMS)?;
    let in_order = fences.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() == STREAMS;
    let row = Row::new("server: 10,000 waiters, per hand-off", short(each))
        .target("in order", in_order)
        .note("one grant each: fences without a gap, in the order of arrival");
    table.add(row);
    let calls = calls as f64 / STREAMS as f64;
    let row = Row::new("server: 10,000 waiters, store calls", format!("{calls:.2}"))
        .target("≤ 2.10", calls <= CALLS_MAX)
        .note("per hand-off: a release and a grant, and nobody else is woken to ask");
    table.add(row);
    Ok(())
}

/// What became of a long line.
struct Line {
    took: Duration,
    /// In the order of arrival; first that of whoever held the lock before.
    fences: Vec<u64>,
    /// How often the store was asked meanwhile.
    calls: u64,
}

async fn hand_down(served: &Served) -> Result<Line> {
    let mut client = served.client().await?;
    let mut first = open(&mut client, "line").await?;
    let mut fences = vec![acquired(&mut first).await?.fence];
    // One connection keeps the order in which the streams were opened. Each is read from then on:
    // what nobody reads piles up, and then the connection is ended.
    let mut line = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let mut stream = open(&mut client, "line").await?;
        line.push(tokio::spawn(async move { acquired(&mut stream).await }));
    }
    let before = store_calls(served).await?;
    let start = SystemClock.now();
    // Whoever is granted the lock hands it on by going away.
    drop(first);
    for granted in line {
        fences.push(granted.await??.fence);
    }
    let took = elapsed_since(start);
    Ok(Line { took, fences, calls: store_calls(served).await? - before })
}

/// How often the server has asked its store.
async fn store_calls(served: &Served) -> Result<u64> {
    let text = Rest::connect(served.address).await?.call("GET", "/metrics", "").await?;
    let counts = text.lines().filter(|line| line.starts_with("tenure_store_seconds_count{"));
    let counts = counts.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<u64>());
    Ok(counts.sum::<Result<u64, _>>()?)
}

async fn connect(served: &Served, name: &str, count: usize) -> Result<Vec<Rest>> {
    let address = served.address;
    let work = (0..CHANNELS).map(|at| {
        let name = name.to_owned();
        async move {
            let mut held = Vec::new();
            for number in 0..count / CHANNELS {
                let mut rest = Rest::connect(address).await?;
                rest.hold(&format!("/v1/locks/{name}/{at}/{number}")).await?;
                held.push(rest);
            }
            Ok(held)
        }
    });
    Ok(all(work).await?.into_iter().flatten().collect())
}

async fn clients(served: &Served) -> Result<Vec<LockServiceClient<Channel>>> {
    let mut clients = Vec::new();
    for _ in 0..CHANNELS {
        clients.push(served.client().await?);
    }
    Ok(clients)
}

async fn hold(
    clients: &[LockServiceClient<Channel>],
    name: &str,
    count: usize,
) -> Result<Vec<Streaming<HoldResponse>>> {
    let work = clients.iter().enumerate().map(|(at, client)| {
        let (mut client, name) = (client.clone(), name.to_owned());
        async move {
            let mut held = Vec::new();
            for number in 0..count / CHANNELS {
                let mut stream = open(&mut client, &format!("{name}/{at}/{number}")).await?;
                acquired(&mut stream).await?;
                held.push(stream);
            }
            Ok(held)
        }
    });
    Ok(all(work).await?.into_iter().flatten().collect())
}

async fn open(
    client: &mut LockServiceClient<Channel>,
    key: &str,
) -> Result<Streaming<HoldResponse>> {
    let target = Some(Target { key: key.to_owned(), ..Target::default() });
    let ttl = Some(to_wire(Duration::from_secs(600)));
    let request = HoldRequest { target, ttl, ..HoldRequest::default() };
    Ok(client.hold(request).await?.into_inner())
}

async fn acquired(stream: &mut Streaming<HoldResponse>) -> Result<Acquired> {
    loop {
        match stream.message().await?.context("the stream ended")?.event {
            Some(Event::Acquired(acquired)) => return Ok(acquired),
            Some(Event::Waiting(_) | Event::Ping(_)) => {}
            None => bail!("an empty event"),
        }
    }
}
