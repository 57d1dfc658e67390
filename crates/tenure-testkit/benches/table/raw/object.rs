//! Two conditional PUTs of one object, each over the tag of the one before.

use anyhow::{Context, Result};
use async_trait::async_trait;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use tenure_testkit::servers::Service;
use url::Url;

use super::Raw;

pub(super) struct RawObject {
    store: AmazonS3,
    path: Path,
    version: Option<UpdateVersion>,
}

pub(super) async fn connect(service: &dyn Service) -> Result<RawObject> {
    let url = Url::parse(&service.url(0, None))?;
    let option =
        |name: &str| url.query_pairs().find(|(n, _)| n == name).map(|(_, v)| v.to_string());
    let store = AmazonS3Builder::new()
        .with_bucket_name(url.host_str().context("no bucket")?)
        .with_region(option("region").unwrap_or_else(|| "us-east-1".into()))
        .with_endpoint(option("endpoint").context("no endpoint")?)
        .with_access_key_id(option("access_key_id").context("no key")?)
        .with_secret_access_key(option("secret_access_key").context("no secret")?)
        .with_allow_http(true)
        .build()?;
    let now = std::process::id();
    Ok(RawObject { store, path: Path::from(format!("raw-{now}")), version: None })
}

impl RawObject {
    async fn write(&mut self, held: bool) -> Result<()> {
        let tag = self.version.as_ref().and_then(|version| version.e_tag.clone());
        let body = format!("{{\"held\":{held},\"after\":{tag:?}}}");
        let mode = self.version.take().map_or(PutMode::Create, PutMode::Update);
        let done = self.store.put_opts(&self.path, body.into(), mode.into()).await?;
        self.version = Some(UpdateVersion { e_tag: done.e_tag, version: done.version });
        Ok(())
    }
}

#[async_trait]
impl Raw for RawObject {
    async fn take(&mut self) -> Result<()> {
        self.write(true).await
    }

    async fn give(&mut self) -> Result<()> {
        self.write(false).await
    }

    async fn ping(&mut self) -> Result<()> {
        self.store.head(&self.path).await?;
        Ok(())
    }
}
