//! Two publishes to a key of a bucket, each over the revision of the one before.

use anyhow::Result;
use async_nats::HeaderMap;
use async_nats::jetstream::{self, Context, kv};
use async_trait::async_trait;
use tenure_testkit::servers::Service;

use super::{Raw, address};

const BUCKET: &str = "raw";

pub(super) struct RawNats {
    context: Context,
    revision: u64,
}

pub(super) async fn connect(service: &dyn Service) -> Result<RawNats> {
    let client = async_nats::connect(format!("nats://{}", address(service)?)).await?;
    let context = jetstream::new(client);
    let config = kv::Config { bucket: BUCKET.into(), history: 1, ..kv::Config::default() };
    let bucket = context.create_key_value(config).await?;
    // An earlier connection may have left its last write.
    let revision = bucket.entry("k").await?.map_or(0, |entry| entry.revision);
    Ok(RawNats { context, revision })
}

impl RawNats {
    async fn write(&mut self, body: &'static str) -> Result<()> {
        let mut headers = HeaderMap::new();
        let expected = self.revision.to_string();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.as_str());
        let subject = format!("$KV.{BUCKET}.k");
        let sent = self.context.publish_with_headers(subject, headers, body.into()).await?;
        self.revision = sent.await?.sequence;
        Ok(())
    }
}

#[async_trait]
impl Raw for RawNats {
    async fn take(&mut self) -> Result<()> {
        self.write("{\"owner\":\"owner\",\"ttl_ms\":30000}").await
    }

    async fn give(&mut self) -> Result<()> {
        self.write("").await
    }

    async fn ping(&mut self) -> Result<()> {
        self.context.query_account().await?;
        Ok(())
    }
}
