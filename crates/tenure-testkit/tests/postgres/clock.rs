//! The server's clock is set back in the middle of a statement.

use anyhow::{Context, Result, ensure};
use tenure::Store;
use tenure_testkit::servers::Service;
use tenure_testkit::servers::postgres::Postgres;

use crate::{claim, granted, open};

/// An hour ahead for the first three looks, which find that the lease has ended.
const STEPPING: &str = "
    CREATE SCHEMA stepping;
    CREATE SEQUENCE stepping.looks;
    CREATE FUNCTION stepping.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
        SELECT pg_catalog.clock_timestamp()
            + CASE WHEN nextval('stepping.looks') <= 3 THEN interval '1 h' ELSE interval '0' END
    $$";

#[tokio::test]
async fn a_takeover_has_a_fence_of_its_own_whatever_the_clock_does() -> Result<()> {
    let server = Postgres::start(&[])?;
    let url = server.url(1, None);
    server.sql(STEPPING)?;
    let first = granted(&*open(&url).await?, &claim("t1/k", "first")).await?;
    let path = "options=-c%20search_path%3Dstepping%2Cpg_catalog";
    let store = open(&format!("{url}&{path}")).await?;
    server.sql("SELECT setval('stepping.looks', 1, false)")?;
    let second = granted(&*store, &claim("t1/k", "second")).await?;
    ensure!(second.fence > first.fence, "{second:?} after {first:?}");
    let seen = store.inspect(&first.key).await?.context("nobody holds it")?;
    ensure!(seen.owner == second.owner && seen.holder.as_str() == "second", "{seen:?}");
    Ok(())
}
