//! The two commands that a lock by hand would take, without anything of tenure.

mod etcd;
mod nats;
mod object;
mod postgres;
mod redis;

use anyhow::{Result, bail};
use async_trait::async_trait;
use tenure_testkit::servers::Service;

/// Taking and giving back one key, a command each.
#[async_trait]
pub(crate) trait Raw: Send {
    async fn take(&mut self) -> Result<()>;
    async fn give(&mut self) -> Result<()>;
    /// A question and its answer that change nothing, and so wait for no disk.
    async fn ping(&mut self) -> Result<()>;
}

/// A connection of the store's own client to the server of that kind.
pub(crate) async fn connect(kind: &str, service: &dyn Service) -> Result<Box<dyn Raw>> {
    Ok(match kind {
        "redis" => Box::new(redis::connect(service).await?),
        "postgres" => Box::new(postgres::connect(service).await?),
        "nats" => Box::new(nats::connect(service).await?),
        "etcd" => Box::new(etcd::connect(service).await?),
        "object/seaweedfs" => Box::new(object::connect(service).await?),
        _ => bail!("{kind}: nothing to compare with"),
    })
}

/// Where the server listens.
fn address(service: &dyn Service) -> Result<std::net::SocketAddr> {
    match service.server() {
        Some(server) => Ok(server.address()),
        None => bail!("no server runs"),
    }
}
