//! Calls a second of one function, under a lock and without.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tenure::clock::{Clock, SystemClock};
use tenure_forrst::{Call, Fault, Forrst};

use super::rest::Rest;
use super::{CALLERS, Served, all};
use crate::machine::folder;
use crate::report::{Better, Row, Table, per_second};
use crate::role::{Helper, argument, say};
use crate::sample::{Pairs, elapsed_since, on_all_cores, on_one_thread, rate};

const ROUNDS: usize = 15;
/// Calls of each caller in one round.
const SHARE: usize = 60;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let mut helper = Helper::start("forrst", &[&file("service.db")])?;
    let service: SocketAddr = helper.line()?.context("the server ended")?.parse()?;
    let upstream = format!("forrst.upstream = 'http://{service}/forrst'");
    let served = Served::start_with(&file("locks.db"), &upstream)?;
    let pairs = on_one_thread(compare(served.address))?;
    let ratio = pairs.ratio()?;
    let row = Row::new("forrst: locked calls, the server", per_second(pairs.measured()?))
        .beside(format!("without {}", per_second(pairs.reference()?)))
        .ratio(ratio, Better::Higher)
        .target("≥ 0.50", ratio >= 0.5)
        .unsure_if(pairs.is_unsteady())
        .note("64 connections; one function of an upstream, with its lock and without, synced");
    table.add(row);
    let pairs = on_one_thread(compare(service))?;
    let row = Row::new("forrst: locked calls, a service", per_second(pairs.measured()?))
        .beside(format!("without {}", per_second(pairs.reference()?)))
        .ratio(pairs.ratio()?, Better::Higher)
        .note("the same in an axum application whose function does nothing at all");
    table.add(row);
    Ok(())
}

/// The rates of calls with a lock and without.
async fn compare(address: SocketAddr) -> Result<Pairs> {
    let mut rests = Vec::new();
    for _ in 0..CALLERS {
        rests.push(Rest::connect(address).await?);
    }
    let mut pairs = Pairs::default();
    for round in 0..=ROUNDS {
        let (back, bare) = calls(rests, false).await?;
        let (back, locked) = calls(back, true).await?;
        rests = back;
        // The first round fills the caches.
        if round > 0 {
            pairs.push(locked, bare);
        }
    }
    Ok(pairs)
}

/// The rate at which all callers are answered.
async fn calls(rests: Vec<Rest>, is_locked: bool) -> Result<(Vec<Rest>, f64)> {
    let start = SystemClock.now();
    let work = rests.into_iter().enumerate().map(move |(at, rest)| caller(at, rest, is_locked));
    let rests = all(work).await?;
    Ok((rests, rate((CALLERS * SHARE) as u64, elapsed_since(start))))
}

async fn caller(at: usize, mut rest: Rest, is_locked: bool) -> Result<Rest> {
    let mut document = json!({
        "protocol": {"name": "forrst", "version": "0.1.0"},
        "id": "req_1",
        "call": {"function": "bench.echo", "version": "1.0.0", "arguments": {"amount": 100}},
    });
    if is_locked {
        let options = json!({"key": format!("k{at}"), "ttl": {"value": 30, "unit": "second"}});
        document["extensions"] = json!([{"urn": "urn:forrst:ext:atomicLock", "options": options}]);
    }
    let document = document.to_string();
    for _ in 0..SHARE {
        let answer = rest.call("POST", "/forrst", &document).await?;
        ensure!(answer.contains(r#""amount":100"#), "{answer}");
    }
    Ok(rest)
}

/// Serves until it is ended with its parent; tells its address.
pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let file: String = argument(arguments, 0)?;
    on_all_cores(async move {
        let locks = tenure::Locks::open(&format!("file:{file}")).await?;
        let echo = async |_: Call, asked: Value| Ok::<_, Fault>(asked);
        let service = Forrst::new(locks).function("bench.echo", "1.0.0", echo).service();
        let app = axum::Router::new().route_service("/forrst", service);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        say(&listener.local_addr()?.to_string())?;
        Ok(axum::serve(listener, app).await?)
    })
}
