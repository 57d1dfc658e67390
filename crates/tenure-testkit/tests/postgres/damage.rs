//! Rows that were changed by other means.

use anyhow::{Context, Result, ensure};
use tenure::claim::ListQuery;
use tenure::error::Chain;
use tenure::{Error, ErrorKind, Store};
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::Postgres;

use crate::{claim, granted, open};

#[tokio::test]
async fn what_the_store_never_writes_is_damage_and_not_the_callers_fault() -> Result<()> {
    let server = Postgres::start(&[])?;
    let store = open(&server.url(1, None)).await?;
    let held = claim("t1/damaged", "holder");
    granted(&*store, &held).await?;
    let query = ListQuery { prefix: String::new(), after: None, limit: 5 };
    let is_damage = |error: Option<Error>, what: &str| {
        let error = error.with_context(|| format!("{what} passed"))?;
        ensure!(error.kind() == ErrorKind::Damaged, "{what}: {}", Chain(&error));
        Ok(())
    };
    server.sql("UPDATE room_1.lease SET holder = E'a\\u0001b'")?;
    is_damage(store.inspect(&held.key).await.err(), "inspect")?;
    is_damage(store.try_acquire(&claim("t1/damaged", "other")).await.err(), "acquire")?;
    is_damage(store.list(&query).await.err(), "list")?;
    server.sql("UPDATE room_1.lease SET holder = 'holder', fence = -1")?;
    is_damage(store.inspect(&held.key).await.err(), "a negative fence")?;
    server.sql("UPDATE room_1.lease SET fence = 1, owner = E'a\\u0001b'")?;
    is_damage(store.inspect(&held.key).await.err(), "an owner that is none")?;
    server.sql("INSERT INTO room_1.lease_meta VALUES ('floor', 'none')")?;
    is_damage(store.try_acquire(&claim("t1/new", "other")).await.err(), "a floor that is none")
}
