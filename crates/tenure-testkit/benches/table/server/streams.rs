//! Ten thousand streams: each with a lock of its own, and all of them in line for one.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{Acquired, HoldRequest, HoldResponse, Target, hold_response::Event};
use tenure_api::time::to_wire;
use tonic::Streaming;
use tonic::transport::Channel;

use super::{Served, all};
use crate::machine::folder;
use crate::report::{Row, Table, grouped, short};
use crate::sample::{elapsed_since, on_all_cores};

const STREAMS: usize = 10_000;
const CHANNELS: usize = 10;
const BYTES_MAX: f64 = 12.0 * 1024.0;

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

pub(crate) fn measure_waiters(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    let each = on_all_cores(async {
        let mut client = served.client().await?;
        let mut first = open(&mut client, "line").await?;
        let held = acquired(&mut first).await?;
        // One connection keeps the order in which the streams were opened.
        let mut line = Vec::with_capacity(STREAMS);
        for _ in 0..STREAMS {
            line.push(open(&mut client, "line").await?);
        }
        let start = SystemClock.now();
        let mut last = held.fence;
        drop(first);
        for mut stream in line {
            let Acquired { fence, .. } = acquired(&mut stream).await?;
            ensure!(fence == last + 1, "not in order: fence {fence} came after {last}");
            last = fence;
        }
        Ok(elapsed_since(start) / u32::try_from(STREAMS)?)
    })?;
    let row = Row::new("server: 10,000 waiters, per hand-off", short(each))
        .target("in order", true)
        .note("one grant each: fences without a gap, in the order of arrival");
    table.add(row);
    Ok(())
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
