//! How soon after its start a server answers: on an empty store, and on one with many locks.

use std::time::Duration;

use anyhow::Result;
use tenure::Locks;

use super::Served;
use crate::machine::folder;
use crate::report::{Row, Table, short};
use crate::sample::{key, median, on_all_cores, timed};

const STORED: u64 = 100_000;
const STARTS: usize = 7;
/// Grants that are under way at once while the store is filled.
const AT_ONCE: u64 = 500;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let empty = |number: usize| folder.path().join(format!("empty{number}.db"));
    let mut times = Vec::new();
    for number in 0..STARTS {
        times.push(ready(&empty(number).display().to_string())?);
    }
    let time = median(&mut times).unwrap_or_default();
    let limit = Duration::from_millis(200);
    table
        .add(Row::new("server: start, empty store", short(time)).target("≤ 200 ms", time <= limit));
    let full = folder.path().join("full.db").display().to_string();
    on_all_cores(fill(&full))?;
    let time = ready(&full)?;
    let row = Row::new("server: start, 100,000 locks", short(time));
    table.add(row.target("≤ 2 s", time <= Duration::from_secs(2)));
    Ok(())
}

/// From the start of the process to the first answer.
fn ready(file: &str) -> Result<Duration> {
    let (_, took) = timed(|| {
        let served = Served::start(file)?;
        on_all_cores(async {
            let mut rest = super::rest::Rest::connect(served.address).await?;
            rest.call("GET", "/readyz", "").await?;
            rest.call("GET", "/v1/locks?limit=1", "").await
        })
    })?;
    Ok(took)
}

async fn fill(file: &str) -> Result<()> {
    let locks = Locks::open(&format!("file:{file}")).await?;
    for first in (0..STORED).step_by(AT_ONCE as usize) {
        let grants = (first..first + AT_ONCE).map(|number| {
            let locks = locks.clone();
            async move {
                let request = locks.lock(&key(number)).ttl(Duration::from_secs(3600));
                drop(request.acquire().await?.detach());
                Ok(())
            }
        });
        super::all(grants).await?;
    }
    Ok(())
}
