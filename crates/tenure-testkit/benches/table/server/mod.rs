//! tenure's server as it is shipped, on the embedded store.

mod caller;
mod forrst;
mod grants;
mod growth;
mod latency;
mod others;
mod rest;
mod rounds;
mod start;
mod streams;
mod ways;

use anyhow::{Result, bail};

pub(crate) use forrst::{measure as measure_forrst, play as play_forrst};
pub(crate) use grants::measure as measure_grants;
pub(crate) use growth::measure as measure_growth;
pub(crate) use latency::measure as measure_latency;
pub(crate) use start::measure as measure_start;
pub(crate) use streams::{measure_connections, measure_held, measure_waiters};

use crate::shipped::Served;

/// How many connections, or callers on a few of them, each load comes from.
const CALLERS: usize = 64;

/// Runs all of them at once; all must succeed.
async fn all<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        match task.await {
            Ok(outcome) => done.push(outcome?),
            Err(error) => bail!("a caller panicked: {error}"),
        }
    }
    Ok(done)
}
