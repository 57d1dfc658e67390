//! `SET key owner NX PX ttl`, and `DEL key`.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use tenure_testkit::servers::Service;

use super::{Raw, address};

pub(super) struct RawRedis(MultiplexedConnection);

pub(super) async fn connect(service: &dyn Service) -> Result<RawRedis> {
    let client = redis::Client::open(format!("redis://{}/", address(service)?))?;
    Ok(RawRedis(client.get_multiplexed_async_connection().await?))
}

#[async_trait]
impl Raw for RawRedis {
    async fn take(&mut self) -> Result<()> {
        let mut set = redis::cmd("SET");
        set.arg("raw").arg("owner").arg("NX").arg("PX").arg(30_000);
        let answer: Option<String> = set.query_async(&mut self.0).await?;
        ensure!(answer.is_some(), "held");
        Ok(())
    }

    async fn give(&mut self) -> Result<()> {
        let gone: i64 = redis::cmd("DEL").arg("raw").query_async(&mut self.0).await?;
        ensure!(gone == 1, "not held");
        Ok(())
    }

    async fn ping(&mut self) -> Result<()> {
        Ok(redis::cmd("PING").query_async(&mut self.0).await?)
    }
}
