//! The ways to tenure's server, each as a crowd of callers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use tenure::claim::{Attempt, Claim, Grant, Reentry, Released};
use tenure::clock::SystemClock;
use tenure::random::SystemRandom;
use tenure::{Holder, Key, Owner, Store};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_api::tenure_v1::{LockRequest, Renewal, Target, UnlockRequest};
use tonic::transport::Channel;

use super::Served;
use super::caller::{Caller, Crowd};
use super::rest::Rest;

/// By the store `tenure://`, which sends what all callers ask over a stream or two.
pub(super) async fn on_streams(served: &Served, callers: usize) -> Result<Crowd> {
    let url = format!("tenure://{}", served.address);
    let store = tenure::stores::open(&url, Arc::new(SystemClock)).await?;
    let mut crowd = Crowd::default();
    for at in 0..callers {
        let key = Key::new(&format!("t1/default/stream{at}"))?;
        crowd.push(OnStream { store: Arc::clone(&store), key });
    }
    Ok(crowd)
}

/// By gRPC, a request for each, over so many connections.
pub(super) async fn by_grpc(served: &Served, callers: usize, connections: usize) -> Result<Crowd> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(served.client().await?);
    }
    let mut crowd = Crowd::default();
    for at in 0..callers {
        crowd.push(ByGrpc { client: clients[at % connections].clone(), key: format!("grpc{at}") });
    }
    Ok(crowd)
}

/// By HTTP/1.1, with a connection each.
pub(super) async fn by_rest(served: &Served, callers: usize) -> Result<Crowd> {
    let mut crowd = Crowd::default();
    for at in 0..callers {
        let rest = Rest::connect(served.address).await?;
        crowd.push(ByRest { rest, path: format!("/v1/locks/rest{at}") });
    }
    Ok(crowd)
}

struct OnStream {
    store: Arc<dyn Store>,
    key: Key,
}

#[async_trait]
impl Caller for OnStream {
    async fn cycle(&mut self) -> Result<()> {
        let claim = Claim {
            key: self.key.clone(),
            owner: Owner::generate(&SystemRandom)?,
            ttl: Duration::from_secs(30),
            holder: Holder::new("bench")?,
            reentry: Reentry::Adopt,
        };
        let Attempt::Granted(lease) = self.store.try_acquire(&claim).await? else { bail!("held") };
        let grant = Grant { key: lease.key, owner: lease.owner, fence: Some(lease.fence) };
        let released = self.store.release(&grant).await?;
        ensure!(matches!(released, Released::Released(_)), "not held");
        Ok(())
    }
}

struct ByGrpc {
    client: LockServiceClient<Channel>,
    key: String,
}

#[async_trait]
impl Caller for ByGrpc {
    async fn cycle(&mut self) -> Result<()> {
        let target = Some(Target { key: self.key.clone(), ..Target::default() });
        let request = LockRequest {
            target: target.clone(),
            immediate: true,
            renewal: Renewal::Client.into(),
            ..LockRequest::default()
        };
        let lock_id = self.client.lock(request).await?.into_inner().lock_id;
        self.client.unlock(UnlockRequest { target, lock_id }).await?;
        Ok(())
    }
}

struct ByRest {
    rest: Rest,
    path: String,
}

#[async_trait]
impl Caller for ByRest {
    async fn cycle(&mut self) -> Result<()> {
        let body = r#"{"immediate":true,"renewal":"client"}"#;
        let granted = self.rest.call("POST", &self.path, body).await?;
        let granted: serde_json::Value = serde_json::from_str(&granted)?;
        let lock_id = granted["lock_id"].as_str().context("no lock id")?;
        let body = format!(r#"{{"lock_id":"{lock_id}"}}"#);
        self.rest.call("DELETE", &self.path, &body).await?;
        Ok(())
    }
}
