//! What people use instead of the server, each as a crowd of callers.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use tenure_testkit::servers::Server;

use super::caller::{Caller, Crowd};
use crate::etcd_call;
use crate::rivals::etcd_lock::EtcdLock;
use crate::rivals::redis_lock::{self, RedisLock};

/// Locks on Redis, with a connection for each caller.
pub(super) async fn on_redis(server: &Server, callers: usize) -> Result<Crowd> {
    let mut crowd = Crowd::default();
    for at in 0..callers {
        let connection = redis_lock::connect(&url(server)).await?;
        crowd.push(RedisLock::new(connection, format!("raw{at}"))?);
    }
    Ok(crowd)
}

/// Locks on Redis, with one connection that carries what all callers ask.
pub(super) async fn on_redis_together(server: &Server, callers: usize) -> Result<Crowd> {
    let connection = redis_lock::connect(&url(server)).await?;
    let mut crowd = Crowd::default();
    for at in 0..callers {
        crowd.push(RedisLock::new(connection.clone(), format!("together{at}"))?);
    }
    Ok(crowd)
}

/// Etcd's own lock, over so many connections.
pub(super) async fn on_etcd(server: &Server, callers: usize, connections: usize) -> Result<Crowd> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        channels.push(etcd_call::connect(server.address()).await?);
    }
    let mut crowd = Crowd::default();
    for at in 0..callers {
        let channel = channels[at % connections].clone();
        crowd.push(EtcdLock::new(channel, format!("lock{at}")).await?);
    }
    Ok(crowd)
}

fn url(server: &Server) -> String {
    format!("redis://{}/", server.address())
}

#[async_trait]
impl Caller for RedisLock {
    async fn cycle(&mut self) -> Result<()> {
        ensure!(self.try_lock().await?, "held");
        self.unlock().await
    }
}

#[async_trait]
impl Caller for EtcdLock {
    async fn cycle(&mut self) -> Result<()> {
        let key = self.lock().await?;
        self.unlock(key).await
    }
}
