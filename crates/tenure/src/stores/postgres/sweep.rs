//! Clearing away the rows of keys that nobody has used for a while.
//!
//! A row keeps the fence of its key, so it must not vanish while a grant of that key is on its way
//! with a fence drawn before. Every acquire holds the table's lock from before it draws a fence
//! until it has committed; the sweep takes a lock that excludes that one. So when it deletes, no
//! fence is drawn and not yet written, and whoever draws one afterwards draws a greater one.
//!
//! That rests on the sequence, whose value does not travel with the rows where they are replicated
//! one by one. So the sweep also writes down the greatest fence that it takes away: the floor.

use std::sync::Weak;
use std::time::Duration;

use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::error::{harmless, lost_race, silent};
use super::names::{Names, literal};
use super::pool::Pool;
use super::rows::millis;
use super::statements::{FLOOR, Statement};
use super::store::PostgresStore;
use crate::clock::Clock;
use crate::effect::Effect;
use crate::error::Result;

const INTERVAL: Duration = Duration::from_secs(60);
/// So few that the table is not kept locked for long.
const BATCH: usize = 2000;
const BATCHES: usize = 50;

/// Whatever the default is: in a stricter transaction, reading the whole table would make those
/// who change a row of it fail.
const PLAINLY: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// The statements of a sweep.
#[derive(Debug)]
pub(super) struct Sweep {
    leases: String,
    meta: String,
    due: Statement,
}

impl Sweep {
    pub(super) fn new(names: &Names) -> Self {
        let meta = names.meta();
        let due = format!(
            "INSERT INTO {meta} AS m (name, value)
            SELECT 'swept', now::text
            FROM cast(extract(epoch FROM clock_timestamp()) AS bigint) AS now
            ON CONFLICT (name) DO UPDATE SET value = excluded.value
            WHERE m.value::bigint <= excluded.value::bigint - $1
                OR m.value::bigint > excluded.value::bigint
            RETURNING true"
        );
        let due = Statement { sql: due, types: &[Type::INT8] };
        Self { leases: names.leases(), meta, due }
    }

    /// Deletes what ended longer ago than `grace`, in batches; says how much. Stops when the table
    /// is in use by someone who does not let go.
    pub(super) async fn run(&self, pool: &Pool, grace: Duration) -> Result<u64> {
        let ended = format!(
            "coalesce(released_at, deadline) < clock_timestamp() - interval '{} ms'",
            millis(grace)
        );
        let mut deleted = 0;
        for _ in 0..BATCHES {
            let Some(keys) = self.find(pool, &ended).await? else { break };
            let Some(count) = self.delete(pool, &keys, &ended).await? else { break };
            deleted += count;
            if keys.len() < BATCH {
                break;
            }
        }
        Ok(deleted)
    }

    /// The keys of one batch, found before the table is locked.
    async fn find(&self, pool: &Pool, ended: &str) -> Result<Option<Vec<String>>> {
        let leases = &self.leases;
        let sql = format!("{PLAINLY}; SELECT key FROM {leases} WHERE {ended} LIMIT {BATCH}");
        let Some(messages) = send(pool, &sql).await? else { return Ok(None) };
        let keys = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        Ok(Some(keys.collect()))
    }

    /// Need not be synced: what a crash brings back is swept again.
    async fn delete(&self, pool: &Pool, keys: &[String], ended: &str) -> Result<Option<u64>> {
        if keys.is_empty() {
            return Ok(Some(0));
        }
        let keys: Vec<_> = keys.iter().map(|key| literal(key)).collect();
        let sql = format!(
            "{PLAINLY}; SET LOCAL lock_timeout = '100ms'; SET LOCAL synchronous_commit = off;
            LOCK TABLE {leases} IN SHARE ROW EXCLUSIVE MODE;
            WITH gone AS (
                DELETE FROM {leases} WHERE key IN ({}) AND {ended} RETURNING fence
            ), raised AS (
                INSERT INTO {meta} AS m (name, value)
                SELECT '{FLOOR}', max(fence)::text FROM gone HAVING count(*) > 0
                ON CONFLICT (name) DO UPDATE
                    SET value = greatest(m.value::bigint, excluded.value::bigint)::text
            )
            SELECT count(*) FROM gone",
            keys.join(","),
            leases = self.leases,
            meta = self.meta,
        );
        let Some(messages) = send(pool, &sql).await? else { return Ok(None) };
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        }))
    }

    /// Whether it is time to sweep, and this process is the one to do it.
    async fn is_due(&self, pool: &Pool) -> Result<bool> {
        let interval = i64::try_from(INTERVAL.as_secs()).unwrap_or(i64::MAX) - 10;
        Ok(!pool.run(Effect::Write, &self.due, &[&interval]).await?.is_empty())
    }
}

/// Sends one message and so one transaction: a process that is stopped midway must not keep the
/// table locked. `None` when the table is in use.
async fn send(pool: &Pool, sql: &str) -> Result<Option<Vec<SimpleQueryMessage>>> {
    let client = pool.get().await?;
    let Ok(answer) = pool.within(INTERVAL, client.simple_query(sql)).await else {
        Pool::give_up(client);
        return Err(silent(Effect::Write));
    };
    match answer {
        Ok(messages) => Ok(Some(messages)),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(None),
        Err(error) if lost_race(&error) => Ok(None),
        Err(error) => Err(harmless(error)),
    }
}

/// Sweeps from time to time, as long as the store lives.
pub(super) async fn keep_sweeping(store: Weak<PostgresStore>, clock: std::sync::Arc<dyn Clock>) {
    loop {
        clock.sleep_until(clock.now() + INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        let swept = async {
            let due = store.sweep.is_due(&store.pool).await?;
            if due { store.sweep(store.sweep_after).await } else { Ok(0) }
        };
        match swept.await {
            Ok(count) => tracing::debug!(count, "rows of unused keys were cleared away"),
            Err(error) => tracing::debug!(%error, "rows of unused keys could not be cleared away"),
        }
    }
}
