//! Durable grants a second through the server, beside Redis that syncs every write.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use redis::aio::MultiplexedConnection;
use tenure::claim::{Attempt, Claim, Grant, Reentry, Released};
use tenure::clock::{Clock, SystemClock};
use tenure::random::SystemRandom;
use tenure::{Holder, Key, Owner, Store};
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
/// So many connections carry the requests by gRPC. The streams have as many as is usual.
const CONNECTIONS: usize = 4;
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
        let url = format!("tenure://{}", served.address);
        let store = tenure::stores::open(&url, Arc::new(SystemClock)).await?;
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            channels.push(served.client().await?);
        }
        let client = redis::Client::open(format!("redis://{address}/"))?;
        let (mut connections, mut rests) = (Vec::new(), Vec::new());
        for _ in 0..CALLERS {
            connections.push(client.get_multiplexed_async_connection().await?);
            rests.push(Rest::connect(served.address).await?);
        }
        let mut rates = Rates::default();
        for round in 0..=ROUNDS {
            let redis = in_turn(connections.iter().cloned().enumerate().map(by_hand)).await?;
            let stream = in_turn((0..CALLERS).map(|at| on_a_stream(at, Arc::clone(&store))));
            let stream = stream.await?;
            let unary = (0..CALLERS).map(|at| over_grpc(at, channels[at % CONNECTIONS].clone()));
            let unary = in_turn(unary).await?;
            let start = SystemClock.now();
            rests = all(rests.into_iter().enumerate().map(over_rest)).await?;
            let rest = rate((CALLERS * SHARE) as u64, elapsed_since(start));
            // The first round fills the caches of all.
            if round > 0 {
                rates.stream.push(stream, redis);
                rates.unary.push(unary, redis);
                rates.rest.push(rest, redis);
            }
        }
        rates.tell(table)
    })
}

/// Grants a second of each way, beside those of Redis in the same round.
#[derive(Default)]
struct Rates {
    stream: Pairs,
    unary: Pairs,
    rest: Pairs,
}

impl Rates {
    fn tell(self, table: &mut Table) -> Result<()> {
        let row = |name, pairs: &Pairs| -> Result<Row> {
            let beside = format!("Redis {}", per_second(pairs.reference()?));
            let row = Row::new(name, per_second(pairs.measured()?)).beside(beside);
            Ok(row.ratio(pairs.ratio()?).unsure_if(pairs.is_unsteady()))
        };
        let ratio = self.stream.ratio()?;
        let note = "locked and unlocked, synced; Redis: appendfsync always, 64 connections";
        let stream = row("server: gRPC stream, 64 callers", &self.stream)?;
        table.add(stream.target("≥ 1.00", ratio >= 1.0).note(note));
        let unary = row("server: gRPC requests, 64 callers", &self.unary)?;
        table.add(unary.note("the same, a request for each"));
        let ratio = self.rest.ratio()?;
        let rest = row("server: REST, 64 connections", &self.rest)?;
        table.add(rest.target("≥ 0.40", ratio >= 0.4).note("the same, HTTP/1.1"));
        Ok(())
    }
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

async fn on_a_stream(at: usize, store: Arc<dyn Store>) -> Result<()> {
    let key = Key::new(&format!("t1/default/stream{at}"))?;
    for _ in 0..SHARE {
        let claim = Claim {
            key: key.clone(),
            owner: Owner::generate(&SystemRandom)?,
            ttl: Duration::from_secs(30),
            holder: Holder::new("bench")?,
            reentry: Reentry::Adopt,
        };
        let Attempt::Granted(lease) = store.try_acquire(&claim).await? else { bail!("held") };
        let grant = Grant { key: lease.key, owner: lease.owner, fence: Some(lease.fence) };
        let released = store.release(&grant).await?;
        ensure!(matches!(released, Released::Released(_)), "not held");
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
