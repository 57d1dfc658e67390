//! An upsert that takes a free row, and an update that frees it, both prepared.

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use tenure_testkit::servers::Service;
use tokio_postgres::{Client, NoTls, Statement};

use super::Raw;

pub(super) struct RawPostgres {
    client: Client,
    take: Statement,
    give: Statement,
    ping: Statement,
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS raw_lock \
    (key text PRIMARY KEY, owner text, deadline timestamptz)";

const TAKE: &str = "INSERT INTO raw_lock VALUES ('k', 'owner', clock_timestamp() + '30 s') \
    ON CONFLICT (key) DO UPDATE SET owner = 'owner', deadline = clock_timestamp() + '30 s' \
    WHERE raw_lock.owner IS NULL OR raw_lock.deadline < clock_timestamp() RETURNING owner";

const GIVE: &str = "UPDATE raw_lock SET owner = NULL WHERE key = 'k' AND owner = 'owner'";

pub(super) async fn connect(service: &dyn Service) -> Result<RawPostgres> {
    let url = service.url(0, None);
    let (base, _) = url.split_once('?').unwrap_or((&url, ""));
    let (client, connection) = tokio_postgres::connect(base, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(TABLE).await.context("no table")?;
    let (take, give) = (client.prepare(TAKE).await?, client.prepare(GIVE).await?);
    let ping = client.prepare("SELECT 1").await?;
    Ok(RawPostgres { client, take, give, ping })
}

#[async_trait]
impl Raw for RawPostgres {
    async fn take(&mut self) -> Result<()> {
        ensure!(self.client.query_opt(&self.take, &[]).await?.is_some(), "held");
        Ok(())
    }

    async fn give(&mut self) -> Result<()> {
        ensure!(self.client.execute(&self.give, &[]).await? == 1, "not held");
        Ok(())
    }

    async fn ping(&mut self) -> Result<()> {
        self.client.query_one(&self.ping, &[]).await?;
        Ok(())
    }
}
