//! One uncontended lock through `Locks` on `memory:`, kept alive, on one core.

use std::time::Duration;

use anyhow::{Context, Result};
use tenure::Locks;

use crate::report::{Row, Table, per_second};
use crate::sample::{elapsed_since, key, median, on_one_thread, rate};
use tenure::clock::{Clock, SystemClock};

const CYCLES: u64 = 100_000;
const ROUNDS: usize = 7;
const TARGET: f64 = 200_000.0;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let mut rates = on_one_thread(async {
        let locks = Locks::open("memory:").await?;
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let start = SystemClock.now();
            for _ in 0..CYCLES {
                let guard = locks.lock(&key(1)).ttl(Duration::from_secs(30)).acquire().await?;
                guard.release().await?;
            }
            rates.push(rate(CYCLES, elapsed_since(start)));
        }
        Ok(rates)
    })?;
    let rate = median(&mut rates).context("no round")?;
    let row = Row::new("memory: cycle, kept alive", per_second(rate));
    table.add(row.target("≥ 200,000/s", rate >= TARGET).note("one thread, ttl 30 s"));
    Ok(())
}
