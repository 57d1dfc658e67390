//! How long a lock takes that nobody else wants, beside an empty request at the same load.

use std::time::Duration;

use anyhow::{Context, Result};
use tenure::clock::{Clock, SystemClock};

use super::rest::Rest;
use super::{CALLERS, Served, all};
use crate::machine::folder;
use crate::report::{Row, Table, short};
use crate::sample::{Pairs, elapsed_since, on_all_cores, quantile};

const ROUNDS: usize = 5;
const SHARE: usize = 60;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    on_all_cores(async {
        let mut callers = Vec::new();
        for _ in 0..CALLERS {
            callers.push(Rest::connect(served.address).await?);
        }
        let mut pairs = Pairs::default();
        for round in 0..=ROUNDS {
            let (back, empty) = p99(callers, move |_, _| Call::empty()).await?;
            let (back, lock) = p99(back, move |at, n| Call::lock(round, at, n)).await?;
            callers = back;
            if round > 0 {
                pairs.push(lock.as_secs_f64(), empty.as_secs_f64());
            }
        }
        let (ratio, lock) = (pairs.ratio()?, Duration::from_secs_f64(pairs.measured()?));
        let empty = Duration::from_secs_f64(pairs.reference()?);
        let row = Row::new("server: p99 of a lock, 64 connections", short(lock))
            .beside(format!("empty {}", short(empty)))
            .ratio_to_itself(ratio)
            .target("≤ 5.00", ratio <= 5.0)
            .unsure_if(pairs.is_unsteady())
            .note("REST; every lock is synced to disk");
        table.add(row);
        Ok(())
    })
}

struct Call {
    method: &'static str,
    path: String,
    body: &'static str,
}

impl Call {
    fn empty() -> Self {
        Self { method: "GET", path: "/healthz".into(), body: "" }
    }

    fn lock(round: usize, at: usize, number: usize) -> Self {
        let body = r#"{"immediate":true,"renewal":"client"}"#;
        Self { method: "POST", path: format!("/v1/locks/p{round}/{at}/{number}"), body }
    }
}

async fn p99(
    callers: Vec<Rest>,
    call: impl Fn(usize, usize) -> Call + Copy + Send + 'static,
) -> Result<(Vec<Rest>, Duration)> {
    let work = callers.into_iter().enumerate().map(|(at, mut rest)| async move {
        let mut times = Vec::with_capacity(SHARE);
        for number in 0..SHARE {
            let Call { method, path, body } = call(at, number);
            let start = SystemClock.now();
            rest.call(method, &path, body).await?;
            times.push(elapsed_since(start));
        }
        Ok((rest, times))
    });
    let (callers, times): (Vec<_>, Vec<_>) = all(work).await?.into_iter().unzip();
    let mut times = times.concat();
    Ok((callers, quantile(&mut times, 0.99).context("nothing was measured")?))
}
