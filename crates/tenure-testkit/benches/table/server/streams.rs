//! Many streams: each with a lock of its own, and all of them in line for one.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{Acquired, HoldRequest, HoldResponse, Target, hold_response::Event};
use tenure_api::time::to_wire;
use tonic::Streaming;
use tonic::transport::Channel;

use super::rest::Rest;
use super::{Served, all};
use crate::figure::{Figure, Source};
use crate::machine::{files_max, folder};
use crate::report::{Amount, Row, Table, bytes, grouped, short};
use crate::sample::{elapsed_since, median, on_all_cores};

const STREAMS: usize = 10_000;
const CHANNELS: usize = 10;
/// How many wait, and how often that is measured.
const LINES: [(usize, usize); 5] = [(1, 300), (10, 100), (100, 20), (1_000, 5), (STREAMS, 1)];
const BYTES_MAX: f64 = 12.0 * 1024.0;
const CALLS_MAX: f64 = 2.1;

pub(crate) fn measure_held(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let (before, after) = on_all_cores(async {
        let clients = clients(&served).await?;
        // Enough for everything that is made once.
        let _warm = hold(&clients, "warm", 200).await?;
        let before = served.resident()?;
        let _held = hold(&clients, "held", STREAMS).await?;
        Ok((before, served.resident()?))
    })?;
    let each = after.saturating_sub(before) as f64 / STREAMS as f64;
    let row = Row::new("server: memory per held stream", bytes(each))
        .target("≤ 12 KiB", each <= BYTES_MAX)
        .note(format!("{STREAMS} streams on {CHANNELS} connections, resident"));
    table.add(row);
    table.bar(Figure::Clients, Source::Ours("a stream of HTTP/2"), each);
    Ok(())
}

/// The same with a connection for each, as clients of HTTP/1.1 have it.
pub(crate) fn measure_connections(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let count = STREAMS.min(files_max() / 10 * 9);
    let (before, after) = on_all_cores(async {
        let _warm = connect(&served, "warm", 200).await?;
        let before = served.resident()?;
        let _held = connect(&served, "held", count).await?;
        Ok((before, served.resident()?))
    })?;
    let each = after.saturating_sub(before) as f64 / count as f64;
    let row = Row::new("server: memory per held connection", bytes(each))
        .note(format!("{count} streams by HTTP/1.1, a connection each, resident"));
    table.add(row);
    table.bar(Figure::Clients, Source::Ours("a connection of HTTP/1.1"), each);
    Ok(())
}

pub(crate) fn measure_waiters(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    for (waiters, rounds) in LINES {
        let mut lines = Vec::new();
        for round in 0..rounds {
            let key = format!("line/{waiters}/{round}");
            lines.push(on_all_cores(hand_down(&served, &key, waiters))?);
        }
        tell(table, waiters, &lines)?;
    }
    Ok(())
}

fn tell(table: &mut Table, waiters: usize, lines: &[Line]) -> Result<()> {
    let mut times: Vec<Duration> = lines.iter().map(|line| line.took).collect();
    let each = median(&mut times).context("no round")? / u32::try_from(waiters)?;
    let plural = if waiters == 1 { "" } else { "s" };
    let name = format!("server: {} waiter{plural}", grouped(waiters as f64));
    let in_order = lines.iter().all(|line| line.fences.windows(2).all(|f| f[1] == f[0] + 1));
    let mut row = Row::new(format!("{name}, per hand-off"), short(each))
        .note("one grant each: fences without a gap, in the order of arrival");
    if waiters == STREAMS {
        row = row.target("in order", in_order);
    } else {
        ensure!(in_order, "{waiters} waiters: not in the order of arrival");
    }
    table.add(row);
    table.plot(Figure::Waiters, Source::Ours("server"), waiters as f64, each.as_secs_f64());
    if waiters == STREAMS {
        let calls: u64 = lines.iter().map(|line| line.calls).sum();
        let calls = calls as f64 / (waiters * lines.len()) as f64;
        let told = Amount::new(format!("{calls:.2}"), calls, "calls");
        let row = Row::new(format!("{name}, store calls"), told)
            .target("≤ 2.10", calls <= CALLS_MAX)
            .note("per hand-off: a release and a grant, and nobody else is woken to ask");
        table.add(row);
    }
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

async fn hand_down(served: &Served, key: &str, waiters: usize) -> Result<Line> {
    let mut client = served.client().await?;
    let mut first = open(&mut client, key).await?;
    let mut fences = vec![acquired(&mut first).await?.fence];
    // One connection keeps the order in which the streams were opened. Each is read from then on:
    // what nobody reads piles up, and then the connection is ended.
    let mut line = Vec::with_capacity(waiters);
    for _ in 0..waiters {
        let mut stream = open(&mut client, key).await?;
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
