//! Durable grants a second through the server, beside Redis that syncs every write.

use anyhow::{Context, Result, ensure};
use redis::aio::MultiplexedConnection;
use tenure::clock::{Clock, SystemClock};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{LockRequest, Renewal, Target, UnlockRequest};
use tenure_testkit::servers::redis::start_redis;
use tonic::transport::Channel;

use super::rest::Rest;
use super::{CALLERS, Served, all};
use crate::machine::folder;
use crate::report::{Row, Table, per_second};
use crate::sample::{Pairs, elapsed_since, on_all_cores, rate};

const ROUNDS: usize = 5;
/// Grants of each caller in one round.
const SHARE: usize = 60;
/// The multiplexed path: so many connections carry all callers.
const CHANNELS: usize = 4;
const DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let folder = folder()?;
    let served = Served::start(&folder.path().join("locks.db").display().to_string())?;
    // Both on the same disk.
    let beside = folder.path().join("redis").display().to_string();
    std::fs::create_dir(&beside)?;
    let redis = start_redis(&["--appendonly", "yes", "--appendfsync", "always", "--dir", &beside])?;
    let address = redis.address();
    on_all_cores(async {
        let mut channels = Vec::new();
        for _ in 0..CHANNELS {
            channels.push(served.client().await?);
        }
        let client = redis::Client::open(format!("redis://{address}/"))?;
        let (mut connections, mut rests) = (Vec::new(), Vec::new());
        for _ in 0..CALLERS {
            connections.push(client.get_multiplexed_async_connection().await?);
            rests.push(Rest::connect(served.address).await?);
        }
        let (mut beside_redis, mut beside_grpc) = (Pairs::default(), Pairs::default());
        for round in 0..=ROUNDS {
            let redis = in_turn(connections.iter().cloned().enumerate().map(by_hand)).await?;
            let grpc =
                in_turn((0..CALLERS).map(|at| over_grpc(at, channels[at % CHANNELS].clone())));
            let grpc = grpc.await?;
            let start = SystemClock.now();
            rests = all(rests.into_iter().enumerate().map(over_rest)).await?;
            let rest = rate((CALLERS * SHARE) as u64, elapsed_since(start));
            // The first round fills the caches of all.
            if round > 0 {
                beside_redis.push(grpc, redis);
                beside_grpc.push(rest, grpc);
            }
        }
        let ratio = beside_redis.ratio()?;
        let row = Row::new("server: gRPC, 64 callers", per_second(beside_redis.measured()?))
            .beside(format!("Redis {}", per_second(beside_redis.reference()?)))
            .ratio(ratio)
            .target("≥ 1.00", ratio >= 1.0)
            .unsure_if(beside_redis.is_unsteady())
            .note("locked and unlocked, synced; Redis: appendfsync always, 64 connections");
        table.add(row);
        let ratio = beside_grpc.ratio()?;
        let row = Row::new("server: REST, 64 connections", per_second(beside_grpc.measured()?))
            .beside(format!("gRPC {}", per_second(beside_grpc.reference()?)))
            .ratio(ratio)
            .target("≥ 0.40", ratio >= 0.4)
            .unsure_if(beside_grpc.is_unsteady())
            .note("the same, HTTP/1.1");
        table.add(row);
        Ok(())
    })
}

/// The rate at which callers that work at once get grants.
async fn in_turn(
    work: impl IntoIterator<Item = impl Future<Output = Result<()>> + Send + 'static>,
) -> Result<f64> {
    let start = SystemClock.now();
    all(work).await?;
    Ok(rate((CALLERS * SHARE) as u64, elapsed_since(start)))
}

async fn by_hand((at, mut connection): (usize, MultiplexedConnection)) -> Result<()> {
    let (key, delete) = (format!("raw{at}"), redis::Script::new(DELETE));
    for _ in 0..SHARE {
        let mut set = redis::cmd("SET");
        set.arg(&key).arg("owner").arg("NX").arg("PX").arg(30_000);
        let answer: Option<String> = set.query_async(&mut connection).await?;
        ensure!(answer.is_some(), "held");
        let gone: i64 = delete.key(&key).arg("owner").invoke_async(&mut connection).await?;
        ensure!(gone == 1, "not held");
    }
    Ok(())
}

async fn over_grpc(at: usize, mut client: LockServiceClient<Channel>) -> Result<()> {
    let target = Some(Target { key: format!("grpc{at}"), ..Target::default() });
    for _ in 0..SHARE {
        let request = LockRequest {
            target: target.clone(),
            immediate: true,
            renewal: Renewal::Client.into(),
            ..LockRequest::default()
        };
        let lock_id = client.lock(request).await?.into_inner().lock_id;
        client.unlock(UnlockRequest { target: target.clone(), lock_id }).await?;
    }
    Ok(())
}

async fn over_rest((at, mut rest): (usize, Rest)) -> Result<Rest> {
    let path = format!("/v1/locks/rest{at}");
    for _ in 0..SHARE {
        let granted = rest.call("POST", &path, r#"{"immediate":true,"renewal":"client"}"#).await?;
        let granted: serde_json::Value = serde_json::from_str(&granted)?;
        let lock_id = granted["lock_id"].as_str().context("no lock id")?;
        rest.call("DELETE", &path, &format!(r#"{{"lock_id":"{lock_id}"}}"#)).await?;
    }
    Ok(rest)
}
