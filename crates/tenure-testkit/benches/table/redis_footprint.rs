//! The memory of a lock by hand in Redis, as Redis counts it.

use anyhow::{Context, Result};
use redis::aio::MultiplexedConnection;
use tenure::Owner;
use tenure::random::SystemRandom;
use tenure_testkit::servers::redis::start_redis;

use crate::sample::{key, on_one_thread};

const KEYS: u64 = 1_000_000;
const BATCH: u64 = 1_000;
/// Its tables grow by doubling and may be half empty. They are as full with a million keys as ours.
const WARM_UP: u64 = 1_000;

/// `SET key owner NX PX ttl`, a million times.
pub(crate) fn bytes_per_key() -> Result<f64> {
    let server = start_redis(&[])?;
    on_one_thread(async {
        let client = redis::Client::open(format!("redis://{}/", server.address()))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        set(&mut connection, 0..WARM_UP).await?;
        let before = used(&mut connection).await?;
        set(&mut connection, WARM_UP..WARM_UP + KEYS).await?;
        Ok((used(&mut connection).await? - before) / KEYS as f64)
    })
}

async fn set(connection: &mut MultiplexedConnection, numbers: std::ops::Range<u64>) -> Result<()> {
    let owner = Owner::generate(&SystemRandom)?.expose();
    for first in numbers.clone().step_by(BATCH as usize) {
        let mut pipe = redis::pipe();
        for number in first..numbers.end.min(first + BATCH) {
            let set = pipe.cmd("SET").arg(key(number)).arg(&owner);
            set.arg("NX").arg("PX").arg(3_600_000).ignore();
        }
        pipe.query_async::<()>(connection).await?;
    }
    Ok(())
}

/// The bytes that it says it uses.
async fn used(connection: &mut MultiplexedConnection) -> Result<f64> {
    let told: String = redis::cmd("INFO").arg("memory").query_async(connection).await?;
    let line = told.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(line.context("no used_memory line")?.trim().parse()?)
}
